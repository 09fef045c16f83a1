"""The contract as a test class: one test method per promise.

    class TestMyEnv(EnvironmentContract):
        environment_name = "my_env"

Works with pytest, which it never imports: a skip is `unittest.SkipTest`, a failure an assertion.
"""

from __future__ import annotations

import unittest
from typing import ClassVar

from env_servers.sdk.contract import (
    image_checks,
    play_checks,
    player_checks,
    spec_checks,
    task_checks,
    view_checks,
)
from env_servers.sdk.contract.report import Check, examine
from env_servers.sdk.contract.subject import Subject, Terms
from env_servers.sdk.environment import Environment, EnvironmentConfig
from env_servers.sdk.errors import EnvironmentUnavailable
from env_servers.sdk.registry import load_environment

__all__ = ["EnvironmentContract"]


class EnvironmentContract:
    """Inherit it in a class named `Test...` and say which environment is meant."""

    environment_name: ClassVar[str] = ""
    """As `load_environment` knows it."""
    environment: ClassVar[type[Environment] | None] = None
    """The class itself, where it has no registered name."""
    terms: ClassVar[Terms] = Terms()
    """Sample sizes, and what the players must reach."""
    config: ClassVar[EnvironmentConfig] = EnvironmentConfig()
    """Where official data is, and settings."""
    _subject: ClassVar[Subject | None] = None

    @classmethod
    def subject(cls) -> Subject:
        """The environment under check, loaded once per test class."""
        if cls.__dict__.get("_subject") is None:
            try:
                environment = cls.environment or load_environment(cls.environment_name)
                name = "" if cls.environment else cls.environment_name
                cls._subject = Subject(environment, cls.config, cls.terms, registered_name=name)
            except EnvironmentUnavailable as error:
                raise unittest.SkipTest(str(error)) from error
        assert cls._subject is not None
        return cls._subject

    @classmethod
    def teardown_class(cls) -> None:
        """Releases the task set."""
        subject = cls.__dict__.get("_subject")
        if subject is not None:
            subject.tasks.close()
            cls._subject = None

    def holds(self, check: Check) -> None:
        """Assert one promise."""
        __tracebackhide__ = True
        result = examine(check, self.subject())
        if result.skipped:
            raise unittest.SkipTest(result.skipped)
        assert result.passed, "\n- ".join((result.promise, *result.failures))

    def test_spec_describes_the_environment(self) -> None:
        self.holds(spec_checks.spec_describes_the_environment)

    def test_action_formats_are_supported(self) -> None:
        self.holds(spec_checks.action_formats_are_supported)

    def test_verbs_are_callable(self) -> None:
        self.holds(spec_checks.verbs_are_callable)

    def test_splits_are_sized_and_disjoint(self) -> None:
        self.holds(task_checks.splits_are_sized_and_disjoint)

    def test_pages_make_up_the_whole(self) -> None:
        self.holds(task_checks.pages_make_up_the_whole)

    def test_item_ids_round_trip(self) -> None:
        self.holds(task_checks.item_ids_round_trip)

    def test_bare_integers_are_items(self) -> None:
        self.holds(task_checks.bare_integers_are_items)

    def test_unknown_items_and_splits_raise(self) -> None:
        self.holds(task_checks.unknown_items_and_splits_raise)

    def test_unknown_profiles_and_options_raise(self) -> None:
        self.holds(task_checks.unknown_profiles_and_options_raise)

    def test_observations_are_well_formed(self) -> None:
        self.holds(play_checks.observations_are_well_formed)

    def test_replays_are_identical(self) -> None:
        self.holds(play_checks.replays_are_identical)

    def test_other_processes_agree(self) -> None:
        self.holds(play_checks.other_processes_agree)

    def test_episodes_are_isolated(self) -> None:
        self.holds(play_checks.episodes_are_isolated)

    def test_forks_are_equal_and_independent(self) -> None:
        self.holds(play_checks.forks_are_equal_and_independent)

    def test_equal_fingerprints_have_equal_futures(self) -> None:
        self.holds(play_checks.equal_fingerprints_have_equal_futures)

    def test_hostile_actions_are_observations(self) -> None:
        self.holds(play_checks.hostile_actions_are_observations)

    def test_hostile_replies_are_answered(self) -> None:
        self.holds(play_checks.hostile_replies_are_answered)

    def test_expert_succeeds(self) -> None:
        self.holds(player_checks.expert_succeeds)

    def test_advice_is_pure(self) -> None:
        self.holds(player_checks.advice_is_pure)

    def test_players_speak_every_format(self) -> None:
        self.holds(player_checks.players_speak_every_format)

    def test_random_player_never_fails(self) -> None:
        self.holds(player_checks.random_player_never_fails)

    def test_doing_nothing_earns_nothing(self) -> None:
        self.holds(player_checks.doing_nothing_earns_nothing)

    def test_every_state_has_views(self) -> None:
        self.holds(view_checks.every_state_has_views)

    def test_hostile_actions_are_shown_as_text(self) -> None:
        self.holds(view_checks.hostile_actions_are_shown_as_text)

    def test_looking_changes_nothing(self) -> None:
        self.holds(view_checks.looking_changes_nothing)

    def test_images_come_out_again(self) -> None:
        self.holds(image_checks.images_come_out_again)
