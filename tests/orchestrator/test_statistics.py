import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.env.v1 import types_pb2
from orchestrator.records import summarise
from orchestrator.run_plan import RunPlan
from orchestrator.statistics import (
    Interval,
    mcnemar_p,
    mean_interval,
    measure_difference,
    success_interval,
    summarise_run,
    wilson_interval,
)
from tests.orchestrator.records import build_episode, build_failed


def run_of(successes: int, losses: int, failures: int = 0):
    episodes = [build_episode(f"maze_{at}") for at in range(successes)]
    episodes += [
        build_episode(f"maze_{100 + at}", reward=0.0, success=False) for at in range(losses)
    ]
    episodes += [build_failed(f"maze_{200 + at}", attempt=3) for at in range(failures)]
    return [summarise(episode) for episode in episodes]


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    # Newcombe 1998, table I, method 3.
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_s_interval_has_its_published_values(successes, trials, low, high):
    interval = wilson_interval(successes / trials, trials)
    assert interval == pytest.approx((low, high), abs=5e-5)


@given(st.integers(0, 50), st.integers(1, 50))
def test_an_interval_holds_its_rate_and_stays_within_0_and_1(successes, more):
    trials = successes + more
    low, high = wilson_interval(successes / trials, trials)
    assert 0 <= low <= successes / trials <= high <= 1


def test_samples_of_one_item_that_always_agree_count_as_one():
    same = [(f"item_{at}", float(at % 2)) for at in range(20) for _ in range(8)]
    single = [(f"item_{at}", float(at % 2)) for at in range(20)]
    assert success_interval(same) == pytest.approx(success_interval(single), rel=0.02)
    assert mean_interval(same) == pytest.approx(mean_interval(single), abs=0.06)


def test_samples_that_spread_like_independent_ones_count_in_full():
    balanced = [(f"item_{at}", float(k % 2)) for at in range(20) for k in range(8)]
    assert success_interval(balanced) == pytest.approx(wilson_interval(0.5, 160))


def test_a_mean_s_interval_is_deterministic_whatever_the_order_of_the_episodes():
    values = [(f"item_{at}", (at * 37 % 100) / 10) for at in range(100)]
    shuffled = random.Random(0).sample(values, len(values))
    low, high = mean_interval(values)
    assert mean_interval(shuffled) == (low, high)
    # Close to the textbook interval: mean 4.95, standard error 2.9011 / 10.
    assert (low, high) == pytest.approx((4.95 - 0.5686, 4.95 + 0.5686), abs=0.1)


def test_large_runs_use_the_normal_approximation():
    values = [(f"item_{at}", float(at % 2)) for at in range(4000)]
    assert mean_interval(values) == pytest.approx((0.5 - 0.0155, 0.5 + 0.0155), abs=1e-4)


def test_one_item_says_nothing_about_the_spread():
    assert mean_interval([("item", 1.0), ("item", 0.0)]) is None
    assert mean_interval([]) is None
    assert success_interval([]) is None


def test_missing_episodes_leave_bounds_and_an_interval_that_holds_what_they_could_be():
    [found] = summarise_run(run_of(6, 2, failures=4))
    assert (found.episodes, found.finished, found.given_up, found.missing) == (12, 8, 4, 4)
    assert found.success_rate is found.mean_score is found.mean_reward is None
    assert found.success_bounds == found.score_bounds == pytest.approx((6 / 12, 10 / 12))
    worst, best = wilson_interval(6 / 12, 12), wilson_interval(10 / 12, 12)
    assert found.success_interval == pytest.approx((worst.low, best.high))
    assert found.failures == {"POLICY": 4}
    assert found.failure_reasons == {"POLICY_UNAVAILABLE": 4}
    assert found.retried == 4


def test_missing_episodes_are_dropped_or_counted_as_failures_only_where_that_is_asked_for():
    records = run_of(6, 2, failures=4)
    [whole] = summarise_run(run_of(6, 2))
    [dropped] = summarise_run(records, missing="drop")
    assert dropped.success_rate == dropped.mean_score == whole.success_rate == 0.75
    assert dropped.success_interval == whole.success_interval
    [failed] = summarise_run(records, missing="fail")
    assert (failed.success_rate, failed.success_interval) == (0.5, wilson_interval(0.5, 12))
    [refused] = summarise_run(records, missing="error")
    assert refused.success_rate is refused.success_bounds is refused.success_interval is None


def test_episodes_that_were_planned_and_not_played_are_missing_too():
    plan = RunPlan(
        items={"maze": tuple(f"maze_{at}" for at in range(10)), "wordle": ("wordle_1",)},
        samples=1,
        policies=("scripted",),
    )
    played, nothing = summarise_run(run_of(6, 0), plan=plan)
    assert (played.planned, played.judged, played.missing) == (10, 6, 4)
    assert played.success_bounds == pytest.approx((0.6, 1.0))
    assert (nothing.planned, nothing.judged, nothing.missing) == (1, 0, 1)
    assert nothing.success_rate is None


def test_scores_beyond_0_and_1_widen_what_a_missing_one_could_be():
    records = [summarise(build_episode(f"maze_{at}", reward=r)) for at, r in enumerate((-2.0, 4.0))]
    [found] = summarise_run([*records, summarise(build_failed("maze_9"))])
    assert found.score_bounds == pytest.approx((0.0, 2.0))


