"""A run from configuration to summary: the one path that sample, evaluate and programs share.

Several runs of different environments may be played as one, so that an engine's batch stays full.

Servers, tasks, policies, store and dispatcher are opened and released in this order. Whatever
ends a run, the records that are finished by then are durable.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from rich.console import Console

from agent_runtime import tracing
from agent_runtime.errors import AgentRuntimeError
from agent_runtime.logs import bind_context, get_logger
from agent_runtime.policies import PolicySpec, make_policy, policy_code
from agent_runtime.policies.base import Policy
from agent_runtime.serving import serving
from agent_runtime.spending import Pricing
from orchestrator.active_runs import ActiveRun, ActiveRuns, RunOutcome
from orchestrator.client import connection_options
from orchestrator.config import (
    EMBEDDED_POLICY,
    SERVED_POLICY,
    RunConfig,
)
from orchestrator.engine_process import embedded_process
from orchestrator.errors import OrchestratorError, UsageError
from orchestrator.fleet import Fleet
from orchestrator.manifest import (
    EnvironmentIdentity,
    Manifest,
    begin_session,
    code_changes,
    utc_now,
)
from orchestrator.ray_cluster.workplace import Workplace, open_workplace, wait_for_workers
from orchestrator.run_folder import check_free, inspect_folder
from orchestrator.run_logs import open_run_logs
from orchestrator.store import RunStore
from orchestrator.task_selection import Selection, select_tasks

__all__ = ["RunOutcome", "RunSpec", "check_prices", "run", "run_many"]

log = get_logger(__name__)

_NAMED = 4
"""Names that a line of the progress has room for."""


@dataclass(frozen=True, slots=True)
class RunSpec:
    """A run to play: its configuration and its folder."""

    config: RunConfig
    folder: Path
    resume: bool = False


async def run(config: RunConfig, folder: Path, *, resume: bool, console: Console) -> RunOutcome:
    """Play a run, new or resumed; raises OrchestratorError, AgentRuntimeError."""
    (outcome,) = await run_many([RunSpec(config, folder, resume)], console=console)
    return outcome


async def run_many(specs: Sequence[RunSpec], *, console: Console) -> list[RunOutcome]:
    """Play runs of different environments at once; outcomes in the order of the specs.

    Each is recorded in its own folder, as if it was played alone. They share what the first one's
    configuration says of servers, policies, retries and the number of live episodes.

    Raises:
        UsageError: Two of the runs have an environment in common, or other policies.
        OrchestratorError, AgentRuntimeError: What `run` raises.
    """
    specs = [replace(spec, config=spec.config.resolve()) for spec in specs]
    _check_compatible(specs)
    first = specs[0].config
    names = [name for spec in specs for name in _begun(spec)]
    run_ids = [_run_id(spec) for spec in specs]
    for spec in specs:
        check_free(spec.folder, resume=spec.resume)
    async with AsyncExitStack() as stack:
        logs = [
            stack.enter_context(open_run_logs(spec.folder, run_id, resume=spec.resume))
            for spec, run_id in zip(specs, run_ids, strict=True)
        ]
        if len(specs) == 1:  # else only what is logged about an episode is about one run
            stack.enter_context(bind_context(run_id=run_ids[0]))
        stack.enter_context(_log_failure())
        # Opened before the fleet: connections take the span to the servers.
        stack.enter_context(tracing.span("run", run_id=run_ids[0]))
        _tell(console, _where(names, first))
        optional = _optional(specs)
        workplace = await _open_workplace(first, names, stack, skip_unavailable=bool(optional))
        options = connection_options(first.client)
        fleet = await stack.enter_async_context(
            Fleet(
                names,
                first.fleet,
                workplace.options(options) if workplace else options,
                optional=optional,
                logs=logs[0].folder,
                source=workplace.source if workplace else None,
            )
        )
        selections = [await select_tasks(spec.config, fleet) for spec in specs]
        for name, problem in (it for selection in selections for it in selection.gaps.items()):
            _tell(console, f"NOT PLAYED as the suite has it: {name}: {problem}")
        _tell(console, f"starting {', '.join(map(str, first.policies))}")
        policies, played = await _start_policies(first, stack)
        codes = _policy_codes(first, policies)
        runs: list[ActiveRun] = []
        for spec, run_id, log_folder, chosen in zip(specs, run_ids, logs, selections, strict=True):
            config = spec.config
            manifest = _manifest(run_id, spec, fleet, policies, chosen)
            session = begin_session(config.runtime_fields(), policy_code=codes)
            begin = RunStore.resume if spec.resume else RunStore.create
            store = stack.enter_context(begin(spec.folder, manifest, session))
            await wait_for_workers(store, config.cluster.ray_lease)
            log_folder.settle()
            _tell_code_change(store.manifest, console)
            runs.append(ActiveRun(config, fleet, policies, store, chosen))
        make_player = workplace and partial(workplace.make_player, runs, fleet, played)
        return await ActiveRuns(runs, fleet, policies, console, make_player).play()


async def _open_workplace(
    config: RunConfig, names: Sequence[str], stack: AsyncExitStack, *, skip_unavailable: bool
) -> Workplace | None:
    """Open the cluster that a run asks for; None = it is played in this process."""
    if not config.cluster.address:
        return None
    opening = open_workplace(config, names, skip_unavailable=skip_unavailable)
    return await stack.enter_async_context(opening)


def _tell_code_change(manifest: Manifest, console: Console) -> None:
    """Say in a line where a run goes on under other code: that is allowed, and worth knowing."""
    if len(manifest.sessions) < 2:
        return
    for change in code_changes(*manifest.sessions[-2:]):
        log.info("code changed", change=change)
        _tell(console, change)


def _tell(console: Console, text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True, markup=False)


def _where(names: Sequence[str], config: RunConfig) -> str:
    """Say which environments are about to be looked for, and where."""
    what = ", ".join(names) if len(names) <= _NAMED else f"{len(names)} environments"
    servers = config.fleet.running
    if config.cluster.address and not servers:
        return f"starting environment servers for {what} on Ray ({config.cluster.address})"
    if not servers:
        return f"starting environment servers for {what}"
    where = ", ".join(servers) if len(servers) <= _NAMED else f"{len(servers)} servers"
    return f"connecting to {where} for {what}"


def _run_id(spec: RunSpec) -> str:
    """Return the recorded id of a run that is resumed, else a new one; raises RunFolderError."""
    return inspect_folder(spec.folder).run_id if spec.resume else uuid.uuid4().hex


def _begun(spec: RunSpec) -> Sequence[str]:
    """Return the environments that are played; raises RunFolderError.

    A suite's run that is resumed stays with those that it could play when it began.
    """
    names = spec.config.environments
    if not spec.resume or spec.config.resolved_suite is None:
        return names
    begun = {identity.name for identity in inspect_folder(spec.folder).environments}
    return [name for name in names if name in begun]


def _optional(specs: Sequence[RunSpec]) -> list[str]:
    """Return the environments without which their run is played, too: those of new suites' runs."""
    configs = [spec.config for spec in specs if not spec.resume]
    return [
        name
        for config in configs
        if config.resolved_suite is not None
        for name in config.environments
    ]


