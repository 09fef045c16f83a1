"""Who may use an official site when: one task that changes it, or any number that only look.

A site is reserved by locks on files in a folder that all workers and servers of a machine share, so
that a process that dies frees what it held. A task that changes a site notes that first; the note
goes when the site was set back. Who finds a note sets the site back before anything else.

Invariant: no task begins on a site that an earlier one changed, if a hook is set for it. Sites are
reserved in one order, and a task that waits to change one keeps later readers out, so that nobody
waits for ever.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import shlex
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp

from env_servers.environments.webarena.official.sites import Site
from env_servers.sdk import EnvironmentUnavailable, InvalidOption

__all__ = ["Reservations", "ResetHook", "SiteBusy", "read_hooks"]

_POLL: Final = 0.05
_NOTE: Final = b"changed"


class SiteBusy(EnvironmentUnavailable):
    """Raised where a site does not become free in time."""

    retry_after = 30.0


class ResetFailed(EnvironmentUnavailable):
    """Raised where a site could not be set back: nothing may be played on it."""


@dataclass(frozen=True, slots=True)
class ResetHook:
    """What sets a site back: an address that is asked by POST, or a command."""

    text: str
    seconds: float = 600.0

    async def run(self, site: Site) -> None:
        """Set the site back; raises ResetFailed."""
        try:
            async with asyncio.timeout(self.seconds):
                if self.text.startswith(("http://", "https://")):
                    problem = await self._post()
                else:
                    problem = await self._execute(site)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:
            raise ResetFailed(f"site {site} could not be set back by {self.text!r}: {problem}")

    async def _post(self) -> str:
        async with aiohttp.ClientSession() as session, session.post(self.text) as answer:
            return "" if answer.ok else f"it answers {answer.status}"

    async def _execute(self, site: Site) -> str:
        process = await asyncio.create_subprocess_exec(
            *shlex.split(self.text),
            env={**os.environ, "WEBARENA_SITE": site.value},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            _, output = await process.communicate()
        except BaseException:
            process.kill()
            await process.wait()
            raise
        if process.returncode:
            return f"it ends with {process.returncode}: {output.decode(errors='replace')[-300:]}"
        return ""


def read_hooks(settings: Mapping[str, str]) -> dict[Site, ResetHook]:
    """Return the hooks of settings `reset_<site>`, within `reset_seconds`; raises InvalidOption."""
    try:
        seconds = float(settings.get("reset_seconds", 600))
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise InvalidOption("setting webarena.reset_seconds must be a positive number")
    return {
        site: ResetHook(text, seconds)
        for site in Site
        if site.changeable and site is site.store and (text := settings.get(f"reset_{site}", ""))
    }


class Reservations:
    """The sites of one machine."""

    def __init__(self, folder: Path, addresses: Mapping[Site, str]) -> None:
        """`folder` is shared by all that use the same sites."""
        self._folder = folder
        self._addresses = addresses
        folder.mkdir(parents=True, exist_ok=True)

    @asynccontextmanager
    async def reserve(
        self,
        changes: Iterable[Site],
        reads: Iterable[Site],
        hooks: Mapping[Site, ResetHook],
        seconds: float,
    ) -> AsyncIterator[None]:
        """Hold sites for one episode, and set back those that it may have changed.

        Raises:
            SiteBusy: They were not free within `seconds`.
            ResetFailed: A site could not be set back, before or after the episode.
        """
        alone = frozenset(changes)
        with ExitStack() as held:
            async with _deadline(seconds):
                files = {
                    site: await self._take(held, site, alone=site in alone)
                    for site in sorted(alone | frozenset(reads))
                }
            for site in sorted(files.keys() & hooks.keys()):
                await _set_back(site, files[site], hooks[site], alone=site in alone)
            for site in alone:
                _note(files[site], _NOTE)
            try:
                yield
            finally:
                for site in sorted(alone & hooks.keys()):
                    await hooks[site].run(site)
                    _note(files[site], b"")

    async def _take(self, held: ExitStack, site: Site, *, alone: bool) -> int:
        """Lock a site and return its open file; a queue file keeps readers behind a writer."""
        name = hashlib.blake2b(self._addresses[site].encode(), digest_size=8).hexdigest()
        queue = held.enter_context(_open(self._folder / f"{site}-{name}.queue"))
        file = held.enter_context(_open(self._folder / f"{site}-{name}.lock"))
        kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
        await _lock(queue, kind)
        await _lock(file, kind)
        fcntl.flock(queue, fcntl.LOCK_UN)
        return file


async def _set_back(site: Site, file: int, hook: ResetHook, *, alone: bool) -> None:
    """Set back a site that somebody changed and left; a reader is alone meanwhile.

    A lock is lost while its kind is changed, so the note is looked at again afterwards.
    """
    while _noted(file):
        if not alone:
            await _lock(file, fcntl.LOCK_EX)
        if _noted(file):
            await hook.run(site)
            _note(file, b"")
        if not alone:
            await _lock(file, fcntl.LOCK_SH)


@asynccontextmanager
async def _deadline(seconds: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise SiteBusy(
            f"the task's sites were not free within {seconds:g} s: others play on them. Play fewer "
            "tasks at once that change sites, or raise --set webarena.wait_seconds"
        ) from error


@contextmanager
def _open(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


async def _lock(descriptor: int, kind: int) -> None:
    while True:
        try:
            return fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            await asyncio.sleep(_POLL)


def _noted(descriptor: int) -> bool:
    return os.pread(descriptor, len(_NOTE), 0) == _NOTE


def _note(descriptor: int, text: bytes) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text, 0)
    os.fsync(descriptor)
