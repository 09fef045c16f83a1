"""One Java process that holds the simulator, and the bridge to it.

Contains the process: its flags, its bounded heap, its death. The process ends when this Python
process does (its standard input closes), however that ends.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import scienceworld.constants
from py4j.java_gateway import GatewayParameters, JavaGateway, find_jar_path
from py4j.protocol import Py4JError, Py4JJavaError

from env_servers.sdk import EnvironmentUnavailable

__all__ = ["JavaRaised", "Jvm", "JvmDied"]

T = TypeVar("T")

_FLAGS: Final = (
    # The simulator iterates over sets that are ordered by identity hash. With a constant one their
    # order is the order of insertion, on every run and every Java: that makes it deterministic.
    "-XX:+UnlockExperimentalVMOptions",
    "-XX:hashCode=2",
    "-XX:+UseSerialGC",
    "-XX:+ExitOnOutOfMemoryError",
    # Loading an instance makes 11 MB that are garbage at the next load. Large survivor spaces let
    # them die young: otherwise the process grows by them until its heap is full.
    "-XX:SurvivorRatio=2",
    "-XX:TargetSurvivorRatio=90",
    "-XX:MinHeapFreeRatio=10",
    "-XX:MaxHeapFreeRatio=30",
    "-XX:-UsePerfData",
    "-Xss4m",
)
_YOUNG_MIB: Final = 192
_OLD_MIB: Final = 64
"""What the heap begins with."""
_OWN_CLASSES: Final = Path(__file__).parent / "java_classes"
"""Compiled beside their source: `javac --release 11 -cp scienceworld.jar`, checked by a test."""
_OUT_OF_MEMORY: Final = 3
"""Exit status of ExitOnOutOfMemoryError."""
_GRACE_SECONDS: Final = 5.0
"""A broken connection is a death when the process ends within this time."""
_TYPE_IDS: Final = "object_type_ids.tsv"
"""The simulator reads it from, and may write it to, its working folder."""


class JvmDied(Exception):
    """When the Java process is gone; `out_of_memory` tells why, as far as that is known."""

    def __init__(self, status: int | None, stderr: str = "") -> None:
        self.out_of_memory = status == _OUT_OF_MEMORY
        tail = f": {stderr.strip()[-400:]}" if stderr.strip() else ""
        super().__init__(f"the Java process ended with status {status}{tail}")


class JavaRaised(Exception):
    """When Java code raised; the process lives on."""


class Jvm:
    """A Java process with the simulator on its class path."""

    def __init__(self, java: Path, heap_mib: int) -> None:
        """Starts it, in about a second. Raises EnvironmentUnavailable where it does not start."""
        logging.getLogger().addFilter(_not_py4j)
        self._folder = tempfile.TemporaryDirectory(prefix="sciworld-", ignore_cleanup_errors=True)
        package = Path(scienceworld.constants.BASEPATH)
        shutil.copy(package / _TYPE_IDS, self._folder.name)
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._process = self._launch(java, heap_mib)
        try:
            port, token = self._announced()
        except ValueError as error:
            stderr = self._stderr()
            self._discard()
            raise EnvironmentUnavailable(f"Java at {java} does not start: {stderr}") from error
        self._gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_field=False),
            java_process=self._process,
        )
        self.classes: Any = self._gateway.jvm
        """The root of Java's packages."""
        self._mute()

    @property
    def pid(self) -> int:
        """The process id, for measurements."""
        return self._process.pid

    def array(self, kind: Any, *values: Any) -> Any:
        """Return a Java array of a class (or primitive type) with these elements."""
        java_array: Any = self._gateway.new_array(kind, len(values))
        for index, value in enumerate(values):
            java_array[index] = value
        return java_array

    def call(self, work: Callable[[], T]) -> T:
        """Run code that talks to Java; raises JvmDied or JavaRaised instead of py4j's errors."""
        if self._process.poll() is not None:
            raise self._death()
        try:
            return work()
        except Py4JJavaError as error:
            raise JavaRaised(_first_line(error)) from error
        except (Py4JError, OSError) as error:
            # A dying Java breaks the connection a moment before its exit status can be read.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_SECONDS)
            if self._process.poll() is None:
                raise JavaRaised(_first_line(error)) from error
            raise self._death() from error

    def heap(self, *, collect: bool = False) -> tuple[int, int]:
        """(used, most) bytes of the heap; `collect` first removes what is unreachable."""

        def ask() -> tuple[int, int]:
            runtime = self.classes.java.lang.Runtime.getRuntime()
            if collect:
                runtime.gc()
            return runtime.totalMemory() - runtime.freeMemory(), runtime.maxMemory()

        return self.call(ask)

    def close(self) -> None:
        """End the process; harmless when it has ended."""
        self._disconnect()
        self._discard()

    def _launch(self, java: Path, heap_mib: int) -> subprocess.Popen[bytes]:
        """py4j's own launcher can neither tell why Java failed nor start a session of its own."""
        classes = (find_jar_path(), scienceworld.constants.JAR_PATH, str(_OWN_CLASSES))
        server = ("py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0")
        try:
            return subprocess.Popen(
                [str(java), *_sizes(heap_mib), *_FLAGS, "-cp", os.pathsep.join(classes), *server],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                cwd=self._folder.name,
                # Ctrl-C in the server's terminal must not kill Java before its episodes are closed.
                start_new_session=True,
            )
        except OSError as error:
            self._said.close()
            self._folder.cleanup()
            raise EnvironmentUnavailable(f"Java at {java} does not start: {error}") from error

    def _announced(self) -> tuple[int, str]:
        """Return the port and the token that the bridge prints first; raises ValueError."""
        stream = self._process.stdout
        assert stream is not None
        return int(stream.readline()), stream.readline().decode("ascii").strip()

    def _discard(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._said):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._folder.cleanup()

    def _death(self) -> JvmDied:
        self._disconnect()
        return JvmDied(self._process.poll(), self._stderr())

    def _disconnect(self) -> None:
        """Keep finalizers of Java references from calling a process that is gone."""
        # py4j has no public way to say it.
        client: Any = self._gateway._gateway_client  # pyright: ignore[reportPrivateUsage]
        client.is_connected = False
        client.close()

    def _stderr(self) -> str:
        if self._said.closed:
            return ""
        self._said.seek(0)
        return self._said.read().decode(errors="replace").strip()[-2000:]

    def _mute(self) -> None:
        """The simulator prints a page per step; it must be muted before it loads its console."""
        java = self.classes.java
        self.call(
            lambda: java.lang.System.setOut(
                java.io.PrintStream(java.io.OutputStream.nullOutputStream())
            )
        )


def _sizes(heap_mib: int) -> tuple[str, ...]:
    """Flags for a heap of at most that many MiB."""
    young = min(_YOUNG_MIB, heap_mib // 3)
    return f"-Xmx{heap_mib}m", f"-Xms{young + _OLD_MIB}m", f"-Xmn{young}m"


def _first_line(error: BaseException) -> str:
    java_exception = getattr(error, "java_exception", None)
    if java_exception is not None:
        with contextlib.suppress(Py4JError):
            return str(java_exception.toString())[:300]
    return str(error).split("\n", 1)[0][:300]


def _not_py4j(record: logging.LogRecord) -> bool:
    """py4j logs a broken connection, which is expected here, as an error of the root logger."""
    return Path(record.pathname).parent.name != "py4j"
