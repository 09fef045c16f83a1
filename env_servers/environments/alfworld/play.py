"""One game being played, whichever engine answers: the interface, and the native engine.

Contains what an engine has to give. Both engines keep the native state, from which advice,
fingerprints and plans come; they differ in who says what is possible and what is told.
"""

from __future__ import annotations

from typing import Protocol, Self

from env_servers.environments.alfworld.game import Game
from env_servers.environments.alfworld.world import State

__all__ = ["NativePlay", "Play"]


class Play(Protocol):
    """A game in progress."""

    game: Game
    state: State
    """The state as the native engine knows it."""

    def intro(self) -> str:
        """Return the text with which the game begins."""
        ...

    def admissible(self) -> list[str]:
        """Return the commands that do something now, in ascending order."""
        ...

    def act(self, command: str) -> tuple[str, bool]:
        """Return what is told about a command, any text, and whether the game is won."""
        ...

    def fork(self) -> Self:
        """Return an independent game in the same state."""
        ...

    def close(self) -> None:
        """Release what the game holds."""
        ...


class NativePlay:
    """Played by this package's own interpreter."""

    __slots__ = ("_won", "game", "state")

    def __init__(self, game: Game) -> None:
        self.game = game
        self.state = game.first
        self._won: bool | None = None
        """Whether the state is won; None where nobody asked yet."""

    def intro(self) -> str:
        return self.game.intro()

    def admissible(self) -> list[str]:
        return self.game.admissible(self.state)

    def act(self, command: str) -> tuple[str, bool]:
        before, game = self.state, self.game
        if self._won is None:
            self._won = game.won(before)
        self.state, text = game.act(before, command)
        if game.bears_on_goal(before, self.state):
            self._won = game.won(self.state)
        return text, self._won

    def fork(self) -> Self:
        copy = type(self)(self.game)
        copy.state, copy._won = self.state, self._won
        return copy

    def close(self) -> None:
        """Nothing is held."""
