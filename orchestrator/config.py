"""What a run is, as one typed tree; the command line's flags are generated from it.

Here is decided which part of it says *what* is played (`resume_key`: a resume must repeat it) and
which only *how* (`runtime_fields`: it may differ from session to session).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast

import tyro

from agent_runtime.agents import AgentManifest, PlaySettings, agent_folder, read_agent_manifest
from agent_runtime.policies import PolicyConfig, PolicySpec, Sampling
from agent_runtime.redaction import REDACTED, redact, redact_text
from agent_runtime.serving.config import ServeConfig
from agent_runtime.spending import EpisodeLimits
from agentgym.env.v1 import types_pb2
from orchestrator.client import ClientConfig
from orchestrator.configuration import (
    CommaSeparated,
    JsonObject,
    convert,
    flatten,
    parse_names,
    text_flag,
    to_plain,
)
from orchestrator.errors import ConfigurationError, UsageError
from orchestrator.fleet import FleetConfig
from orchestrator.manifest import IMPORTED_FROM, Manifest
from orchestrator.prompts import load_conversation_start
from orchestrator.ray_config import RayConfig
from orchestrator.retry import RetryPolicy
from orchestrator.run_limits import RunLimits
from orchestrator.suites import DEMO_SUITE, Suite, SuiteEnvironment, load_suite

__all__ = [
    "AGENT_POLICY",
    "EMBEDDED_POLICY",
    "SCRIPTED_POLICIES",
    "SERVED_POLICY",
    "PolicySpecs",
    "RunConfig",
    "parse_action_format",
    "parse_policies",
]

SERVED_POLICY = "sglang"
"""The kind that, without a target, plays the model which the run serves itself."""
EMBEDDED_POLICY = "embedded"
"""The kind that, without a target, plays the run's model in its own process."""
AGENT_POLICY = "agent"
"""A trained agent with a manifest."""
SCRIPTED_POLICIES = ("expert", "random", "noop")
_DEFAULT_SPLIT = "eval"

ActionFormatName = Literal["react", "function_calling", "code_as_action"]


def parse_policies(text: str) -> tuple[PolicySpec, ...]:
    """Split policies separated by commas; raises PolicyMisconfigured."""
    return tuple(PolicySpec.parse(name) for name in parse_names(text))


