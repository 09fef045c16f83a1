"""pass@k and pass^k: unbiased, averaged over items, with bounds where samples are missing."""

from __future__ import annotations

from itertools import combinations
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.pass_rates import PassRate, measure_pass_rates, pass_all, pass_at
from orchestrator.records import EpisodeSummary, summarise
from orchestrator.run_plan import RunPlan
from orchestrator.statistics import MissingRule, summarise_categories, summarise_run
from tests.orchestrator.records import build_episode, build_failed


@given(st.integers(1, 7), st.data())
def test_the_estimators_average_over_all_choices_of_k_samples(n: int, data: st.DataObject) -> None:
    outcomes = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    k = data.draw(st.integers(1, n))
    chosen = list(combinations(outcomes, k))
    assert pass_at(n, sum(outcomes), k) == pytest.approx(mean(map(any, chosen)))
    assert pass_all(n, sum(outcomes), k) == pytest.approx(mean(map(all, chosen)))


def played(outcomes: dict[str, list[bool | None]]) -> tuple[list[EpisodeSummary], RunPlan]:
    """The records of a run by item and sample; None = given up."""
    records: list[EpisodeSummary] = []
    for item_id, samples in outcomes.items():
        for sample, success in enumerate(samples):
            if success is None:
                record = build_failed(item_id, sample=sample)
            else:
                record = build_episode(
                    item_id, sample=sample, reward=float(success), success=success
                )
            records.append(summarise(record))
    (policy,) = {record.policy for record in records}
    plan = RunPlan(items={"maze": tuple(outcomes)}, samples=4, policies=(policy,))
    return records, plan


def rates(outcomes: dict[str, list[bool | None]], rule: MissingRule = "bounds") -> list[PassRate]:
    records, plan = played(outcomes)
    return measure_pass_rates(records, plan, missing=rule)


WHOLE: dict[str, list[bool | None]] = {
    "maze_1": [True, False, False, False],
    "maze_2": [True, True, True, True],
}
PART: dict[str, list[bool | None]] = {**WHOLE, "maze_1": [True, False, False, None]}


def test_at_one_sample_both_are_the_success_rate() -> None:
    first, *_ = rates(WHOLE)
    records, plan = played(WHOLE)
    (row,) = summarise_run(records, plan=plan)
    assert first.k == 1
    assert first.pass_at.value == first.pass_all.value == row.success_rate == 0.625


def test_more_samples_solve_more_and_all_of_them_less() -> None:
    assert [rate.k for rate in rates(WHOLE)] == [1, 2, 4]
    two, four = rates(WHOLE)[1:]
    assert two.pass_at.value == pytest.approx((0.5 + 1) / 2)
    assert (four.pass_at.value, four.pass_all.value) == (1.0, 0.5)


def test_an_interval_counts_items_and_not_samples() -> None:
    four = rates(WHOLE)[-1]
    assert four.items == 2
    assert four.pass_at.interval is not None
    assert four.pass_at.interval.low == pytest.approx(0.342, abs=1e-3)  # Wilson, 2 of 2


def test_a_missing_sample_leaves_bounds_with_the_counts() -> None:
    four = rates(PART)[-1]
    assert (four.planned, four.judged, four.given_up) == (8, 7, 1)
    assert four.pass_at.value is None
    assert four.pass_all.bounds == (0.5, 0.5)
    assert rates(PART)[0].pass_at.bounds == (0.625, 0.75)


@pytest.mark.parametrize(("rule", "expected"), [("fail", 0.625), ("drop", 2 / 3), ("error", None)])
def test_other_rules_count_it_as_they_say(rule: MissingRule, expected: float | None) -> None:
    value = rates(PART, rule)[0].pass_at.value
    assert value == (expected if expected is None else pytest.approx(expected))


def test_what_is_played_once_has_no_rates() -> None:
    records, plan = played({"maze_1": [True]})
    once = RunPlan(items=plan.items, samples=1, policies=plan.policies)
    assert measure_pass_rates(records, once) == []


def test_categories_have_their_own_counts_and_an_unplayed_item_is_of_none() -> None:
    records, plan = played(WHOLE)
    more = RunPlan(
        items={"maze": (*plan.items["maze"], "maze_9")}, samples=4, policies=plan.policies
    )
    rows = summarise_categories(records, more)
    category = records[0].category
    assert [(name, row.planned, row.missing) for name, row in rows] == sorted(
        [("", 4, 4), (category, 8, 0)]
    )
