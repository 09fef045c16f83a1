"""The contract passes a good environment and catches each defect with the check that is meant."""

from __future__ import annotations

import unittest

import pytest

from env_servers.sdk import EnvironmentUnavailable, UnknownEnvironment
from env_servers.sdk.contract import (
    CHECKS,
    EnvironmentContract,
    Terms,
    run_contract,
)
from tests.env_servers.sdk import countdown as c

DEFECTS = {
    "spec_describes_the_environment": [c.Nameless, c.Timeless],
    "action_formats_are_supported": [c.WithoutReact, c.WithoutExpress],
    "verbs_are_callable": [c.ForgottenParameter, c.KeywordParameter],
    "splits_are_sized_and_disjoint": [
        c.with_tasks(c.OverstatedTasks),
        c.with_tasks(c.OverlappingTasks),
    ],
    "pages_make_up_the_whole": [c.with_tasks(c.OffByOnePages), c.with_tasks(c.OverstatedTasks)],
    "item_ids_round_trip": [c.with_tasks(c.RenamedTasks), c.with_tasks(c.OtherCategories)],
    "bare_integers_are_items": [c.with_tasks(c.WholeIdsOnly), c.with_tasks(c.EchoedIds)],
    "unknown_items_and_splits_raise": [c.with_tasks(c.LookupErrors), c.with_tasks(c.AnySplit)],
    "unknown_profiles_and_options_raise": [c.AnyProfile, c.AnyOption, c.PromisedProfile],
    "observations_are_well_formed": [
        c.showing(reward=c.NumpyLike(1)),
        c.showing(reward=float("nan")),
        c.showing(reward=True),
        c.showing(terminated=True, truncated=True),
        c.showing(terminated=1),
        c.showing(text=b"bytes"),
        c.showing(text="\ud800"),
        c.showing(info={"seen": {1, 2}}),
        c.showing(info={1: "key"}),
        c.showing(info={"deep": [float("inf")]}),
        c.UndeclaredScore,
        c.MissingScore,
        c.WithoutReason,
    ],
    "replays_are_identical": [c.GlobalRandom, c.ProcessCounter, c.HiddenCounter],
    "other_processes_agree": [c.HashOrder, c.UnstableDigest],
    "episodes_are_isolated": [c.SharedHistory, c.SeedsGlobalRandom],
    "forks_are_equal_and_independent": [c.ShallowFork, c.ForgetfulFork, c.SameFork],
    "equal_fingerprints_have_equal_futures": [c.CoarseFingerprint],
    "hostile_actions_are_observations": [
        c.SplitsEmptyText,
        c.BelievesIsdigit,
        c.Recursive,
        c.RepeatsEverything,
    ],
    "hostile_replies_are_answered": [c.RaisingReader, c.ReaderOfNone, c.CountsRejections],
    "expert_succeeds": [c.LazyExpert, c.SlowExpert],
    "advice_is_pure": [c.ExpertWithMemory, c.ExpertThatActs, c.ExpertOfMoods, c.SilentExpert],
    "players_speak_every_format": [c.WrongExpress, c.Unspeakable],
    "random_player_never_fails": [c.RandomFails, c.RandomOfTheProcess],
    "doing_nothing_earns_nothing": [c.RewardsPatience],
    "every_state_has_views": [
        c.WithoutPen,
        c.BlindAtTheEnd,
        c.drawing(b"<p>never closed"),
        c.drawing(b"x" * 5_000_000),
    ],
    "hostile_actions_are_shown_as_text": [c.Believer, c.RawTerminal],
    "looking_changes_nothing": [c.Observer, c.OtherPaper, c.PaperOfTheEpisode],
    "images_come_out_again": [c.Unseen, c.Mislabelled, c.OtherFilm],
}
BY_NAME = {check.__name__: check for check in CHECKS}


class TestCountdown(EnvironmentContract):
    environment = c.Countdown
    terms = Terms(items_per_split=2)


class TestSighted(EnvironmentContract):
    environment = c.Sighted
    terms = Terms(items_per_split=1)


