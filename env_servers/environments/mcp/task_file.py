"""The file that says what is to be done with a server's tools, and when it is done: TOML or JSON.

It is read whole and strictly: a key that nobody knows is an error that names its task.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from env_servers.environments.mcp.errors import TaskFileError

__all__ = [
    "AnswerCheck",
    "CalledCheck",
    "Check",
    "FileTask",
    "ResultCheck",
    "TaskFile",
    "read_file",
]

_FILE_BYTES: Final = 64 * 1024 * 1024
_TOLERANCE: Final = 1e-6


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Text(_Strict):
    """What a text has to be; exactly one of the four."""

    equals: str | None = None
    """Blanks at the ends and case do not count."""
    contains: str | None = None
    matches: str | None = None
    """A regular expression of the whole text."""
    number: float | None = None
    """The text as a number."""
    tolerance: float = Field(default=_TOLERANCE, ge=0)
    """How far the number may be off."""

    @model_validator(mode="after")
    def _one(self) -> _Text:
        given = [
            it for it in (self.equals, self.contains, self.matches, self.number) if it is not None
        ]
        if len(given) != 1:
            raise ValueError("give one of equals, contains, matches, number")
        if "tolerance" in self.model_fields_set and self.number is None:
            raise ValueError("tolerance is for number")
        if self.matches is not None:
            try:
                re.compile(self.matches)
            except re.error as error:
                raise ValueError(f"matches is no regular expression: {error}") from None
        return self


class AnswerCheck(_Text):
    """The final answer is what it should be."""

    kind: Literal["answer"]


class Call(_Strict):
    """A call, in the server's own names."""

    tool: str
    arguments: dict[str, Any] = Field(default_factory=dict[str, Any])


class CalledCheck(Call):
    """A tool was called with at least these arguments, and did not fail."""

    kind: Literal["called"]


class ResultCheck(_Text, Call):
    """A tool that is called at the end says what it should."""

    kind: Literal["result"]


Check = Annotated[AnswerCheck | CalledCheck | ResultCheck, Field(discriminator="kind")]


class FileTask(_Strict):
    """One task."""

    id: int = Field(ge=0, lt=10**12)
    instruction: str = Field(min_length=1)
    split: str = Field(default="train", pattern=r"^[a-z][a-z0-9_]*$")
    category: str = ""
    checks: tuple[Check, ...] = Field(min_length=1)
    solution: tuple[Call, ...] | None = None
    """Calls of the expert; none of them twice."""
    answer: Any = "done"
    """What the expert hands in."""

    @model_validator(mode="after")
    def _no_call_twice(self) -> FileTask:
        calls = [call.model_dump_json() for call in self.solution or ()]
        if len(set(calls)) != len(calls):
            raise ValueError("the solution has a call twice: what was called is done")
        return self

    def calls(self) -> list[Call]:
        """Return every call that the task names."""
        return [*(self.solution or ()), *(it for it in self.checks if isinstance(it, Call))]


class TaskFile(_Strict):
    """A whole file."""

    max_rounds: int = Field(default=20, ge=1)
    tasks: tuple[FileTask, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _distinct(self) -> TaskFile:
        seen: set[int] = set()
        for task in self.tasks:
            if task.id in seen:
                raise ValueError(f"two tasks have the id {task.id}")
            seen.add(task.id)
        return self


def read_file(path: Path) -> TaskFile:
    """Return a task file; raises TaskFileError."""
    try:
        if path.stat().st_size > _FILE_BYTES:
            raise TaskFileError(f"the task file {path} has more than {_FILE_BYTES:,} bytes")
        text = path.read_text(encoding="utf-8")
        document: Any = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:  # TOML and JSON raise ValueErrors
        raise TaskFileError(f"cannot read the task file {path}: {error}") from error
    try:
        return TaskFile.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise TaskFileError(
            f"{path}, {_place(first['loc'])}: {first['msg']}"
            + (f" ({error.error_count() - 1} more)" if error.error_count() > 1 else "")
        ) from None


def _place(keys: tuple[int | str, ...]) -> str:
    return ".".join(str(key) for key in keys) or "the whole file"
