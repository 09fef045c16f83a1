"""Checks of what an environment says about itself, before anything is played.

Each check yields one sentence per broken promise; its docstring is the promise.
"""

from __future__ import annotations

import json
import keyword
import math
import re
from collections.abc import Iterator
from typing import Any, Final, cast

from env_servers.sdk.contract.subject import Subject
from env_servers.sdk.grammar import Parameter, Verb, type_names
from env_servers.sdk.types import ActionFormat, Execution, Metric

__all__ = ["action_formats_are_supported", "spec_describes_the_environment", "verbs_are_callable"]

_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_EXAMPLES: Final[dict[str, object]] = {
    "string": "x",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "object": {},
    "any": "x",
}


def spec_describes_the_environment(subject: Subject) -> Iterator[str]:
    """The spec names, describes and bounds the environment."""
    spec = subject.spec
    if subject.registered_name not in ("", spec.name):
        yield f"it was loaded as {subject.registered_name!r} and calls itself {spec.name!r}"
    if not _NAME.fullmatch(spec.name):
        yield f"name {spec.name!r} is no lower-case identifier"
    if not (spec.version and spec.description):
        yield "version and description must not be empty"
    if spec.max_rounds < 1:
        yield f"max_rounds is {spec.max_rounds}"
    if not spec.profiles or len(set(spec.profiles)) != len(spec.profiles):
        yield f"profiles {spec.profiles} must be distinct, and at least one"
    if not math.isfinite(spec.success_score):
        yield f"success_score is {spec.success_score}"
    if spec.episode_bytes < 1:
        yield f"episode_bytes is {spec.episode_bytes}"
    types = ((spec.metric, Metric), (spec.execution, Execution))
    for value, expected in types:
        if type(value) is not expected:
            yield f"{value!r} is no {expected.__name__}"


def action_formats_are_supported(subject: Subject) -> Iterator[str]:
    """Every action format has a conversation start and what is needed to read and write it."""
    spec, grammar = subject.spec, subject.spec.grammar
    if ActionFormat.REACT not in spec.conversation_starts:
        yield "there is no conversation start for REACT"
    for action_format, start in spec.conversation_starts.items():
        if type(action_format) is not ActionFormat:
            yield f"{action_format!r} is no ActionFormat"
            continue
        if not (start.instruction.strip() and start.acknowledgement.strip()):
            yield f"the conversation start of {action_format.name} is empty"
        if action_format is not ActionFormat.REACT and not grammar.verbs:
            yield f"{action_format.name} needs verbs"
        if action_format is not ActionFormat.REACT and grammar.express is None:
            yield f"{action_format.name} needs `express`, or scripted players cannot speak it"


def verbs_are_callable(subject: Subject) -> Iterator[str]:
    """Verbs have distinct names, known types, a JSON schema, and templates that they fill."""
    grammar = subject.spec.grammar
    names = [verb.name for verb in grammar.verbs]
    if len(set(names)) != len(names):
        yield f"verbs share a name: {sorted(names)}"
    json.loads(grammar.functions_json())
    for verb in grammar.verbs:
        yield from _verb_flaws(verb)


def _verb_flaws(verb: Verb) -> Iterator[str]:
    for name in (verb.name, *(parameter.name for parameter in verb.parameters)):
        if not name.isidentifier() or keyword.iskeyword(name):
            yield f"{verb.name}: {name!r} cannot be written in a python call"
    if not verb.description:
        yield f"{verb.name} has no description"
    unknown = {
        kind for p in verb.parameters for kind in (p.type, p.items or p.type) if _unknown(kind)
    }
    if unknown:
        yield f"{verb.name} has parameters of unknown types: {sorted(unknown)}"
        return
    required = {p.name: _example(p) for p in verb.parameters if p.required}
    full = {p.name: _example(p) for p in verb.parameters}
    for label, arguments in (("its required", required), ("all", full)):
        try:
            action = cast("object", verb.render(arguments))
        except ValueError:
            continue  # the verb has rules of its own for values
        except (KeyError, TypeError, AttributeError, LookupError) as error:
            yield f"{verb.name} cannot be rendered from {label} arguments: {error!r}"
            continue
        if not isinstance(action, str):
            yield f"{verb.name} renders to {type(action).__name__}"


def _unknown(kind: str) -> bool:
    return kind not in type_names


def _example(parameter: Parameter) -> Any:
    if parameter.enum:
        return parameter.enum[0]
    if parameter.type == "array":
        return [_EXAMPLES.get(parameter.items, "x")]
    return _EXAMPLES[parameter.type]
