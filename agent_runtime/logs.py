"""Structured logs of the agent runtime, and of the orchestrator and training above it.

Secrets that are known as such (`agent_runtime.redaction`) are in no line.

    log = get_logger(__name__)
    with bind_context(run_id="r1", server="127.0.0.1:9000"):
        log.warning("server died", exit_status=1, restarts=3)

Every logger is a structlog logger over the standard library's logger of the same name, so a
program that uses this package as a library sees warnings and errors only, until it configures
logging itself. The commands call `configure_logging`. What is bound by `bind_context` belongs to
the current asyncio task and to the tasks that it starts.
"""

from __future__ import annotations

import contextlib
import json as json_encoding
import logging
import sys
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, NoReturn, TextIO, cast

import structlog

from agent_runtime.private_files import private_opener
from agent_runtime.redaction import redact_text

__all__ = ["LogLevel", "bind_context", "configure_logging", "get_logger", "log_file"]

LogLevel = Literal["debug", "info", "warning", "error"]

_PACKAGES: Final = ("agent_runtime", "orchestrator", "training", "benchmark", "__main__")

_bound: Final = ContextVar[Mapping[str, object]](
    "agent_runtime_bound", default=MappingProxyType({})
)
"""What `bind_context` has bound in the current task."""
_files: list[logging.Handler] = []
"""Log files that are being written. They get our events directly and not through the tree of
standard loggers, whose levels a library user sets: a run that writes a file changes none."""
_configured: list[logging.Handler] = []
"""What the last `configure_logging` added to the root logger and to `_files`."""


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """Return the structured logger of a module.

    Args:
        name: `__name__` of the module.
    """
    logger = structlog.wrap_logger(
        logging.getLogger(name),
        processors=[
            _drop_unwanted,
            _merge_bound,
            structlog.contextvars.merge_contextvars,  # of a program that uses this package
            _deliver,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        context_class=dict,
        cache_logger_on_first_use=True,
    )
    return cast("structlog.stdlib.BoundLogger", logger)


def bind_context(**fields: object) -> AbstractContextManager[None]:
    """Add fields to every event that this task, and tasks that it starts, log in the meantime."""
    return _Bound(fields)


class _Bound:
    """Fields that are bound in a block.

    All are one context variable. structlog has one for each field, and binds them by code that
    took a hundredth of a short episode.
    """

    __slots__ = ("_fields", "_token")

    def __init__(self, fields: Mapping[str, object]) -> None:
        self._fields = fields

    def __enter__(self) -> None:
        self._token = _bound.set({**_bound.get(), **self._fields})

    def __exit__(self, *_: object) -> None:
        _bound.reset(self._token)


def configure_logging(level: str = "info", json: bool = False, file: Path | None = None) -> None:
    """Send the program's logs to stderr and, if asked for, to a file; replaces earlier settings.

    Args:
        level: Least severe level shown on stderr.
        json: Print JSON lines on stderr, too.
        file: Append JSON lines to this file, with events of level info and above at least.

    Raises:
        ValueError: There is no such level.
        OSError: The file cannot be written.
    """
    threshold = _level_number(level)
    console = _StderrHandler()
    console.setLevel(threshold)
    console.setFormatter(_EventFormatter(as_json=json))
    handlers: list[logging.Handler] = [console]
    if file is not None:
        handlers += _open_file(file, min(threshold, logging.INFO))
    while _configured:
        _remove(_configured.pop())
    for package in _PACKAGES:
        logging.getLogger(package).setLevel(threshold)
    for handler in handlers:
        _add(handler)
    _configured.extend(handlers)


@contextmanager
def log_file(path: Path, level: str = "info", **context: object) -> Generator[None]:
    """Append events to a file as JSON lines in the meantime, whatever is configured besides.

    Args:
        path: The file; its folder is created.
        level: Least severe level that is written.
        context: Leave out those of our events that have one of these fields with another value;
            for example those of other runs, where several are played at once.
    """
    handlers = _open_file(path, _level_number(level))
    handlers[0].addFilter(
        lambda record: all(
            _fields(record).get(name, value) == value for name, value in context.items()
        )
    )
    for handler in handlers:
        _add(handler)
    try:
        yield
    finally:
        for handler in handlers:
            _remove(handler)


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to what is `sys.stderr` now: a rich progress bar replaces it to print above itself."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # pyright: ignore[reportIncompatibleVariableOverride]
        return sys.stderr


class _LogFile(logging.FileHandler):
    """A file that gets our events from `_deliver`; its owner's alone."""

    _is_full = False
    """It could not be written, and that was said."""

    def _open(self) -> TextIO:  # pyright: ignore[reportIncompatibleMethodOverride]
        return open(self.baseFilename, "a", encoding=self.encoding, opener=private_opener)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Say once that the file takes no more: what runs goes on without its log."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._is_full:
            self._is_full = True
            sys.stderr.write(f"warning: {self.baseFilename} cannot be written ({error})\n")

    def close(self) -> None:
        """Close the file; what it can no longer take is lost."""
        with contextlib.suppress(OSError):
            super().close()


class _OtherLibraries(logging.Handler):
    """Passes what other libraries log (asyncio, aiohttp, grpc) on to a log file."""

    def __init__(self, file: _LogFile) -> None:
        super().__init__(logging.WARNING)
        self._file = file

    def emit(self, record: logging.LogRecord) -> None:
        if not isinstance(record, _EventRecord):
            self._file.emit(record)


class _EventRecord(logging.LogRecord):
    """One of our events as a standard record: its message holds the fields, too."""

    event: str
    fields: Mapping[str, object]


class _EventFormatter(logging.Formatter):
    """Writes one event a line, as JSON or for people."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._console = None
        if not as_json:
            self._console = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())

    def format(self, record: logging.LogRecord) -> str:
        event: dict[str, object] = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.event if isinstance(record, _EventRecord) else record.getMessage(),
            **_fields(record),
        }
        if record.exc_info and record.exc_info[0] is not None:
            event["exception"] = self.formatException(record.exc_info)
        if self._console is not None:
            return redact_text(str(self._console(None, "", event)))
        return redact_text(json_encoding.dumps(event, default=str, ensure_ascii=False))


def _open_file(path: Path, threshold: int) -> list[logging.Handler]:
    path.parent.mkdir(parents=True, exist_ok=True)
    file = _LogFile(path, encoding="utf-8")
    file.setLevel(threshold)
    file.setFormatter(_EventFormatter(as_json=True))
    return [file, _OtherLibraries(file)]


def _add(handler: logging.Handler) -> None:
    if isinstance(handler, _LogFile):
        _files.append(handler)
    else:
        logging.getLogger().addHandler(handler)


def _remove(handler: logging.Handler) -> None:
    if isinstance(handler, _LogFile):
        _files.remove(handler)
    else:
        logging.getLogger().removeHandler(handler)
    handler.close()


def _drop_unwanted(
    logger: logging.Logger, method: str, event_dict: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Drop, before anything else is computed, what neither a file nor a handler takes."""
    number = _method_level(method)
    if logger.isEnabledFor(number) or any(number >= file.level for file in _files):
        return event_dict
    raise structlog.DropEvent


def _merge_bound(
    logger: logging.Logger, method: str, event_dict: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Add what is bound to an event, whose own fields stay."""
    return {**_bound.get(), **event_dict}


def _deliver(
    logger: logging.Logger, method: str, event_dict: structlog.typing.EventDict
) -> NoReturn:
    """Hand an event to the log files and to the standard logger; structlog itself is done then."""
    number = _method_level(method)
    event = str(event_dict.pop("event", ""))
    exc_info = _exception(event_dict.pop("exc_info", method == "exception"))
    message = " ".join((event, *(f"{key}={value!r}" for key, value in event_dict.items())))
    record = _EventRecord(logger.name, number, "", 0, message, None, exc_info)
    record.event, record.fields = event, dict(event_dict)
    for file in _files:
        if number >= file.level:
            file.handle(record)
    if logger.isEnabledFor(number):
        logger.handle(record)
    raise structlog.DropEvent


def _exception(exc_info: Any) -> Any:
    """Return what the standard library calls exc_info from what structlog accepts as such."""
    if isinstance(exc_info, BaseException):
        return type(exc_info), exc_info, exc_info.__traceback__
    if isinstance(exc_info, tuple):
        return cast("Any", exc_info)
    return sys.exc_info() if exc_info else None


def _fields(record: logging.LogRecord) -> Mapping[str, object]:
    return record.fields if isinstance(record, _EventRecord) else {}


def _method_level(method: str) -> int:
    return logging.ERROR if method == "exception" else getattr(logging, method.upper())


def _level_number(level: str) -> int:
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ValueError(f"unknown log level {level!r}: debug, info, warning or error")
    return number