def test_a_group_of_failures_may_have_any_figure_and_counts_as_0_only_where_that_is_asked_for():
    [result] = summarise_run(run_of(0, 0, failures=3))
    assert result.success_rate is result.mean_score is None
    assert result.success_bounds == result.score_bounds == (0, 1)
    assert result.success_interval == (0, 1)
    [failed] = summarise_run(run_of(0, 0, failures=3), missing="fail")
    assert failed.success_rate == failed.mean_score == 0


def test_what_was_played_without_a_verdict_has_no_success_rate():
    [result] = summarise_run([summarise(build_episode(success=None)), *run_of(0, 0, failures=2)])
    assert result.success_rate is result.success_bounds is result.success_interval is None


def test_tokens_and_rounds_are_counted():
    [result] = summarise_run([summarise(build_episode())])
    assert (result.prompt_tokens, result.completion_tokens) == (11, 6)
    assert result.mean_rounds == 2
    assert result.cost_usd is None


def test_environments_and_policies_are_kept_apart():
    episodes = [
        build_episode(environment=environment, policy=policy)
        for environment in ("wordle", "maze")
        for policy in ("q", "p")
    ]
    found = summarise_run(summarise(episode) for episode in episodes)
    assert [(it.environment, it.policy) for it in found] == [
        ("maze", "p"),
        ("maze", "q"),
        ("wordle", "p"),
        ("wordle", "q"),
    ]


def test_a_fault_that_is_unknown_here_is_still_counted():
    episode = build_failed()
    episode.error.fault = types_pb2.FAULT_UNSPECIFIED
    [result] = summarise_run([summarise(episode)])
    assert result.failures == {"UNSPECIFIED": 1}


@pytest.mark.parametrize(
    ("won", "lost", "p_value"),
    # Two-sided binomial probabilities at 1/2, by hand: 2 (1 + 12 + 66) / 2**12, and so on.
    [(0, 0, 1.0), (0, 1, 1.0), (5, 0, 0.0625), (2, 10, 158 / 4096), (10, 2, 158 / 4096), (3, 3, 1)],
)
def test_mcnemar_s_exact_test_has_its_known_values(won, lost, p_value):
    assert mcnemar_p(won, lost) == p_value


@given(st.integers(0, 400), st.integers(0, 400))
def test_mcnemar_s_test_is_the_binomial_tail_on_both_sides(won, lost):
    turned = won + lost
    tail = sum(math.comb(turned, count) for count in range(min(won, lost) + 1))
    assert mcnemar_p(won, lost) == mcnemar_p(lost, won) == min(1.0, 2 * tail / 2**turned)


def test_mcnemar_s_test_holds_where_its_sums_are_no_floats():
    assert 0 < mcnemar_p(1900, 2100) < 0.01
    assert mcnemar_p(2000, 2000) == 1.0


outcomes_or_missing = st.sampled_from([0.0, 1.0, None])
pairs_of_outcomes = st.lists(
    st.tuples(outcomes_or_missing, outcomes_or_missing), min_size=1, max_size=8
)
few_examples = settings(max_examples=30)  # each draws thousands of resamples


def with_items(pairs):
    return [(f"item_{at}", *pair) for at, pair in enumerate(pairs)]


@few_examples
@given(pairs_of_outcomes)
def test_a_difference_is_its_contrary_where_the_sides_are_exchanged(pairs):
    forth = measure_difference(with_items(pairs))
    back = measure_difference(with_items([(second, first) for first, second in pairs]))
    if forth.bounds is None:
        assert back.value == pytest.approx(-forth.value)
    else:
        assert back.bounds == pytest.approx((-forth.bounds.high, -forth.bounds.low))


@few_examples
@given(pairs_of_outcomes, st.data())
def test_bounds_of_a_difference_hold_it_however_the_missing_ones_end(pairs, data):
    ends = [
        tuple(data.draw(st.sampled_from([0.0, 1.0])) if it is None else it for it in pair)
        for pair in pairs
    ]
    measured = measure_difference(with_items(pairs))
    value = measure_difference(with_items(ends)).value
    low, high = measured.bounds or (measured.value, measured.value)
    assert low - 1e-9 <= value <= high + 1e-9
    assert value == pytest.approx(sum(second - first for first, second in ends) / len(ends))


def test_the_interval_of_a_difference_is_paired_and_near_the_normal_one_of_many_items():
    generator = random.Random(4)
    easy = [generator.random() for _ in range(400)]
    pairs = [(f"item_{at}", float(ease > 0.5), float(ease > 0.45)) for at, ease in enumerate(easy)]
    differences = [second - first for _, first, second in pairs]
    mean = sum(differences) / len(pairs)
    variance = sum((it - mean) ** 2 for it in differences) / (len(pairs) - 1)
    half = 1.96 * math.sqrt(variance / len(pairs))
    interval = measure_difference(pairs).interval
    assert interval == pytest.approx((mean - half, mean + half), abs=0.01)
    # Unpaired, it would hold 0: each side alone is known to 5 percentage points only.
    assert interval.low > 0


def test_pairs_that_all_differ_by_the_same_have_no_interval():
    assert measure_difference(with_items([(0.0, 1.0)] * 5)).interval is None
    assert measure_difference(with_items([(0.0, 1.0)] * 5 + [(1.0, 1.0)])).interval is not None


def test_the_rules_for_missing_episodes_hold_for_differences():
    pairs = with_items([(0.0, 1.0), (1.0, None), (None, None), (1.0, 1.0)])
    assert measure_difference(pairs).bounds == Interval(-0.25, 0.5)
    assert measure_difference(pairs, missing="drop").value == 0.5
    assert measure_difference(pairs, missing="fail").value == 0.0
    assert measure_difference(pairs, missing="error").value is None
