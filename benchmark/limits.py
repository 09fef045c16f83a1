"""Raises what a process needs to hold thousands of connections.

Invariant: limits are only ever raised, up to what the system allows. Knows no contender.
"""

from __future__ import annotations

import resource

__all__ = ["raise_file_limit"]


def raise_file_limit() -> int:
    """Raise the soft limit of open files to the hard limit; returns the limit in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
