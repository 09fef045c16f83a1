"""Policies of the user's own, on the command line and in the manifest of a run."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from orchestrator import sample
from orchestrator.manifest import read_manifest

PARROT = """
from agent_runtime.policies import Completion, Policy, PolicySession

open("imported", "a").write("x")

class Parrot(Policy, PolicySession):
    def __init__(self, target, config):
        self.name = "parrot"

    def open(self, context):
        return self

    async def reply(self, messages, *, turn, seed):
        return Completion(text="Thought:\\n\\nAction:\\nhello")
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("own_parrot.py").write_text(PARROT)
    monkeypatch.delitem(sys.modules, "own_parrot", raising=False)
    return tmp_path


def play(*flags: str) -> int:
    return sample.main(["--env", "echo", "--episodes", "2", "--out", "run", "--spawn", "1", *flags])


def said(capsys: pytest.CaptureFixture[str]) -> str:
    shown = capsys.readouterr()
    return " ".join((shown.out + shown.err).split())


@pytest.mark.slow
def test_a_resume_with_other_code_is_noticed_and_goes_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert play("--policy", "own_parrot:Parrot") == 0
    before = read_manifest(Path("run")).sessions[-1].policy_code["own_parrot:Parrot"]
    assert sample.main(["--resume", "run"]) == 0
    assert "other code" not in said(capsys)
    Path("own_parrot.py").write_text(PARROT + "# mended\n")
    assert sample.main(["--resume", "run"]) == 0
    told = said(capsys)
    assert "policy own_parrot:Parrot was last played by other code (own_parrot, source " in told
    assert before["source"][:12] in told
    after = read_manifest(Path("run")).sessions[-1].policy_code["own_parrot:Parrot"]
    assert (before["module"], after["module"]) == ("own_parrot", "own_parrot")
    assert before["source"] != after["source"]


@pytest.mark.parametrize(
    "policy", ["own_parrot:Parrot", pytest.param("polly", marks=pytest.mark.slow)]
)
def test_a_resume_of_a_strangers_run_imports_no_module_that_it_names(
    capsys: pytest.CaptureFixture[str], policy: str, own_folder: Path
) -> None:
    info = own_folder / "birds-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: birds\nVersion: 1\n")
    points = "[agentgym.policies]\npolly = own_parrot:Parrot\n"
    (info / "entry_points.txt").write_text(points)
    assert play("--policy", policy) == 0
    manifest = json.loads(Path("run/manifest.json").read_text())
    del manifest["signature"]
    Path("run/manifest.json").write_text(json.dumps(manifest))
    del sys.modules["own_parrot"]
    Path("imported").unlink()
    assert sample.main(["--resume", "run"]) == 2
    told = said(capsys)
    assert "somebody else began this run" in told and f"--policy {policy}" in told
    assert not Path("imported").exists()


@pytest.mark.slow
@pytest.mark.parametrize("flags", [("--trust-run",), ("--policy", "own_parrot:Parrot")])
def test_a_strangers_run_may_be_trusted_or_its_policy_repeated(flags: tuple[str, ...]) -> None:
    assert play("--policy", "own_parrot:Parrot") == 0
    manifest = json.loads(Path("run/manifest.json").read_text())
    manifest["signature"] = ""
    Path("run/manifest.json").write_text(json.dumps(manifest))
    assert sample.main(["--resume", "run", *flags]) == 0


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("nowhere:make", "unknown policy 'nowhere:make'"),
        pytest.param("own_parrot:Nothing", "it defines: Parrot", marks=pytest.mark.slow),
    ],
)
def test_a_policy_that_cannot_be_had_is_a_sentence_and_status_2(
    capsys: pytest.CaptureFixture[str], policy: str, words: str
) -> None:
    assert play("--policy", policy) == 2
    told = said(capsys)
    assert words in told and "Traceback" not in told
    shutil.rmtree("run", ignore_errors=True)
