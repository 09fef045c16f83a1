"""Moves an inline environment that holds everybody up to worker processes.

A call on the loop keeps every episode of the server waiting. One that is interrupted by the guard
shows that its environment is not what `inline` promises: from then on it runs in workers. Episodes
keep their ids: each is rebuilt from its journal when it is used next, and the step that was
interrupted is executed once more, there, within the step limit. An environment that is not
deterministic cannot be rebuilt: its live episodes stay where they are, new ones begin in workers.
"""

from __future__ import annotations

from collections import Counter

from env_servers.server.episode import Episode
from env_servers.server.logs import get_logger
from env_servers.server.processes import ProcessHost, ProcessRunner, WorkerPool
from env_servers.server.runners import Host, InlineHost
from env_servers.server.table import EpisodeTable

__all__ = ["Relocation"]

log = get_logger("env_servers.relocation")


class Relocation:
    """Watches the inline environments of one server."""

    def __init__(self, hosts: dict[str, Host], table: EpisodeTable, workers: WorkerPool) -> None:
        """`hosts` is the mapping that the whole server looks environments up in."""
        self.overruns: Counter[str] = Counter()
        """Interrupted calls by environment."""
        self._hosts = hosts
        self._table = table
        self._workers = workers
        self._successors: dict[str, ProcessHost] = {}
        for host in hosts.values():
            if isinstance(host, InlineHost):
                host.on_overrun = self._move

    def _move(self, host: InlineHost, item_id: str) -> None:
        """Move an environment of which a call was interrupted, and its episodes."""
        name = host.spec.name
        self.overruns[name] += 1
        successor = self._successors.get(name)
        if successor is None:
            successor = self._successors[name] = ProcessHost(host.loaded, self._workers)
            successor.steps, successor.observe = host.steps, host.observe
            host.successor = self._hosts[name] = successor
        moved = 0
        if host.spec.deterministic:
            for episode in list(self._table.episodes.values()):
                if episode.reset.environment == name and episode.runner.instance is not None:
                    self._move_episode(episode, successor)
                    moved += 1
        log.error(
            "inline environment held everybody up, it runs in worker processes now",
            environment=name,
            item_id=item_id,
            limit=host.limit,
            episodes_moved=moved,
        )

    def _move_episode(self, episode: Episode, successor: ProcessHost) -> None:
        here = episode.runner
        episode.runner = ProcessRunner(successor, episode.reset)
        episode.runner.bind(episode.episode_id, episode.journal)
        episode.steps_inline = False
        self._table.close_runner(episode.reset.environment, episode.episode_id, here)
