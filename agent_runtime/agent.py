"""One agent plays one episode, and all that it saw, wrote and sampled goes into one record.

The loop is observation -> reply -> step, within the limits of the plan. A failure is data: it ends
up in the record's `error` with its fault, and then there is no score. Cancellation is no failure:
it passes through and leaves no record.

`play` is the whole loop; `EpisodeRun` is what it is made of, for those who play turn by turn.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from google.protobuf import struct_pb2

from agent_runtime import tracing
from agent_runtime.answer_time import AnswerTime
from agent_runtime.conversation import Message, Role, normalize_reply
from agent_runtime.draft import Draft
from agent_runtime.episode import RemoteEpisode, Transition
from agent_runtime.errors import AgentRuntimeError, OutcomeNotFinite
from agent_runtime.images import RecordedImages, require_texts
from agent_runtime.judgements import judgements_of
from agent_runtime.live_record import LiveRecord, Waiting, add_messages
from agent_runtime.logs import bind_context
from agent_runtime.policies.base import (
    Completion,
    EpisodeContext,
    LiveEpisode,
    Policy,
    PolicySession,
)
from agent_runtime.redaction import redact_text
from agent_runtime.sampling import FinishReason
from agent_runtime.scores import score_or_reward
from agent_runtime.spending import EpisodeLimits, Limit, Spent
from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2
from agentgym.episode.v1 import episode_pb2

if TYPE_CHECKING:
    from opentelemetry.trace import Span

__all__ = ["SCHEMA_VERSION", "BranchStart", "EpisodePlan", "EpisodeRun", "failed_record", "play"]

SCHEMA_VERSION = 1
"""Version of the episode record's layout."""


_USER, _ASSISTANT = Role.USER, Role.ASSISTANT
# The named tuple's own constructor costs three times as much, twice a turn.
_new_message = cast("Callable[..., Message]", tuple.__new__)  # pyright: ignore[reportUnknownMemberType]


def _turn_number(turn: int) -> int:
    return turn


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchStart:
    """The turns of a recorded episode that a branch of it begins with."""

    parent: episode_pb2.Parent
    messages: Sequence[Message]
    """The conversation up to the observation of its last turn; none is the branch's own."""
    steps: Sequence[episode_pb2.Step]
    """The reset first; each has a state hash."""
    replies: Sequence[Sequence[int]]
    """Token ids of its replies, turn by turn; empty where they are not known."""


# Not frozen, because one is made for every episode: a frozen one takes three times as long.
@dataclass(slots=True, kw_only=True)
class EpisodePlan:
    """What is to be played, and under which names it is recorded; nobody changes it."""

    run_id: str
    episode_id: str
    environment: pb.GetEnvironmentResponse
    item_id: str
    category: str = ""
    split: str = ""
    sample: int = 0
    policy: str = ""
    """Name that the run has for the policy; empty = the policy's own."""
    attempt: int = 1
    seed: int = 0
    action_format: types_pb2.ActionFormat = types_pb2.ACTION_FORMAT_REACT
    profile: str = ""
    options: struct_pb2.Struct = field(default_factory=struct_pb2.Struct)
    max_rounds: int = 0
    """Replies allowed; 0 = the environment's own number."""
    conversation_start: pb.ConversationStart | None = None
    """The two first messages; None = the environment's own in the action format."""
    turn_seed: Callable[[int], int] = _turn_number
    """Gives the sampling seed of a turn."""
    limits: EpisodeLimits = field(default_factory=EpisodeLimits)
    """What its replies may spend."""
    branch: BranchStart | None = None
    """Where it goes off from another episode; None = it is played from its reset."""

    def reset(self, lease_ms: int = 0) -> pb.Reset:
        """Build the command that opens the episode.

        Args:
            lease_ms: Milliseconds that the server keeps it without a stream; 0 = its own number.
        """
        reset = pb.Reset(
            environment=self.environment.name,
            item_id=self.item_id,
            seed=self.seed,
            action_format=self.action_format,
            profile=self.profile,
            lease_ms=lease_ms,
            images=pb.CAPABILITY_IMAGES in self.environment.capabilities,
        )
        if self.options.fields:
            reset.options.CopyFrom(self.options)
        return reset

    def first_messages(self) -> tuple[Message, Message]:
        """Return the messages that the conversation starts with."""
        start = self.conversation_start or next(
            start
            for start in self.environment.conversation_starts
            if start.action_format == self.action_format
        )
        return (
            Message(Role.USER, start.instruction),
            Message(Role.ASSISTANT, start.acknowledgement),
        )

    def context(self, live: LiveEpisode, draft: Draft | None = None) -> EpisodeContext:
        """Return what a policy's session may know of the episode."""
        return EpisodeContext(
            episode_id=self.episode_id,
            environment=self.environment.name,
            item_id=self.item_id,
            action_format=self.action_format,
            live=live,
            tools_json=self.environment.functions_json,
            draft=draft or Draft(),
        )

    @property
    def rounds(self) -> int:
        """Replies that the episode has at most."""
        return self.max_rounds or self.environment.max_rounds


