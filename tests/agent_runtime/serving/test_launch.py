"""Launching engines: flags for the machine, readiness, restarts with the right weights, the end.

The engine here is the fake engine, behind an interpreter that takes SGLang's command line.
"""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from agent_runtime import serve
from agent_runtime.errors import PolicyMisconfigured, PolicyUnavailable
from agent_runtime.policies import PolicyConfig, Sampling, SGLangOptions
from agent_runtime.policies.sglang import SGLangPolicy
from agent_runtime.serving import ServeConfig, serving, supervised
from agent_runtime.serving.commands import Checkpoint, engine_command, router_command
from agent_runtime.serving.installation import VARIABLE, find_python, install
from agent_runtime.serving.launch import SGLangServed, check_model
from agent_runtime.serving.machine import Machine
from orchestrator import sample
from orchestrator.store import RunReader
from tests.agent_runtime import tiny_tokenizers
from tests.agent_runtime.policies.engine_contract import play
from tests.agent_runtime.policies.live_episode import episode_context
from tests.agent_runtime.serving.tiny_model import tiny_llama

ROOT = Path(__file__).parents[3]
WEIGHTS = Checkpoint("/models/tiny", "v0")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("models")
    return tiny_llama(root / "one", seed=1), tiny_llama(root / "two", seed=2)


