"""What an episode is played on: its sites, who it is there, and what scores it.

Embedded sites are made for the episode and answer in this process; official ones are somewhere
else, shared, and as they are. `environment` plays both alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from env_servers.environments.webarena.addresses import Addresses
from env_servers.environments.webarena.browser.gate import Door
from env_servers.environments.webarena.browser.window import Window, WindowOptions
from env_servers.environments.webarena.browsing import Browsing, Probe
from env_servers.environments.webarena.evaluation.evaluator import Score
from env_servers.environments.webarena.expert import Follower

__all__ = ["Stage"]


class Stage(Protocol):
    """The sites of one episode. Every method may raise EnvironmentUnavailable."""

    @property
    def intent(self) -> str:
        """What the agent is told to do."""
        ...

    @property
    def starts(self) -> Sequence[str]:
        """Addresses for the browser, one tab each; the first is the current one."""
        ...

    @property
    def addresses(self) -> Addresses:
        """Where the sites are served."""
        ...

    @property
    def door(self) -> Door:
        """What the window may reach."""
        ...

    @property
    def window_options(self) -> WindowOptions:
        """How time passes, and how long pages are waited for."""
        ...

    @property
    def probe(self) -> Probe:
        """Answers whether an address may be opened."""
        ...

    @property
    def follower(self) -> Follower | None:
        """The expert; None where nobody knows how the task is solved."""
        ...

    async def enter(self) -> None:
        """Reserve the sites; called once, before there is a window."""
        ...

    async def admit(self, window: Window) -> None:
        """Sign in; called before the first page is opened."""
        ...

    async def look(self, browsing: Browsing) -> None:
        """Raise where the page is as it is because a site is not there."""
        ...

    async def score(self, answer: str, browsing: Browsing) -> Score:
        """Return what an answer earns on the page where it was given."""
        ...

    def digest(self) -> bytes | None:
        """Return what identifies the state of the sites; None where nobody can know."""
        ...

    def anew(self) -> Stage:
        """Return the same task on sites as they were at first, entered already."""
        ...

    def leave(self) -> None:
        """Let the sites go; called after the window was closed, more than once if need be."""
        ...
