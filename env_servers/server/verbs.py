"""What may be done with a live episode: step, attach, consult, cancel, heartbeat, close."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping, Sequence

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.sdk import Advisor, View
from env_servers.sdk.images import bytes_of
from env_servers.server import errors, events
from env_servers.server.episode import Episode, StepDecision
from env_servers.server.errors import CommandError
from env_servers.server.events import Answer, Deferred, WriteAnswer
from env_servers.server.in_flight import BackgroundTasks, InFlight
from env_servers.server.inputs import StepInput
from env_servers.server.instance import AdvisedReply, Result
from env_servers.server.parsing import CommandParser
from env_servers.server.runners import Host, boundary
from env_servers.server.stream import Stream
from env_servers.server.table import EpisodeTable

__all__ = ["EpisodeVerbs"]


class EpisodeVerbs:
    """Executes commands on the episodes of one server; every method may raise CommandError."""

    def __init__(
        self,
        hosts: Mapping[str, Host],
        table: EpisodeTable,
        parser: CommandParser,
        background: BackgroundTasks,
    ) -> None:
        self._hosts = hosts
        self._table = table
        self._parser = parser
        self._background = background

    def step(self, stream: Stream, episode: Episode, command: pb.Command, body: str) -> Answer:
        """Execute the next step, join the one in flight, or answer from the cache."""
        step_input = self._parser.step_input(command, body, episode.reset)
        seq = command.seq
        decision = episode.decide(seq, step_input)
        if decision is StepDecision.REPLAY:
            self._table.cache_hits += 1
            result = episode.result(seq)
            return events.observation(episode.episode_id, seq, result, replayed=True)
        if decision is StepDecision.EXECUTE:
            execution = self._execute(stream, episode, seq, step_input)
            episode.begin(InFlight(seq, step_input, self._background.spawn(execution)))
        in_flight = episode.in_flight
        assert in_flight is not None
        return Deferred(_observed(episode.episode_id, seq, in_flight.join(command)))

    async def _execute(
        self, stream: Stream, episode: Episode, seq: int, step_input: StepInput
    ) -> Result:
        """Execute a step away from the loop; it goes on when all who wait for it have given up."""
        tracing = self._table.tracing
        if tracing is None:
            return await self._run(episode, step_input)
        with tracing.step(episode, seq, stream.trace_context):
            return await self._run(episode, step_input)

    async def _run(self, episode: Episode, step_input: StepInput) -> Result:
        environment = episode.reset.environment
        try:
            with boundary(environment):
                result = await self._hosts[environment].step(episode.runner, step_input)
            episode.commit(step_input, result, time.monotonic())
        except CommandError as error:
            if self._table.episodes.get(episode.episode_id) is episode:
                self._table.fail(episode, error)
            raise
        finally:
            episode.finish(time.monotonic())
        return result

    def attach(self, stream: Stream, episode: Episode, command: pb.Command) -> WriteAnswer:
        """Send the results that the client missed, then say where the episode is."""
        missed = episode.missed(command.attach.last_seq_seen)
        size = sum(_sent_bytes(result) for _, result in missed)
        if stream.account.outbox and not stream.account.has_room(size):
            raise errors.outbox_full()
        for seq, result in missed:
            self._table.cache_hits += 1
            event = stream.event(_sent_bytes(result))
            events.write_result(event, episode.episode_id, seq, result)
            event.replayed = True
        return events.attached(episode.seq, episode.lease, in_flight=episode.in_flight is not None)

    def consult(self, episode: Episode, command: pb.Command) -> Answer:
        """Ask a scripted player what it would do now."""
        if episode.in_flight is not None:
            raise errors.episode_busy(episode.episode_id, episode.in_flight.seq)
        if command.seq != episode.seq:
            raise errors.seq_gap(episode, episode.seq, "advice is for that state")
        if episode.failure is not None:
            raise episode.failure
        advisor = self._parser.advisor(episode.reset.environment, command.consult.advisor)
        seed = command.consult.seed
        runner = episode.runner
        if runner.instance is not None:
            try:
                return events.advice(runner.consult_now(advisor, seed))
            except CommandError:
                if episode.runner is runner:
                    raise
                # It held everybody up and was moved to a worker: it is asked once more there.
        asking = self._background.spawn(self._ask(episode, advisor, seed))
        return Deferred(_advised(InFlight(command.seq, None, asking).join(command)))

    async def _ask(self, episode: Episode, advisor: Advisor, seed: int) -> AdvisedReply:
        try:
            return await episode.runner.consult(advisor, seed)
        except CommandError as error:
            if error.reason == pb.ERROR_REASON_ENVIRONMENT_HUNG:
                self._table.fail(episode, error)
            raise

    async def render(self, episode_id: str, owner: str) -> pb.RenderResponse:
        """Draw the state of a client's episode, after a step that is under way.

        The stream that holds the episode keeps it, and a picture that fails ends nothing.
        """
        episode = self._table.find(episode_id, owner)
        episode.touch(time.monotonic())
        while episode.in_flight is not None:
            await asyncio.wait({episode.in_flight.task})
            episode = self._table.find(episode_id, owner)
        spec = self._hosts[episode.reset.environment].spec
        if not spec.has_views:
            raise errors.lacks_capability(f"{spec.name} draws no pictures", "RENDER")
        if episode.failure is not None:
            raise episode.failure
        response = pb.RenderResponse(
            seq=episode.seq, state_hash=episode.result(episode.seq).state_hash
        )
        for name, title, media_type, content in await self._draw(episode):
            response.views.add(name=name, title=title, media_type=media_type, content=content)
        return response

    async def _draw(self, episode: Episode) -> Sequence[View]:
        """Draw the state that this call finds; steps that are asked for later wait."""
        runner = episode.runner
        if runner.instance is not None:
            try:
                return runner.render_now()
            except CommandError:
                if episode.runner is runner:
                    raise
                # It held everybody up and was moved to a worker: it is asked once more there.
        # Shielded: a caller that gives up must not let the next step begin while this draws.
        return await asyncio.shield(self._background.spawn(episode.runner.render()))

    def heartbeat(self, episode: Episode) -> WriteAnswer:
        """Say how long the lease is; being asked has extended it already."""
        return events.lease_extended(episode.lease)

    def cancel(self, episode: Episode, command: pb.Command) -> WriteAnswer:
        """Let those who wait for the step in flight give up."""
        in_flight = episode.in_flight
        found = in_flight is not None and in_flight.seq == command.seq
        if found:
            self._table.cancel_step(episode)
        return events.cancelled(found=found)

    def cancel_open(self, pending: InFlight[Episode], command: pb.Command) -> WriteAnswer:
        """Let those who wait for an opening give up."""
        found = pending.seq == command.seq
        if found:
            pending.cancel_waiters()
        return events.cancelled(found=found)

    def close(self, stream: Stream, command: pb.Command) -> WriteAnswer:
        """End an episode, or the opening of one."""
        episode = self._table.own(command.episode_id, stream.owner)
        pending = self._table.own_opening(command.episode_id, stream.owner)
        if episode is not None:
            self._table.discard(episode)
        elif pending is not None:
            pending.close()
        return events.closed(found=episode is not None or pending is not None)


def _sent_bytes(result: Result) -> int:
    return len(result.observation.text) + bytes_of(result.observation.images)


async def _observed(episode_id: str, seq: int, result: Awaitable[Result]) -> WriteAnswer:
    return events.observation(episode_id, seq, await result)


async def _advised(advised: Awaitable[AdvisedReply]) -> WriteAnswer:
    return events.advice(await advised)