async def play(
    plan: EpisodePlan,
    live: RemoteEpisode,
    policy: Policy,
    *,
    on_reply: Callable[[Completion, Spent], None] | None = None,
    shown: LiveRecord | None = None,
) -> episode_pb2.Episode:
    """Play an episode to its end.

    Args:
        plan: What is played, and the names under which it is recorded.
        live: The episode on its server, not yet reset.
        policy: Who plays it; started.
        on_reply: Sees each reply and what it came to, at once.
        shown: Where the episode can be watched; None = nobody will.

    Returns:
        The record, also of an episode that failed: then it holds the error and no score.
    """
    with (
        tracing.span(
            "episode",
            run_id=plan.run_id,
            episode_id=plan.episode_id,
            environment=plan.environment.name,
            item_id=plan.item_id,
            policy=plan.policy or policy.name,
            attempt=plan.attempt,
        ) as span,
        bind_context(episode_id=plan.episode_id, environment=plan.environment.name),
    ):
        run = EpisodeRun(plan, live, policy.name, span=span, on_reply=on_reply, shown=shown)
        return await run.play(policy)


def failed_record(
    plan: EpisodePlan, policy: Policy, error: AgentRuntimeError
) -> episode_pb2.Episode:
    """Return the record of an episode that failed before it could be opened."""
    record = _begin_record(plan, policy.name)
    _record_failure(record, error, at_seq=0)
    record.ended_unix_ms = record.started_unix_ms
    return record


