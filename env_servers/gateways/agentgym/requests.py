"""Reading requests as FastAPI does, which AgentGym's servers are made of.

Integers are lax (`"0"`, `0.0`, `true`), texts are strict, further fields are ignored, and what
cannot be read is refused with status 422 and a list of `{type, loc, msg, input}`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl

from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, TypeAdapter, ValidationError

__all__ = ["BodyReader", "Id", "OldInt", "OldStr", "QueryReader", "RawHeaders", "Unreadable"]

_INTEGER: Final[TypeAdapter[int]] = TypeAdapter(int)
_ERRORS_SHOWN: Final = 20
"""Of a body with many wrong fields."""


class Unreadable(Exception):
    """When a request cannot be read; carries the status and the reply's `detail`."""

    def __init__(self, status: int, detail: Any) -> None:
        super().__init__(status)
        self.status = status
        self.detail = detail


def _old_integer(value: Any) -> Any:
    """Read a number as pydantic 1 did, which the tool servers have: fractions are cut off."""
    return int(value) if isinstance(value, float) and value == value else value


def _old_text(value: Any) -> Any:
    """Read a text as pydantic 1 did: numbers are texts, too."""
    return str(value) if isinstance(value, int | float) else value


RawHeaders = Mapping[bytes, bytes]
"""Headers as ASGI has them, names in lower case."""
Id = Annotated[int, Field(validation_alias=AliasChoices("id", "env_id"))]
"""The id of an environment; forks of AgentGym call it `env_id`."""
OldInt = Annotated[int, BeforeValidator(_old_integer)]
OldStr = Annotated[str, BeforeValidator(_old_text)]


class BodyReader:
    """Reads the body of a POST request."""

    def __init__(self, model: type[BaseModel], *, any_content_type: bool = False) -> None:
        """`any_content_type` takes JSON of which nothing says that it is some."""
        self._model = model
        self._any_content_type = any_content_type

    def __call__(self, headers: RawHeaders, query: bytes, body: bytes) -> Any:
        """Return the model's object; raises Unreadable."""
        try:
            return self._model.model_validate(self._value(headers, body), from_attributes=True)
        except ValidationError as error:
            raise Unreadable(422, _details(error, "body")) from None

    def _value(self, headers: RawHeaders, body: bytes) -> Any:
        if not body:
            raise Unreadable(422, [_missing(("body",))])
        content_type = headers.get(b"content-type", b"")
        # What nearly all send needs no look at its parts.
        if content_type != b"application/json" and not self._is_json(content_type):
            return body.decode("utf-8", "replace")
        try:
            return json.loads(body)
        except json.JSONDecodeError as error:
            problem = {
                "type": "json_invalid",
                "loc": ("body", error.pos),
                "msg": "JSON decode error",
                "input": {},
                "ctx": {"error": error.msg},
            }
            raise Unreadable(422, [problem]) from None
        except (UnicodeDecodeError, RecursionError, ValueError):
            raise Unreadable(400, "There was an error parsing the body") from None

    def _is_json(self, content_type: bytes) -> bool:
        name = content_type.partition(b";")[0].strip().lower()
        if not name:
            return self._any_content_type
        subtype = name.partition(b"/")[2]
        return subtype == b"json" or subtype.endswith(b"+json")


class QueryReader:
    """Reads an integer of a query; of one that is there twice the last counts."""

    def __init__(self, *names: str, old: bool = False) -> None:
        """The first of `names` is the one that is missed; `old` reads as pydantic 1 did."""
        self._names = names
        self._old = old

    def __call__(self, headers: RawHeaders, query: bytes, body: bytes) -> int:
        """Return the number; raises Unreadable."""
        given = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True))
        name = next((it for it in self._names if it in given), None)
        if name is None:
            raise Unreadable(422, [_missing(("query", self._names[0]))])
        try:
            if self._old:
                return int(given[name])
            return _INTEGER.validate_python(given[name])
        except ValidationError as error:
            raise Unreadable(422, _details(error, "query", name)) from None
        except ValueError:
            problem = {
                "type": "type_error.integer",
                "loc": ("query", name),
                "msg": "value is not a valid integer",
            }
            raise Unreadable(422, [problem]) from None


def _missing(location: tuple[str, ...]) -> Mapping[str, Any]:
    return {"type": "missing", "loc": location, "msg": "Field required", "input": None}


def _details(error: ValidationError, *location: str) -> list[Mapping[str, Any]]:
    problems = error.errors(include_url=False, include_context=False)[:_ERRORS_SHOWN]
    return [
        {
            "type": it["type"],
            "loc": (*location, *it["loc"]),
            "msg": it["msg"],
            "input": it["input"],
        }
        for it in problems
    ]