def test_every_check_has_a_defect_that_it_must_catch():
    assert set(DEFECTS) == set(BY_NAME)


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        pytest.param(name, broken, id=f"{name}-{number}-{broken.__name__}")
        for name, several in DEFECTS.items()
        for number, broken in enumerate(several)
    ],
)
def test_a_check_catches_its_defect(name, broken):
    report = run_contract(broken, checks=[BY_NAME[name]], terms=Terms(items_per_split=2))
    assert not report.passed
    assert report.results[0].failures
    assert not any("a fresh process ended" in failure for failure in report.results[0].failures)


def test_order_of_sets_is_caught_only_by_another_process():
    checks = [BY_NAME["replays_are_identical"], BY_NAME["other_processes_agree"]]
    report = run_contract(c.HashOrder, checks=checks)
    assert [result.passed for result in report.results] == [True, False]


def test_a_seeded_global_generator_is_caught_only_by_playing_in_turns():
    checks = [BY_NAME["replays_are_identical"], BY_NAME["episodes_are_isolated"]]
    report = run_contract(c.SeedsGlobalRandom, checks=checks)
    assert [result.passed for result in report.results] == [True, False]


def test_every_check_is_a_test_of_the_mixin():
    tests = {name for name in vars(EnvironmentContract) if name.startswith("test_")}
    assert tests == {f"test_{name}" for name in BY_NAME}


def test_the_mixin_fails_with_the_promise_and_what_was_found():
    class OfBroken(EnvironmentContract):
        environment = c.LazyExpert

    with pytest.raises(AssertionError, match="solved 0%"):
        OfBroken().test_expert_succeeds()
    OfBroken.teardown_class()


def test_the_mixin_skips_what_is_not_installed():
    class Absent(c.Countdown):
        @classmethod
        def load_tasks(cls, config):
            raise EnvironmentUnavailable("no engine", valid="install it")

    class OfAbsent(EnvironmentContract):
        environment = Absent

    with pytest.raises(unittest.SkipTest, match="install it"):
        OfAbsent().test_expert_succeeds()


def test_an_environment_without_an_expert_skips_the_experts_promises():
    report = run_contract(c.with_spec(has_expert=False), checks=[BY_NAME["expert_succeeds"]])
    assert report.passed
    assert report.results[0].skipped == "the environment has no expert"


def test_lower_terms_accept_an_expert_that_sometimes_fails():
    checks = [BY_NAME["expert_succeeds"]]
    assert run_contract(c.SlowExpert, checks=checks, terms=Terms(expert_success=0.0)).passed


def test_chosen_items_are_the_ones_that_are_played():
    seen = []
    terms = Terms(items=("countdown_1000007",))

    class Noting(c.Countdown):
        def reset(self, task, options):
            seen.append(task.item_id)
            return super().reset(task, options)

    run_contract(Noting, checks=[BY_NAME["expert_succeeds"]], terms=terms)
    assert set(seen) == {"countdown_1000007"}


def test_the_report_names_each_broken_promise():
    heard = []
    report = run_contract("echo", on_result=heard.append)
    assert report.passed
    assert tuple(heard) == report.results
    assert report.text().endswith(f"echo: {len(CHECKS)} passed, 0 failed, 0 skipped")
    broken = run_contract(c.LazyExpert, checks=[BY_NAME["expert_succeeds"]])
    assert "FAIL" in broken.text()
    assert "solved 0%" in broken.text()


def test_a_check_that_raises_has_failed_and_says_where():
    class Raising(c.Countdown):
        def reset(self, task, options):
            raise ZeroDivisionError("oh")

    report = run_contract(Raising, checks=[BY_NAME["replays_are_identical"]])
    assert "ZeroDivisionError('oh')" in report.results[0].failures[0]
    assert "test_contract.py" in report.results[0].failures[0]


def test_an_unknown_environment_is_an_error_and_no_report():
    with pytest.raises(UnknownEnvironment, match="no_such_environment"):
        run_contract("no_such_environment")
