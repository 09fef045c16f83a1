"""AgentTraj-L's conversations, played again: the same actions give the same observations."""

from __future__ import annotations

from env_servers.environments.textcraft import TextCraft
from env_servers.sdk import TaskSet
from tests.kit.fidelity import FidelityContract, Replay, replay


class TestRecordedConversations(FidelityContract):
    environment = TextCraft
    counts = (187, 1320)

    def test_the_live_text_differs_from_the_recorded_in_prefix_and_last_space_only(
        self, replays: list[Replay], replayed_tasks: TaskSet
    ) -> None:
        for episode in replays:
            options = {"original": 2024}
            live = replay(TextCraft, replayed_tasks, episode.recording, options)
            for ours, theirs in live.pairs:
                assert "Instruction:\n" + ours.rstrip(" ") == theirs
            assert (live.last.reward, live.last.terminated) == (1.0, True)
            assert not any(observation.terminated for observation in live.observations[:-1])

    def test_todays_original_differs_in_the_one_recording_that_names_the_goal_for_a_part(
        self, replays: list[Replay], replayed_tasks: TaskSet
    ) -> None:
        options = {"as_recorded": True, "original": "2025"}
        todays = [
            replay(TextCraft, replayed_tasks, episode.recording, options) for episode in replays
        ]
        differing = {
            episode.recording.item_id
            for episode in todays
            for ours, theirs in episode.pairs
            if ours != theirs
        }
        assert differing == {"textcraft_210"}
