"""Our environments under the real Gymnasium."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

gymnasium = pytest.importorskip("gymnasium", reason="needs the extra `gymnasium`")

import numpy as np  # noqa: E402
from gymnasium import spaces  # noqa: E402
from gymnasium.utils.env_checker import check_env  # noqa: E402
from gymnasium.vector import AutoresetMode  # noqa: E402

import agentgym  # noqa: E402
import agentgym.gymnasium  # noqa: E402
from agentgym.gymnasium import Unicode  # noqa: E402

ECHO = "agentgym/Echo-v0"
SLOW_TO_START = {"academia", "movie", "searchqa"}
"""Their servers load for 10 s and more; they pass as well, which is seen by hand."""
MODES = [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP]


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    with agentgym.make("echo") as env:
        yield env.asynchronous.connection.address


def check(gymnasium_id: str, **settings: Any) -> None:
    """Gymnasium's own checker, whose warnings count; it also opens every render mode."""
    env = gymnasium.make(gymnasium_id, disable_env_checker=True, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)
    env.close()


def test_every_installed_environment_is_registered_under_its_name() -> None:
    ours = {name for name in gymnasium.registry if name.startswith("agentgym/")}
    assert len(ours) >= len(agentgym.environment_names())
    assert {"agentgym/TextCraft-v0", "agentgym/BabyAI-v0", "agentgym/Maze-v0", ECHO} <= ours


def test_gymnasiums_checker_has_nothing_to_say() -> None:
    check("agentgym/TextCraft-v0")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", sorted(set(agentgym.environment_names()) - {"textcraft"} - SLOW_TO_START)
)
def test_gymnasiums_checker_has_nothing_to_say_of_any_environment(name: str) -> None:
    from env_servers.sdk.registry import display_name

    try:
        check(f"agentgym/{display_name(name)}-v0")
    except (agentgym.ServerNotStarted, agentgym.EnvironmentFailure) as failure:
        if "not installed" not in str(failure) and "install" not in str(failure):
            raise
        pytest.skip(str(failure))


def test_an_episode_is_played_under_gymnasiums_names(target: str) -> None:
    env = gymnasium.make(ECHO, target=target, options={"length": 2}, render_mode="ansi")
    observation, info = env.reset(seed=1, options={"item_id": "echo_1000005"})
    assert "This is echo_1000005" in observation
    assert info == {"item_id": "echo_1000005", "scored": False}
    observation, reward, terminated, truncated, info = env.step("hé 👋")
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert info == {"item_id": "echo_1000005", "scored": False}
    assert "h\\xe9" in observation
    assert isinstance(env.render(), str)
    observation, reward, terminated, truncated, info = env.step("bye")
    assert (reward, terminated, truncated, info["scored"]) == (1.0, True, False, True)
    with pytest.raises(agentgym.EnvironmentFailure, match="ended"):
        env.unwrapped.step("too late")
    env.close()


def test_a_seed_decides_the_items_and_replies_are_read_by_the_server(target: str) -> None:
    env = gymnasium.make(ECHO, target=target, split="eval", actions="reply")

    def items(seed: int) -> list[str]:
        return [env.reset(seed=seed)[1]["item_id"], *(env.reset()[1]["item_id"] for _ in "ab")]

    first = items(3)
    assert first == items(3) != items(4)
    assert set(first) <= {task.item_id for task in env.unwrapped.environment.tasks("eval")}
    assert env.step("Thought:\nx\n\nAction:\nsay y")[4]["parsed_action"] == "say y"
    env.close()


def test_what_does_not_exist_is_named(target: str) -> None:
    def make(**settings: Any) -> Any:
        return gymnasium.make(ECHO, target=target, **settings).unwrapped

    with pytest.raises(agentgym.UnknownName, match="valid: native, reply"):
        make(actions="text")
    with pytest.raises(agentgym.UnknownName, match="valid: train, eval"):
        make(split="test")
    env = make()
    with pytest.raises(agentgym.UnknownName, match="valid: item_id, options"):
        env.reset(options={"item": "echo_1000000"})
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step("x")
    env.close()


