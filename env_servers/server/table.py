"""The live episodes of a server: finding, attaching, failing, reaping and discarding them."""

from __future__ import annotations

import time

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.server import errors
from env_servers.server.admission import AdmissionController
from env_servers.server.episode import Episode
from env_servers.server.errors import CommandError
from env_servers.server.in_flight import InFlight
from env_servers.server.logs import get_logger
from env_servers.server.runners import Runner
from env_servers.server.stream import Stream
from env_servers.server.tracing import EpisodeTracing

__all__ = ["MAX_ID_BYTES", "EpisodeTable"]

MAX_ID_BYTES = 128
"""Of an episode id."""

log = get_logger("env_servers.episodes")


class EpisodeTable:
    """Every episode that is live or being opened, by id."""

    def __init__(
        self,
        admission: AdmissionController,
        *,
        idle_limit: float,
        journal_replayable: bool,
        tracing: EpisodeTracing | None = None,
    ) -> None:
        """`idle_limit` in seconds; `journal_replayable`: some environment here is deterministic."""
        self.episodes: dict[str, Episode] = {}
        self.pending_opens: dict[str, InFlight[Episode]] = {}
        self.admission = admission
        self.tracing = tracing
        self.cache_hits = 0
        """Commands answered from the response cache."""
        self.reaped = 0
        """Episodes whose lease ran out."""
        self._idle_limit = idle_limit
        self._journal_replayable = journal_replayable

    def own(self, episode_id: str, owner: str) -> Episode | None:
        """Return a client's live episode; None = it has none of this id."""
        episode = self.episodes.get(episode_id)
        return episode if episode is not None and episode.owner == owner else None

    def own_opening(self, episode_id: str, owner: str) -> InFlight[Episode] | None:
        """Return the opening of a client's episode; None = none of this id is under way."""
        opening = self.pending_opens.get(episode_id)
        return opening if opening is not None and opening.owner == owner else None

    def find(self, episode_id: str, owner: str = "") -> Episode:
        """Return a client's live episode; raises CommandError where it has none of this id."""
        episode = self.own(episode_id, owner)
        if episode is not None:
            return episode
        if self.own_opening(episode_id, owner) is not None:
            raise errors.being_opened(episode_id)
        raise errors.episode_not_found(
            episode_id[:MAX_ID_BYTES], journal_replayable=self._journal_replayable
        )

    def add(self, episode: Episode) -> None:
        """Install an episode that was admitted before."""
        self.episodes[episode.episode_id] = episode

    def detach(self, stream: Stream, *, lost: bool = True) -> None:
        """End a stream that is gone: the lease clocks of its episodes start.

        `lost`: it was a client's stream, not one of a unary call; its log line says what it left.
        """
        now = time.monotonic()
        if lost:
            event = "stream lost" if stream.episodes else "stream ended"
            log.info(event, client=stream.client, episodes=len(stream.episodes))
        for episode in list(stream.episodes):
            episode.detach(now)
        stream.close()

    def fail(self, episode: Episode, error: CommandError) -> None:
        """Let an episode take no more steps."""
        episode.fail(error)
        if error.reason == pb.ERROR_REASON_ENVIRONMENT_HUNG:
            event = "hung step reclaimed"
        else:
            event = "episode failed"
        log.warning(
            event,
            environment=episode.reset.environment,
            episode_id=episode.episode_id,
            item_id=episode.reset.item_id,
            seq=episode.seq + 1,
            reason=pb.ErrorReason.Name(error.reason).removeprefix("ERROR_REASON_"),
        )

    def discard(self, episode: Episode) -> None:
        """End an episode and release what it holds; whoever waits for its step hears CANCELLED."""
        del self.episodes[episode.episode_id]
        episode.detach(episode.last_used)
        self.admission.release(episode.reset.environment, episode.client)
        if episode.in_flight is not None:
            self.cancel_step(episode)
        self.close_runner(episode.reset.environment, episode.episode_id, episode.runner)
        if self.tracing is not None:
            self.tracing.end_episode(episode)

    def cancel_step(self, episode: Episode) -> None:
        """Let those who wait for the step in flight give up, and ask it to return early."""
        if episode.in_flight is not None:
            episode.in_flight.cancel_waiters()
        try:
            episode.runner.cancel()
        except CommandError as error:
            log.warning(
                "cancel failed",
                environment=episode.reset.environment,
                episode_id=episode.episode_id,
                error=error.message,
            )

    def close_runner(self, environment: str, episode_id: str, runner: Runner) -> None:
        """Release an environment; its error is logged, for nobody is left to hear it."""
        try:
            runner.close()
        except CommandError as error:
            log.warning(
                "close failed",
                environment=environment,
                episode_id=episode_id,
                error=error.message,
            )

    def reap(self) -> int:
        """Discard the episodes whose lease has run out; returns their number."""
        now = time.monotonic()
        expired = [e for e in self.episodes.values() if e.expired(now, self._idle_limit)]
        for episode in expired:
            log.info(
                "lease reaped",
                environment=episode.reset.environment,
                episode_id=episode.episode_id,
                seq=episode.seq,
                idle_seconds=round(now - episode.last_used, 1),
                attached=episode.stream is not None,
            )
            self.discard(episode)
        self.reaped += len(expired)
        return len(expired)

    def close(self) -> None:
        """Discard every episode; for the end of the server."""
        for episode in list(self.episodes.values()):
            self.discard(episode)

    @property
    def busy(self) -> bool:
        """Some stream still drives an episode that has not ended, or one is being opened."""
        return bool(self.pending_opens) or any(
            not episode.ended and episode.stream is not None for episode in self.episodes.values()
        )
