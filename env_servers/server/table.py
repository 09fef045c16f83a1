"""The live episodes of a server: finding, attaching, failing, reaping and discarding them."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Sequence

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.server import errors
from env_servers.server.admission import AdmissionController
from env_servers.server.budget import Account
from env_servers.server.episode import Episode
from env_servers.server.errors import CommandError, EndCause
from env_servers.server.in_flight import InFlight
from env_servers.server.logs import get_logger
from env_servers.server.runners import Runner
from env_servers.server.stream import Stream
from env_servers.server.tracing import EpisodeTracing

__all__ = ["MAX_ID_BYTES", "EpisodeTable"]

MAX_ID_BYTES = 128
"""Of an episode id."""
_MAX_ENDED = 10_000
"""Ended episodes of which the cause is remembered."""
_MADE_SEATS = 16
"""Episodes that end at once for a client that lacks its share: it will ask for more than one."""
_SHRUNK = 0.95
"""Part of the budget down to which room is made."""
_SEARCH_SECONDS = 0.1
"""Until the next search for episodes to end where one found none; each looks at all of them."""

log = get_logger("env_servers.episodes")


class EpisodeTable:
    """Every episode that is live or being opened, by id."""

    def __init__(
        self,
        admission: AdmissionController,
        *,
        idle_limit: float,
        pressure_idle: float,
        journal_replayable: bool,
        tracing: EpisodeTracing | None = None,
    ) -> None:
        """Begin without episodes.

        Args:
            admission: Counts them.
            idle_limit: Seconds after which an unused one ends although its stream lives.
            pressure_idle: Seconds after which it may end where others lack their share.
            journal_replayable: Some environment here is deterministic.
            tracing: Makes a span of each, where the server traces.
        """
        self.episodes: dict[str, Episode] = {}
        self.pending_opens: dict[str, InFlight[Episode]] = {}
        self.admission = admission
        self.tracing = tracing
        self.cache_hits = 0
        """Commands answered from the response cache."""
        self.reaped = 0
        """Episodes whose lease or idle limit ran out."""
        self.evicted = 0
        """Episodes that ended because room was short."""
        self._ended: dict[tuple[str, str], EndCause] = {}
        """Why the last episodes ended that no client has closed, by id and owner."""
        self._next_search = 0.0
        """When it makes sense again to look for episodes that could make room."""
        self._idle_limit = idle_limit
        self._pressure_idle = pressure_idle
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
            episode_id[:MAX_ID_BYTES],
            journal_replayable=self._journal_replayable,
            cause=self._ended.get((episode_id, owner)),
        )

    def add(self, episode: Episode) -> None:
        """Install an episode that was admitted before."""
        self.episodes[episode.episode_id] = episode
        self._ended.pop((episode.episode_id, episode.owner), None)

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
        self.admission.release(episode.reset.environment, episode.account)
        episode.release()
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
            cause = EndCause.LEASE if episode.stream is None else EndCause.IDLE
            self._end(episode, cause, now)
        self.reaped += len(expired)
        self.admission.forget_absent(now)
        return len(expired)

    # ------------------------------------------------------------------ making room

    def make_room(self, environment: str, account: Account, size: int) -> bool:
        """End unused episodes of clients above their share, for one that is below its own.

        Returns:
            Whether any ended.
        """
        budget = self.admission.budget
        if budget.held + size > budget.limit:
            return self.shrink(size, spared=account)
        return self._make_seats(environment, account)

    def _make_seats(self, environment: str, account: Account) -> bool:
        now = time.monotonic()
        if now < self._next_search:
            return False
        crowded = self.admission.crowded(environment)
        latest = now - self._pressure_idle
        idle = (
            episode
            for episode in self.episodes.values()
            if episode.last_used < latest
            and episode.in_flight is None
            and episode.account is not account
            and (not crowded or episode.reset.environment == crowded)
            and self.admission.over_seats(episode.account, crowded)
        )
        return self._evict_all(
            heapq.nsmallest(_MADE_SEATS, idle, key=_last_used),
            EndCause.SEATS,
            lambda episode: self.admission.over_seats(episode.account, crowded),
        )

    def shrink(self, size: int = 0, spared: Account | None = None) -> bool:
        """End the longest unused episodes of clients above their share of a budget exceeded.

        Args:
            size: So many bytes more are to have room.
            spared: The client that they are for; it makes no room for itself.

        Returns:
            Whether any ended.
        """
        if time.monotonic() < self._next_search:
            return False
        budget = self.admission.budget
        share = budget.limit // budget.clients
        wanted = int(budget.limit * _SHRUNK) - size
        heavy = [
            episode
            for episode in self.episodes.values()
            if episode.account.held > share
            and episode.account is not spared
            and episode.in_flight is None
        ]
        mean = sum(episode.held for episode in heavy) / max(len(heavy), 1)
        # Those that hold little would go in vain.
        heavy.sort(key=lambda episode: (episode.held < mean, episode.last_used))
        return self._evict_all(
            heavy,
            EndCause.MEMORY,
            lambda episode: budget.held > wanted and episode.account.held > share,
        )

    def _evict_all(
        self, episodes: Sequence[Episode], cause: EndCause, still_needed: Callable[[Episode], bool]
    ) -> bool:
        now = time.monotonic()
        evicted = 0
        for episode in episodes:
            if still_needed(episode):
                self._end(episode, cause, now)
                evicted += 1
        self.evicted += evicted
        if not evicted:
            self._next_search = now + _SEARCH_SECONDS
        return evicted > 0

    def _end(self, episode: Episode, cause: EndCause, now: float) -> None:
        """Discard an episode; whoever names it later hears why."""
        log.info(
            "lease reaped" if cause in (EndCause.LEASE, EndCause.IDLE) else "episode evicted",
            environment=episode.reset.environment,
            episode_id=episode.episode_id,
            cause=cause.name,
            seq=episode.seq,
            idle_seconds=round(now - episode.last_used, 1),
            attached=episode.stream is not None,
        )
        self.discard(episode)
        self._ended[episode.episode_id, episode.owner] = cause
        if len(self._ended) > _MAX_ENDED:
            del self._ended[next(iter(self._ended))]

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


def _last_used(episode: Episode) -> float:
    return episode.last_used
