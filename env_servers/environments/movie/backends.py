"""Where the film functions get their answers: invented catalogue, recording, or real service.

Embedded and live run the same functions on two services that answer the same requests; recorded
looks up what the functions returned.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Final

from env_servers.environments.movie.catalogue import Catalogue
from env_servers.environments.movie.functions import FilmService, call, comparable
from env_servers.environments.movie.service import EmbeddedService, Reply
from env_servers.toolkit.tool_calls import (
    LIVE,
    Backend,
    RecordedBackend,
    RecordedSession,
    Session,
    ToolSettings,
    ToolTask,
)
from env_servers.toolkit.tool_calls import Reply as ToolReply
from env_servers.toolkit.tool_calls.live import LiveService, Rate

__all__ = [
    "KEY_VARIABLE",
    "SETTINGS",
    "EmbeddedFilms",
    "LiveFilms",
    "RecordedFilms",
    "embedded_service",
]

KEY_VARIABLE: Final = "MOVIE_KEY"
"""Environment variable with the service's read access token; the original's name for it."""
SETTINGS: Final = ("backend", "base_url", "rate", "timeout")
_BASE_URL: Final = "https://api.themoviedb.org/3"
_CALLS_PER_SECOND: Final = 40
_TIMEOUT: Final = 20.0


@cache
def embedded_service() -> EmbeddedService:
    """Return the catalogue of this process, ready to be searched."""
    service = EmbeddedService(Catalogue())
    service.prepare()
    return service


class FilmSession(Session):
    """The functions on a service. Holds nothing of its own, so that forks share it."""

    def __init__(self, service: FilmService) -> None:
        self._service = service

    def call(self, tool: str, arguments: Mapping[str, Any]) -> ToolReply:
        succeeded, value = call(self._service, tool, arguments)
        return ToolReply(value, succeeded, comparable(value))


class EmbeddedFilms(Backend):
    """The invented catalogue."""

    def prepare(self) -> None:
        embedded_service()

    def open(self, task: ToolTask) -> Session:
        return FilmSession(embedded_service())


class _RecordedSession(RecordedSession):
    """Recorded results, without the fields that do not count for subgoals."""

    def value(self, tool: str, reply: ToolReply) -> ToolReply:
        refused = isinstance(reply.value, str) and reply.value.startswith('{"success":false')
        return ToolReply(reply.value, reply.ok and not refused, comparable(reply.value))


class RecordedFilms(RecordedBackend):
    """What the real service answered when AgentTraj-L was recorded."""

    def open(self, task: ToolTask) -> Session:
        return _RecordedSession(self.recording, task)


class _LiveSession(FilmSession):
    """The functions on the real service; each episode can be cancelled on its own."""

    def __init__(self, live: LiveService, base_url: str) -> None:
        super().__init__(self)
        self._live = live
        self._base_url = base_url

    def get(self, path: str, query: Mapping[str, str] = {}) -> Reply:
        """Return the service's reply; raises ServiceUnavailable."""
        answer = self._live.get(self._base_url + path, query, owner=self)
        if not answer.ok:
            return Reply(answer.status, answer.text)
        try:
            return Reply(answer.status, json.loads(answer.text))
        except ValueError as error:
            raise self._live.unavailable(
                f"answers with something else than JSON: {error}"
            ) from error

    def fork(self) -> _LiveSession:
        return _LiveSession(self._live, self._base_url)

    def cancel(self) -> None:
        self._live.cancel(self)


class LiveFilms(Backend):
    """The Movie Database's interface, version 3."""

    name: ClassVar[str] = LIVE

    def __init__(self, settings: ToolSettings) -> None:
        """Raises EnvironmentUnavailable where the key is missing."""
        key = settings.secret(KEY_VARIABLE)
        self._base_url = settings.text("base_url", _BASE_URL).rstrip("/")
        self._live = LiveService(
            "The Movie Database",
            rate=Rate(max(1, round(settings.number("rate", _CALLS_PER_SECOND)))),
            timeout=settings.number("timeout", _TIMEOUT),
            headers={"Authorization": f"Bearer {key}", "Accept": "application/json"},
        )

    def open(self, task: ToolTask) -> Session:
        return _LiveSession(self._live, self._base_url)

    def close(self) -> None:
        self._live.close()
