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
            live = replay(TextCraft, replayed_tasks, episode.recording, options={})
            for ours, theirs in live.pairs:
                assert "Instruction:\n" + ours.rstrip(" ") == theirs
            assert (live.last.reward, live.last.terminated) == (1.0, True)
            assert not any(observation.terminated for observation in live.observations[:-1])