@pytest.fixture
def interpreter(tmp_path: Path) -> Path:
    """An interpreter that claims to have SGLang and runs the fake engine instead."""
    script = tmp_path / "python"
    script.write_text(
        f"""#!{sys.executable}
import os, sys
if sys.argv[1] == "-c":
    sys.exit(0)
given = {{name: sys.argv[at + 1] for at, name in enumerate(sys.argv) if name.startswith("--")
          and at + 1 < len(sys.argv)}}
if "broken" in given["--model-path"]:
    sys.exit("the model is broken")
command = [sys.executable, "-m", "tests.kit.fake_sglang", "--model", given["--model-path"],
           "--port", given["--port"], "--version", given["--weight-version"], "--step-ms", "2"]
os.environ["PYTHONPATH"] = {str(ROOT)!r} + os.pathsep + {str(ROOT / "gen")!r}
os.execv(sys.executable, command)
"""
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return script


def config_of(interpreter: Path, **settings: int) -> ServeConfig:
    return ServeConfig(python=interpreter, device="cpu", ready_seconds=60, **settings)


def arguments(device: str, config: ServeConfig, index: int = 0) -> list[str]:
    command = engine_command(
        Path("python"), config, WEIGHTS, device=device, port=31_000, index=index
    )
    return list(command.arguments)


def test_an_engine_on_a_cpu_gets_the_flags_that_it_needs_there() -> None:
    given = " ".join(arguments("cpu", ServeConfig()))
    for flag in ("--device cpu", "--attention-backend torch_native", "--dtype float32"):
        assert flag in given
    assert "--model-path /models/tiny --weight-version v0" in given
    command = engine_command(Path("python"), ServeConfig(), WEIGHTS, device="cpu", port=1, index=0)
    assert command.environment["OMP_NUM_THREADS"] == "1"


def test_engines_on_cuda_take_one_device_each_and_the_models_own_precision() -> None:
    given = arguments("cuda", ServeConfig(router=2, deterministic=True), index=1)
    assert given[given.index("--base-gpu-id") + 1] == "1"
    assert given[given.index("--dtype") + 1] == "auto"
    assert "--enable-deterministic-inference" in given
    assert "torch_native" not in given


def test_a_users_own_engine_options_come_last() -> None:
    config = ServeConfig(engine_options=("--mem-fraction-static", "0.5"), context_length=4096)
    assert arguments("cuda", config)[-4:] == [
        *("--context-length", "4096", "--mem-fraction-static", "0.5")
    ]


def test_engine_options_pass_by_a_command_line_without_dashes() -> None:
    config = ServeConfig(engine_options=("--disable-cuda-graph", "mem-fraction-static=0.5"))
    assert arguments("cuda", config)[-2:] == ["--disable-cuda-graph", "--mem-fraction-static=0.5"]


def test_the_router_is_told_of_every_engine() -> None:
    config = ServeConfig(router=2, router_policy="consistent_hashing")
    urls = ["http://a:1", "http://b:2"]
    given = router_command(Path("python"), config, urls, port=3, metrics_port=4).arguments
    assert given[given.index("--worker-urls") + 1 :][:2] == ("http://a:1", "http://b:2")
    assert given[given.index("--policy") + 1] == "consistent_hashing"


def test_cuda_is_taken_where_it_is_and_refused_where_it_is_not() -> None:
    assert Machine(2).device("auto") == "cuda"
    assert Machine(0).device("auto") == "cpu"
    assert Machine(2).device("cpu") == "cpu"
    with pytest.raises(PolicyMisconfigured, match="no CUDA"):
        Machine(0).device("cuda")


def test_an_interpreter_without_sglang_is_refused_with_the_way_to_get_one() -> None:
    with pytest.raises(PolicyMisconfigured, match=r"serving\.installation"):
        find_python(Path("/nowhere/python"))
    with pytest.raises(PolicyMisconfigured, match="has no SGLang"):
        find_python(environment={VARIABLE: sys.executable})


def test_an_installation_is_an_environment_of_its_own(tmp_path: Path) -> None:
    steps: list[list[str]] = []

    def run(step: list[str]) -> int:
        steps.append(step)
        return 0

    python = install(tmp_path / "own", cuda=False, run=run)
    assert python == tmp_path / "own" / "bin" / "python"
    assert steps[0][1:3] == ["-m", "venv"]
    assert all(step[0] == str(python) for step in steps[1:])
    assert any("sglang==" in part for part in steps[-1])
    with pytest.raises(PolicyMisconfigured, match="status 3"):
        install(tmp_path / "own", cuda=True, run=lambda _: 3)


def no_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def no_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def no_template(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text("{}")


def small_vocabulary(folder: Path) -> None:
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.replace('"vocab_size": 512', '"vocab_size": 100'))


@pytest.mark.parametrize("damage", [no_config, no_tokenizer, no_template, small_vocabulary])
def test_a_model_that_cannot_be_spoken_to_is_found_out_before_anything_starts(
    damage: object, tmp_path: Path
) -> None:
    folder = tiny_llama(tmp_path / "model")
    check_model(str(folder))
    assert callable(damage)
    damage(folder)
    with pytest.raises(PolicyMisconfigured):
        check_model(str(folder))


def test_a_template_of_the_users_own_makes_up_for_a_missing_one(tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path / "model")
    no_template(folder)
    own = tmp_path / "own.jinja"
    own.write_text(tiny_tokenizers.CHATML)
    check_model(str(folder), own)
    with pytest.raises(PolicyMisconfigured, match="chat template"):
        check_model(str(folder), tmp_path / "missing.jinja")


def test_a_folder_that_is_not_there_is_named() -> None:
    with pytest.raises(PolicyMisconfigured, match="/no/such/model"):
        check_model("/no/such/model")


async def test_a_server_ends_with_all_that_it_started(
    models: tuple[Path, Path], interpreter: Path
) -> None:
    async with serving(str(models[0]), config_of(interpreter)) as served:
        assert isinstance(served, SGLangServed)
        [pid] = served.pids
        assert psutil.pid_exists(pid)
        logs = served.log_dir
    assert not psutil.pid_exists(pid)
    assert not logs.exists()


async def test_a_start_that_fails_tells_the_servers_last_words(
    models: tuple[Path, Path], interpreter: Path, tmp_path: Path
) -> None:
    broken = tiny_llama(tmp_path / "broken")
    with pytest.raises(PolicyUnavailable, match="the model is broken"):
        async with serving(str(broken), config_of(interpreter)):
            pass


async def test_an_engine_that_was_killed_comes_back_with_the_weights_that_it_had(
    models: tuple[Path, Path], interpreter: Path
) -> None:
    sampling = Sampling(max_new_tokens=1500)
    async with serving(str(models[0]), config_of(interpreter)) as served:
        assert isinstance(served, SGLangServed)
        options = SGLangOptions(recovery=60)
        policy = SGLangPolicy(served.address, PolicyConfig(sampling=sampling, sglang=options))
        await policy.start()
        try:
            await policy.update_weights(models[1], version="second")
            await asyncio.sleep(2.5)  # the launcher looks at the weights every two seconds
            plays = [
                asyncio.create_task(play(policy.open(episode_context(episode_id=str(n))), 2, n))
                for n in range(20)
            ]
            await asyncio.sleep(0.1)
            os.kill(served.pids[0], signal.SIGKILL)
            replies = [reply for replies in await asyncio.gather(*plays) for reply in replies]
        finally:
            await policy.close()
        assert served.restarts == 1
        assert policy.resent >= 20
        assert {reply.policy_version for reply in replies} == {"second"}


async def test_an_engine_that_dies_again_and_again_is_given_up_and_the_log_says_so(
    models: tuple[Path, Path],
    interpreter: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="agent_runtime.serving")
    monkeypatch.setattr(supervised, "_RESTART_PAUSE", 0.01)
    async with serving(str(models[0]), config_of(interpreter, max_restarts=2)) as served:
        assert isinstance(served, SGLangServed)
        for restarts in range(3):
            async with asyncio.timeout(60):
                while served.restarts < restarts or not served.pids:
                    await asyncio.sleep(0.01)
                os.kill(served.pids[0], signal.SIGKILL)
        with pytest.raises(PolicyUnavailable, match="ended again"):
            await asyncio.wait_for(served.wait(), 60)
    records = [record for record in caplog.records if record.name.endswith("supervised")]
    story = [record.event for record in records]  # type: ignore[attr-defined]
    assert [event for event in story if event in ("model served", "engine died")] == [
        "model served",
        "engine died",
        "engine died",
    ]
    assert story[-1] == "engine given up"
    pauses = [record.fields["restart_in"] for record in records if "died" in record.msg]  # type: ignore[attr-defined]
    assert pauses == [0.01, 0.02]


def test_one_command_serves_samples_and_stops(
    models: tuple[Path, Path], interpreter: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    flags = ["--env", "echo", "--episodes", "3", "--policy", "sglang", "--model", str(models[0])]
    serving_flags = ["--serve.python", str(interpreter), "--serve.device", "cpu"]
    limits = ["--max-rounds", "2", "--max-new-tokens", "20"]
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    assert sample.main([*flags, *serving_flags, *limits, "--out", str(run)]) == 0
    left = {child.pid for child in psutil.Process().children(recursive=True)} - before
    assert left == set()
    with RunReader.open(run) as reader:
        records = list(reader.episodes())
    assert {record.policy for record in records} == {"sglang"}
    assert all(record.token_segments for record in records)
    # A resume finds its records, wherever the model is served this time.
    assert sample.main(["--resume", str(run)]) == 0


@pytest.mark.parametrize(
    "flags", [["--policy", "sglang"], ["--policy", "expert", "--model", "/no/such/model"]]
)
def test_a_model_and_its_policy_belong_together(
    flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sample.main(["--env", "echo", *flags, "--out", str(tmp_path / "run")]) == 2
    assert "--model" in capsys.readouterr().err


def test_the_command_serves_until_it_is_told_to_stop(
    models: tuple[Path, Path], interpreter: Path, tmp_path: Path
) -> None:
    address = tmp_path / "address"
    command = [sys.executable, "-m", "agent_runtime.serve", "--model", str(models[0])]
    command += ["--python", str(interpreter), "--device", "cpu", "--address-file", str(address)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.strip().endswith(address.read_text().strip())
    assert address.read_text().startswith("sglang:http://127.0.0.1:")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 0


def test_the_command_says_what_cannot_be(capsys: pytest.CaptureFixture[str]) -> None:
    assert serve.main(["--model", "/no/such/model"]) == 2
    assert "/no/such/model" in capsys.readouterr().err