class EpisodeRun:
    """The state of one episode while it is played."""

    def __init__(
        self,
        plan: EpisodePlan,
        live: RemoteEpisode,
        policy: str,
        *,
        span: Span | None = None,
        on_reply: Callable[[Completion, Spent], None] | None = None,
        shown: LiveRecord | None = None,
    ) -> None:
        """Describe it; arguments as of `play`, and the policy's own name."""
        self._span = span
        self._on_reply = on_reply
        self._spent = Spent()
        self._limited = plan.limits.any
        self._plan = plan
        self._live = live
        self._rounds = plan.rounds
        self.ended = False
        """Whether nothing more can be played: the environment, or a limit, has ended it."""
        self._messages: list[Message] = []
        self._start = 0
        """Messages before the first observation."""
        self._has_images = False
        """Whether any message was shown with images."""
        self._record = _begin_record(plan, policy)
        self._images = RecordedImages(self._record)
        self._last: Transition | None = None
        self._shown = shown or LiveRecord()
        self._shown.begin(self._record, self._messages)

    async def play(self, policy: Policy) -> episode_pb2.Episode:
        """Play; the environment's episode and the policy's session are released in any case."""
        session = policy.open(self._plan.context(self._live, self._shown.draft))
        self._shown.streams = session.streams
        try:
            await self._play(session)
        except AgentRuntimeError as error:
            if error.reason == "UNKNOWN_ENVIRONMENT":
                # A server has described it for the plan: servers have changed, not the question.
                error.fault = types_pb2.FAULT_INFRASTRUCTURE
            tracing.record_failure(self._span, error)
            _record_failure(self._record, error, at_seq=max(self._live.seq, 0))
        finally:
            self._live.close()
            await session.close()
        self._record.token_segments.extend(session.token_segments())
        return self.finish()

    async def _play(self, session: PolicySession) -> None:
        start, branch = session.begin(self._plan.first_messages()), self._plan.branch
        if branch is None:
            await self.begin(start)
        else:
            await self._begin_branch(branch, start)
            session.inherit(self._messages, branch.replies)
        calls = 0
        while not self.ended:
            limit = self._plan.limits.reached(self._spent) if self._limited else None
            if limit is not None:
                self._truncate(_STOP_BY_LIMIT[limit])
                return
            await self.take_turn(session, calls)
            calls += 1

    @property
    def turn(self) -> int:
        """Turns that were played; the reset is none."""
        return len(self._record.steps) - 1

    @property
    def reached(self) -> Transition:
        """The state that the last turn led to."""
        assert self._last is not None
        return self._last

    async def begin(self, start: Sequence[Message]) -> None:
        """Reset; `start` are the messages before the first observation."""
        self._say(start)
        self._start = len(start)
        await self._step(None)
        self._count_round(self.turn)

    async def _begin_branch(self, branch: BranchStart, start: Sequence[Message]) -> None:
        """Open the episode in the state that the parent's turns led to."""
        self._record.parent.CopyFrom(branch.parent)
        self._shown.wait_for(Waiting.ENVIRONMENT)
        reset, *played = branch.steps
        reached = await self._live.open_at(
            reset.state_hash,
            [pb.JournalEntry(input=step.input, state_hash=step.state_hash) for step in played],
            [said for step in branch.steps for said in judgements_of(step.info)],
        )
        self.take_over(branch.messages, branch.steps, reached)
        self.restart(start)

    def take_turn(self, session: PolicySession, calls: int) -> Coroutine[Any, Any, None]:
        """Play a turn; `calls` is how often this session was asked for a reply before."""
        turn = self.turn
        return tracing.within_span("turn", self._take_turn(session, turn, calls), turn=turn)

    async def _take_turn(self, session: PolicySession, turn: int, calls: int) -> None:
        reply = await self._reply(session, turn, calls)
        if reply is None:
            self._truncate(types_pb2.STOP_REASON_CONTEXT_EXHAUSTED)
            return
        await self._step(reply)
        self._count_round(turn + 1)

    def take_over(
        self,
        messages: Sequence[Message],
        steps: Sequence[episode_pb2.Step],
        reached: Transition,
    ) -> None:
        """Go on from turns that somebody else has played, in place of `begin`.

        Args:
            messages: The conversation so far; none is this player's.
            steps: What was played, the reset first.
            reached: The state in which the live episode is.
        """
        self._say(messages)
        self._record.steps.extend(steps)
        self._start = len(messages) - 2 * self.turn - 1
        for turn, step in enumerate(self._record.steps):
            step.ClearField("seconds")  # nobody waits for them here
            step.images[:] = self._images.places(messages[self._start + 2 * turn].images)
        self._last = reached
        self._count_round(self.turn)

    def restart(self, start: Sequence[Message]) -> None:
        """Put other messages before the first observation: another policy wants its own."""
        self._messages[: self._start] = start
        self._start = len(start)
        self._has_images |= any(said.images for said in start)

    def rewind(self, turn: int, live: RemoteEpisode, reached: Transition) -> None:
        """Take back what was played after a turn, and go on with a live episode in its state."""
        record = self._record
        del self._messages[self._start + 2 * turn + 1 :]
        del record.steps[turn + 1 :]
        kept = [call for call in record.generations if call.turn < turn]
        del record.generations[len(kept) :]
        record.policy_seconds = math.fsum(call.seconds for call in kept)
        record.environment_seconds = math.fsum(step.seconds for step in record.steps)
        record.truncated, record.stop_reason = False, types_pb2.STOP_REASON_UNSPECIFIED
        # Each stands where it was first seen: what is behind the last one was seen later only.
        del record.images[max((at + 1 for step in record.steps for at in step.images), default=0) :]
        self._images = RecordedImages(record)
        self._live, self._last = live, reached
        self._count_round(self.turn)

    def so_far(self) -> episode_pb2.Episode:
        """Return the record as it would be if the episode ended now."""
        copied = copy.copy(self)
        copied._record = episode_pb2.Episode()
        copied._record.CopyFrom(self._record)
        copied._images = RecordedImages(copied._record)
        return copied.finish()

    def _say(self, messages: Iterable[Message]) -> None:
        """Add messages to the conversation."""
        for said in messages:
            self._messages.append(said)
            if said.images:
                self._has_images = True

    def _count_round(self, turns: int) -> None:
        """Note whether the environment has ended the episode; end it after all its rounds."""
        self.ended = self.reached.ended
        if not self.ended and turns >= self._rounds:
            self._truncate(types_pb2.STOP_REASON_MAX_ROUNDS)

    async def _step(self, reply: str | None) -> Transition:
        """Apply a reply, or reset where there is none yet; the observation is recorded."""
        live = self._live
        self._shown.wait_for(Waiting.ENVIRONMENT)
        step = live.reset() if reply is None else live.step_reply(reply)
        started = time.perf_counter()
        transition = await tracing.within_span("step", step, seq=live.seq + 1)
        _require_finite(transition)
        self._observe(transition, reply, time.perf_counter() - started)
        return transition

    async def _reply(self, session: PolicySession, turn: int, calls: int) -> str | None:
        """Ask the policy for its next reply and record it; None = the context is full."""
        if self._has_images and not session.takes_images:
            for said in self._messages:
                require_texts(said.images, self._record.policy)
        seed = self._plan.turn_seed(turn)
        self._shown.wait_for(Waiting.POLICY)
        started = time.perf_counter()
        asked = session.reply(self._messages, turn=calls, seed=seed)
        if tracing.tracing_enabled():
            asked = _traced(asked, turn)
        with AnswerTime() as timed:
            completion = await asked
        seconds = time.perf_counter() - started
        _record_generation(self._record.generations.add(), completion, turn, seed, seconds)
        self._record.policy_seconds += seconds
        self._spend(completion, timed.within(seconds))
        if completion.finish_reason is FinishReason.CONTEXT:
            return None
        text = completion.text
        self._messages.append(_new_message(Message, (_ASSISTANT, text, True, ())))
        return normalize_reply(text)

    def _spend(self, completion: Completion, seconds: float) -> None:
        tokens = completion.prompt_tokens + completion.completion_tokens
        spent = Spent(completion.cost_usd or 0.0, tokens, seconds)
        if self._limited:
            self._spent += spent
        if self._on_reply is not None:
            self._on_reply(completion, spent)

    def _observe(self, transition: Transition, reply: str | None, seconds: float) -> None:
        record, images = self._record, transition.images
        record.environment_seconds += seconds
        places = self._images.places(images) if images else ()
        self._has_images |= bool(images)
        self._messages.append(_new_message(Message, (_USER, transition.text, False, images)))
        step = record.steps.add()
        step.seconds = seconds
        if places:
            step.images.extend(places)
        _record_step(step, transition, reply)
        self._last = transition

    def _truncate(self, reason: types_pb2.StopReason) -> None:
        self.ended = True
        self._record.truncated = True
        self._record.stop_reason = reason

    def finish(self) -> episode_pb2.Episode:
        """Return the record, complete; call it once."""
        record, last = self._record, self._last
        add_messages(record, self._messages, self._images)
        record.ended_unix_ms = int(time.time() * 1000)
        if last is None or record.HasField("error"):
            return record
        if last.ended:
            record.terminated, record.truncated = last.terminated, last.truncated
            record.stop_reason = last.stop_reason  # pyright: ignore[reportAttributeAccessIssue]
        score = score_or_reward(last.score, last.reward)
        if last.reward is not None:
            record.reward = last.reward
        if score is not None:
            record.score = score
            record.success = score >= self._plan.environment.success_score
        return record


