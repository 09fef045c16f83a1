"""What makes an observation fit for the wire: one sentence per flaw."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast

from env_servers.sdk.environment import EnvironmentSpec
from env_servers.sdk.images import UnfitImage, require_fit
from env_servers.sdk.types import Observation, StopReason

__all__ = ["flaws"]

_STOPS: Final = {
    (True, False): (StopReason.GOAL_REACHED, StopReason.GOAL_FAILED, StopReason.ANSWERED),
    (False, True): (StopReason.STEP_LIMIT,),
    (False, False): (StopReason.NONE,),
    (True, True): (),
}


def flaws(observation: object, spec: EnvironmentSpec, *, first: bool = False) -> Iterator[str]:
    """What is wrong with an observation, one sentence each; `first` = it answers a reset."""
    if not isinstance(observation, Observation):
        yield f"it is a {type(observation).__name__}, not an Observation"
        return
    if (flaw := _text_flaw(observation.text)) is not None:
        yield f"its text {flaw}"
    yield from _number_flaws(observation, spec, first=first)
    yield from _end_flaws(observation)
    if observation.info is not None and (flaw := _json_flaw(observation.info)) is not None:
        yield f"its info {flaw}"
    yield from _image_flaws(observation, spec)


def _number_flaws(observation: Observation, spec: EnvironmentSpec, *, first: bool) -> Iterator[str]:
    for name in ("reward", "score"):
        value: object = getattr(observation, name)
        if value is not None and (type(value) not in (int, float) or not _finite(value)):
            yield f"its {name} is {value!r} of type {type(value).__name__}, no finite float"
    if not spec.has_score and observation.score is not None:
        yield "it has a score, and the spec says has_score=False"
    if spec.has_score and observation.score is None and not first:
        yield "it has no score, and the spec says has_score=True"


def _end_flaws(observation: Observation) -> Iterator[str]:
    for name in ("terminated", "truncated"):
        if type(getattr(observation, name)) is not bool:
            yield f"its {name} is no bool"
    ends = (bool(observation.terminated), bool(observation.truncated))
    if ends == (True, True):
        yield "it is terminated and truncated"
    elif observation.stop_reason not in _STOPS[ends]:
        yield f"its stop reason {observation.stop_reason!r} does not fit how it ends: {ends}"


def _image_flaws(observation: Observation, spec: EnvironmentSpec) -> Iterator[str]:
    if observation.images and not spec.has_images:
        yield "it has images, and the spec says has_images=False"
    try:
        require_fit(observation.images)
    except UnfitImage as error:
        yield str(error)


def _finite(value: object) -> bool:
    return math.isfinite(cast("float", value))


def _text_flaw(text: object) -> str | None:
    if type(text) is not str:
        return f"is a {type(text).__name__}"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"is no UTF-8: {error.reason}"
    return None


def _json_flaw(value: object) -> str | None:
    """Why a value could not be sent as JSON, or None."""
    if value is None or type(value) in (bool, int):
        return None
    if type(value) is float:
        return None if math.isfinite(value) else f"holds {value}"
    if type(value) is str:
        return _text_flaw(value)
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        flaws_inside = (_text_flaw(key) or _json_flaw(child) for key, child in items)
        return next((flaw for flaw in flaws_inside if flaw), None)
    if isinstance(value, list | tuple):
        flaws_inside = (_json_flaw(child) for child in cast("Sequence[object]", value))
        return next((flaw for flaw in flaws_inside if flaw), None)
    return f"holds a {type(value).__name__}, which is no JSON"
