"""The client in Java, with the Maven repository of a Debian system."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.clients.playing import build, needs, plays_through_losses

# Compilers on a busy machine.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

JARS, MAVEN = Path("/usr/share/java"), Path("/usr/share/maven-repo")
PLUGINS = ("compiler", "jar", "resources", "surefire")
NEEDED = (
    *("grpc-api", "grpc-context", "grpc-core", "grpc-netty", "grpc-protobuf"),
    *("grpc-protobuf-lite", "grpc-stub", "guava", "netty-buffer", "netty-codec"),
    *("netty-codec-http", "netty-codec-http2", "netty-common", "netty-handler", "netty-resolver"),
    *("netty-transport", "netty-transport-native-unix-common", "perfmark-api", "protobuf"),
)


async def test_the_java_client_wins_through_losses(tmp_path: Path, server_process) -> None:
    needs("buf", "protoc", "grpc_java_plugin", "java", "javac", "mvn")
    jars = [JARS / f"{name}.jar" for name in NEEDED]
    plugins = [MAVEN / "org/apache/maven/plugins" / f"maven-{name}-plugin" for name in PLUGINS]
    missing = [path.name for path in (*jars, *plugins) if not path.exists()]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    # Maven writes beside what it reads.
    repository = tmp_path / "repository"
    shutil.copytree(MAVEN, repository, copy_function=_link)
    maven = ["mvn", "--offline", "-q", "-B", f"-Dmaven.repo.local={repository}", "package"]
    folder = build("java", ["buf", "generate"], maven)
    classes = ":".join(map(str, [folder / "target/agentgym-client-0.1.0.jar", *jars]))
    await plays_through_losses(
        ["java", "-cp", classes, folder / "examples/Play.java"], server_process
    )


def _link(source: str, target: str) -> None:
    Path(target).symlink_to(Path(source).resolve())
