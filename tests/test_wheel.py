"""What an installation brings, read from the file list of the build backend."""

from __future__ import annotations

import subprocess
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from agentgym.env.v1 import environment_pb2, types_pb2
from agentgym.episode.v1 import episode_pb2
from env_servers.server.service import SERVER_VERSION

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGES = ("agent_runtime", "agentgym", "env_servers", "orchestrator", "training")
SOURCES = ("agent_runtime", "env_servers", "gen/agentgym", "orchestrator", "training")


@pytest.fixture(scope="module")
def wheel() -> frozenset[str]:
    builders = pytest.importorskip("hatchling.builders.wheel", reason="needs the extra `dev`")
    builder = builders.WheelBuilder(str(REPOSITORY))
    return frozenset(file.distribution_path for file in builder.recurse_included_files())


def test_the_wheel_has_the_five_packages_and_one_plugin_at_the_top(
    wheel: frozenset[str],
) -> None:
    assert {path.split("/")[0] for path in wheel} == {*PACKAGES, "agentgym_verifiers.py"}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_says_that_it_is_typed(wheel: frozenset[str], package: str) -> None:
    assert f"{package}/py.typed" in wheel


def test_every_file_of_a_package_that_git_tracks_is_in_the_wheel(wheel: frozenset[str]) -> None:
    listing = subprocess.run(
        ["git", "ls-files", "-z", *SOURCES], cwd=REPOSITORY, capture_output=True, check=False
    )
    if listing.returncode:
        pytest.skip("not a git checkout")
    tracked = [path for path in listing.stdout.decode().split("\0") if path]
    present = {path.removeprefix("gen/") for path in tracked if (REPOSITORY / path).exists()}
    assert present - wheel == set()


def test_the_contract_is_in_the_wheel_as_sources_and_as_descriptors(wheel: frozenset[str]) -> None:
    protos = REPOSITORY / "protos"
    sources = {f"agentgym/protos/{path.relative_to(protos)}" for path in protos.rglob("*.proto")}
    assert {"agentgym/protos/google/rpc/error_details.proto"} < sources
    assert sources <= wheel
    descriptors = "agentgym/descriptors.binpb"
    assert descriptors in wheel
    files = FileDescriptorSet.FromString((REPOSITORY / "gen" / descriptors).read_bytes()).file
    described = {file.name: file for file in files}
    for module in (environment_pb2, types_pb2, episode_pb2):
        generated = FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
        named = described[generated.name]
        assert [it.name for it in named.message_type] == [it.name for it in generated.message_type]
        assert named.options.go_package and named.options.java_package


@pytest.mark.parametrize(
    ("data", "notice"),
    [
        ("textcraft/recipes.tsv", "textcraft/COPYRIGHT"),
        ("weather/cities.tsv", "weather/ATTRIBUTION"),
        ("wordle/words/guesses.txt", "wordle/words/COPYRIGHT"),
    ],
)
def test_data_of_others_ships_with_its_notice(
    wheel: frozenset[str], data: str, notice: str
) -> None:
    environments = "env_servers/environments"
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    assert {f"{environments}/{data}", f"{environments}/{notice}"} <= wheel
    assert f"{environments}/{notice}" in project["license-files"]
    text = (REPOSITORY / environments / notice).read_text("utf-8")
    assert "Copyright" in text and "WARRANTY" in text.upper()


def test_data_files_are_written_here_or_have_a_notice() -> None:
    environments = REPOSITORY / "env_servers" / "environments"
    for table in sorted([*environments.rglob("*.tsv"), *environments.rglob("*.txt")]):
        head = table.read_text("utf-8")[:400]
        notices = [table.with_name(name) for name in ("COPYRIGHT", "ATTRIBUTION")]
        ours = "ritten for this project" in head
        assert ours or any(notice.is_file() for notice in notices), table


def test_the_version_is_written_in_one_place() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    assert f"{project['name']} {version(project['name'])}" == SERVER_VERSION
    written = [
        path
        for source in SOURCES
        for path in (REPOSITORY / source).rglob("*.py")
        if f'{project["name"]} {project["version"]}"' in path.read_text("utf-8")
    ]
    assert written == []
