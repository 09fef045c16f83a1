"""What can go wrong with a browser, as types.

BrowserLost
    The process ended: all its windows are gone, and their episodes must be rebuilt.
TabLost
    One tab's process ended or was ended; the window goes on with a blank tab in its place.
SiteFailed
    A site raised an exception over a request: the environment's fault, not the agent's.
"""

from __future__ import annotations

__all__ = ["BrowserLost", "SiteFailed", "TabLost"]


class BrowserLost(Exception):
    """The browser's process is gone."""


class TabLost(Exception):
    """A page crashed, or did not answer and was ended; the message says which."""


class SiteFailed(Exception):
    """A site in this process raised an exception; its cause is the site's own."""
