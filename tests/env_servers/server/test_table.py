"""The episode table: who hangs on which stream, what is reaped, what is given back."""

from types import SimpleNamespace

import pytest

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.sdk import ActionFormat, Observation
from env_servers.server import errors
from env_servers.server.admission import AdmissionController
from env_servers.server.budget import Account, Budget
from env_servers.server.episode import Episode
from env_servers.server.errors import CommandError
from env_servers.server.inputs import Action
from env_servers.server.instance import ResetSpec, Result
from env_servers.server.runners import InlineRunner
from env_servers.server.stream import Stream
from env_servers.server.table import EpisodeTable

RESET = ResetSpec("echo", "echo_1", 0, "agentgym", ActionFormat.REACT, {})


class RecordingRunner:
    """A runner that only remembers how it ended."""

    instance = None

    def __init__(self):
        self.closed = 0
        self.cancelled = 0
        self.error = None

    def bind(self, episode_id, journal):
        pass

    def cancel(self):
        self.cancelled += 1

    def close(self):
        self.closed += 1
        if self.error is not None:
            raise self.error


async def nowhere(response):
    pass


def stream():
    return Stream(
        nowhere,
        client="ipv4:127.0.0.1:1",
        account=Account("c", Budget(0)),
        max_items=10,
        max_in_flight=2,
        max_bytes=1000,
    )


@pytest.fixture
def table():
    admission = AdmissionController({"echo": 2}, per_client=0)
    return EpisodeTable(admission, idle_limit=100.0, pressure_idle=5.0, journal_replayable=True)


def add(table, episode_id="e", *, client="c", lease=10.0, now=0.0):
    account = table.admission.account(client)
    table.admission.check("echo", account, now)
    table.admission.admit("echo", account)
    runner = RecordingRunner()
    episode = Episode(
        episode_id,
        RESET,
        RESET,
        runner,
        account=account,
        lease=lease,
        cache_events=4,
        max_journal_bytes=1_000_000,
        now=now,
    )
    episode.open([], [Result(Observation("start"), b"12345678", None)])
    table.add(episode)
    return episode


def test_an_episode_hangs_on_one_stream_at_a_time(table):
    episode, first, second = add(table), stream(), stream()
    episode.attach(first)
    episode.attach(second)
    assert episode.stream is second
    assert not first.episodes
    assert second.episodes == {episode}


def test_a_lost_stream_starts_the_lease_clocks_of_its_episodes(table):
    episode, lost = add(table), stream()
    episode.attach(lost)
    table.detach(lost)
    assert episode.stream is None
    assert not lost.episodes
    assert episode.last_used > 0.0
    assert table.find("e") is episode


def test_only_episodes_whose_lease_ran_out_are_reaped(table, monkeypatch):
    short, long = add(table, "short", lease=1.0), add(table, "long", lease=50.0)
    monkeypatch.setattr("env_servers.server.table.time.monotonic", lambda: 10.0)
    assert table.reap() == 1
    assert list(table.episodes.values()) == [long]
    assert short.runner.closed == 1
    assert table.reaped == 1
    assert table.admission.live["echo"] == 1


def test_discarding_gives_back_everything_also_when_closing_fails(table):
    episode = add(table)
    episode.attach(where := stream())
    episode.runner.error = errors.crashed("echo", RuntimeError("stuck"))
    table.discard(episode)
    assert not table.episodes
    assert not where.episodes
    assert table.admission.live.total() == 0


def test_what_is_not_there_says_why(table):
    with pytest.raises(CommandError) as caught:
        table.find("nobody")
    assert caught.value.reason == pb.ERROR_REASON_EPISODE_NOT_FOUND
    assert caught.value.metadata == {"journal_replayable": "true"}
    table.pending_opens["soon"] = SimpleNamespace(owner="")
    with pytest.raises(CommandError) as caught:
        table.find("soon")
    assert caught.value.reason == pb.ERROR_REASON_EPISODE_BUSY


def test_a_failed_episode_answers_every_step_with_its_error(table):
    episode = add(table)
    error = errors.crashed("echo", RuntimeError("boom"))
    table.fail(episode, error)
    with pytest.raises(CommandError) as caught:
        episode.decide(1, object())
    assert caught.value is error


def test_a_table_is_busy_while_something_is_opened_or_driven(table):
    assert not table.busy
    episode = add(table)
    assert not table.busy, "an episode that nobody drives may be left behind"
    episode.attach(stream())
    assert table.busy
    table.discard(episode)
    table.pending_opens["soon"] = object()
    assert table.busy


def test_admission_counts_environments_clients_and_the_drain():
    admission = AdmissionController({"a": 2, "b": 5}, total=3, per_client=2, fair=False)
    x, y, z = (admission.account(name) for name in "xyz")
    for environment, account in (("a", x), ("a", y), ("b", x)):
        admission.check(environment, account, 0.0)
        admission.admit(environment, account)
    for environment in "ab":
        with pytest.raises(CommandError) as caught:
            admission.check(environment, z, 0.0)
        assert caught.value.reason == pb.ERROR_REASON_CAPACITY_EXHAUSTED
    admission.release("a", y)
    with pytest.raises(CommandError) as caught:
        admission.check("b", x, 0.0)
    assert caught.value.reason == pb.ERROR_REASON_CLIENT_LIMIT
    admission.check("b", z, 0.0)
    admission.draining = True
    with pytest.raises(CommandError) as caught:
        admission.check("b", z, 0.0)
    assert caught.value.reason == pb.ERROR_REASON_DRAINING


def test_the_longest_unused_of_whoever_holds_most_makes_room_for_others(table):
    greedy, modest = table.admission.account("greedy"), table.admission.account("modest")
    long, short = (add(table, name, client="greedy") for name in ("long", "short"))
    for episode, used in ((long, 1.0), (short, 2.0)):
        episode.last_used = used
        episode.commit(Action("x" * 4000), Result(Observation(""), b"12345678", None), used)
    table.admission.budget.limit = table.admission.budget.held
    table.admission.forget_absent(0.0)
    assert not table.shrink(100, spared=greedy), "a client makes no room for itself"
    table.admission.budget.clients = 2
    table._next_search = 0.0
    assert table.shrink(100, spared=modest)
    assert list(table.episodes) == ["short"]
    with pytest.raises(CommandError) as caught:
        table.find("long")
    assert caught.value.metadata["cause"] == "MEMORY"


def test_an_inline_runner_keeps_its_fields_in_slots():
    assert InlineRunner.__dictoffset__ == 0
