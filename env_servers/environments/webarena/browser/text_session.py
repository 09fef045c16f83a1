"""A second session with a page, for reports that are large: their text comes as it is.

Playwright reads an answer three times over, object by object: in its driver, and twice in Python;
for a tree of 3,000 nodes that is most of what an observation costs. Here the browser wraps its
answers into text, which Playwright passes on unread, and which is decoded once, into the types
that are wanted. The answers take the same pipe, so no port is open that others could use.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

import msgspec

from env_servers.environments.webarena.browser.protocol import ProtocolSession

__all__ = ["TextSession"]

_Report = TypeVar("_Report")


class _Failure(msgspec.Struct):
    message: str = ""


class _Head(msgspec.Struct):
    id: int = 0
    """0 = an event."""


class _Answer(msgspec.Struct, Generic[_Report]):
    result: _Report | None = None
    error: _Failure | None = None


@dataclass(slots=True, eq=False)
class TextSession:
    """Asks a page for reports."""

    session: ProtocolSession
    """The page's own, of Playwright."""
    _id: str = ""
    _asked: int = 0
    _waiting: dict[int, asyncio.Future[str]] = field(
        default_factory=dict[int, "asyncio.Future[str]"]
    )

    async def open(self) -> None:
        """Attach to the page."""
        target = await self.session.send("Target.getTargetInfo")
        self.session.on("Target.receivedMessageFromTarget", lambda event: self._receive(event))
        attached = await self.session.send(
            "Target.attachToTarget",
            {"targetId": target["targetInfo"]["targetId"], "flatten": False},
        )
        self._id = attached["sessionId"]

    async def read(
        self, method: str, report: type[_Report], parameters: dict[str, Any] | None = None
    ) -> _Report:
        """Return the answer to a command of the protocol.

        Raises:
            playwright.async_api.Error: The browser refused the command, or the page is gone.
        """
        from playwright.async_api import Error

        self._asked = number = self._asked + 1
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        command = {"id": number, "method": method, "params": parameters or {}}
        try:
            await self.session.send(
                "Target.sendMessageToTarget",
                {"sessionId": self._id, "message": json.dumps(command)},
            )
            text = await answer
        finally:
            del self._waiting[number]
        told = cast("_Answer[_Report]", _decoded(text, _Answer[report]))
        if told.error is not None or told.result is None:
            raise Error(f"Protocol error ({method}): {told.error and told.error.message}")
        return told.result

    def end(self, why: str) -> None:
        """Let all that waits fail: the page is gone, and nothing answers any more."""
        from playwright.async_api import Error

        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(Error(why))

    def _receive(self, event: dict[str, Any]) -> None:
        if event["sessionId"] != self._id:
            return
        answer = self._waiting.get(_decoded(event["message"], _Head).id)
        if answer is not None and not answer.done():
            answer.set_result(event["message"])


def _decoded(text: str, kind: type[_Report]) -> _Report:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError:
        # A page's text may hold half a character: JSON can write it, UTF-8 cannot.
        return msgspec.convert(json.loads(text), kind)
