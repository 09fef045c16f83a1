"""Requests to official sites beside the browser: is a site there, and the shop's own interface.

Whatever keeps a site from answering is an EnvironmentUnavailable, which reaches clients as an
INFRASTRUCTURE fault and never as a score.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

import aiohttp

from env_servers.environments.webarena.browser.gate import Request
from env_servers.environments.webarena.official.accounts import Account
from env_servers.sdk import EnvironmentUnavailable

__all__ = ["PlainExchange", "SiteService", "require_reachable"]

_SERVER_FAULT: Final = 500
_MAX_BYTES: Final = 8 * 2**20


async def require_reachable(name: str, address: str, seconds: float) -> None:
    """Raise EnvironmentUnavailable where a site does not answer in time, or only with a failure."""
    status, _ = await _request("GET", address, seconds, name=name)
    if status >= _SERVER_FAULT:
        raise EnvironmentUnavailable(f"official site {name} at {address} answers {status}")


@dataclass(frozen=True, slots=True)
class Answered:
    """A site's answer; a `gate.Answer`."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class PlainExchange:
    """Asks a site without a browser, for `probe.PlainRequest`; redirections are not followed."""

    seconds: float

    async def __call__(self, request: Request) -> Answered:
        """Return the head of an answer; raises EnvironmentUnavailable."""
        timeout = aiohttp.ClientTimeout(total=self.seconds)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.request(request.method, request.url, allow_redirects=False) as answer,
            ):
                return Answered(answer.status, tuple(answer.headers.items()))
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise EnvironmentUnavailable(
                f"{request.url[:200]} does not answer within {self.seconds:g} s "
                f"({type(error).__name__}: {error})"
            ) from error


class SiteService:
    """The shop's programming interface; an `evaluation.ShopService`."""

    def __init__(self, address: str, administrator: Account | None, *, seconds: float) -> None:
        """`seconds` bound each request."""
        self.address = address
        self._administrator = administrator
        self._seconds = seconds
        self._token = ""

    async def get(self, path: str) -> object:
        """Return the JSON at a path below `/rest/V1/`; raises EnvironmentUnavailable."""
        if not self._token:
            self._token = await self._sign_in()
        headers = {"Authorization": f"Bearer {self._token}"}
        url = f"{self.address}/rest/V1/{path}"
        return _read(url, *await _request("GET", url, self._seconds, headers=headers))

    async def _sign_in(self) -> str:
        if self._administrator is None:
            raise EnvironmentUnavailable(
                "the score of this task is asked of the shop's own interface, which needs the "
                "account shopping_admin in the file of webarena.accounts"
            )
        url = f"{self.address}/rest/default/V1/integration/admin/token"
        account = {
            "username": self._administrator.name,
            "password": self._administrator.password,
        }
        return str(_read(url, *await _request("POST", url, self._seconds, json=account)))


def _read(url: str, status: int, body: bytes) -> object:
    if status != 200:
        raise EnvironmentUnavailable(f"the shop's interface at {url} answers {status}")
    try:
        return json.loads(body)
    except ValueError as error:
        raise EnvironmentUnavailable(f"the shop's interface at {url} answers no JSON") from error


async def _request(
    method: str, url: str, seconds: float, *, name: str = "shopping", **options: Any
) -> tuple[int, bytes]:
    timeout = aiohttp.ClientTimeout(total=seconds)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.request(method, url, **options) as answer,
        ):
            return answer.status, await answer.content.read(_MAX_BYTES)
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise EnvironmentUnavailable(
            f"official site {name} at {url} does not answer within {seconds:g} s "
            f"({type(error).__name__}: {error})"
        ) from error
