"""Limits of a run and of its episodes: the account, and what commands make of it."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_runtime.answer_time import AnswerTime, note_answer
from agent_runtime.spending import EpisodeLimits, Limit, Spent
from agentgym.env.v1 import types_pb2
from orchestrator import audit, sample, show
from orchestrator.records import EpisodeKey
from orchestrator.run_limits import (
    RunAccount,
    RunLimits,
    recorded_spending,
    spent_from_json,
    spent_to_json,
)
from orchestrator.store import RunReader
from tests.kit.fake_openai import Behaviour, FakeOpenAI, serving_in_thread

QUICK = Behaviour(quickest=0.001, slowest=0.003)

KEYS = st.builds(
    EpisodeKey, st.sampled_from(["maze", "echo"]), st.just("i"), st.integers(0, 3), st.just("p")
)
SPENT = st.builds(Spent, cost=st.floats(0, 1e3), tokens=st.integers(0, 10**6))
EVENTS = st.lists(st.tuples(KEYS, SPENT, st.booleans()), max_size=30)


# ---------------------------------------------------------------------------- the account


@settings(max_examples=40, deadline=None)
@given(EVENTS, st.integers(0, 30))
def test_what_was_spent_is_the_same_in_one_session_and_in_two(events, cut: int) -> None:
    """Recorded by the attempts' records, unrecorded by the session's end: nothing is lost."""
    whole = RunAccount(RunLimits())
    recorded, unrecorded = Spent(), Spent()
    for part in (events[:cut], events[cut:]):
        account = RunAccount(RunLimits(), recorded=recorded, unrecorded=unrecorded)
        open_attempts: dict[EpisodeKey, Spent] = {}
        for key, spent, ends in part:
            whole.add(key, spent)
            account.add(key, spent)
            open_attempts[key] = open_attempts.get(key, Spent()) + spent
            if ends:
                account.recorded(key)
                recorded += open_attempts.pop(key)
        unrecorded += account.unrecorded(["maze"]) + account.unrecorded(["echo"])
        unrecorded = spent_from_json(spent_to_json(unrecorded))
    assert (recorded + unrecorded).tokens == whole.total.tokens
    assert math.isclose((recorded + unrecorded).cost, whole.total.cost, abs_tol=1e-6)


@settings(max_examples=40, deadline=None)
@given(EVENTS, st.integers(1, 10**6), st.floats(0.01, 1e3))
def test_a_limit_is_reached_exactly_when_as_much_was_spent_and_stays_reached(
    events, tokens: int, cost: float
) -> None:
    account = RunAccount(RunLimits(max_tokens=tokens, max_cost=cost))
    used, paid, first = 0, 0.0, ""
    for key, spent, _ in events:
        account.add(key, spent)
        used, paid = used + spent.tokens, paid + spent.cost
        said = account.reached(seconds=1e9)
        assert bool(said) == (used >= tokens or paid >= cost)
        first = first or said
        assert said == first


def test_time_is_that_of_the_session_and_no_limit_is_none() -> None:
    account = RunAccount(RunLimits(time_limit=5))
    assert account.reached(4.9) == ""
    assert account.reached(5.0) == "its limit of 5 s (--time-limit)"
    free = RunAccount(RunLimits())
    free.add(EpisodeKey("maze", "i", 0, "p"), Spent(cost=1e9, tokens=10**15), priced=False)
    assert free.reached(1e9) == ""


def test_a_limit_of_money_that_cannot_be_kept_is_reached() -> None:
    account = RunAccount(RunLimits(max_cost=5))
    account.add(EpisodeKey("maze", "i", 0, "openai:x"), Spent(tokens=3), priced=False)
    assert "openai:x gave a reply without its cost" in account.reached(0)


@pytest.mark.parametrize("kind", [RunLimits, EpisodeLimits])
@pytest.mark.parametrize("name", ["max_cost", "max_tokens", "time_limit"])
@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan])
def test_limits_that_make_no_sense_are_refused(kind: type, name: str, value: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        kind(**{name: value})


def test_an_episode_has_reached_the_first_of_its_limits() -> None:
    limits = EpisodeLimits(max_cost=1, max_tokens=10, time_limit=2)
    assert limits.reached(Spent(cost=0.9, tokens=9, seconds=1.9)) is None
    assert limits.reached(Spent(tokens=10)) is Limit.TOKENS
    assert limits.reached(Spent(seconds=2)) is Limit.TIME
    assert limits.reached(Spent(cost=1, tokens=10)) is Limit.COST


def test_the_time_of_a_reply_is_that_of_its_answers_without_the_waits() -> None:
    with AnswerTime() as asked:
        note_answer(0.5)
        note_answer(0.25)
    with AnswerTime() as computed:
        pass
    note_answer(9)
    assert (asked.within(60), asked.within(0.6), computed.within(60)) == (0.75, 0.6, 60)


# ---------------------------------------------------------------------------- commands

PRICES = (*("--openai.usd-per-million-input", "1000", "--openai.usd-per-million-output", "1000"),)


ECHO = ("--env", "echo", "--options", '{"length": 4}')


def play(out: Path, url: str, *flags: str, environment: tuple[str, ...] = ECHO) -> int:
    return sample.main(
        [
            *(*environment, "--policy", "openai:fake", "--openai.base-url", url, "--json"),
            *("--spawn", "1", "--out", str(out), *flags),
        ]
    )


def summary_of(capsys: pytest.CaptureFixture[str]) -> tuple[dict, str]:
    shown = capsys.readouterr()
    return json.loads(shown.out), " ".join(shown.err.split())


def spent_on_record(run: Path) -> Spent:
    with RunReader.open(run) as reader:
        summaries = [*reader.summaries(), *reader.summaries(superseded=True)]
        return recorded_spending(summaries) + reader.unrecorded_spending()


def test_a_run_that_has_spent_its_money_ends_in_order_and_goes_on_with_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    with serving_in_thread(FakeOpenAI(QUICK)) as url:
        flags = ("--episodes", "20", "--concurrency", "2", "--max-cost", "2", *PRICES)
        assert play(run, url, *flags) == sample.STOPPED_BY_LIMIT == 3
        summary, told = summary_of(capsys)
        assert not summary["agentgym_complete"] and not summary["interrupted"]
        assert summary["stopped_by"].startswith("its limit of $2 (--max-cost), $2.")
        assert "STOPPED by its limit of $2 (--max-cost), $2." in told
        assert f"{20 - summary['finished']} not played" in told
        assert "raise the limit and go on with" in told
        # Two live episodes were played to their ends: what they cost comes on top.
        one = spent_on_record(run).cost / summary["finished"]
        assert 2 <= spent_on_record(run).cost <= 2 + 2 * one
        assert sample.main(["--resume", str(run), "--json"]) == 3
        again, _ = summary_of(capsys)
        assert again["finished"] == summary["finished"], "its money is spent"
        assert sample.main(["--resume", str(run), "--max-cost", "1000", "--json"]) == 0
    whole, _ = summary_of(capsys)
    assert whole["agentgym_complete"] and whole["stopped_by"] is None
    assert spent_on_record(run).cost == pytest.approx(20 * one, rel=0.01)


@pytest.mark.slow
def test_what_is_live_after_the_grace_is_given_up_and_its_tokens_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    slow = Behaviour(quickest=0.02, slowest=0.03)
    with serving_in_thread(server := FakeOpenAI(slow)) as url:
        flags = ("--episodes", "20", "--concurrency", "20", "--limit-grace", "0")
        assert play(run, url, *flags, "--max-tokens", "1000") == 3
        summary, told = summary_of(capsys)
        assert summary["finished"] == 0 and summary["failed"] == 0
        assert "20 live episodes have 0 s to end" in told
        with RunReader.open(run) as reader:
            lost = reader.unrecorded_spending()
            assert lost.tokens >= 1000 and reader.count() == 0
        server.behaviour = QUICK
        assert sample.main(["--resume", str(run), "--max-tokens", "1000000", "--json"]) == 0
        assert spent_on_record(run).tokens > lost.tokens


@pytest.mark.slow
def test_time_ends_a_session_and_a_resume_has_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    flags = ["--env", "echo", "--policy", "expert", "--episodes", "400", "--concurrency", "1"]
    flags += ["--options", '{"sleep_ms": 5}', "--spawn", "1", "--out", str(run)]
    assert sample.main([*flags, "--time-limit", "0.3"]) == 3
    with RunReader.open(run) as reader:
        first = len(reader.finished_keys())
        end = reader.session_end()
    assert 0 < first < 400 and end is not None and end.limit == "its limit of 0.3 s (--time-limit)"
    assert sample.main(["--resume", str(run)]) == 3, "the limit is the run's setting"
    with RunReader.open(run) as reader:
        assert len(reader.finished_keys()) > first
    capsys.readouterr()
    assert show.main([str(run)]) == 0
    assert "STOPPED by its limit of 0.3 s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (("--per-episode.max-tokens", "1500"), types_pb2.STOP_REASON_TOKEN_LIMIT),
        pytest.param(
            ("--per-episode.max-cost", "1.5", *PRICES),
            types_pb2.STOP_REASON_COST_LIMIT,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ("--per-episode.time-limit", "0.002"),
            types_pb2.STOP_REASON_TIME_LIMIT,
            marks=pytest.mark.slow,
        ),
    ],
)
def test_an_episode_at_its_limit_ends_truncated_and_is_judged(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    flags: tuple[str, ...],
    reason: types_pb2.StopReason,
) -> None:
    run = tmp_path / "run"
    with serving_in_thread(FakeOpenAI(QUICK)) as url:
        assert play(run, url, "--episodes", "3", *flags, environment=("--env", "maze")) == 0
    summary, _ = summary_of(capsys)
    assert summary["agentgym_complete"] and summary["results"][0]["judged"] == 3
    with RunReader.open(run) as reader:
        for record in reader.episodes():
            assert record.truncated and not record.terminated and not record.HasField("error")
            assert record.stop_reason == reason and record.HasField("success")
            assert not record.success and 1 <= len(record.generations) < 15
            assert len(record.steps) == len(record.generations) + 1
    assert audit.main([str(run)]) == 0


@pytest.mark.slow
def test_limits_of_an_episode_bind_a_resume_and_those_of_the_run_do_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--env", "echo", "--policy", "expert", "--episodes", "2", "--spawn", "1"]
    assert sample.main([*flags, "--out", str(tmp_path / "run")]) == 0
    resume = ["--resume", str(tmp_path / "run")]
    assert sample.main([*resume, "--max-tokens", "5", "--max-cost", "1"]) == 0
    assert sample.main([*resume, "--per-episode.max-tokens", "5"]) == 2
    assert "config.per_episode.max_tokens: null -> 5" in capsys.readouterr().err


@pytest.mark.parametrize(
    "flag", ["--max-cost", pytest.param("--per-episode.max-cost", marks=pytest.mark.slow)]
)
def test_a_limit_of_money_needs_prices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    assert play(tmp_path / "run", "http://127.0.0.1:9/v1", flag, "5") == 2
    told = " ".join(capsys.readouterr().err.split())
    assert f"{flag} needs to know what the replies of openai:fake cost" in told
    assert "--openai.usd-per-million-input" in told and "--max-tokens" in told
    assert not (tmp_path / "run" / "manifest.json").exists()


FORGETFUL = """
from agent_runtime.policies import Completion, Policy, PolicySession, Pricing

class Forgetful(Policy, PolicySession):
    pricing = Pricing.PRICED

    def __init__(self, target, config):
        self.name = "forgetful"

    def open(self, context):
        return self

    async def reply(self, messages, *, turn, seed):
        return Completion(text="Thought:\\n\\nAction:\\nhello")
"""


@pytest.mark.slow
def test_a_policy_that_does_not_say_what_it_promised_to_say_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "forgetful", raising=False)
    (tmp_path / "forgetful.py").write_text(FORGETFUL)
    flags = ["--env", "echo", "--policy", "forgetful:Forgetful", "--episodes", "20"]
    flags += ["--concurrency", "1", "--spawn", "1", "--out", str(tmp_path / "run")]
    assert sample.main([*flags, "--max-cost", "1"]) == 3
    assert "forgetful:Forgetful gave a reply without its cost" in capsys.readouterr().out


def test_impossible_limits_are_a_sentence_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--env", "echo", "--policy", "expert", "--out", str(tmp_path / "run")]
    assert sample.main([*flags, "--max-tokens", "0"]) == 2
    assert "max_tokens and time_limit are finite numbers above 0" in capsys.readouterr().err
