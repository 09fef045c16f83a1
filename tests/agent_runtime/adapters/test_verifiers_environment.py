"""Our environments under the real verifiers, by its own evaluator."""

from __future__ import annotations

import asyncio
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verifiers.v1", reason="needs the extra `verifiers`: nox -s verifiers")

from verifiers.v1.cli.eval.runner import run_eval
from verifiers.v1.cli.resolve import narrow_config
from verifiers.v1.configs.cli.eval import EvalConfig

import agentgym
from benchmark.whole_path import compare
from benchmark.whole_path.replies import write_replies
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
    for name in ("VF_RUN_ID", "PRIME_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def evaluated(folder: Path, url: str, count: int, **settings: Any) -> list[Any]:
    """Return the episodes of an evaluation, as `vf-eval` would make them."""
    taskset = {"id": "agentgym-verifiers", "env": "textcraft", "split": "eval", **settings}
    values = {
        "env": {"taskset": taskset},
        "client": {"base_url": url, "api_key_var": "FAKE_API_KEY"},
        "model": "fake",
        "select": {"limit": count},
        "push": False,
        "rich": None,
        "output_dir": str(folder / "verifiers"),
    }
    config = narrow_config(EvalConfig, ["agentgym-verifiers"]).model_validate(values)
    return asyncio.run(run_eval(config))


def test_verifiers_evaluator_gives_what_ours_gives(tmp_path: Path, target: str) -> None:
    """The same replies on 20 tasks, of which five give up: the same scores and conversations."""
    expected, reply = scripted_replies("textcraft", target, TASKS, gives_up=4)
    with serving_in_thread(FakeOpenAI(QUICK, reply=reply)) as url:
        theirs = evaluated(tmp_path, url, TASKS, target=target)
        flags = ["--env", "textcraft", "--policy", "openai:fake", "--openai.base-url", url]
        out = ["--items", ",".join(expected), "--out", str(tmp_path / "run")]
        assert evaluate.main([*flags, *out]) == 0
    with RunReader.open(tmp_path / "run") as reader:
        ours = {it.item_id: it for it in reader.episodes()}
    assert len(theirs) == TASKS
    assert {it.task.key for it in theirs} == set(ours) == set(expected)
    for episode in theirs:
        record = ours[episode.task.key]
        (trace,) = episode.traces
        assert episode.ok and not episode.errors
        assert trace.reward == record.score
        assert trace.metrics["success"] == record.success and trace.metrics["scored"] == 1
        (branch,) = trace.branches
        said = [it.content for it in branch.messages]
        assert said == [it.text for it in record.messages][: len(said)]
        assert len(said) == len(record.messages) - 1  # what the last reply led to asks for nothing
    assert sum(it.traces[0].reward for it in theirs) == TASKS - TASKS // 4


@pytest.mark.parametrize("purpose", ["train", "eval"])
def test_the_example_for_prime_rl_plays(tmp_path: Path, target: str, purpose: str) -> None:
    example = Path(__file__).resolve().parents[3] / "examples/prime_rl.toml"
    orchestrator = tomllib.loads(example.read_text())["orchestrator"]
    (source,) = orchestrator[purpose]["source"]
    assert set(source) == {"name", "env"} and set(source["env"]) == {"taskset"}
    taskset = {**source["env"]["taskset"], "target": target}
    _, reply = scripted_replies("textcraft", target, 2, split=taskset["split"])
    with serving_in_thread(FakeOpenAI(QUICK, reply=reply)) as url:
        episodes = evaluated(tmp_path, url, 2, **taskset)
    assert [it.traces[0].reward for it in episodes] == [1, 1]


def test_no_environment_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="which environment"):
        evaluated(tmp_path, "http://127.0.0.1:9/v1", 1, env="")


def test_what_fails_is_the_episodes_error(tmp_path: Path, target: str) -> None:
    with serving_in_thread(FakeOpenAI(QUICK)) as url:
        (episode,) = evaluated(tmp_path, url, 1, target=target, options={"nonsense": 1})
    assert not episode.ok and "nonsense" in episode.errors[0].message
    assert not episode.traces


def test_a_model_that_fails_leaves_no_score(tmp_path: Path, target: str) -> None:
    (episode,) = evaluated(tmp_path, "http://127.0.0.1:9/v1", 1, target=target)
    (trace,) = episode.traces
    assert not episode.ok and trace.errors
    assert not trace.rewards and trace.metrics["scored"] == 0


def test_an_unknown_split_says_which_there_are(tmp_path: Path, target: str) -> None:
    with pytest.raises(agentgym.UnknownName, match="train"):
        evaluated(tmp_path, "http://127.0.0.1:9/v1", 1, target=target, split="nonsense")


def test_the_loop_that_is_compared_with_plays_every_rollout(tmp_path: Path) -> None:
    replies = tmp_path / "replies.json"
    items = write_replies("textcraft", 2, replies)
    with serving_in_thread(FakeOpenAI(QUICK, reply=compare.answers(replies))) as url:
        played = compare.play_loop("verifiers", sys.executable, replies, 2, tmp_path, url)
    assert played.episodes == 4
    assert played.rewards == dict.fromkeys(items, frozenset({1.0}))
