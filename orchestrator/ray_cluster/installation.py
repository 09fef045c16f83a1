"""What a node of a cluster has installed that decides what is played there.

Servers' digests name their tasks and workers' manifests their policies, neither the libraries below
them: another simulator or tokenizer on one node would make other episodes of the same keys.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Generator, Mapping
from importlib import metadata
from typing import Final

__all__ = ["describe_differences", "installed_versions"]

_DISTRIBUTION: Final = "agentgym-grpc"
_OWN: Final = "this package"
_SHOWN: Final = 12
"""Digits of a hash that people can tell from others."""
EXTRAS: Final = frozenset(
    {
        *("agent", "alfworld-reference", "babyai", "litellm", "mcp", "sciworld", "searchqa"),
        *("sheet", "tokenizers", "torch", "weather", "webarena", "webshop"),
    }
)
"""Those whose libraries play a part in an episode; others read, show or learn from records."""
_REQUIREMENT: Final = re.compile(r"(?P<name>[\w.-]+)(?:.*\bextra == ['\"](?P<extra>[\w-]+)['\"])?")


def installed_versions(code: str) -> dict[str, str]:
    """Return the versions of Python, of this package and of all libraries that play a part.

    Args:
        code: Hash of this package's modules: between two releases the version says too little.
    """
    return {"Python": platform.python_version(), _OWN: code[:_SHOWN], **dict(_libraries())}


def describe_differences(there: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Say what of a node is another version than here; empty = nothing.

    A library that only one of them has is no difference: who needs it says so itself.
    """
    names = [name for name in here if there.get(name, here[name]) != here[name]]
    return ", ".join(f"{name} {there[name]}, not {here[name]}" for name in names)


def _libraries() -> Generator[tuple[str, str]]:
    """Give each library that is installed with its version."""
    try:
        requirements = metadata.requires(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:  # run from a source tree
        return
    found = filter(None, map(_REQUIREMENT.match, requirements))
    names = {it["name"] for it in found if it["extra"] is None or it["extra"] in EXTRAS}
    for name in sorted(names - {_DISTRIBUTION}):
        try:
            yield name, metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