PolicySpecs = Annotated[
    tuple[PolicySpec, ...],
    text_flag(
        parse_policies,
        lambda specs: ",".join(map(str, specs)),
        lambda value: isinstance(value, tuple),
    ),
]
"""Policies, separated by commas on a command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """A run: which episodes, played by whom, where."""

    environments: Annotated[CommaSeparated, tyro.conf.arg(name="env")] = ()
    """Environments, separated by commas; with --suite only these of it."""
    suite: str = ""
    """agenteval: the official tasks; agenteval-embedded: as many of our own, which need no data;
    games, tools, web: some environments; demo: what the agent that plays was judged on; or the path
    of a suite file. Empty = demo, or no suite where --env is given."""
    split: str = ""
    """Split whose tasks are played; empty = the suite's, an agent's held-out tasks where --env
    names what it learned, or eval."""
    items: CommaSeparated = ()
    """Only these item ids, separated by commas; needs exactly one environment."""
    episodes: int = 40
    """Tasks per environment, chosen by a hash of their ids; 0 = all. A suite's numbers are not
    exceeded."""
    samples: int = 0
    """Episodes per task and policy; 0 = the suite's number, or 1."""
    policies: Annotated[PolicySpecs, tyro.conf.arg(name="policy")] = ()
    """Policies, separated by commas: expert, random, noop, agent (or agent:FOLDER), openai:MODEL,
    litellm:PROVIDER/MODEL, sglang:URL (of several engines URL+URL), embedded:PATH, or sglang or
    embedded with --model; NAME or NAME:TARGET of an installed package, MODULE:FACTORY or
    MODULE:FACTORY:TARGET. Empty = expert,random, and agent in the demo. An agent's settings
    (options, openings, rounds) hold for all who play beside it; in suites other than the demo they
    do not."""
    model: str = ""
    """Checkpoint folder, known model (`python -m agent_runtime.models list`) or name on the hub, to
    serve while the run lasts, for --policy sglang; or to load into this process, for --policy
    embedded."""
    max_rounds: int = 0
    """Replies per episode; 0 = each environment's own number, or the agent's."""
    action_format: ActionFormatName = "react"
    """How replies are written."""
    profile: str = ""
    """Profile of the environments; empty = each one's default."""
    prompts_from: Path | None = None
    """An AgentTraj file whose wording opens the conversations; needs exactly one environment."""
    conversation_start: tyro.conf.Suppress[tuple[str, ...]] = ()
    """Instruction and acknowledgement in place of the environment's own; `resolve` reads them from
    `prompts_from`. Needs exactly one environment."""
    options: JsonObject = field(default_factory=dict[str, Any])
    """Reset options as a JSON object; needs exactly one environment."""
    per_environment: tyro.conf.Suppress[Mapping[str, PlaySettings]] = field(
        default_factory=dict[str, PlaySettings]
    )
    """Settings of single environments; those of the whole run go before them. An agent's manifest
    fills them in."""
    resolved_suite: tyro.conf.Suppress[Suite | None] = None
    """What `suite` stands for: `resolve` reads its file, so that a resume needs none."""
    seed: int = 0
    """Seed of the run: every episode and every sampled token derives from it."""
    agent: Annotated[PolicyConfig, tyro.conf.arg(name="")] = field(default_factory=PolicyConfig)
    limits: Annotated[RunLimits, tyro.conf.arg(name="")] = field(default_factory=RunLimits)
    per_episode: EpisodeLimits = field(default_factory=EpisodeLimits)
    concurrency: int = 256
    """Episodes that are live at once."""
    fleet: Annotated[FleetConfig, tyro.conf.arg(name="")] = field(default_factory=FleetConfig)
    client: ClientConfig = field(default_factory=ClientConfig)
    cluster: Annotated[RayConfig, tyro.conf.arg(name="")] = field(default_factory=RayConfig)
    serve: ServeConfig = field(default_factory=ServeConfig)
    """How --model is served."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)

    @classmethod
    def from_manifest(cls, manifest: Manifest) -> Self:
        """Return the configuration that a run was last started with.

        Secrets are not in a manifest: `check` names those that have to be given again. Raises
        ConfigurationError where the run was not begun by this program's commands.
        """
        if IMPORTED_FROM in manifest.config:
            raise ConfigurationError("others played this run: it was imported, and cannot go on")
        values: Mapping[str, Any] = manifest.config
        if values.get("environments") and "resolved_suite" not in values:
            # Written before suites were recorded, and resolved already.
            values = {**values, "resolved_suite": to_plain(Suite())}
        if manifest.sessions:
            values = _merge(values, manifest.sessions[-1].settings)
        return convert(cls, values)

    def resolve(self) -> Self:
        """Return the same run with everything named that a suite, an agent or a file stands for.

        Environments, policies, settings and wording are then in the fields themselves, so that a
        manifest holds them and a resume needs neither agent nor file. Resolving twice changes
        nothing. Raises UsageError, PolicyMisconfigured.
        """
        named = replace(
            self,
            policies=self._policies(),
            agent=replace(self.agent, openai=self.agent.openai.resolve()),
        )
        if named.per_environment:
            named = replace(named, environments=named.environments or tuple(named.per_environment))
        elif named.resolved_suite is None:
            named = named._with_settings()
        named.check()
        if named.prompts_from is None:
            return named
        start = load_conversation_start(named.prompts_from)
        return replace(named, prompts_from=None, conversation_start=start)

    def _with_settings(self) -> Self:
        """Return the run with the environments and settings of its suite or its agent."""
        name = self._suite_name()
        suite = load_suite(name) if name else None
        by_agent = suite is None or suite.agent_settings
        learned = _read_agent_manifest(self.policies) if by_agent else None
        offered = self.environments
        if suite is not None and suite.agent_settings:
            learned = learned or read_agent_manifest(agent_folder(""))
            offered = learned.demonstrated
            if not offered:
                raise UsageError(
                    f"the agent {learned.name} beats a random player nowhere: there is nothing to "
                    "demonstrate; name what it is to play with --env"
                )
        elif suite is not None:
            offered = tuple(suite.environments)
        environments = self.environments or offered
        for environment in environments:
            if environment not in offered:
                raise UsageError(f"the suite {name} has no {environment!r}", valid=offered)
        settings: dict[str, PlaySettings] = {}
        if learned is not None:
            settings = {it: _learned_settings(learned, it) for it in environments}
        return replace(
            self, environments=environments, per_environment=settings, resolved_suite=suite
        )

    def _suite_name(self) -> str:
        """Return the suite that is played; empty = none is."""
        return self.suite or ("" if self.environments else DEMO_SUITE)

    def _policies(self) -> tuple[PolicySpec, ...]:
        """Return the policies that play: those asked for, else the suite's."""
        if self.policies:
            return self.policies
        demo = self._suite_name() == DEMO_SUITE
        kinds = ("expert", "random", *([AGENT_POLICY] if demo else []))
        return tuple(map(PolicySpec, kinds))

    def agent_sampling(self) -> Sampling | None:
        """Return how an agent samples that plays alone or beside scripted players, if one does.

        Beside another model both sample as the run says. Raises UsageError, PolicyMisconfigured.
        """
        policies = self._policies()
        if any(policy.kind not in (*SCRIPTED_POLICIES, AGENT_POLICY) for policy in policies):
            return None
        learned = _read_agent_manifest(policies)
        return learned.sampling() if learned is not None else None

    def environment_settings(self, name: str) -> PlaySettings:
        """Return how an environment of a resolved run is played.

        What holds for the whole run goes before what a suite or an agent's manifest says, and that
        before the environment's own, for which empty fields stand.
        """
        own = self.per_environment.get(name) or self.suite_entry(name).settings()
        return PlaySettings(
            profile=self.profile or own.profile,
            options=self.options or own.options,
            conversation_start=self.conversation_start or own.conversation_start,
            max_rounds=self.max_rounds or own.max_rounds,
            items=self.items or (() if self.split else own.items),
        )

    def environment_split(self, name: str) -> str:
        """Return the split whose tasks are played; empty = single items are."""
        if self.environment_settings(name).items:
            return ""
        return self.split or self.suite_entry(name).split or _DEFAULT_SPLIT

    def environment_episodes(self, name: str) -> int:
        """Return how many tasks are played at most; 0 = all. What --items names is all played."""
        if self.items:
            return 0
        return min(filter(None, (self.episodes, self.suite_entry(name).episodes)), default=0)

    def environment_samples(self, name: str) -> int:
        """Return how many episodes each policy plays of a task."""
        return self.samples or self.suite_entry(name).samples or 1

    def agents_own_settings(self) -> list[str]:
        """Say what an agent's manifest changes of a resolved run's environments, a line for each.

        Figures under such settings are no figures of the environment.
        """
        lines: list[str] = []
        for name, settings in self.per_environment.items():
            changes = [
                f"profile {settings.profile}" if settings.profile else "",
                f"options {json.dumps(dict(settings.options))}" if settings.options else "",
                "prompts of its own" if settings.conversation_start else "",
                f"at most {settings.max_rounds} replies" if settings.max_rounds else "",
            ]
            if told := ", ".join(filter(None, changes)):
                lines.append(f"{name} in the agent's settings, not the environment's: {told}")
        return lines

    def suite_changes(self) -> list[str]:
        """Return the flags by which a resolved run plays something else than its suite says."""
        suite = self.resolved_suite or Suite()
        changes: dict[str, object] = {
            "env": suite.environments and tuple(suite.environments) != self.environments,
            "episodes": self.episodes,
            "split": self.split,
            "items": self.items,
            "max-rounds": self.max_rounds,
            "profile": self.profile,
            "options": self.options,
            "prompts-from": self.conversation_start,
            "action-format": self.action_format != "react",
        }
        return [name for name, changed in changes.items() if changed]

    def suite_entry(self, name: str) -> SuiteEnvironment:
        """Return what a resolved run's suite says of an environment; all empty = nothing."""
        suite = self.resolved_suite or Suite()
        return suite.environments.get(name, SuiteEnvironment())

    def unasked(self, given: RunConfig) -> list[str]:
        """Return what a resume would start or reach that no flag of its command line names.

        Args:
            given: The same command line without what the manifest recorded.
        """
        flags, recorded = flatten(to_plain(given)), flatten(to_plain(self))
        default = flatten(to_plain(RunConfig()))
        foreign = [policy for policy in self.policies if policy.target or not policy.built_in]
        return [f"--policy {policy}" for policy in foreign if not given.policies] + [
            f"{_flag(path)} {text}"
            for path, text in recorded.items()
            if _REACHING.match(path)
            and text != default.get(path, _UNSET)
            and flags.get(path, _UNSET) == default.get(path, _UNSET)
        ]

    def resume_key(self, recorded: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the part that decides what is played, as JSON values: a resume must repeat it.

        Args:
            recorded: The same part as the run began with it. What it lacks, because an earlier
                program wrote it, is left out where it has its default: that changes nothing.
        """
        what = _partition(to_plain(self))[0]
        if recorded is None:
            return what
        return _without_new_defaults(what, recorded, _partition(to_plain(RunConfig()))[0])

    def runtime_fields(self) -> dict[str, Any]:
        """Return the part that only says how, as JSON values: sessions may differ in it."""
        return _partition(to_plain(self))[1]

    def check(self) -> None:
        """Raise UsageError for what cannot be meant."""
        self._check_secrets()
        for name, least in (("episodes", 0), ("samples", 0), ("concurrency", 1)):
            if getattr(self, name) < least:
                raise UsageError(f"--{name} is at least {least}")
        own_model = any(
            policy.kind in (SERVED_POLICY, EMBEDDED_POLICY) and not policy.target
            for policy in self.policies
        )
        if bool(self.model) != own_model:
            raise UsageError(
                "--policy sglang and --policy embedded need --model PATH, and --model one of them"
            )
        for_one = {
            "items": self.items,
            "options": self.options,
            "prompts-from": self.prompts_from or self.conversation_start,
        }
        if self.cluster.address and self.model and self.cluster.address != "local":
            raise UsageError(
                "--model is served or loaded on this machine alone, and --ray plays on others, "
                "too: start its server yourself and give --policy sglang:URL"
            )
        self._check_engine_process()
        used = [f"--{name}" for name, value in for_one.items() if value]
        if used and len(self.environments) != 1:
            raise UsageError(f"{used[0]} needs exactly one environment: give --env")

    def _check_engine_process(self) -> None:
        """Raise UsageError where no engine could have a process of its own."""
        if not self.agent.embedded.process:
            return
        if self.cluster.address:
            raise UsageError(
                "with --ray every worker has an engine of its own: leave out --embedded.process"
            )
        if any(policy.kind == AGENT_POLICY for policy in self.policies):
            raise UsageError(
                "--embedded.process is for --policy embedded: a packaged agent, which is small, "
                "plays in the run's process"
            )

    def _check_secrets(self) -> None:
        """Raise UsageError for secrets that are missing, or where they would be recorded."""
        plain = to_plain(self)
        for path, text in flatten(plain).items():
            if REDACTED in text:
                raise UsageError(
                    f"{_flag(path)} held a secret, which a run does not record: give it again"
                )
        suite = self.resolved_suite or Suite()
        recorded = [plain["options"], *(it.options for it in suite.environments.values())]
        if any(redact(options, "options") != options for options in recorded):
            raise UsageError(
                "--options are recorded with every episode and must not hold a secret: give it to "
                "the server, by an environment variable or --server-options"
            )
        for policy in self.policies:
            if redact_text(str(policy)) != str(policy):
                raise UsageError(
                    f"the address in --policy {policy.kind} names the policy in every record and "
                    f"must not hold a password: use {_key_flag(policy)}"
                )


def _key_flag(policy: PolicySpec) -> str:
    return f"--{policy.kind}.api-key-env" if policy.built_in else "an environment variable"


def _read_agent_manifest(policies: tuple[PolicySpec, ...]) -> AgentManifest | None:
    """Return the manifest of the agent that plays; raises UsageError where there are two."""
    agents = [policy for policy in policies if policy.kind == AGENT_POLICY]
    if not agents:
        return None
    if len(agents) > 1:
        raise UsageError(f"{agents[0]} and {agents[1]} have settings of their own: play one")
    return read_agent_manifest(agent_folder(agents[0].target))


def _learned_settings(learned: AgentManifest, environment: str) -> PlaySettings:
    if environment not in learned.environments:
        raise UsageError(
            f"the agent {learned.name} did not learn {environment}", valid=learned.environments
        )
    return learned.environments[environment]


_REACHING = re.compile(
    r"(cluster\.address$|fleet\.(servers|server_options|data)|client\.(ca|cert|key|insecure)|serve\.|model$"
    r"|agent\.cache$|agent\.openai\.(base_url|api_key_env|system_prompt|prompt_template|tokenizer)"
    r"|agent\.openai\.chat_template"
    r"|agent\.sglang\.(api_key_env|tokenizer|chat_template)|agent\.embedded\.chat_template)"
)
"""Fields, beside policies, by which a run starts programs, reads files or shows a key to
somebody."""
_UNSET = '""'
_RUNTIME = frozenset(
    {
        *("concurrency", "fleet", "client", "cluster", "serve", "retry", "limits"),
        *("agent.request_timeout", "agent.max_requests", "agent.requests_per_minute"),
        *("agent.tokens_per_minute", "agent.request_retry", "agent.cache"),
        *("agent.openai.prompt_cache", "agent.openai.stream"),
        *(f"agent.embedded.{name}" for name in ("process", "threads", "max_slots", "cache_gib")),
        # What a backend's name comes to binds by the policy's identity in the manifest.
        *("agent.embedded.prefill_tokens", "agent.embedded.backend"),
        *("agent.openai.base_url", "agent.openai.api_key_env", "agent.sglang.api_key_env"),
        *(
            f"agent.openai.usd_per_million_{kind}"
            for kind in ("input", "cached", "cache_write", "output")
        ),
    }
)
"""Fields that only say how a run is played: they may differ between its sessions."""


def _partition(
    values: Mapping[str, Any], prefix: str = ""
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a configuration as (what is played, how), both nested like the whole."""
    what: dict[str, Any] = {}
    how: dict[str, Any] = {}
    for name, value in values.items():
        path = f"{prefix}{name}"
        if path in _RUNTIME:
            how[name] = value
        elif isinstance(value, dict):
            inner_what, inner_how = _partition(cast("dict[str, Any]", value), f"{path}.")
            what[name] = inner_what
            if inner_how:
                how[name] = inner_how
        else:
            what[name] = value
    return what, how


def _without_new_defaults(
    values: Mapping[str, Any], recorded: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """Return values without those that are not recorded and have their default."""
    kept: dict[str, Any] = {}
    for name, value in values.items():
        old, default = recorded.get(name), defaults.get(name, _NO_DEFAULT)
        if name not in recorded and value == default:
            continue
        if isinstance(value, dict) and isinstance(old, Mapping) and isinstance(default, Mapping):
            inner = cast("dict[str, Any]", value)
            value = _without_new_defaults(
                inner, cast("Mapping[str, Any]", old), cast("Mapping[str, Any]", default)
            )
        kept[name] = value
    return kept


_NO_DEFAULT = object()


def _merge(what: Mapping[str, Any], how: Mapping[str, Any]) -> dict[str, Any]:
    """Put together what `_partition` took apart."""
    merged = dict(what)
    for name, value in how.items():
        inner = merged.get(name)
        if isinstance(inner, Mapping) and isinstance(value, Mapping):
            merged[name] = _merge(
                cast("Mapping[str, Any]", inner), cast("Mapping[str, Any]", value)
            )
        else:
            merged[name] = value
    return merged


def _flag(path: str) -> str:
    """Return the flag of a field."""
    path = re.sub(r"^cluster\.address$", "ray", path)
    path = re.sub(r"^(fleet|agent|cluster)\.|^(options)\..*", r"\2", path)
    path = re.sub(r"^policies\..*", "policy", path)
    return f"--{path.replace('_', '-')}"


def parse_action_format(name: ActionFormatName) -> types_pb2.ActionFormat:
    """Return the wire's value of an action format."""
    return cast(
        "types_pb2.ActionFormat", types_pb2.ActionFormat.Value(f"ACTION_FORMAT_{name.upper()}")
    )
