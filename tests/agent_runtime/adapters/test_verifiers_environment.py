"""Our environments under the real verifiers, by its own evaluator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verifiers", reason="needs the extra `verifiers`: nox -s verifiers")

from verifiers.types import ClientConfig

import agentgym
from agentgym.verifiers_environment import load_environment
from orchestrator import evaluate
from orchestrator.store import RunReader
from tests.agent_runtime.adapters.scripted import scripted_replies
from tests.kit.fake_openai import Behaviour, FakeOpenAI, serving_in_thread

TASKS = 20
QUICK = Behaviour(quickest=0, slowest=0.001)


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    with agentgym.make("textcraft") as env:
        yield env.asynchronous.connection.address


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_API_KEY", "none")


def evaluated(url: str, count: int, **settings: Any) -> list[Any]:
    client = ClientConfig(api_key_var="FAKE_API_KEY", api_base_url=url, max_retries=0)
    env = load_environment(env="textcraft", **settings)
    return env.evaluate_sync(client=client, model="fake", num_examples=count)["outputs"]


def test_verifiers_evaluator_gives_what_ours_gives(tmp_path: Path, target: str) -> None:
    """The same replies on 20 tasks, of which five give up: the same scores and conversations."""
    expected, reply = scripted_replies("textcraft", target, TASKS, gives_up=4)
    with serving_in_thread(FakeOpenAI(QUICK, reply=reply)) as url:
        theirs = evaluated(url, TASKS, target=target)
        flags = ["--env", "textcraft", "--policy", "openai:fake", "--openai.base-url", url]
        out = ["--items", ",".join(expected), "--out", str(tmp_path / "run")]
        assert evaluate.main([*flags, *out]) == 0
    with RunReader.open(tmp_path / "run") as reader:
        ours = {it.item_id: it for it in reader.episodes()}
    assert len(theirs) == TASKS
    assert {it["info"]["item_id"] for it in theirs} == set(ours) == set(expected)
    for output in theirs:
        record = ours[output["info"]["item_id"]]
        assert output["error"] is None
        assert output["reward"] == record.score
        assert output["metrics"]["success"] == record.success
        said = [_content(it) for it in [*output["prompt"], *output["completion"]]]
        assert said == [it.text for it in record.messages]
    assert sum(output["reward"] for output in theirs) == TASKS - TASKS // 4


def test_what_fails_is_the_rollouts_error(target: str) -> None:
    with serving_in_thread(FakeOpenAI(QUICK)) as url:
        (output,) = evaluated(url, 1, target=target, options={"nonsense": 1})
    assert "nonsense" in str(output["error"])
    assert output["reward"] == 0 and output["metrics"].get("scored", 0) == 0


def test_an_unknown_split_says_which_there_are(target: str) -> None:
    with pytest.raises(agentgym.UnknownName, match="train"):
        load_environment(env="textcraft", target=target, eval_split="nonsense")


def _content(message: Any) -> str:
    return message["content"] if isinstance(message, dict) else message.content
