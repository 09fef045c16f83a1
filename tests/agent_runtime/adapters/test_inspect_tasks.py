"""Our environments as tasks of the real Inspect."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest

pytest.importorskip("inspect_ai", reason="needs the extra `inspect`: nox -s adapters")

from inspect_ai import eval as evaluate
from inspect_ai.log import EvalLog, EvalSample, list_eval_logs, read_eval_log
from inspect_ai.model import Model, ModelOutput, ModelUsage, get_model

import agentgym
from benchmark.whole_path import compare
from benchmark.whole_path.replies import write_replies
from orchestrator.errors import EntryUnreadable
from orchestrator.import_run import import_run
from orchestrator.store import RunReader
from tests.agent_runtime.adapters.scripted import scripted_replies
from tests.kit.fake_openai import Behaviour, FakeOpenAI, serving_in_thread

TASKS = 3


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    with agentgym.make("textcraft") as env:
        yield env.asynchronous.connection.address


def saying(*replies: str, stop_reason: Any = "stop") -> Model:
    """A model that says these, then the last of them for ever."""
    said = iter(replies)

    def answer(*_: Any) -> ModelOutput:
        output = ModelOutput.from_content("scripted", next(said, replies[-1]), stop_reason)
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output

    return get_model("mockllm/model", custom_outputs=answer)


def played(tmp_path: Path, model: Model, **settings: Any) -> tuple[EvalLog, EvalSample]:
    """Play one task of TextCraft; returns the log and its only sample."""
    limits = {it: settings.pop(it) for it in ("message_limit", "fail_on_error") if it in settings}
    (log,) = evaluate(
        "agentgym/textcraft",
        model=model,
        task_args=settings,
        limit=1,
        display="none",
        log_dir=str(tmp_path),
        log_samples=True,
        **limits,
    )
    assert log.samples is not None
    return log, log.samples[0]


def test_inspects_command_plays_as_the_library_does(tmp_path: Path, target: str) -> None:
    """The fake server answers with the expert's replies; the log is Inspect's own."""
    expected, reply = scripted_replies("textcraft", target, TASKS)
    server = FakeOpenAI(Behaviour(quickest=0, slowest=0.001), reply=reply)
    with serving_in_thread(server) as url:
        program = str(Path(sys.executable).with_name("inspect"))
        task = ("agentgym/textcraft", "-T", f"target={target}", "--limit", str(TASKS))
        model = ("--model", "openai-api/fake/fake", "--model-base-url", url)
        told = ("--log-dir", str(tmp_path), "--display", "none")
        done = subprocess.run(
            [program, "eval", *task, *model, *told],
            env={"FAKE_API_KEY": "none", "PATH": "", "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    log = read_eval_log(list_eval_logs(str(tmp_path))[0])
    assert log.status == "success", log.error
    assert log.eval.task == "agentgym/textcraft" and log.samples is not None
    assert [sample.id for sample in log.samples] == list(expected)
    for sample in log.samples:
        assert sample.scores is not None
        assert sample.scores["episode_score"].value == {"score": 1.0, "success": 1.0}
        conversation = [(it.role, it.text) for it in sample.messages]
        assert conversation == expected[str(sample.id)]
    assert log.results is not None
    means = {it.name: it.metrics["mean"].value for it in log.results.scores}
    assert means == {"score": 1.0, "success": 1.0}
    import_run([Path(url2pathname(urlsplit(log.location).path))], tmp_path / "run")
    with RunReader.open(tmp_path / "run") as run:
        for episode in run.episodes():
            said = [it.text for it in episode.messages]
            assert said == [text for _, text in expected[episode.item_id]]
            assert (episode.environment, episode.split) == ("textcraft", "eval")
            assert (episode.score, episode.success, episode.terminated) == (1.0, True, True)
            assert all(it.prompt_tokens for it in episode.generations)


def test_rounds_and_limits_end_an_episode_that_counts_as_far_as_it_went(
    tmp_path: Path, target: str
) -> None:
    reply = "Thought: I look.\n\nAction: inventory"
    log, sample = played(tmp_path, saying(reply), target=target, max_rounds=2)
    assert log.status == "success" and sample.scores is not None
    score = sample.scores["episode_score"]
    assert score.value == {"score": 0.0, "success": 0.0}
    assert score.metadata == {"score": 0.0, "steps": 2, "terminated": False, "truncated": False}
    log, sample = played(tmp_path, saying(reply), target=target, message_limit=6)
    assert log.status == "success" and sample.limit is not None and sample.scores is not None
    assert sample.limit.type == "message"
    assert sample.scores["episode_score"].value == {"score": 0.0, "success": 0.0}


def test_an_episode_without_a_score_is_not_scored_zero(tmp_path: Path, target: str) -> None:
    """Its model's context was too short for the first reply: no step was scored."""
    log, sample = played(tmp_path, saying("", stop_reason="model_length"), target=target)
    assert log.status == "success" and sample.scores is not None
    score = sample.scores["episode_score"]
    assert score.reason == "no_score" and score.value != score.value


def test_what_fails_is_the_samples_error(tmp_path: Path, target: str) -> None:
    """The environment refuses the option at the reset; nothing is scored."""
    model = saying("Action: inventory")
    log, sample = played(tmp_path, model, target=target, options={"nonsense": 1})
    assert log.status == "error" and sample.error is not None
    assert "nonsense" in sample.error.message and not sample.scores


@pytest.mark.parametrize("name", ["a.eval", "a.json"])
def test_a_damaged_log_is_refused_by_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text('{"version": 2, "eval": {}, "samples": []}')
    with pytest.raises(EntryUnreadable, match=f"{name}.*Inspect cannot read it"):
        import_run([path], tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_unknown_split_says_which_there_are(target: str) -> None:
    from agentgym.inspect_tasks import environment_task

    with pytest.raises(agentgym.UnknownName, match="train"):
        environment_task("textcraft", target=target, split="nonsense")


def test_the_loop_that_is_compared_with_plays_every_epoch(tmp_path: Path) -> None:
    replies = tmp_path / "replies.json"
    items = write_replies("textcraft", 2, replies)
    played = compare.play_loop("inspect", sys.executable, replies, 2, tmp_path)
    assert played.episodes == 4
    assert played.rewards == dict.fromkeys(items, frozenset({1.0}))
