"""One typed tree for a run; the command line's flags are generated from it.

Owns which part of the configuration decides *what* is played (it binds a resume) and which only
says *how* (it may differ between sessions).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    Self,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import tyro

from agent_runtime.agents import AgentCard, PlaySettings, agent_folder, read_card
from agent_runtime.policies import PolicyConfig, Sampling
from agent_runtime.serving.config import ServeConfig
from agentgym.env.v1 import types_pb2
from orchestrator.errors import UsageError
from orchestrator.fleet import FleetConfig
from orchestrator.retry import RetryPolicy

__all__ = [
    "AGENT_POLICY",
    "EMBEDDED_POLICY",
    "SERVED_POLICY",
    "SUITES",
    "ClientConfig",
    "RunConfig",
    "action_format_of",
    "merge",
    "split_names",
]

DEMO_SUITE = "demo"
"""The suite of an agent: its environments, in its settings, on the tasks that judged it."""
SUITES: Mapping[str, tuple[str, ...]] = {
    DEMO_SUITE: (),
    "games": ("maze", "wordle", "textcraft", "babyai"),
}
"""Named sets of environments; the demo's are on the agent's card."""
SERVED_POLICY = "sglang"
"""The policy that plays the model which the run serves itself."""
EMBEDDED_POLICY = "embedded"
"""The policy that plays the run's model in its own process."""

AGENT_POLICY = "agent"
"""A trained agent with a card."""
_SCRIPTED = ("expert", "random", "noop")
_DEFAULT_SPLIT = "eval"

T = TypeVar("T")
Plain = Mapping[str, Any]
"""JSON objects."""

