"""AgentTraj-L's conversations, played again: the same actions must give the same words."""

from __future__ import annotations

from env_servers.environments.babyai.environment import BabyaiEnvironment
from env_servers.sdk import TaskSet
from tests.kit.fidelity import FidelityContract, Replay, replay


class TestRecordedConversations(FidelityContract):
    environment = BabyaiEnvironment
    counts = (405, 1930)

    def final_reward(self, tasks: TaskSet, episode: Replay) -> None:
        """Return None: rewards are not in the recordings."""

    def test_as_todays_original_reads_them_95_percent_of_the_observations_are_the_recorded_ones(
        self, replays: list[Replay], replayed_tasks: TaskSet
    ) -> None:
        """It takes one line; recorded replies with several lines differ."""
        options = {"available_actions": False}
        pairs: list[tuple[str, str]] = []
        for recorded in replays:
            episode = replay(BabyaiEnvironment, replayed_tasks, recorded.recording, options)
            ends = [number for number, seen in enumerate(episode.observations) if seen.terminated]
            pairs += episode.pairs[1 : ends[0] + 1 if ends else None]
        assert 0.95 <= sum(ours == theirs for ours, theirs in pairs) / len(pairs) < 1.0
