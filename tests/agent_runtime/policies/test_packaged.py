"""A trained agent as a policy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agent_runtime.conversation import Message, Role
from agent_runtime.engine import backend
from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.extras import install_command
from agent_runtime.policies import EmbeddedOptions, PolicyConfig, Sampling, make_policy
from tests.agent_runtime.policies.live_episode import episode_context

CONFIG = PolicyConfig(
    sampling=Sampling(temperature=0, max_new_tokens=16),
    embedded=EmbeddedOptions(backend="numpy", max_slots=2, context_length=256, cache_gib=0.1),
)
WITHOUT = """
import runpy, sys
class Missing:
    def find_spec(self, name, *_):
        if name in {absent!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


async def test_the_shipped_agent_replies_without_torch() -> None:
    policy = make_policy("agent", CONFIG)
    await policy.start()
    try:
        session = policy.open(episode_context(environment="maze"))
        opening = [Message(Role.USER, "maze"), Message(Role.ASSISTANT, "OK")]
        said = await session.reply([*opening, Message(Role.USER, "Where?")], turn=0, seed=1)
        assert 0 < said.completion_tokens <= 16
        assert policy.identity() == {"backend": "numpy", "weights": said.policy_version}
    finally:
        await policy.close()


async def test_what_it_did_not_learn_it_plays_where_a_plan_says_so() -> None:
    policy = make_policy("agent", CONFIG)
    await policy.start()
    try:
        session = policy.open(episode_context(environment="sheet"))
        said = await session.reply([Message(Role.USER, "Sheets")], turn=0, seed=1)
        assert said.completion_tokens > 0
    finally:
        await policy.close()


def test_a_folder_can_be_named(tmp_path: Path) -> None:
    assert make_policy("agent", CONFIG).name == "agent"
    with pytest.raises(PolicyMisconfigured, match=r"agent\.json"):
        make_policy(f"agent:{tmp_path}", CONFIG)


@pytest.mark.parametrize("absent", ["numpy", "safetensors", "tokenizers", "jinja2"])
async def test_a_missing_extra_is_named_with_a_way_to_play_without_it(
    absent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "agent_runtime.policies.packaged.is_installed", lambda module: module != absent
    )
    with pytest.raises(PolicyMisconfigured) as caught:
        await make_policy("agent", CONFIG).start()
    assert absent in str(caught.value)
    assert install_command("agent") in str(caught.value)
    assert "--policy expert,random" in str(caught.value)


def test_the_command_says_so_without_a_traceback(tmp_path: Path) -> None:
    code = WITHOUT.format(absent={"numpy", "tokenizers"})
    command = [sys.executable, "-c", code, "orchestrator.sample", "--policy", "agent"]
    command += ["--env", "maze", "--spawn", "1", "--out", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert "[agent]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_is_installed_is_found_without_importing_it() -> None:
    assert backend.is_installed("json")
    assert not backend.is_installed("no_such_module_anywhere")
