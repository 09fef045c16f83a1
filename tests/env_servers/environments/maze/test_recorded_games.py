"""Games that were recorded from the original MAZE give the same observations here."""

import gzip
import json
import os
from pathlib import Path

import pytest

from env_servers.environments.maze.environment import MazeEnvironment
from env_servers.environments.maze.prompt import GRAMMAR
from env_servers.environments.maze.tasks import MazeTasks
from env_servers.sdk import ActionFormat, ResetOptions

_BESIDE = Path(__file__).parents[5] / "shared" / "data"
RECORDED = Path(os.environ.get("AGENTGYM_DATA", _BESIDE)) / "agenttraj_l" / "lmrlgym_maze.jsonl.gz"
VIEW_FOLLOWS = "given the current environment state:\n"


@pytest.mark.skipif(not RECORDED.exists(), reason=f"no recorded games at {RECORDED}")
def test_every_recorded_step_is_reproduced():
    tasks = MazeTasks()
    with gzip.open(RECORDED, "rt", encoding="utf-8") as lines:
        games = [json.loads(line) for line in lines]
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
