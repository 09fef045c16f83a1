"""What clients of sessions say, and are answered.

The shapes are OpenEnv's (0.10), which whoever calls functions of an environment can use: a reset's
further names are options, an action refuses fields that it does not know, an answer is
`{observation, reward, done}`. A reward that nobody gave is null.
"""

from __future__ import annotations

import base64
from typing import Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from agent_runtime.episode import Transition
from agentgym.env.v1 import types_pb2
from env_servers.gateways.errors import BadRequest

__all__ = [
    "Action",
    "InvalidMessage",
    "Observation",
    "Reset",
    "State",
    "to_result",
    "validate",
]

_SHOWN_ERRORS: Final = 20


class Action(BaseModel):
    """One of `action`, `reply`, a call of a tool, or the question which tools there are."""

    model_config = ConfigDict(extra="forbid", strict=True)

    action: str | None = Field(
        default=None, description="What the environment understands: 'move up'"
    )
    reply: str | None = Field(default=None, description="A model's whole reply, read by the server")
    type: Literal["call_tool", "list_tools"] | None = Field(
        default=None, description="OpenEnv's tools"
    )
    tool_name: str | None = Field(default=None, description="With call_tool: a function's name")
    arguments: dict[str, Any] = Field(default_factory=dict, description="With call_tool")
    metadata: dict[str, Any] = Field(default_factory=dict, description="Not looked at")

    @model_validator(mode="after")
    def _is_one_thing(self) -> Action:
        said = [self.action is not None, self.reply is not None, self.type is not None]
        if sum(said) != 1:
            raise ValueError("name one of `action`, `reply` and `type`")
        if (self.type == "call_tool") != (self.tool_name is not None):
            raise ValueError("`tool_name` and the type `call_tool` belong together")
        return self


class Reset(BaseModel):
    """What opens an episode; further names are options of the environment."""

    model_config = ConfigDict(extra="allow", strict=True)

    seed: int | None = Field(
        default=None, ge=0, lt=2**63, description="Also chooses the task, alone"
    )
    episode_id: str | None = Field(default=None, max_length=255, description="A name of your own")
    item_id: str | None = Field(default=None, description="The task, by its id")
    index: int | None = Field(default=None, ge=0, description="The task, by its place in the split")
    split: str | None = Field(
        default=None, description="Tasks to choose from; default: the first split"
    )
    profile: str = Field(
        default="", description="`agentgym` or `fixed`; default: the first that there is"
    )

    @property
    def options(self) -> dict[str, Any]:
        """Settings of the environment."""
        return {name: it for name, it in (self.model_extra or {}).items() if it is not None}


class Image(BaseModel):
    """One image of an observation."""

    media_type: str = Field(description="image/png, image/jpeg or image/webp")
    data: str = Field(description="The file in base64")


class Observation(BaseModel):
    """What an answer's `observation` holds."""

    text: str = Field(description="What the agent is shown")
    episode_id: str
    item_id: str
    seq: int = Field(description="Steps that led here; 0 is the answer to a reset")
    score: float | None = Field(description="Of the episode, as if it ended here")
    terminated: bool
    truncated: bool
    stop_reason: str | None
    parsed_action: str | None = Field(description="What was played")
    info: dict[str, Any]
    images: list[Image] = Field(
        default_factory=list[Image], description="Left out where an observation has none"
    )
    instruction: str | None = Field(
        default=None, description="After a reset: what the agent is told"
    )
    tool_name: str | None = Field(default=None, description="After call_tool")
    result: Any = Field(default=None, description="After call_tool: the text")
    error: Any = Field(default=None, description="After call_tool: always null")


class State(BaseModel):
    """Where an episode is; all null before a reset."""

    episode_id: str | None = None
    step_count: int = Field(default=0, ge=0)
    environment: str
    item_id: str | None = None
    last: dict[str, Any] | None = Field(
        default=None, description="The last answer, whoever read it"
    )
    rebuilds: int = Field(default=0, description="Times that a lost server was replaced")


class InvalidMessage(BadRequest):
    """When a message lacks fields or has others; `errors` are pydantic's."""

    reason = "VALIDATION_ERROR"

    def __init__(self, message: str, errors: list[Any]) -> None:
        super().__init__(message)
        self.errors = errors


M = TypeVar("M", bound=BaseModel)


def validate(model: type[M], value: Any, *within: str) -> M:
    """Return `value` as a model; raises InvalidMessage, whose errors begin at `within`."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        found: list[Any] = error.errors(
            include_url=False, include_context=False, include_input=False
        )[:_SHOWN_ERRORS]
        for it in found:
            it["loc"] = [*within, *it["loc"]]
        said = "; ".join(f"{'.'.join(map(str, it['loc']))}: {it['msg']}" for it in found[:3])
        raise InvalidMessage(f"Invalid message: {said}"[:500], found) from None


def to_result(last: Transition, episode_id: str, item_id: str, **extra: Any) -> dict[str, Any]:
    """Return an answer as `{observation, reward, done}`; `extra` are further fields of it."""
    observation = {
        "text": last.text,
        "episode_id": episode_id,
        "item_id": item_id,
        "seq": last.seq,
        "score": last.score,
        "terminated": last.terminated,
        "truncated": last.truncated,
        "stop_reason": types_pb2.StopReason.Name(last.stop_reason) if last.ended else None,  # pyright: ignore[reportArgumentType]
        "parsed_action": last.parsed_action,
        "info": dict(last.info or {}),
        **extra,
    }
    if last.images:
        observation["images"] = [
            {"media_type": it.media_type, "data": base64.b64encode(it.content).decode()}
            for it in last.images
        ]
    return {"observation": observation, "reward": last.reward, "done": last.ended}
