"""What can be asked, for programs (OpenAPI) and for people (a page): made of the messages.

Schemas come from the contract's descriptors, so that they cannot say something else than it.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

__all__ = ["Operation", "describe", "page"]

_ANY: Final = frozenset({"google.protobuf.Struct", "google.protobuf.Any"})
_SCALARS: Final = {
    FieldDescriptor.CPPTYPE_INT32: {"type": "integer"},
    FieldDescriptor.CPPTYPE_UINT32: {"type": "integer"},
    # ProtoJSON writes them as strings, and reads both.
    FieldDescriptor.CPPTYPE_INT64: {"type": ["string", "integer"]},
    FieldDescriptor.CPPTYPE_UINT64: {"type": ["string", "integer"]},
    FieldDescriptor.CPPTYPE_DOUBLE: {"type": "number"},
    FieldDescriptor.CPPTYPE_FLOAT: {"type": "number"},
    FieldDescriptor.CPPTYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.CPPTYPE_STRING: {"type": "string"},
}
_PROBLEM: Final = {
    "type": "object",
    "description": "What went wrong (RFC 9457).",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "reason": {"type": "string"},
        "retriable": {"type": "boolean"},
        "metadata": {"type": "object"},
    },
}
_OPENED: Final = {
    "type": "object",
    "properties": {
        "episode": {"type": "string"},
        "self": {"type": "string"},
        "event": {"$ref": "#/components/schemas/agentgym.env.v1.Event"},
    },
}


@dataclass(frozen=True, slots=True)
class Operation:
    """A method of an address."""

    method: str
    path: str
    summary: str
    body: type[Message] | None = None
    answer: type[Message] | None = None
    status: int = 200
    query: tuple[str, ...] = ()
    media: str = "application/json"


def describe(operations: Sequence[Operation], messages: Sequence[type[Message]]) -> dict[str, Any]:
    """Return the OpenAPI description of operations; `messages` are described in any case."""
    schemas: dict[str, Any] = {"Problem": _PROBLEM}
    for message in messages:
        _add(_descriptor(message), schemas)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        for message in (operation.body, operation.answer):
            if message is not None:
                _add(_descriptor(message), schemas)
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    info = {
        "title": "AgentGym over gRPC, as JSON",
        "version": version("agentgym-grpc"),
        "description": "Messages are those of the contract agentgym.env.v1, as ProtoJSON.",
    }
    return {
        "openapi": "3.1.0",
        "info": info,
        "paths": paths,
        "components": {"schemas": schemas},
    }


def page(operations: Sequence[Operation], environments: Sequence[str]) -> bytes:
    """Return a page for people: no script, nothing from elsewhere."""
    rows = "".join(
        f"<tr><td><code>{it.method} {html.escape(it.path)}</code><td>{html.escape(it.summary)}"
        for it in operations
    )
    links = ", ".join(
        f'<a href="/v1/environments/{html.escape(it)}">{html.escape(it)}</a>' for it in environments
    )
    name = html.escape(environments[0])
    json = "-H 'content-type: application/json'"
    example = html.escape(
        f"curl localhost:8080/v1/environments/{name}/tasks\n"
        f"curl localhost:8080/v1/episodes {json} "
        f"""-d '{{"environment": "{name}", "itemId": "ITEM"}}'\n"""
        f"""curl localhost:8080/v1/episodes/0/steps {json} -d '{{"action": "ACTION"}}'\n"""
        "curl -X DELETE localhost:8080/v1/episodes/0"
    )
    text = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>AgentGym as JSON</title>'
        "<h1>AgentGym as JSON</h1>"
        f'<p>Environments: {links}. For programs: <a href="/openapi.json">openapi.json</a>'
        f"<table>{rows}</table><pre>{example}</pre>"
    )
    return text.encode()


def _operation(operation: Operation) -> dict[str, Any]:
    names = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
    parameters = [_parameter(it, "path", required=True) for it in names]
    parameters += [_parameter(it, "query", required=False) for it in operation.query]
    described: dict[str, Any] = {
        "summary": operation.summary,
        "operationId": f"{operation.method.lower()}{operation.path}".replace("/", "_"),
        "parameters": parameters,
        "responses": {
            str(operation.status): _response(operation),
            "default": {
                "description": "What went wrong",
                "content": {"application/problem+json": {"schema": _reference("Problem")}},
            },
        },
    }
    if operation.body is not None:
        schema = _reference(operation.body.DESCRIPTOR.full_name)
        described["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    return described


def _response(operation: Operation) -> dict[str, Any]:
    response: dict[str, Any] = {"description": operation.summary}
    if operation.status == 204:
        return response
    schema: dict[str, Any] = {}
    if operation.answer is not None:
        schema = _reference(operation.answer.DESCRIPTOR.full_name)
    elif operation.status == 201:
        schema = _OPENED
    response["content"] = {operation.media: {"schema": schema}}
    return response


def _parameter(name: str, place: str, *, required: bool) -> dict[str, Any]:
    return {"name": name, "in": place, "required": required, "schema": {"type": "string"}}


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _descriptor(message: type[Message]) -> Descriptor:
    return cast("Descriptor", message.DESCRIPTOR)  # stubs name the implementations apart


def _add(message: Descriptor, schemas: dict[str, Any]) -> None:
    """Add the schema of a message and of those that it holds."""
    if message.full_name in schemas:
        return
    if message.full_name in _ANY:
        schemas[message.full_name] = {"type": "object"}
        return
    properties: dict[str, Any] = {}
    schemas[message.full_name] = {"type": "object", "properties": properties}
    for field in message.fields:
        if field.message_type is not None:
            _add(field.message_type, schemas)
        schema = _field(field)
        properties[field.json_name] = (
            {"type": "array", "items": schema} if field.is_repeated else schema
        )


def _field(field: FieldDescriptor) -> dict[str, Any]:
    if field.message_type is not None:
        return _reference(field.message_type.full_name)
    if field.enum_type is not None:
        return {"type": "string", "enum": [it.name for it in field.enum_type.values]}
    if field.type == FieldDescriptor.TYPE_BYTES:
        return {"type": "string", "contentEncoding": "base64"}
    return dict(_SCALARS[field.cpp_type])
