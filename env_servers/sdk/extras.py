"""The command that installs one of this distribution's extras, on the machine where it is lacking.

No index has the distribution, so its name alone installs nothing. What works depends on where the
running code came from: a checkout, a wheel's file, a repository; where nothing of it is there any
more, the extra's own requirements are named. `agent_runtime.extras` does the same for agents, which
share no code with what is here.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final, cast
from urllib.parse import unquote, urlsplit

__all__ = ["install_command"]

_NAME: Final = "agentgym-grpc"
_OF_EXTRA: Final = re.compile(
    r"(?P<what>[^;]*?)\s*;\s*(?:\(?(?P<marker>.*?)\)?\s+and\s+)?"
    r"extra == ['\"](?P<extra>[^'\"]+)['\"]"
)


def install_command(extra: str) -> str:
    """Return what to type to get the packages of an extra."""
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").is_file():
        folder = "." if checkout == Path.cwd() else str(checkout)
        return _command("-e", f"{folder}[{extra}]")
    try:
        installed = distribution(_NAME)
    except PackageNotFoundError:  # copied files: nobody knows what they need
        return _command(f"{_NAME}[{extra}]")
    source = _source(installed)
    if source.startswith("/"):
        return _command(f"{source}[{extra}]")
    if source:
        return _command(f"{_NAME}[{extra}] @ {source}")
    return _command(*_requirements(installed, extra))


def _source(installed: Distribution) -> str:
    """Return the path or address that it was installed from; empty = it is not there any more."""
    origin = json.loads(installed.read_text("direct_url.json") or "{}")
    url = cast("str", origin.get("url", ""))
    if url.startswith("file:"):
        path = unquote(urlsplit(url).path)
        return path if Path(path).exists() else ""
    vcs = origin.get("vcs_info")
    return f"{vcs['vcs']}+{url}@{vcs['commit_id']}" if vcs else url


def _requirements(installed: Distribution, extra: str) -> list[str]:
    """Return what an extra requires, as the metadata says it."""
    found: list[str] = []
    for requirement in installed.requires or ():
        match = _OF_EXTRA.fullmatch(requirement)
        if match is not None and match["extra"] == extra:
            found.append(match["what"] + (f"; {match['marker']}" if match["marker"] else ""))
    return found


def _command(*arguments: str) -> str:
    """Return a call of the pip that belongs to this interpreter."""
    pip, python = shutil.which("pip"), Path(sys.executable)
    own = pip is not None and Path(pip).parent == python.parent
    program = ["pip"] if own else [str(python), "-m", "pip"]
    return shlex.join([*program, "install", *arguments])
