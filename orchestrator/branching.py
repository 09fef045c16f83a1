"""Playing on from a turn of a recorded episode, or a task from its start: by hand or by a policy.

A `Branch` is one episode on a live server. A person plays it turn by turn, asks the environment's
expert, lets a policy go on, takes turns back. All who play go through the agent's own loop, so that
prompts, replies and records are those of a run. Nothing recorded is changed; what becomes of the
branch's record is its owner's business (`orchestrator.played_runs`).

Use a branch from one task at a time.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from agent_runtime.agent import EpisodePlan, EpisodeRun
from agent_runtime.conversation import Message, Role
from agent_runtime.errors import AgentRuntimeError, EnvironmentFailure
from agent_runtime.policies.base import Completion, Policy, PolicySession
from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2
from agentgym.episode.v1 import episode_pb2
from orchestrator.config import RunConfig, parse_action_format
from orchestrator.episode_plans import EnvironmentPlay, plan_episode
from orchestrator.errors import ConfigurationError, UsageError
from orchestrator.fleet import Fleet
from orchestrator.manifest import PLAYED_FROM, Manifest
from orchestrator.records import EpisodeKey
from orchestrator.revisit import ScratchEpisode
from orchestrator.scheduler import Assignment
from orchestrator.turns import messages_until

__all__ = ["PERSON", "Branch", "ReplyForm", "Suggestions"]

PERSON: Final = "person"
"""Name of whoever types, as a policy."""
_IDLE_SECONDS: Final = 60.0
"""After which it is asked whether the server still has the episode."""
_SUGGESTIONS: Final = 16
"""Times that the random player is asked for a plausible action, ..."""
_SUGGESTING_SECONDS: Final = 0.5
"""... as long as that takes no longer: some simulators need a quarter of a second for each."""
_NO_PLAYER: Final = ("UNSUPPORTED_CAPABILITY", "UNSUPPORTED_VERB")
_THOUGHT: Final = re.compile(r"Thought:[ \n]?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestions:
    """What can be written in a state, as far as the environment's random player says."""

    actions: Sequence[str] = ()
    """Plausible ones, not all that are possible."""
    form: ReplyForm | None = None
    """How a reply is written around an action; None = the action is no part of it as such."""
    example: str = ""
    """A whole reply."""


@dataclass(frozen=True, slots=True)
class ReplyForm:
    """How a reply is written here: what stands before, between and after thought and action.

    Read off a reply that the server wrote itself, so that it is right in every grammar.
    """

    before: str
    between: str
    after: str

    @classmethod
    def of(cls, advice: pb.Advice) -> Self | None:
        """Return the form of a reply; None = its action does not stand in it as such."""
        at = advice.reply.rfind(advice.action) if advice.action else -1
        if at < 0:
            return None
        head, after = advice.reply[:at], advice.reply[at + len(advice.action) :]
        if advice.thought and advice.thought in head:
            before, _, between = head.partition(advice.thought)
            return cls(before, between, after)
        place = _THOUGHT.match(head)
        end = place.end() if place else 0
        return cls(head[:end], head[end:], after)

    def write(self, action: str, thought: str = "") -> str:
        """Return the reply that a policy would have written."""
        return f"{self.before}{thought}{self.between}{action}{self.after}"


class _Typed(PolicySession):
    """What a person typed, as the reply of a policy."""

    def __init__(self, reply: str) -> None:
        self._reply = reply

    @property
    def takes_images(self) -> bool:
        return True

    async def reply(self, messages: Sequence[Message], *, turn: int, seed: int) -> Completion:
        return Completion(text=self._reply)