def _require_finite(transition: Transition) -> None:
    """Raise OutcomeNotFinite for a reward or score that no mean could take in."""
    reward, score = transition.reward, transition.score
    if reward is not None and not math.isfinite(reward):
        raise OutcomeNotFinite(f"the environment gave a reward of {reward} at {transition.seq}")
    if score is not None and not math.isfinite(score):
        raise OutcomeNotFinite(f"the environment gave a score of {score} at {transition.seq}")


_STOP_BY_LIMIT = {
    Limit.COST: types_pb2.STOP_REASON_COST_LIMIT,
    Limit.TOKENS: types_pb2.STOP_REASON_TOKEN_LIMIT,
    Limit.TIME: types_pb2.STOP_REASON_TIME_LIMIT,
}
_STOP_BY_FAULT = {
    types_pb2.FAULT_POLICY: types_pb2.STOP_REASON_POLICY_ERROR,
    types_pb2.FAULT_ENVIRONMENT: types_pb2.STOP_REASON_ENVIRONMENT_ERROR,
}


def _begin_record(plan: EpisodePlan, policy: str) -> episode_pb2.Episode:
    record = episode_pb2.Episode(
        schema_version=SCHEMA_VERSION,
        run_id=plan.run_id,
        episode_id=plan.episode_id,
        environment=plan.environment.name,
        environment_version=plan.environment.version,
        environment_digest=plan.environment.digest,
        item_id=plan.item_id,
        category=plan.category,
        split=plan.split,
        sample=plan.sample,
        attempt=plan.attempt,
        seed=plan.seed,
        action_format=plan.action_format,
        profile=plan.profile or plan.environment.profiles[0],
        policy=plan.policy or policy,
        started_unix_ms=int(time.time() * 1000),
    )
    if plan.options.fields:
        record.options.CopyFrom(plan.options)
    return record


