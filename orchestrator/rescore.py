"""Command: judge a run's finished episodes anew, beside its records.

    python -m orchestrator.rescore RUN --threshold 0.5                        another success score
    python -m orchestrator.rescore RUN --profile fixed                        another profile
    python -m orchestrator.rescore RUN --judge openai:MODEL --rubric FILE     a judge

Writes `RUN/scores/NAME/` and changes no record. Called again with the same settings it goes on
with what has no score yet.
"""

from __future__ import annotations

import json as json_text
import math
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, cast

import tyro

from agent_runtime.judge import Judge
from agent_runtime.policies import PolicyConfig, PolicySpec, Sampling, make_policy, policy_code
from agent_runtime.redaction import Json, redact
from orchestrator.client import ClientConfig, connection_options
from orchestrator.command_line import ObservationOptions, make_console, run_command, run_loop
from orchestrator.config import RunConfig
from orchestrator.configuration import CommaSeparated, to_plain
from orchestrator.errors import ConfigurationError, EpisodesMissing, UsageError
from orchestrator.fleet import Fleet, FleetConfig
from orchestrator.manifest import Session, begin_session, is_own
from orchestrator.run import check_prices
from orchestrator.run_folder import find_run
from orchestrator.run_limits import RunLimits
from orchestrator.sample import STOPPED_BY_LIMIT
from orchestrator.scorings.comparison import (
    Comparison,
    comparison_data,
    print_comparison,
    read_comparison,
)
from orchestrator.scorings.judged import JudgeScorer, load_rubric
from orchestrator.scorings.profile import ProfileScorer
from orchestrator.scorings.progress import ScoringProgress
from orchestrator.scorings.scoring import Scorer, lacking, score_run
from orchestrator.scorings.table import ScoresWriter, check_scoring_name
from orchestrator.scorings.threshold import ThresholdScorer
from orchestrator.statistics import MissingRule
from orchestrator.store import RunReader
from orchestrator.trust import check_environments

__all__ = ["RescoreOptions", "main"]


