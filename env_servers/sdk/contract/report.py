"""Runs the checks of the contract and says what was found.

Knows the checks by order only. A check that raises has failed: this is where that is decided.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from env_servers.sdk.contract import (
    image_checks,
    play_checks,
    player_checks,
    spec_checks,
    task_checks,
    view_checks,
)
from env_servers.sdk.contract.subject import NotApplicable, Subject, Terms
from env_servers.sdk.environment import Environment, EnvironmentConfig
from env_servers.sdk.registry import load_environment

__all__ = ["CHECKS", "Check", "CheckResult", "ContractReport", "examine", "run_contract"]

Check = Callable[[Subject], Iterator[str]]
"""Yields a sentence per broken promise; raises NotApplicable. Its docstring is the promise."""

CHECKS: Final[tuple[Check, ...]] = (
    spec_checks.spec_describes_the_environment,
    spec_checks.action_formats_are_supported,
    spec_checks.verbs_are_callable,
    task_checks.splits_are_sized_and_disjoint,
    task_checks.pages_make_up_the_whole,
    task_checks.item_ids_round_trip,
    task_checks.bare_integers_are_items,
    task_checks.unknown_items_and_splits_raise,
    task_checks.unknown_profiles_and_options_raise,
    play_checks.observations_are_well_formed,
    play_checks.replays_are_identical,
    play_checks.other_processes_agree,
    play_checks.episodes_are_isolated,
    play_checks.forks_are_equal_and_independent,
    play_checks.equal_fingerprints_have_equal_futures,
    play_checks.hostile_actions_are_observations,
    play_checks.hostile_replies_are_answered,
    player_checks.expert_succeeds,
    player_checks.advice_is_pure,
    player_checks.players_speak_every_format,
    player_checks.random_player_never_fails,
    player_checks.doing_nothing_earns_nothing,
    view_checks.every_state_has_views,
    view_checks.hostile_actions_are_shown_as_text,
    view_checks.looking_changes_nothing,
    image_checks.images_come_out_again,
)
"""The contract, cheap checks first."""

_FAILURES_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one check found."""

    name: str
    promise: str
    """What the check asks for, in one sentence."""
    failures: tuple[str, ...] = ()
    """One sentence per broken promise, the first ten."""
    skipped: str = ""
    """Why the check does not apply; empty = it was made."""

    @property
    def passed(self) -> bool:
        return not self.failures


@dataclass(frozen=True, slots=True)
class ContractReport:
    """What all checks found about one environment."""

    environment: str
    results: tuple[CheckResult, ...]

    @property
    def passed(self) -> bool:
        """Whether no promise is broken."""
        return all(result.passed for result in self.results)

    def text(self) -> str:
        """One line per check and one per failure, for a terminal."""
        lines: list[str] = []
        for result in self.results:
            mark = "skip" if result.skipped else "ok" if result.passed else "FAIL"
            reason = f" ({result.skipped})" if result.skipped else ""
            lines.append(f"{mark:4}  {result.promise}{reason}")
            lines += [f"      - {failure}" for failure in result.failures]
        failed = sum(not result.passed for result in self.results)
        skipped = sum(bool(result.skipped) for result in self.results)
        passed = len(self.results) - failed - skipped
        lines.append(f"{self.environment}: {passed} passed, {failed} failed, {skipped} skipped")
        return "\n".join(lines)


def run_contract(
    environment: str | type[Environment],
    *,
    config: EnvironmentConfig | None = None,
    terms: Terms | None = None,
    checks: Sequence[Check] = CHECKS,
    on_result: Callable[[CheckResult], None] | None = None,
) -> ContractReport:
    """Make the checks on an environment, given as a name or as its class.

    `on_result` hears of each check as it ends. Raises UnknownEnvironment and
    EnvironmentUnavailable; whatever else is wrong is in the report.
    """
    name = environment if isinstance(environment, str) else ""
    loaded = load_environment(environment) if isinstance(environment, str) else environment
    subject = Subject(loaded, config or EnvironmentConfig(), terms or Terms(), registered_name=name)
    results: list[CheckResult] = []
    try:
        for check in checks:
            results.append(examine(check, subject))
            if on_result is not None:
                on_result(results[-1])
    finally:
        subject.tasks.close()
    return ContractReport(loaded.spec.name, tuple(results))


def examine(check: Check, subject: Subject) -> CheckResult:
    """One check's result: an exception is a failure, NotApplicable a skip."""
    promise = (check.__doc__ or check.__name__).partition("\n")[0]
    failures: list[str] = []
    try:
        failures += islice(check(subject), _FAILURES_SHOWN)
    except NotApplicable as error:
        if not failures:
            return CheckResult(check.__name__, promise, skipped=str(error))
    except Exception as error:  # noqa: BLE001 - the boundary between an environment and its report
        frame = traceback.extract_tb(error.__traceback__)[-1]
        failures.append(f"raised {error!r:.200} at {frame.filename}:{frame.lineno}")
    return CheckResult(check.__name__, promise, tuple(failures))