async def _traced(asked: Coroutine[Any, Any, Completion], turn: int) -> Completion:
    """Await a reply within a span that says what it was."""
    with tracing.span("generation", turn=turn) as span:
        completion = await asked
        if span is not None:
            _describe(span, completion)
    return completion


def _describe(span: Span, completion: Completion) -> None:
    span.set_attribute("agentgym.finish_reason", completion.finish_reason.value)
    span.set_attribute("agentgym.prompt_tokens", completion.prompt_tokens)
    span.set_attribute("agentgym.completion_tokens", completion.completion_tokens)
    span.set_attribute("agentgym.policy_version", completion.policy_version)


def _record_failure(record: episode_pb2.Episode, error: AgentRuntimeError, at_seq: int) -> None:
    record.stop_reason = _STOP_BY_FAULT.get(error.fault, types_pb2.STOP_REASON_INFRASTRUCTURE_ERROR)
    record.error.reason = error.reason
    record.error.message = redact_text(str(error))
    record.error.fault = error.fault
    # An environment server's `retriable` speaks of the command; of the episode, everything that
    # machines and networks do wrong may go well another time.
    record.error.retriable = error.retriable or error.fault == types_pb2.FAULT_INFRASTRUCTURE
    record.error.at_seq = at_seq
    if error.retry_after is not None:
        record.error.retry_after = error.retry_after


def _record_step(step: episode_pb2.Step, transition: Transition, reply: str | None) -> None:
    step.seq = transition.seq
    step.observation = transition.text
    step.state_hash = transition.state_hash
    if reply is not None:
        step.input.reply = reply
    if transition.parsed_action is not None:
        step.parsed_action = transition.parsed_action
    if transition.reward is not None:
        step.reward = transition.reward
    if transition.score is not None:
        step.score = transition.score
    if transition.ended:
        step.terminated, step.truncated = transition.terminated, transition.truncated
        step.stop_reason = transition.stop_reason  # pyright: ignore[reportAttributeAccessIssue]
    if transition.info is not None:
        step.info.update(transition.info)


def _record_generation(
    generation: episode_pb2.Generation, completion: Completion, turn: int, seed: int, seconds: float
) -> None:
    generation.finish_reason = completion.finish_reason.value
    generation.sampling_seed = seed
    generation.seconds = seconds
    # What a reply does not have is not set: that costs as much as what it has.
    if turn:
        generation.turn = turn
    if completion.policy_version:
        generation.policy_version = completion.policy_version
    if completion.repeats:
        generation.repeats.update(completion.repeats)
    if completion.reasoning:
        generation.reasoning = normalize_reply(completion.reasoning)
    if completion.output_items:
        generation.output_items.extend(completion.output_items)
    _record_usage(generation, completion)


def _record_usage(generation: episode_pb2.Generation, completion: Completion) -> None:
    if completion.prompt_tokens:
        generation.prompt_tokens = completion.prompt_tokens
    if completion.completion_tokens:
        generation.completion_tokens = completion.completion_tokens
    if completion.cached_tokens:
        generation.cached_tokens = completion.cached_tokens
    if completion.reasoning_tokens:
        generation.reasoning_tokens = completion.reasoning_tokens
    if completion.cache_write_tokens:
        generation.cache_write_tokens = completion.cache_write_tokens
    if completion.same_completion:
        generation.same_completion = True
    if completion.from_cache:
        generation.from_cache = True
    if completion.cost_usd is not None:
        generation.cost_usd = completion.cost_usd
