"""The option `play_on`: the goal is no end, as the original's server has it."""

from env_servers.environments.textcraft.environment import TextCraft
from env_servers.sdk import EnvironmentConfig, ResetOptions


def test_the_goal_earns_its_reward_and_ends_nothing():
    tasks = TextCraft.load_tasks(EnvironmentConfig())
    episode = TextCraft(tasks)
    episode.reset(tasks.get("textcraft_1000001"), ResetOptions(options={"play_on": True}))
    rewards = []
    while 1.0 not in rewards:
        observation = episode.step(episode.advise_expert(0).action)
        assert not observation.terminated
        rewards.append(observation.reward)
        assert len(rewards) < 40
    after = episode.step("inventory")
    assert (after.reward, after.terminated) == (0.0, False)
    episode.close()
