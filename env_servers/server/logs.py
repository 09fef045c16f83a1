"""Structured logs of servers and workers on stderr: JSON lines, or coloured ones on a terminal.

    log = get_logger("env_servers.processes")
    log.warning("worker died", worker=4711, exit_status=-9)

Every logger is a structlog logger over the standard library's logger of that name: a program that
starts a server in its own process sees warnings and errors only, until it configures logging.
Fields have the same names everywhere: `environment`, `episode_id`, `item_id`, `seq`, `worker` (a
process id), `client`.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, cast

import structlog

__all__ = ["LogConfig", "LogThrottle", "configure_logs", "get_logger"]

_ROOT: Final = "env_servers"


@dataclass(frozen=True, slots=True)
class LogConfig:
    """What a server and its workers log."""

    level: str = "info"
    """debug, info, warning or error: the least severe level that is written."""
    json: bool | None = None
    """JSON lines; None = unless stderr is a terminal."""


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """Return the structured logger of a part of the server, such as `env_servers.episodes`."""
    logger = structlog.wrap_logger(
        logging.getLogger(name),
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.add_logger_name,
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        context_class=dict,
        cache_logger_on_first_use=True,
    )
    return cast("structlog.stdlib.BoundLogger", logger)


def configure_logs(config: LogConfig = LogConfig()) -> None:
    """Send the server's logs to stderr; replaces earlier settings.

    Raises:
        ValueError: There is no such level.
    """
    levels = logging.getLevelNamesMapping()
    if config.level.upper() not in levels:
        raise ValueError(f"no log level {config.level!r}: debug, info, warning or error")
    as_json = not sys.stderr.isatty() if config.json is None else config.json
    renderer = structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer()
    tracebacks = [structlog.processors.format_exc_info] if as_json else []
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *tracebacks,
                renderer,
            ]
        )
    )
    root = logging.getLogger(_ROOT)
    root.handlers[:] = [handler]
    root.setLevel(levels[config.level.upper()])
    # Without this a program that configures the root logger, too, gets every line twice.
    root.propagate = False


class LogThrottle:
    """Lets one event of a kind through per interval and counts the others."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`seconds` between two events of the same key."""
        self._seconds = seconds
        self._clock = clock
        self._due: dict[Hashable, float] = {}
        self._suppressed: dict[Hashable, int] = {}

    def suppressed(self, key: Hashable) -> int | None:
        """Return how many were kept back since the last one; None = keep this one back, too."""
        now = self._clock()
        if now < self._due.get(key, now):
            self._suppressed[key] = self._suppressed.get(key, 0) + 1
            return None
        self._due[key] = now + self._seconds
        return self._suppressed.pop(key, 0)