@contextmanager
def _log_failure() -> Generator[None]:
    """Write into the log what ended a run; whoever shows the error shows it to people."""
    try:
        yield
    except (OrchestratorError, AgentRuntimeError, OSError) as error:
        log.info("run failed", error=str(error), kind=type(error).__name__)
        raise
    except Exception as error:  # a defect of this program: the log gets the traceback
        log.error("run failed", error=repr(error), exc_info=True)
        raise


def _check_compatible(specs: Sequence[RunSpec]) -> None:
    """Raise UsageError for runs that cannot be played at once."""
    first = specs[0].config
    seen: set[str] = set()
    for spec in specs:
        names = spec.config.environments
        if twice := seen.intersection(names):
            raise UsageError(f"two runs that are played together have {min(twice)} in common")
        if (spec.config.policies, spec.config.agent) != (first.policies, first.agent):
            raise UsageError("runs that are played together have the same policies")
        seen.update(names)


async def _start_policies(
    config: RunConfig, stack: AsyncExitStack
) -> tuple[dict[str, Policy], dict[str, PolicySpec]]:
    """Start the policies; return them and what they play by the names that records give them.

    A policy without a target plays the run's own model, which is served first where it has to be.
    """
    policies: dict[str, Policy] = {}
    played: dict[str, PolicySpec] = {}
    for named in config.policies:
        spec = named
        if named.kind == SERVED_POLICY and not named.target:
            template = config.agent.sglang.chat_template
            served = await stack.enter_async_context(
                serving(config.model, config.serve, chat_template=template)
            )
            spec = replace(named, target=served.address)
        elif named.kind == EMBEDDED_POLICY and not named.target:
            spec = replace(named, target=config.model)
        played[str(named)] = spec
        if named.kind == EMBEDDED_POLICY and config.agent.embedded.process:
            own = embedded_process(str(spec), spec.target, config.agent)
            policy = await stack.enter_async_context(own)
        else:
            policy = make_policy(spec, config.agent)
        policies[str(named)] = policy
        check_prices(config, str(named), policy)
        await policy.start()
        log.info("policy started", policy=str(named), identity=policy.identity())
        stack.push_async_callback(policy.close)
    return policies, played


def check_prices(config: RunConfig, name: str, policy: Policy) -> None:
    """Raise UsageError where money is limited and nobody knows what replies cost."""
    limited = {
        "--max-cost": config.limits.max_cost,
        "--per-episode.max-cost": config.per_episode.max_cost,
    }
    flags = [flag for flag, limit in limited.items() if limit is not None]
    if flags and policy.pricing is Pricing.UNKNOWN:
        raise UsageError(
            f"{flags[0]} needs to know what the replies of {name} cost: give its prices (for "
            "openai: --openai.usd-per-million-input and --openai.usd-per-million-output), or "
            "limit --max-tokens or --time-limit"
        )


def _policy_codes(config: RunConfig, policies: Mapping[str, Policy]) -> dict[str, dict[str, str]]:
    """Return what identifies the code of the policies that are not this program's own."""
    codes = {str(spec): policy_code(spec, policies[str(spec)]) for spec in config.policies}
    return {name: code for name, code in codes.items() if code}


def _manifest(
    run_id: str,
    spec: RunSpec,
    fleet: Fleet,
    policies: Mapping[str, Policy],
    selection: Selection,
) -> Manifest:
    config = spec.config
    recorded = inspect_folder(spec.folder).config if spec.resume else None
    return Manifest(
        run_id=run_id,
        created=utc_now(),
        environments=tuple(
            EnvironmentIdentity(name=name, version=described.version, digest=described.digest)
            for name, described in sorted(fleet.described.items())
            if name in selection.tasks
        ),
        policy=",".join(map(str, config.policies)),
        policies={name: policy.identity() for name, policy in policies.items()},
        run_seed=config.seed,
        sampling=asdict(config.agent.sampling),
        config=config.resume_key(recorded),
    )
