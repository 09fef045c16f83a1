"""No transport at all: the environments are called directly, episode after episode.

An upper bound for any server, and what a training loop without processes would get. There is no
server and nothing runs at the same time; a step's latency is its call.
"""

from __future__ import annotations

import time

from benchmark.baselines.game import Game, open_games
from benchmark.drive import ClosedLoop, Tally, Target

__all__ = ["InProcessClient"]


class InProcessClient:
    """Round robin over the episodes, in the event loop's thread."""

    def __init__(self, target: Target) -> None:
        self._make_game = open_games(target.environment)
        self._games: list[Game] = []

    async def open(self, episodes: int) -> None:
        """Make and reset the episodes."""
        for episode in range(episodes):
            game = self._make_game()
            game.reset(episode)
            self._games.append(game)

    async def run_closed_loop(self, loop: ClosedLoop) -> Tally:
        """Step each episode in turn until the window ends."""
        begin, end = loop.window.begin, loop.window.end
        tally, clock, answered = Tally(), time.monotonic, 0
        started, observation = clock(), ""
        scripts = [loop.moves(episode) for episode in range(len(self._games))]
        for actions in zip(*scripts, strict=True):
            before = len(tally.latencies)
            for game, action in zip(self._games, actions, strict=True):
                observation = game.step(action).observation
                finished = clock()
                loop.check(action, observation)
                if begin <= finished < end:
                    tally.latencies.append(finished - started)
                started = finished
            answered = max(answered, len(tally.latencies) - before)
            if started >= end:
                break
        tally.answered, tally.observation_bytes = answered, len(observation)
        return tally

    async def close(self) -> None:
        """Forget the episodes."""
        self._games.clear()