ActionFormatName = Literal["react", "function_calling", "code_as_action"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """How to reach environment servers."""

    connect_deadline: float = 20.0
    """Seconds to wait for a server, at first and after a loss."""
    ca: Path | None = None
    """PEM roots to verify servers with; turns TLS on."""
    cert: Path | None = None
    """PEM certificate of this client (mTLS)."""
    key: Path | None = None
    """PEM private key of this client (mTLS)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """A run: which episodes, played by whom, where."""

    env: str = ""
    """Environments, separated by commas; empty = those of --suite."""
    suite: str = DEMO_SUITE
    """demo: the shipped agent's environments and held-out tasks, in its settings; games: the same
    four, each in its own."""
    split: str = ""
    """Split whose tasks are played; empty = eval, or an agent's held-out tasks where one plays."""
    items: str = ""
    """Only these item ids, separated by commas; needs exactly one environment."""
    episodes: int = 40
    """Tasks per environment, chosen by a hash of their ids; 0 = all."""
    samples: int = 1
    """Episodes per task and policy."""
    policy: str = ""
    """Policies, separated by commas: expert, random, noop, agent (or agent:FOLDER), openai:MODEL,
    sglang:URL, embedded:PATH, or sglang or embedded with --model. Empty = expert,random, and agent
    in the demo. An agent's settings (options, openings, rounds) hold for all who play beside it."""
    model: str = ""
    """Checkpoint folder (or name on the hub) to serve while the run lasts, for --policy sglang;
    or to load into this process, for --policy embedded."""
    max_rounds: int = 0
    """Replies per episode; 0 = each environment's own number, or the agent's."""
    action_format: ActionFormatName = "react"
    """How replies are written."""
    profile: str = ""
    """Profile of the environments; empty = each one's default."""
    prompts_from: Path | None = None
    """An AgentTraj file whose wording opens the conversations; needs exactly one environment."""
    options: str = ""
    """Reset options as a JSON object; needs exactly one environment."""
    play: tyro.conf.Suppress[dict[str, PlaySettings]] = field(
        default_factory=dict[str, PlaySettings]
    )
    """Settings of single environments, which flags go before; filled in by `settled`."""
    seed: int = 0
    """Seed of the run: every episode and every sampled token derives from it."""
    agent: Annotated[PolicyConfig, tyro.conf.arg(name="")] = field(default_factory=PolicyConfig)
    concurrency: int = 256
    """Episodes that are live at once."""
    fleet: Annotated[FleetConfig, tyro.conf.arg(name="")] = field(default_factory=FleetConfig)
    client: ClientConfig = field(default_factory=ClientConfig)
    serve: ServeConfig = field(default_factory=ServeConfig)
    """How --model is served."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)

    def settled(self) -> Self:
        """The same run with everything named that a suite or an agent stands for.

        Environments, policies and settings are then in the fields themselves, so that a manifest
        holds them and a resume needs no card; settling twice changes nothing. Raises UsageError,
        PolicyMisconfigured.
        """
        if self.play:
            return self
        policies = self.policies()
        card = self._card(policies)
        names = split_names(self.env)
        if not names and self.suite == DEMO_SUITE:
            card = card or read_card(agent_folder(""))
            names = list(card.environments)
        elif not names:
            if self.suite not in SUITES:
                raise UsageError(f"unknown suite {self.suite!r}", valid=SUITES)
            names = list(SUITES[self.suite])
        return replace(
            self,
            env=",".join(names),
            policy=",".join(policies),
            play={name: _settings_for(card, name) for name in names} if card else {},
        )

    def environments(self) -> list[str]:
        """The environments to play; raises UsageError."""
        return split_names(self.settled().env)

    def policies(self) -> list[str]:
        """The policies that play; raises UsageError."""
        if self.policy:
            names = split_names(self.policy)
        else:
            demo = not self.env and self.suite == DEMO_SUITE
            names = ["expert", "random", *([AGENT_POLICY] if demo else [])]
        if not names:
            raise UsageError("--policy names no policy", valid=("expert", "random", "agent"))
        return names

    def agent_sampling(self) -> Sampling | None:
        """How an agent samples that plays alone or beside scripted players; None = there is none.

        Beside another model both sample as the run says. Raises UsageError, PolicyMisconfigured.
        """
        policies = self.policies()
        others = [it for it in policies if it not in _SCRIPTED and not _agent_name(it)]
        card = None if others else self._card(policies)
        return card.sampling() if card is not None else None

    def settings_of(self, environment: str) -> PlaySettings:
        """How an environment is played: by flags, else as suite or agent say, else as it is.

        The opening of `prompts_from` is not read here. Raises UsageError.
        """
        own = self.play.get(environment, PlaySettings())
        items = tuple(split_names(self.items))
        return PlaySettings(
            profile=self.profile or own.profile,
            options=self.reset_options() or own.options,
            opening=own.opening,
            max_rounds=self.max_rounds or own.max_rounds,
            items=items or (() if self.split else own.items),
        )

    def split_of(self, environment: str) -> str:
        """The split whose tasks are played; empty = single items are."""
        return "" if self.settings_of(environment).items else self.split or _DEFAULT_SPLIT

    def _card(self, policies: Sequence[str]) -> AgentCard | None:
        """The card of the agent that plays; raises UsageError where there are two."""
        agents = [it for it in policies if _agent_name(it)]
        if not agents:
            return None
        if len(agents) > 1:
            raise UsageError(f"{agents[0]} and {agents[1]} have settings of their own: play one")
        return read_card(agent_folder(agents[0].partition(":")[2]))

    def reset_options(self) -> dict[str, Any]:
        """The reset options; raises UsageError."""
        if not self.options:
            return {}
        try:
            options = json.loads(self.options)
        except ValueError as error:
            raise UsageError(f"--options is not JSON: {error}") from error
        if not isinstance(options, dict):
            raise UsageError("--options is not a JSON object")
        return options  # pyright: ignore[reportUnknownVariableType]

    def binding(self) -> dict[str, Any]:
        """The part that decides what is played."""
        return _split(self.as_plain())[0]

    def settings(self) -> dict[str, Any]:
        """The part that only says how."""
        return _split(self.as_plain())[1]

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> Self:
        """The configuration of a manifest; raises UsageError for fields that are unknown."""
        return _build(cls, values)

    def check(self) -> None:
        """Raise UsageError for what cannot be meant."""
        for name, least in (("episodes", 0), ("samples", 1), ("concurrency", 1)):
            if getattr(self, name) < least:
                raise UsageError(f"--{name} is at least {least}")
        if bool(self.model) == {SERVED_POLICY, EMBEDDED_POLICY}.isdisjoint(self.policies()):
            raise UsageError(
                "--policy sglang and --policy embedded need --model PATH, and --model one of them"
            )
        alone = {"items": self.items, "options": self.options, "prompts-from": self.prompts_from}
        given = [f"--{name}" for name, value in alone.items() if value]
        if given and len(self.environments()) != 1:
            raise UsageError(f"{given[0]} needs exactly one environment: give --env")

    def as_plain(self) -> dict[str, Any]:
        """The whole configuration as JSON values."""
        return json.loads(json.dumps(dataclasses.asdict(self), default=str))


def _agent_name(policy: str) -> bool:
    return policy.partition(":")[0] == AGENT_POLICY


def _settings_for(card: AgentCard, environment: str) -> PlaySettings:
    if environment not in card.environments:
        raise UsageError(
            f"the agent {card.name} did not learn {environment}", valid=card.environments
        )
    return card.environments[environment]


_HOW = frozenset(
    {
        *("concurrency", "fleet", "client", "serve", "retry"),
        *("agent.request_timeout", "agent.max_requests", "agent.requests_per_minute"),
        *(f"agent.embedded.{name}" for name in ("threads", "max_slots", "cache_gib")),
        # What a backend's name comes to binds by the policy's identity in the manifest.
        *("agent.embedded.prefill_tokens", "agent.embedded.backend"),
        *("agent.openai.base_url", "agent.openai.api_key_env", "agent.sglang.api_key_env"),
        *(f"agent.openai.usd_per_million_{kind}" for kind in ("input", "cached", "output")),
    }
)
"""Fields that only say how a run is played: they may differ between its sessions."""


def _split(values: Mapping[str, Any], prefix: str = "") -> tuple[dict[str, Any], dict[str, Any]]:
    """A configuration as (what is played, how it is played), both nested like the whole."""
    what: dict[str, Any] = {}
    how: dict[str, Any] = {}
    for name, value in values.items():
        path = f"{prefix}{name}"
        if path in _HOW:
            how[name] = value
        elif isinstance(value, dict):
            inner_what, inner_how = _split(cast("dict[str, Any]", value), f"{path}.")
            what[name] = inner_what
            if inner_how:
                how[name] = inner_how
        else:
            what[name] = value
    return what, how


def merge(what: Mapping[str, Any], how: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of the split into what and how."""
    merged = dict(what)
    for name, value in how.items():
        known = merged.get(name)
        if isinstance(known, Mapping) and isinstance(value, Mapping):
            merged[name] = merge(cast("Plain", known), cast("Plain", value))
        else:
            merged[name] = value
    return merged


def _build(kind: type[T], values: Mapping[str, Any]) -> T:
    """A dataclass from JSON values; raises UsageError for fields that it does not have."""
    hints = get_type_hints(kind)
    unknown = sorted(set(values) - set(hints))
    if unknown:
        raise UsageError(f"{kind.__name__} has no field {unknown[0]!r}", valid=hints)
    return kind(**{name: _convert(hints[name], value) for name, value in values.items()})


def _convert(hint: Any, value: Any) -> Any:
    """A field's value from JSON: objects become dataclasses, lists tuples, texts paths."""
    if dataclasses.is_dataclass(hint) and isinstance(value, dict):
        return _build(cast("type[Any]", hint), cast("dict[str, Any]", value))
    if get_origin(hint) is dict and isinstance(value, dict):
        inner = get_args(hint)[1]
        given = cast("dict[str, Any]", value)
        return {name: _convert(inner, it) for name, it in given.items()}
    if isinstance(value, list):
        return tuple(cast("list[Any]", value))
    if isinstance(value, str) and Path in (hint, *get_args(hint)):
        return Path(value)
    return value


def split_names(text: str) -> list[str]:
    """Names separated by commas, without repetitions."""
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def action_format_of(name: str) -> types_pb2.ActionFormat:
    """The wire's value of an action format's name."""
    number = types_pb2.ActionFormat.Value(f"ACTION_FORMAT_{name.upper()}")
    return cast("types_pb2.ActionFormat", number)
