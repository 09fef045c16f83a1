"""What the embedded policy and engine say where they cannot work; no torch needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.extras import install_command
from agent_runtime.policies import EmbeddedOptions, PolicyConfig, make_policy
from agent_runtime.serving import ServeConfig, serving
from agent_runtime.serving.embedded import embedded_options
from orchestrator import sample
from tests.agent_runtime.tiny_arrays import save_chat_model

WITHOUT_TORCH = """
import runpy, sys
class NoTorch:
    def find_spec(self, name, *_):
        if name == "torch":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NoTorch())
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def test_without_torch_the_extra_is_named(tmp_path: Path) -> None:
    folder = save_chat_model(tmp_path / "model")
    code = (
        "import asyncio, sys; sys.modules['torch'] = None\n"
        "from agent_runtime.policies import EmbeddedOptions, PolicyConfig, make_policy\n"
        "from agent_runtime.errors import PolicyMisconfigured\n"
        "config = PolicyConfig(embedded=EmbeddedOptions(backend='torch'))\n"
        "try: asyncio.run(make_policy('embedded:' + sys.argv[1], config).start())\n"
        "except PolicyMisconfigured as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True
    )
    assert install_command("torch") in done.stdout


def test_a_folder_that_is_none_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(PolicyMisconfigured, match=r"config\.json"):
        make_policy(f"embedded:{tmp_path / 'nowhere'}", PolicyConfig())


@pytest.mark.parametrize(
    "values", [{"threads": 0}, {"max_slots": 0}, {"context_length": 1}, {"cache_gib": 0}]
)
def test_impossible_options_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        EmbeddedOptions(**values)


@pytest.mark.parametrize(
    "command",
    [
        ("agent_runtime.serve", "--engine", "embedded", "--engine-options", "backend=torch"),
        (
            *("orchestrator.sample", "--policy", "embedded", "--env", "echo"),
            *("--embedded.backend", "torch"),
        ),
    ],
)
def test_commands_without_torch_name_the_extra(tmp_path: Path, command: tuple[str, ...]) -> None:
    folder = save_chat_model(tmp_path / "model")
    module, *flags = command
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, module, "--model", str(folder), *flags],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode != 0
    assert "[torch]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"router": 2}, "--router"),
        ({"max_total_tokens": 5}, "max-slots"),
        ({"engine_options": ("max-slots=0",)}, "max_slots"),
        ({"engine_options": ("no-such-thing=0",)}, "no-such-thing"),
        ({"dtype": "float8"}, "bfloat16"),
    ],
)
def test_settings_that_the_engine_does_not_have_are_refused(
    settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(PolicyMisconfigured, match=words):
        embedded_options(ServeConfig(engine="embedded", **settings))


def test_settings_of_a_server_reach_the_engine() -> None:
    config = ServeConfig(
        engine="embedded", context_length=512, engine_options=("max-slots=7", "--threads", "2")
    )
    options = embedded_options(config)
    assert (options.context_length, options.max_slots, options.threads) == (512, 7, 2)
    assert options.version == "default"


async def test_a_name_on_the_hub_is_no_folder() -> None:
    with pytest.raises(PolicyMisconfigured, match="folders"):
        async with serving("somebody/some-model", ServeConfig(engine="embedded")):
            pass


@pytest.mark.parametrize(
    "flags", [["--policy", "embedded"], ["--policy", "expert", "--model", "/no/such/model"]]
)
def test_a_model_and_its_policy_belong_together(
    flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sample.main(["--env", "echo", *flags, "--out", str(tmp_path / "run")]) == 2
    assert "--model" in capsys.readouterr().err
