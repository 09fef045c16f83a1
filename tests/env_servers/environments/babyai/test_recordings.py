"""AgentTraj-L's conversations, played again: the same actions must give the same words."""

from __future__ import annotations

from env_servers.environments.babyai.environment import BabyaiEnvironment
from env_servers.sdk import Rejected, TaskSet, read_first_action
from tests.kit.fidelity import FidelityContract, Replay, replay


class TestRecordedConversations(FidelityContract):
    """As the server of the recordings read them: everything after `Action:` is the action."""

    environment = BabyaiEnvironment
    counts = (405, 1930)

    @classmethod
    def read(cls, reply: str) -> str | Rejected:
        return read_first_action(reply)

    def final_reward(self, tasks: TaskSet, episode: Replay) -> None:
        """Return None: rewards are not in the recordings."""

    def test_with_todays_reply_parser_95_percent_of_the_observations_are_the_recorded_ones(
        self, replays: list[Replay], replayed_tasks: TaskSet
    ) -> None:
        """Today's parser takes one line; recorded replies with several lines differ."""
        pairs: list[tuple[str, str]] = []
        for recorded in replays:
            episode = replay(BabyaiEnvironment, replayed_tasks, recorded.recording)
            ends = [number for number, seen in enumerate(episode.observations) if seen.terminated]
            pairs += episode.pairs[1 : ends[0] + 1 if ends else None]
        assert sum(ours == theirs for ours, theirs in pairs) / len(pairs) >= 0.95
