"""What was configured wrongly is told in a sentence and with status 2, whatever the command."""

from __future__ import annotations

import importlib.util
import json
import shutil
import stat
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from orchestrator import sample, show
from tests.kit.secure_server import write_certificates

SAMPLE = ("orchestrator.sample", "--env", "echo", "--policy", "expert", "--episodes", "1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, a file that is no folder, and a file that is no text."""
    folder = tmp_path_factory.mktemp("mistakes")
    write_certificates(folder, "another")
    (folder / "file").write_text("a file")
    (folder / "garbage").write_bytes(b"\xff\x00garbage")
    assert sample.main([*SAMPLE[1:], "--spawn", "1", "--out", str(folder / "run")]) == 0
    return folder


@pytest.mark.parametrize(
    "command",
    [
        (*SAMPLE, "--out", "/proc/nosuch/run"),
        (*SAMPLE, "--out", "{folder}/file/run"),
        (*SAMPLE, "--out", "{folder}/new", "--retry.budget", "nan"),
        (*SAMPLE, "--out", "{folder}/new", "--options", '{"a": NaN}'),
        (*SAMPLE, "--out", "{folder}/new", "--options", "[1"),
        (*SAMPLE, "--out", "{folder}/new", "--prompts-from", "{folder}/garbage"),
        (*SAMPLE, "--out", "{folder}/new", "--data", "/proc/nosuch"),
        (*SAMPLE, "--out", "{folder}/new", "--servers", "h:1", "--client.ca", "/nosuch"),
        (
            *(*SAMPLE, "--out", "{folder}/new", "--servers", "h:1", "--client.ca"),
            *("{folder}/ca.pem", "--client.cert", "{folder}/client.pem"),
            *("--client.key", "{folder}/another.key"),
        ),
        ("orchestrator.evaluate", *SAMPLE[1:], "--out", "/proc/nosuch/run"),
        ("orchestrator.export", "{folder}/run", "--format", "messages", "--out", "/dev/full"),
        ("orchestrator.export", "{folder}/run", "--format", "messages", "--out", "/proc/new"),
        (
            "orchestrator.export",
            "{folder}/run",
            "--format",
            "messages",
            "--out",
            "/proc/nosuch/new",
        ),
        ("orchestrator.audit", "{folder}/run", "--out", "/dev/full"),
        ("orchestrator.audit", "{folder}/run", "--out", "/proc/new"),
        ("orchestrator.audit", "{folder}/run", "--tokenizer", "{folder}/garbage"),
        ("orchestrator.show", "{folder}/file"),
        ("env_servers.__main__", "check", "--target", "127.0.0.1:9", "--ca", "/nosuch"),
        ("env_servers.__main__", "check", "--target", "127.0.0.1:9", "--ca", "{folder}/garbage"),
        ("env_servers.__main__", "check", "nosuch"),
        ("env_servers.__main__", "new", "thing", "--folder", "/proc"),
        ("env_servers.__main__", "play", "nosuch"),
        ("agent_runtime.serve", "--model", "/nosuch", "--engine", "embedded"),
        ("training.expert_data", "--env", "echo", "--out", "/proc/nosuch/new"),
        ("training.expert_data", "--env", "echo", "--out", "/dev/full"),
    ],
    ids=lambda command: " ".join(command[:1] + command[-2:]).replace("/", "_"),
)
def test_a_mistake_is_a_sentence(
    folder: Path, command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    module, *arguments = command
    main = import_module(module).main
    assert main([argument.replace("{folder}", str(folder)) for argument in arguments]) == 2
    said = capsys.readouterr().err
    assert said.strip() and "Traceback" not in said
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode), "a device was replaced by a file"


@pytest.mark.parametrize(
    "flags",
    [
        ("--data", "/proc/nosuch"),
        ("--address-file", "/proc/nosuch/address"),
        ("--bind", "0.0.0.0:0"),
        ("--bind", "nonsense"),
        ("--tls-cert", "{folder}/server.pem", "--tls-key", "{folder}/another.key"),
    ],
)
def test_a_mistake_of_a_server_is_a_sentence(folder: Path, flags: tuple[str, ...]) -> None:
    """In a process of its own: a server ends its process itself."""
    flags = tuple(flag.replace("{folder}", str(folder)) for flag in flags)
    command = [sys.executable, "-m", "env_servers", "serve", "echo", "--bind", "127.0.0.1:0"]
    done = subprocess.run(
        [*command, *flags], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "error: " in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "change", [{"config": None}, {"config": []}, {"sessions": [None]}, {"environments": None}]
)
def test_a_broken_manifest_is_a_sentence(
    folder: Path, tmp_path: Path, change: dict, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(folder / "run", tmp_path / "run"))
    manifest = json.loads((run / "manifest.json").read_text()) | change
    (run / "manifest.json").write_text(json.dumps(manifest))
    for status in (show.main([str(run)]), sample.main(["--resume", str(run)])):
        assert status == 1
    assert "manifest.json is incomplete" in " ".join(capsys.readouterr().err.split())


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed")
@pytest.mark.parametrize("algorithm", ["bc", "agentevol"])
def test_a_training_without_torch_is_a_sentence(algorithm: str) -> None:
    command = [sys.executable, "-m", f"training.{algorithm}", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "torch is not installed" in done.stderr and "[train]'" in done.stderr
    assert "Traceback" not in done.stderr