def test_images_are_in_info_of_one_and_of_many(target: str) -> None:
    given = {"target": target, "options": {"images": 2}}
    env = gymnasium.make("agentgym/Echo-v0", **given)
    observation, info = env.reset(seed=1)
    assert isinstance(observation, str)
    assert [image.media_type for image in info["images"]] == ["image/png"] * 2
    env.close()
    vector = gymnasium.make_vec("agentgym/Echo-v0", num_envs=3, **given)
    _, infos = vector.reset(seed=1)
    assert [len(images) for images in infos["images"]] == [2, 2, 2]
    vector.close()


def test_a_space_of_all_texts_is_as_gymnasium_wants_its_spaces() -> None:
    space = Unicode(12)
    assert all(text in space for text in ("", "a\nb", "漢字 🙂", "x" * 12))
    assert all(value not in space for value in ("x" * 13, "\ud800", 3, None))
    space.seed(1)
    samples = [space.sample() for _ in range(20)]
    assert all(sample in space for sample in samples)
    assert pickle.loads(pickle.dumps(space)) == space != Unicode(13)
    flat = spaces.flatten(space, "漢é")
    assert flat.shape == (12,)
    assert spaces.unflatten(space, flat) == "漢é"
    assert repr(space) == "Unicode(12)"


@pytest.mark.parametrize("mode", MODES)
def test_our_vector_gives_what_gymnasiums_own_gives(target: str, mode: AutoresetMode) -> None:
    settings = {"target": target, "options": {"length": 2}}
    ours = gymnasium.make_vec(ECHO, num_envs=3, autoreset_mode=mode, **settings)
    theirs = gymnasium.make_vec(
        ECHO,
        num_envs=3,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": mode},
        **settings,
    )
    assert type(ours).__name__ == "GymnasiumVectorEnv"
    assert ours.metadata["autoreset_mode"] is mode
    assert ours.action_space == theirs.action_space
    assert ours.observation_space == theirs.observation_space
    played = [(ours.reset(seed=5), theirs.reset(seed=5))]
    for turn in range(5):
        actions = tuple(f"turn {turn} of {slot}" for slot in range(3))
        played.append((ours.step(actions), theirs.step(actions)))
    for our, their in played:
        assert our[0] == their[0]
        assert our[0] in ours.observation_space
        for ours_array, their_array in zip(our[1:-1], their[1:-1], strict=True):
            assert ours_array.dtype == their_array.dtype
            np.testing.assert_array_equal(ours_array, their_array)
        np.testing.assert_equal(our[-1], their[-1])
    ours.close()
    theirs.close()


def test_disabled_leaves_resets_to_the_caller_and_items_can_be_named(target: str) -> None:
    env = gymnasium.make_vec(
        ECHO, num_envs=2, autoreset_mode="Disabled", target=target, options={"length": 1}
    )
    items = ["echo_1000001", "echo_1000001"]
    assert list(env.reset(seed=0, options={"item_ids": items})[1]["item_id"]) == items
    assert list(env.step(("a", "b"))[2]) == [True, True]
    texts, infos = env.reset(options={"reset_mask": np.array([False, True])})
    assert list(infos["_item_id"]) == [False, True]
    assert "'a'" in texts[0]
    assert "Say something" in texts[1]
    env.close()


def test_an_episode_that_fails_is_truncated_and_never_a_reward_of_zero(target: str) -> None:
    env = gymnasium.make_vec(ECHO, num_envs=2, target=target, options={"crash_at": 2})
    env.reset(seed=0)
    env.step(("a", "b"))
    _, rewards, terminated, truncated, infos = env.step(("a", "b"))
    assert np.isnan(rewards).all()
    assert list(terminated) == [False, False]
    assert list(truncated) == [True, True]
    assert all(error.startswith("ENVIRONMENT_CRASHED: ") for error in infos["error"])
    assert not np.isnan(env.step(("a", "b"))[1]).any()
    env.close()


def test_without_gymnasium_the_extra_is_named() -> None:
    program = "import sys; sys.modules['gymnasium'] = None; import agentgym.gymnasium"
    failed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    # Which pip is named depends on what the shell would find.
    message = failed.stderr.strip().splitlines()[-1]
    assert message.startswith("ImportError: Gymnasium is not installed: ")
    assert message.endswith("pip install -e '.[gymnasium]'")