def _judges_config() -> PolicyConfig:
    """Return an evaluator's defaults: one reply each, that need not be waited for for ever."""
    return PolicyConfig(
        sampling=Sampling(temperature=0, max_new_tokens=1024), request_timeout=120.0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RescoreOptions:
    """Judge a run's finished episodes anew, beside its records."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of the run, or its name within `--runs`."""
    runs: Path = Path("runs")
    """Where runs are looked up by name."""
    name: str = ""
    """Name of the scoring; default: from how it judges, for example threshold-0.5."""
    threshold: float | None = None
    """Judge by the recorded scores: success is a score of at least this, in the environment's own
    unit."""
    profile: str = ""
    """Play the recorded actions again under this profile of the environments; an episode whose
    agent would have been shown something else gets no score."""
    judge: str = ""
    """Ask this policy, for example openai:MODEL, sglang:URL, embedded:PATH or MODULE:FACTORY."""
    rubric: Path | None = None
    """What the judge is asked: a TOML file with a template and grades."""
    votes: int = 1
    """Replies of the judge per episode; more than one need a --temperature above 0."""
    seed: int = 0
    """Seed of the judge's replies."""
    environments: Annotated[CommaSeparated, tyro.conf.arg(name="env")] = ()
    """Only these environments of the run, separated by commas."""
    missing: MissingRule = "bounds"
    """What episodes without a new score count as: bounds shows what the figures are if all of them
    fail and if all succeed; fail counts them as failures; drop leaves them out; error gives no
    figures."""
    max_cost: float | None = None
    """US dollars that the judge's replies may cost, over all calls of a scoring; then no episode is
    begun any more. Needs known prices."""
    max_tokens: int | None = None
    """The same in tokens of prompts and replies."""
    time_limit: float | None = None
    """The same in seconds, of this call."""
    concurrency: int = 64
    """Episodes that are judged at once."""
    trust_run: bool = False
    """Also serve environments that a stranger's run names and that are packages of this folder."""
    agent: Annotated[PolicyConfig, tyro.conf.arg(name="")] = field(default_factory=_judges_config)
    fleet: Annotated[FleetConfig, tyro.conf.arg(name="")] = field(default_factory=FleetConfig)
    client: ClientConfig = field(default_factory=ClientConfig)
    json: bool = False
    """Print the comparison as JSON on stdout, and everything else on stderr."""
    observation: Annotated[ObservationOptions, tyro.conf.arg(name="")] = field(
        default_factory=ObservationOptions
    )

    def check(self) -> None:
        """Raise UsageError for what cannot be meant."""
        ways = (self.threshold is not None, bool(self.profile), bool(self.judge))
        if sum(ways) != 1:
            raise UsageError(
                "say in one way how to judge: --threshold SCORE, --profile NAME, or --judge POLICY "
                "with --rubric FILE"
            )
        if self.threshold is not None and not math.isfinite(self.threshold):
            raise UsageError("--threshold is a number")
        if bool(self.judge) != (self.rubric is not None):
            raise UsageError("--judge needs a --rubric FILE, and --rubric a --judge")
        openai = self.agent.openai
        if self.judge and (openai.system_prompt or openai.prompt_template):
            raise UsageError(
                "the rubric says all that a judge is told: leave out --openai.system-prompt and "
                "--openai.prompt-template"
            )
        if self.votes < 1 or self.concurrency < 1:
            raise UsageError("--votes and --concurrency are at least 1")
        if self.judge and self.votes > 1 and not self.agent.sampling.temperature:
            raise UsageError("votes at temperature 0 are one vote: give a --temperature above 0")
        check_scoring_name(self.scoring_name)

    @property
    def limits(self) -> RunLimits:
        """What may be spent; raises ConfigurationError."""
        try:
            return RunLimits(
                max_cost=self.max_cost, max_tokens=self.max_tokens, time_limit=self.time_limit
            )
        except ValueError as error:
            raise ConfigurationError(str(error)) from error

    @property
    def scoring_name(self) -> str:
        """The name of the scoring."""
        if self.name:
            return self.name
        if self.threshold is not None:
            return f"threshold-{self.threshold:g}"
        return f"profile-{self.profile}" if self.rubric is None else f"judge-{self.rubric.stem}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns 0 when every finished episode has a score, 3 when a limit ended it before, 1 else.
    """
    return run_command(RescoreOptions, _rescore, argv, program="python -m orchestrator.rescore")


def _rescore(options: RescoreOptions) -> int:
    options.observation.configure()
    options.check()
    with RunReader.open(find_run(options.run, options.runs)) as run:
        environments = _environments(run, options)
        comparison, limit = run_loop(_score(run, options, environments))
        console = make_console(stderr=options.json)
        print_comparison(console, comparison)
        if limit:
            text = f"the scoring came to {limit}; raise the limit, and the same command goes on"
            console.print(text, highlight=False, soft_wrap=True)
        if options.json:
            data = comparison_data(comparison) | {"limit": limit}
            sys.stdout.write(json_text.dumps(data, indent=2) + "\n")
        if options.missing == "error" and not comparison.complete:
            raise EpisodesMissing(f"{run.folder}: {comparison.missing} episodes have no new score")
    if comparison.scored == comparison.finished:
        return 0
    return STOPPED_BY_LIMIT if limit else 1


def _environments(run: RunReader, options: RescoreOptions) -> list[str]:
    played = {identity.name for identity in run.manifest.environments}
    unknown = sorted(set(options.environments) - played)
    if unknown:
        raise UsageError(f"the run has no environment {unknown[0]!r}", valid=sorted(played))
    return sorted(options.environments or played)


_IN_A_TRANSACTION: Final = 1024
"""Verdicts that wait for nothing are stored so many at a time."""


@dataclass(frozen=True, slots=True)
class _Judging:
    """What judges, and what is noted of it."""

    scorer: Scorer
    settings: Mapping[str, Any]
    """What decides the verdicts: binds whoever goes on."""
    session: Session
    concurrency: int = 0
    """Episodes that are judged at once; 0 = as the user says."""
    notice: Callable[[], str] = str
    """Says what is wrong now; empty = nothing."""


async def _score(
    run: RunReader, options: RescoreOptions, environments: list[str]
) -> tuple[Comparison, str]:
    """Judge, and return what it came to, and which limit ended it."""
    limits = options.limits
    async with _open_judging(run, options, environments) as judging:
        settings = cast(
            "dict[str, Json]", redact({**judging.settings, "environments": environments})
        )
        with ScoresWriter.begin(run, options.scoring_name, settings, judging.session) as scores:
            total = len(lacking(run, scores, environments))
            console = make_console(stderr=True)
            async with ScoringProgress(console, total, judging.notice) as progress:
                limit = await score_run(
                    run,
                    scores,
                    judging.scorer,
                    environments=environments,
                    concurrency=judging.concurrency or options.concurrency,
                    limits=limits,
                    on_score=progress.judged,
                )
            return read_comparison(run, scores, missing=options.missing), limit


@asynccontextmanager
async def _open_judging(
    run: RunReader, options: RescoreOptions, environments: list[str]
) -> AsyncGenerator[_Judging]:
    if options.threshold is not None:
        settings = {"threshold": options.threshold}
        yield _Judging(
            ThresholdScorer(options.threshold), settings, begin_session(), _IN_A_TRANSACTION
        )
    elif options.profile:
        async with _open_profile(run, options, environments) as judging:
            yield judging
    else:
        async with _open_judge(options) as judging:
            yield judging


@asynccontextmanager
async def _open_profile(
    run: RunReader, options: RescoreOptions, environments: list[str]
) -> AsyncGenerator[_Judging]:
    asked_for = options.trust_run or options.environments or options.fleet.running
    if not asked_for and not is_own(run.folder):
        check_environments(environments)
    async with Fleet(environments, options.fleet, connection_options(options.client)) as fleet:
        served = {
            name: {"version": described.version, "digest": described.digest}
            for name, described in fleet.described.items()
        }
        settings = {"profile": options.profile, "served": served}
        yield _Judging(ProfileScorer(fleet, options.profile), settings, begin_session())


@asynccontextmanager
async def _open_judge(options: RescoreOptions) -> AsyncGenerator[_Judging]:
    assert options.rubric is not None
    rubric, spec = load_rubric(options.rubric), PolicySpec.parse(options.judge)
    policy = make_policy(spec, options.agent)
    # A run's configuration knows which settings of a policy decide its replies, and which secrets.
    config = RunConfig(policies=(spec,), agent=options.agent, limits=options.limits)
    config.check()
    check_prices(config, str(spec), policy)
    await policy.start()
    try:
        settings = {
            "judge": str(spec),
            "identity": dict(policy.identity()),
            "rubric": to_plain(rubric),
            "votes": options.votes,
            "seed": options.seed,
            "agent": config.resume_key()["agent"],
        }
        code = policy_code(spec, policy)
        session = begin_session(
            {"agent": config.runtime_fields()["agent"], "rubric": str(options.rubric)},
            policy_code={str(spec): code} if code else None,
        )
        judge = Judge(policy, rubric, votes=options.votes)

        def notice() -> str:
            outage = policy.outage()
            return "" if outage is None else outage.describe()

        scorer = JudgeScorer(judge, seed=options.seed)
        yield _Judging(scorer, settings, session, notice=notice)
    finally:
        await policy.close()


if __name__ == "__main__":
    sys.exit(main())