class Branch:
    """An episode that somebody plays on."""

    def __init__(self, plan: EpisodePlan, fleet: Fleet, scratch: ScratchEpisode) -> None:
        """Use `from_turn` or `of_task`."""
        self.plan = plan
        self.parent: episode_pb2.Parent | None = None
        """Where it goes off; None = it is a task from its start."""
        self._fleet = fleet
        self._scratch = scratch
        self._run = EpisodeRun(plan, scratch.live, PERSON)
        self._session: PolicySession | None = None
        """Of the policy that plays now, with its name; it stays open while nobody else plays."""
        self._session_policy = ""
        self._calls = 0
        """How often it was asked."""
        self._begun_by: PolicySession | None = None
        """Whose messages the conversation starts with; None = those that it was opened with."""
        self._players: list[tuple[str, PolicySession | None]] = []
        """Who played each turn of the branch's own, and in which session."""
        self._used = time.monotonic()
        self._is_lost = False
        """Whether the live episode has to be opened again before it is used."""

    @classmethod
    async def from_turn(
        cls,
        manifest: Manifest,
        record: episode_pb2.Episode,
        turn: int,
        fleet: Fleet,
        *,
        sample: int,
    ) -> Self:
        """Open a branch in the state after a turn of a recorded episode; 0 = after the reset.

        Args:
            manifest: Of the run that the episode is of.
            record: The episode.
            turn: Where it goes off.
            fleet: Servers of its environment.
            sample: Number of the branch among all episodes of its item; its draws depend on it.

        Raises:
            UsageError: The turn was not played, or nothing can be played after it.
            ReplayDiverged: The server does not come to the recorded states.
            AgentRuntimeError: The server is gone, or refuses what was recorded.
        """
        messages = messages_until(record, turn)
        described = fleet.described[record.environment]
        play = replace(
            _settings(manifest, described, messages),
            split=record.split,
            categories={record.item_id: record.category},
            action_format=record.action_format,
            profile=record.profile,
            options=record.options,
        )
        plan = replace(_plan(manifest, play, record.item_id, sample), seed=record.seed)
        scratch = await ScratchEpisode.open(record, fleet)
        try:
            branch = cls(plan, fleet, scratch)
            branch.parent = episode_pb2.Parent(
                run_id=record.run_id, episode_id=record.episode_id, turn=turn
            )
            branch._run.take_over(messages, record.steps[: turn + 1], await scratch.advance(turn))
            if branch.ended:
                raise UsageError(f"nothing can be played after turn {turn}: choose an earlier one")
        except BaseException:
            await scratch.close()
            raise
        return branch

    @classmethod
    async def of_task(
        cls, manifest: Manifest, environment: str, item_id: str, fleet: Fleet, *, sample: int
    ) -> Self:
        """Open a task as the run of a manifest opens it; arguments as of `from_turn`.

        Raises UsageError for an item that is none, AgentRuntimeError.
        """
        play = _settings(manifest, fleet.described[environment])
        (task,) = await fleet.get_items(environment, [item_id])
        play = replace(play, categories={task.item_id: task.category})
        plan = _plan(manifest, play, task.item_id, sample)
        scratch = await ScratchEpisode.open(_unplayed(plan), fleet)
        try:
            branch = cls(plan, fleet, scratch)
            await branch._run.begin(plan.first_messages())
        except BaseException:
            await scratch.close()
            raise
        return branch

    @property
    def turn(self) -> int:
        """Turns that were played, the parent's included."""
        return self._run.turn

    @property
    def first_turn(self) -> int:
        """Turns that are the parent's."""
        return self.parent.turn if self.parent is not None else 0

    @property
    def ended(self) -> bool:
        """Whether nothing more can be played."""
        return self._run.ended

    @property
    def players(self) -> list[str]:
        """Who has played turns of the branch's own, in the order of their first ones."""
        return list(dict.fromkeys(name for name, _ in self._players))

    async def act(self, reply: str) -> episode_pb2.Step:
        """Play a reply as a policy would write it, and return what came of it.

        What the environment cannot read is no error, as for any policy: the step then has no
        parsed action, and its observation says what is wrong.

        Raises:
            UsageError: The episode has ended.
            EnvironmentFailure: The server refuses the reply, for example for its length; the branch
                is where it was.
            AgentRuntimeError: The server is gone.
        """
        self._refuse_ended()
        await self._close_session()
        await self._play(_Typed(reply), PERSON, 0)
        return self.record().steps[-1]

    async def go_on(self, policy: Policy, turns: int, *, name: str = "") -> int:
        """Let a policy play, and return how many turns it did: fewer where the episode ends.

        Args:
            policy: Who plays; started.
            turns: How many it plays at most.
            name: Name that the record has for it; empty = its own.

        Raises what `act` raises, and PolicyError; turns that were played stay.
        """
        self._refuse_ended()
        name = name or policy.name
        if self._session is None or self._session_policy != name:
            await self._close_session()
            self._session = self._begun_by = policy.open(self.plan.context(self))
            self._session_policy, self._calls = name, 0
            self._run.restart(self._session.begin(self.plan.first_messages()))
        before = self.turn
        while not self.ended and self.turn < before + turns:
            await self._play(self._session, name, self._calls)
        return self.turn - before

    async def consult(self, advisor: pb.Advisor, seed: int) -> pb.Advice:
        """Return what a scripted player of the environment would do here; changes nothing.

        Raises EnvironmentFailure where it has no such player, AgentRuntimeError.
        """
        await self._refresh()
        return await self._scratch.live.consult(advisor, seed)

    async def suggest(self) -> Suggestions:
        """Return what can be written in this state; nothing where there is no random player."""
        begun = time.monotonic()
        advice: list[pb.Advice] = []
        try:
            while not advice or (
                len(advice) < _SUGGESTIONS and time.monotonic() - begun < _SUGGESTING_SECONDS
            ):
                advice.append(await self.consult(pb.ADVISOR_RANDOM, len(advice)))
        except EnvironmentFailure as failure:
            if failure.reason not in _NO_PLAYER:
                raise
            return Suggestions()
        is_react = self.plan.action_format == types_pb2.ACTION_FORMAT_REACT
        return Suggestions(
            actions=sorted({it.action for it in advice if it.action}),
            # Other formats spell an action in parts, and a thought may hold it whole.
            form=ReplyForm.of(advice[0]) if is_react else None,
            example=advice[0].reply,
        )

    async def render(self) -> Sequence[pb.View]:
        """Return the pictures of the state; none where the environment draws none."""
        if pb.CAPABILITY_RENDER not in self.plan.environment.capabilities:
            return ()
        await self._refresh()
        live = self._scratch.live
        return (await live.connection.render(live.episode_id)).views

    async def undo(self) -> None:
        """Take the last turn back. Raises UsageError where it is the parent's, ReplayDiverged."""
        if self.turn <= self.first_turn:
            raise UsageError("there is no turn of your own to take back")
        await self._close_session()
        await self._reopen(self.turn - 1)

    def record(self) -> episode_pb2.Episode:
        """Return the episode as it is now, as a record of its own.

        One that has not ended is marked as given up by whoever played it. The tokens of a policy
        are kept where it played every turn of the branch: else they would not be all that was said.
        """
        record = self._run.so_far()
        if self.parent is not None:
            record.parent.CopyFrom(self.parent)
        if not self.ended:
            record.truncated = True
            record.stop_reason = types_pb2.STOP_REASON_CANCELLED
        names = self.players or [PERSON]
        record.policy = "+".join(names)
        for call, (name, _) in zip(record.generations, self._players, strict=False):
            call.policy = name if len(names) > 1 else ""
        sole = {session for _, session in self._players} == {self._begun_by}
        if self._begun_by is not None and sole and self._calls == len(self._players):
            record.token_segments.extend(self._begun_by.token_segments())
        return record

    async def close(self) -> None:
        """End the episode on its server, and what a policy holds for it."""
        await self._close_session()
        await self._scratch.close()

    async def _play(self, session: PolicySession, name: str, calls: int) -> None:
        """Play a turn; where that fails, the branch is where it was."""
        await self._refresh()
        before, reached = self.turn, self._run.reached
        try:
            await self._run.take_turn(session, calls)
        finally:
            if self.turn == before:
                # It failed, or was cancelled: nobody knows what the server did meanwhile.
                self._run.rewind(before, self._scratch.live, reached)
                self._is_lost = True
        if self.turn == before:
            raise UsageError(f"the context of {name} can hold no further turn")
        self._players.append((name, session if session is self._session else None))
        self._calls += session is self._session

    async def _refresh(self) -> None:
        """Open the episode again where the server let it go, or where nobody knows."""
        idle = time.monotonic() - self._used > _IDLE_SECONDS
        self._used = time.monotonic()
        if idle and not self._is_lost:
            try:
                await self._scratch.live.consult(pb.ADVISOR_NOOP, 0)
            except AgentRuntimeError:
                self._is_lost = True
        if self._is_lost:
            await self._reopen(self.turn)

    async def _reopen(self, turn: int) -> None:
        """Play the branch's own record again, up to a turn, and go on from there."""
        scratch = await ScratchEpisode.open(self._run.so_far(), self._fleet)
        try:
            reached = await scratch.advance(turn)
        except BaseException:
            await scratch.close()
            raise
        before, self._scratch = self._scratch, scratch
        self._run.rewind(turn, scratch.live, reached)
        del self._players[turn - self.first_turn :]
        self._is_lost = False
        await before.close()

    async def _close_session(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    def _refuse_ended(self) -> None:
        if self.ended:
            raise UsageError("the episode has ended: take a turn back, keep it, or discard it")


def _settings(
    manifest: Manifest, described: pb.GetEnvironmentResponse, said: Sequence[Message] = ()
) -> EnvironmentPlay:
    """Return how a run plays an environment.

    Where it is no command's (a step of a training), as the environment says, but for the messages
    with which what was `said` begins.
    """
    values: Mapping[str, Any] = {
        name: value for name, value in manifest.config.items() if name != PLAYED_FROM
    }
    try:
        config = RunConfig.from_manifest(replace(manifest, config=values))
    except ConfigurationError:
        start = None
        if [it.role for it in said[:2]] == [Role.USER, Role.ASSISTANT]:
            start = pb.ConversationStart(instruction=said[0].text, acknowledgement=said[1].text)
        return EnvironmentPlay(described=described, conversation_start=start)
    return EnvironmentPlay.from_settings(
        described,
        config.environment_settings(described.name),
        action_format=parse_action_format(config.action_format),
    )


def _plan(manifest: Manifest, play: EnvironmentPlay, item_id: str, sample: int) -> EpisodePlan:
    """Return what is played; all that is drawn derives from the run's seed, as its own is."""
    key = EpisodeKey(play.described.name, item_id, sample, PERSON)
    plan = plan_episode(
        Assignment(key, attempt=1),
        play,
        run_id=manifest.run_id,
        run_seed=manifest.run_seed,
        step=manifest.step,
    )
    return replace(plan, episode_id=secrets.token_hex(16))


def _unplayed(plan: EpisodePlan) -> episode_pb2.Episode:
    """Return a record from which a task is opened: nothing was played."""
    return episode_pb2.Episode(
        environment=plan.environment.name,
        item_id=plan.item_id,
        seed=plan.seed,
        action_format=plan.action_format,
        profile=plan.profile,
        options=plan.options if plan.options.fields else None,
    )
