"""Games that were recorded from the original MAZE give the same observations here."""

from env_servers.environments.maze.environment import MazeEnvironment
from env_servers.environments.maze.prompt import GRAMMAR
from env_servers.environments.maze.tasks import MazeTasks
from env_servers.sdk import ActionFormat, ResetOptions
from tests.kit.data import read_conversations

VIEW_FOLLOWS = "given the current environment state:\n"


def test_every_recorded_step_is_reproduced():
    tasks = MazeTasks()
    games = read_conversations("lmrlgym_maze")
    steps = 0
    for recorded in games:
        opening, *turns = [turn["value"] for turn in recorded["conversations"][2:]]
        end = opening.index(VIEW_FOLLOWS) + len(VIEW_FOLLOWS)
        game = MazeEnvironment(tasks)
        options = ResetOptions(options={"instructions": opening[:end]})
        observation = game.reset(tasks.get(recorded["item_id"]), options)
        assert observation.text == opening
        replies, told = turns[::2], turns[1::2]
        for i, reply in enumerate(replies):
            action = GRAMMAR.read(reply, ActionFormat.REACT)
            assert isinstance(action, str)
            observation = game.step(action)
            if i < len(told):
                assert (observation.text, observation.reward) == (told[i], 0.0)
                steps += 1
        assert (observation.text, observation.reward) == ("Success\n", 1.0), recorded["item_id"]
    assert (len(games), steps) == (108, 376)
