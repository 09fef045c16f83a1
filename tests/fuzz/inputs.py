"""What fuzzing feeds: texts, JSON and protobuf messages that programs stumble over."""

from __future__ import annotations

import json

from google.protobuf.descriptor import FieldDescriptor as Field
from google.protobuf.message import Message
from hypothesis import strategies as st

__all__ = ["broken", "damaged", "json_texts", "json_values", "messages", "texts"]

_NUMBERS = st.sampled_from([0, 1, -1, 2**31, 2**63 - 1, 2**63, 2**64, 10**30, 10**400])
_FLOATS = st.floats() | st.sampled_from([1e308, -0.0, 5e-324])
_TEXTS = st.sampled_from(
    ["", "\x00", "\u202e\U0001f600", "\ufffe", "9" * 5000, "Action:\n", "Thought:\nAction: ",
     "```\nsay(1)\n```", '{"function_name": ', "[1]", "(" * 200, "../../etc/passwd", "\x1b[2J"]
)  # fmt: skip


def texts() -> st.SearchStrategy[str]:
    """Texts that UTF-8 can carry."""
    return _TEXTS | st.text(max_size=200)


def json_values() -> st.SearchStrategy[object]:
    """Anything that a JSON document may hold, and what only Python's reader takes."""
    scalars = st.none() | st.booleans() | _NUMBERS | _FLOATS | texts() | st.just("\ud800")
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts(), inner, max_size=4),
        max_leaves=12,
    )


def json_texts(likely: st.SearchStrategy[object]) -> st.SearchStrategy[bytes]:
    """Documents: likely ones, any ones, broken ones."""
    written = (likely | json_values()).map(_written)
    return written | damaged(written) | st.binary(max_size=200) | st.just(b"[" * 100_000)


def _written(value: object) -> bytes:
    return json.dumps(value).encode()


@st.composite
def damaged(draw: st.DrawFn, contents: st.SearchStrategy[bytes]) -> bytes:
    """Return bytes of which a few were changed, and an end cut off now and then."""
    data = bytearray(draw(contents))
    if not data:
        return b""
    for _ in range(draw(st.integers(0, 8))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.integers(len(data) // 2, len(data)))])


@st.composite
def broken(draw: st.DrawFn, value: object) -> object:
    """Return a JSON value in which one or two places hold something else, or nothing."""
    for _ in range(draw(st.integers(1, 2))):
        value = draw(_changed(value))
    return value


@st.composite
def _changed(draw: st.DrawFn, value: object) -> object:
    if isinstance(value, dict) and value and draw(st.integers(0, 9)) > 0:
        name = draw(st.sampled_from(sorted(value)))
        if draw(st.integers(0, 4)) == 0:
            return {key: part for key, part in value.items() if key != name}
        return {**value, name: draw(_changed(value[name]))}
    if isinstance(value, list) and value and draw(st.booleans()):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], draw(_changed(value[at])), *value[at + 1 :]]
    return draw(json_values())


def messages(kind: type[Message], **known: st.SearchStrategy[object]) -> st.SearchStrategy[Message]:
    """Messages with any fields set; `known` gives values by field name, at every depth."""
    return _message(kind, known, 4)


@st.composite
def _message(
    draw: st.DrawFn, kind: type[Message], known: dict[str, st.SearchStrategy[object]], depth: int
) -> Message:
    message = kind()
    fields = list(kind.DESCRIPTOR.fields)
    for field in draw(st.lists(st.sampled_from(fields), max_size=6)) if fields else []:
        _fill(draw, message, field, known, depth)
    return message


def _fill(
    draw: st.DrawFn,
    message: Message,
    field: Field,
    known: dict[str, st.SearchStrategy[object]],
    depth: int,
) -> None:
    if field.type == Field.TYPE_MESSAGE:
        # Maps, and structures without an end, are left to the random bytes.
        if depth == 0 or field.message_type.GetOptions().map_entry:
            return
        inner = _message(field.message_type._concrete_class, known, depth - 1)
        if field.is_repeated:
            getattr(message, field.name).extend(draw(st.lists(inner, max_size=3)))
        else:
            getattr(message, field.name).CopyFrom(draw(inner))
        return
    values = known[field.name] if field.name in known else _scalars(field)
    if field.is_repeated:
        getattr(message, field.name).extend(draw(st.lists(values, max_size=3)))
    else:
        setattr(message, field.name, draw(values))


def _scalars(field: Field) -> st.SearchStrategy[object]:
    match field.type:
        case Field.TYPE_STRING:
            return texts()
        case Field.TYPE_BYTES:
            return st.binary(max_size=64)
        case Field.TYPE_BOOL:
            return st.booleans()
        case Field.TYPE_DOUBLE | Field.TYPE_FLOAT:
            return st.floats(width=32)
        case Field.TYPE_ENUM:
            numbers = [value.number for value in field.enum_type.values]
            return st.sampled_from([*numbers, -5, 77])
        case Field.TYPE_UINT64 | Field.TYPE_FIXED64:
            return st.integers(0, 2**64 - 1) | st.integers(0, 5)
        case Field.TYPE_UINT32 | Field.TYPE_FIXED32:
            return st.integers(0, 2**32 - 1) | st.integers(0, 5)
        case Field.TYPE_INT64 | Field.TYPE_SINT64 | Field.TYPE_SFIXED64:
            return st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 5)
        case _:
            return st.integers(-(2**31), 2**31 - 1) | st.integers(-2, 5)
