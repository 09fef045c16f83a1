import asyncio
import importlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmark.baselines.contenders import BASELINES
from benchmark.baselines.game import OBSERVATION_BYTES, Hosted
from benchmark.baselines.tcp_msgpack import MAX_FRAME_BYTES, Frames, FrameTooLong
from benchmark.drive import (
    ACTION_BYTES,
    ClosedLoop,
    SelfDrivingClient,
    Target,
    Window,
    drive,
    script_of,
)
from benchmark.front_door import VECTOR
from benchmark.load import Contender, served
from env_servers.sdk import Environment, Observation, ResetOptions, StaticTaskSet, Task

EPISODES, STEPS = 8, 5


def make_client(contender: Contender, address: str):
    module, _, name = contender.client.partition(":")
    target = Target(address, "echo", request_timeout_s=20)
    return getattr(importlib.import_module(module), name)(target, **contender.options)


@pytest.mark.parametrize("contender", [*BASELINES, VECTOR], ids=lambda contender: contender.name)
async def test_a_baseline_answers_every_action_of_every_episode(contender: Contender):
    async with served(contender, "echo") as (address, _):
        client = make_client(contender, address)
        await client.open(EPISODES)
        if not isinstance(client, SelfDrivingClient):
            for number in range(STEPS):
                actions = [f"episode {episode} step {number}" for episode in range(EPISODES)]
                answers = await asyncio.gather(*map(client.step, range(EPISODES), actions))
                assert answers == [action.ljust(OBSERVATION_BYTES, ".") for action in actions]
        scripts = tuple(script_of("echo", episode) for episode in range(EPISODES))
        now = time.monotonic()
        loop = ClosedLoop(scripts, Window(now, now + 60), echoes=True, max_steps=STEPS)
        tally = await drive(client, loop)
        await client.close()
    assert len(tally.latencies) == EPISODES * STEPS
    assert tally.answered == EPISODES
    assert not tally.errors
    assert tally.observation_bytes == OBSERVATION_BYTES


def test_actions_have_the_stated_size_and_differ_between_episodes_and_moves():
    texts = [text for episode in range(2000) for text in script_of("echo", episode)]
    assert {len(text) for text in texts} == {ACTION_BYTES}
    assert len(set(texts)) == len(texts)


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 2**31), st.text(max_size=50)), max_size=4)),
    st.integers(1, 40),
)
def test_frames_survive_any_way_in_which_a_stream_is_cut(sent, size):
    data = b"".join(Frames.pack(items) for items in sent)
    frames = Frames()
    got = [items for at in range(0, len(data), size) for items in frames.feed(data[at : at + size])]
    assert got == [[list(item) for item in items] for items in sent]


def test_a_frame_beyond_the_bound_is_refused_before_it_arrives():
    with pytest.raises(FrameTooLong):
        list(Frames().feed((MAX_FRAME_BYTES + 1).to_bytes(4, "big")))


class Counting(Environment):
    """Counts to the payload of its task."""

    @classmethod
    def load_tasks(cls, config):
        raise NotImplementedError("given to the constructor")

    def reset(self, task: Task, options: ResetOptions) -> Observation:
        self.left = task.payload
        return Observation(f"{self.left} to go")

    def step(self, action: str) -> Observation:
        self.left -= 1
        return Observation(f"after {action}: {self.left}", reward=0.5, terminated=not self.left)


def test_an_environment_of_the_sdk_is_hosted_with_its_rewards_and_its_end():
    tasks = StaticTaskSet({"train": [Task("counting_1", 1), Task("counting_2", 2)]})
    game = Hosted(Counting(tasks), tasks, tasks.item_ids("train", 0, 2))
    assert game.reset(3) == ("2 to go", 0.0, False)
    assert game.step("a") == ("after a: 1", 0.5, False)
    assert game.step("b") == ("after b: 0", 0.5, True)
