"""The sequence rules of one episode, against a model that remembers everything."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.sdk import ActionFormat, Image, ImageType, Observation, StopReason
from env_servers.server.budget import Account, Budget
from env_servers.server.episode import Episode, ForkOrigin, StepDecision
from env_servers.server.errors import CommandError
from env_servers.server.in_flight import InFlight
from env_servers.server.inputs import Action, Reply, ToolCall
from env_servers.server.instance import ResetSpec, Result

RESET = ResetSpec("echo", "echo_1", 0, "agentgym", ActionFormat.REACT, {})
ACTIONS = st.sampled_from([Action("a"), Action("b"), Reply(1, "a"), ToolCall("say", "a")])
CACHE = 3


class Idle:
    """A runner that is never run."""

    instance = None

    def bind(self, episode_id, journal):
        self.journal = journal


def result_of(seq, *, ended=False):
    observation = Observation(
        f"seq {seq}", terminated=ended, stop_reason=StopReason(1 if ended else 0)
    )
    return Result(observation, seq.to_bytes(8, "big"), None)


def options(cache):
    return {
        "account": Account("c", Budget(0)),
        "cache_events": cache,
        "max_journal_bytes": 1_000_000,
    }


def episode_at(seq=0, *, cache=CACHE, lease=10.0, now=0.0):
    episode = Episode("e", RESET, RESET, Idle(), lease=lease, now=now, **options(cache))
    episode.open([], [result_of(0)])
    for number in range(1, seq + 1):
        episode.commit(Action("a"), result_of(number), now)
    return episode


def test_kept_images_count_until_they_are_evicted():
    image = Image(ImageType.PNG, bytes(5000))
    episode = episode_at(cache=2)
    before = episode.account.bytes
    shown = result_of(1)._replace(observation=Observation("seq 1", images=(image, image)))
    episode.commit(Action("a"), shown, 0.0)
    assert episode.account.bytes - before >= 10_000
    for seq in (2, 3):
        episode.commit(Action("a"), result_of(seq), 0.0)
    assert episode.account.bytes - before < 10_000


class Model:
    """What a server should know: every action and whether it is over."""

    def __init__(self):
        self.actions = []
        self.length = None
        self.in_flight = None
        self.failed = False

    def judge(self, seq, action):
        """The admission, or the name of the error."""
        now = len(self.actions)
        if self.in_flight is not None:
            if seq == now + 1:
                return StepDecision.JOIN if action == self.in_flight else "SEQ_CONFLICT"
            if 0 < seq <= now and self.actions[seq - 1] == action:
                return StepDecision.REPLAY
            return "EPISODE_BUSY"
        if 0 < seq <= now:
            return StepDecision.REPLAY if self.actions[seq - 1] == action else "SEQ_CONFLICT"
        if seq != now + 1:
            return "SEQ_GAP"
        if self.failed:
            return "ENVIRONMENT_CRASHED"
        if now == self.length:
            return "EPISODE_ENDED"
        return StepDecision.EXECUTE


def verdict(episode, seq, action):
    try:
        return episode.decide(seq, action)
    except CommandError as error:
        return pb.ErrorReason.Name(error.reason).removeprefix("ERROR_REASON_")


def in_flight_of(loop, seq, action):
    async def nothing():
        return result_of(seq)

    return InFlight(seq, action, loop.create_task(nothing()))


@settings(max_examples=150, deadline=None)
@given(
    commands=st.lists(
        st.tuples(st.integers(0, 8), ACTIONS, st.sampled_from(["now", "later", "settle", "fail"])),
        max_size=40,
    ),
    length=st.one_of(st.none(), st.integers(1, 6)),
)
def test_every_sequence_of_commands_is_judged_as_the_model_judges_it(commands, length):
    loop = asyncio.new_event_loop()
    episode, model = episode_at(), Model()
    model.length = length
    try:
        for seq, action, fate in commands:
            judged = verdict(episode, seq, action)
            assert judged == model.judge(seq, action)
            if judged is StepDecision.REPLAY and seq > episode.seq - CACHE:
                assert episode.result(seq) == result_of(seq, ended=seq == length)
            if judged is StepDecision.EXECUTE and fate == "fail":
                episode.fail(CommandError(pb.ERROR_REASON_ENVIRONMENT_CRASHED, "boom"))
                model.failed = True
            elif judged is StepDecision.EXECUTE:
                episode.begin(in_flight_of(loop, seq, action))
                model.in_flight = action
            if model.in_flight is not None and fate in ("now", "settle"):
                done = episode.in_flight
                episode.finish(0.0)
                episode.commit(done.request, result_of(done.seq, ended=done.seq == length), 0.0)
                model.actions.append(model.in_flight)
                model.in_flight = None
        assert episode.journal.inputs_to(episode.seq) == model.actions
        assert len(episode.journal) == episode.seq == len(model.actions)
        assert episode.ended == (len(model.actions) == length)
    finally:
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


@given(seq=st.integers(0, 12), cache=st.integers(1, 6), last_seen=st.integers(-3, 15))
def test_attach_gives_all_that_was_missed_or_says_why_not(seq, cache, last_seen):
    episode = episode_at(seq, cache=cache)
    kept = range(max(0, seq - cache + 1), seq + 1)
    wanted = range(last_seen + 1, seq + 1)
    try:
        missed = episode.missed(last_seen)
    except CommandError as error:
        name = pb.ErrorReason.Name(error.reason)
        if last_seen > seq:
            assert name == "ERROR_REASON_SEQ_GAP"
        else:
            assert name == "ERROR_REASON_RESPONSE_EVICTED"
            assert any(number not in kept for number in wanted)
    else:
        assert [number for number, _ in missed] == list(wanted)
        assert all(result == result_of(number) for number, result in missed)


@given(seq=st.integers(1, 12), cache=st.integers(1, 6))
def test_a_native_fork_knows_its_past_but_only_its_last_answer(seq, cache):
    source = episode_at(seq, cache=cache)
    copy = Episode("f", RESET, ForkOrigin("e", seq), Idle(), lease=1.0, now=0.0, **options(cache))
    copy.open_fork(source.journal.fork(seq, copy.account), [source.cache[-1]])
    assert copy.seq == seq
    assert copy.journal.inputs_to(seq) == source.journal.inputs_to(seq)
    assert copy.journal.hashes_to(seq) == source.journal.hashes_to(seq)
    assert copy.result(seq) == result_of(seq)
    assert copy.runner.journal is copy.journal
    assert verdict(copy, seq, Action("a")) is StepDecision.REPLAY
    if seq > 1:
        with pytest.raises(CommandError):
            copy.result(seq - 1)


@given(
    lease=st.floats(0.1, 100),
    idle=st.floats(0.1, 100),
    silent=st.floats(0, 200),
    attached=st.booleans(),
    busy=st.booleans(),
)
def test_an_episode_expires_by_its_lease_alone_or_by_idleness_when_attached(
    lease, idle, silent, attached, busy
):
    episode = episode_at(lease=lease, now=1000.0)
    episode.stream = object() if attached else None
    episode.in_flight = object() if busy else None
    limit = idle if attached else lease
    expired = episode.expired(1000.0 + silent, idle)
    if abs(silent - limit) > 1e-6:
        assert expired == (not busy and silent > limit)
