"""Where commands of strangers run: a sandbox of bubblewrap, made for one command and gone with it.

A command sees a folder of its own in memory, this machine's programs (`/usr`, read-only), and
nothing else: no network, no other process, no file of this machine, no environment variable, no
secret. It has no privileges and cannot get any. Time, output, processes, memory and the folder's
size are bounded. When it has ended, all that it started is killed, and the folder is read back.

Nothing runs without the sandbox: where it cannot be made, `Sandbox.require` says why.
"""

from __future__ import annotations

import os
import pwd
import select
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Final

from env_servers.environments.shell.tree import MAX_TREE_BYTES, Tree, TreeTooLarge
from env_servers.sdk import EnvironmentUnavailable

__all__ = ["MAX_OUTPUT_BYTES", "SECONDS", "Ending", "Outcome", "Sandbox"]

SECONDS: Final = 6.0
"""Wall-clock time of a command. All commands that may wait for each other end before a server's
step limit (60 s)."""
MAX_OUTPUT_BYTES: Final = 1024 * 1024
"""Of output; who writes more is ended."""
_MIB: Final = 1024 * 1024
_FOLDER_BYTES: Final = 16 * _MIB
"""Of the folder while a command runs, and of its /tmp."""
_MAX_RESULT_BYTES: Final = 3 * MAX_TREE_BYTES
"""Of the tar stream: each of its entries takes 1 to 2 KiB beside its content."""
_READ_BYTES: Final = 1 << 16
_NOBODY: Final = "nobody"
_STARTED: Final = b"started\n"

_SCRIPT: Final = """
tar --extract --file=- --directory=/work --no-same-owner || exit
echo started >&{result}
exec </dev/null
(
    exec {result}>&-
    echo 1000 >/proc/self/oom_score_adj
    ulimit -c 0; ulimit -f 8192; ulimit -n 256; ulimit -v 262144; ulimit -u 24
    cd /work
    exec bash -c "$1"
) 2>&1
status=$?
while kill -9 -1; do :; done 2>/dev/null
chmod --recursive u+rwX /work
{{
    echo "$status"
    exec tar --create --file=- --directory=/work --format=gnu --sort=name --hard-dereference .
}} >&{result} 2>/dev/null
"""
"""Process 1 of a sandbox, which nothing in it can kill. It unpacks the folder, runs the command,
kills whatever the command left behind, and packs the folder again. Limits are set in here: that of
processes then counts those of this sandbox alone (Linux 5.14). The system ends these processes
first where memory is short."""
_ARGUMENTS: Final = (
    *("--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-net", "--unshare-ipc"),
    *("--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL", "--uid", "1000"),
    *("--gid", "1000", "--hostname", "sandbox", "--new-session", "--die-with-parent"),
    *("--as-pid-1", "--clearenv", "--setenv", "PATH", "/usr/bin:/bin"),
    *("--setenv", "HOME", "/work", "--setenv", "LC_ALL", "C.UTF-8", "--setenv", "TZ", "UTC"),
    *("--ro-bind", "/usr", "/usr", "--ro-bind-try", "/etc/alternatives", "/etc/alternatives"),
    *("--proc", "/proc", "--dev", "/dev", "--size", str(_FOLDER_BYTES), "--tmpfs", "/tmp"),
    *("--size", str(_FOLDER_BYTES), "--tmpfs", "/work"),
)
_ROOT_FOLDERS: Final = ("bin", "lib", "lib32", "lib64", "sbin")
"""Links into /usr on most systems, and folders of their own on the others."""


class Ending(StrEnum):
    """How a command ended."""

    EXITED = "exited"
    """By itself; the folder is as it left it."""
    TIME = "time"
    """It took longer than it may; the folder is as before."""
    OUTPUT = "output"
    """It wrote more than it may; the folder is as before."""
    FOLDER = "folder"
    """It left more in the folder than fits; the folder is as before."""
    BROKEN = "broken"
    """It ended the sandbox before the folder could be read; the folder is as before."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command did."""

    ending: Ending
    tree: Tree
    """The folder afterwards."""
    output: bytes = b""
    """Standard output and standard error, as they came."""
    status: int = 0
    """Exit status."""


class Sandbox:
    """Runs commands; it may be used from several threads at once."""

    def __init__(self, program: str | None = None) -> None:
        """`program` is bubblewrap's; None = the `bwrap` that the search path has."""
        self._program = program or shutil.which("bwrap")
        # Root would be exempt from limits of processes, in a sandbox, too.
        self._account = pwd.getpwnam(_NOBODY) if os.geteuid() == 0 else None

    def require(self) -> None:
        """Raise EnvironmentUnavailable where no sandbox can be made, with what would help."""
        if self._program is None:
            raise EnvironmentUnavailable(
                "commands run in a sandbox of bubblewrap only, and there is no program `bwrap`: "
                "install the package bubblewrap, at least version 0.8 (apt install bubblewrap)"
            )
        try:
            outcome = self.run(Tree(), "echo ready")
        except EnvironmentUnavailable as error:
            raise EnvironmentUnavailable(
                f"{error}. Install bubblewrap 0.8 or later, and allow user namespaces: by "
                "sysctl user.max_user_namespaces=10000 (and kernel.unprivileged_userns_clone=1, "
                "kernel.apparmor_restrict_unprivileged_userns=0 where these exist); in a container "
                "by its seccomp profile (docker run --security-opt seccomp=unconfined "
                "--security-opt systempaths=unconfined)"
            ) from error
        if (outcome.ending, outcome.status, outcome.output) != (Ending.EXITED, 0, b"ready\n"):
            raise EnvironmentUnavailable(
                "a sandbox of bubblewrap starts, but its first command ended by "
                f"{outcome.ending} with status {outcome.status}: {outcome.output[:200]!r}"
            )

    def run(self, tree: Tree, command: str) -> Outcome:
        """Run a bash command in a folder that holds the tree.

        Raises:
            EnvironmentUnavailable: There was no sandbox, which is no fault of the command.
        """
        assert self._program is not None
        reader, writer = os.pipe()
        with os.fdopen(reader, "rb", buffering=0) as result:
            try:
                process = self._start(command, writer)
            finally:
                os.close(writer)
            with process:
                exchange = _Exchange(process, result, tree.to_tar())
                try:
                    ending = exchange.run(time.monotonic() + SECONDS)
                finally:
                    # The group: a sandbox that is just being made does not yet die with its parent.
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    exchange.drain()
        return _outcome(ending, exchange, tree)

    def _start(self, command: str, result: int) -> subprocess.Popen[bytes]:
        assert self._program is not None
        script, account = _SCRIPT.format(result=result), self._account
        try:
            return subprocess.Popen(
                [
                    *(self._program, *_ARGUMENTS, *_root_folders(), "--remount-ro", "/"),
                    *("bash", "--norc", "--noprofile", "-c", script, "sandbox", command),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                bufsize=0,
                cwd="/",
                env={},
                pass_fds=(result,),
                start_new_session=True,
                user=None if account is None else account.pw_uid,
                group=None if account is None else account.pw_gid,
                extra_groups=None if account is None else (),
            )
        except OSError as error:
            raise EnvironmentUnavailable(f"{self._program} does not start: {error}") from error


class _Exchange:
    """What goes to and fro between a sandbox and this process."""

    def __init__(self, process: subprocess.Popen[bytes], result: IO[bytes], tar: bytes) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin = process.stdin
        self._rest = memoryview(tar)
        self._result = result
        self._stdout = process.stdout
        self.output = bytearray()
        self.result = bytearray()

    def run(self, deadline: float) -> Ending:
        """Write and read until the sandbox is gone, or a limit is reached."""
        into = {self._stdout.fileno(): self.output, self._result.fileno(): self.result}
        feed = self._stdin.fileno()
        os.set_blocking(feed, False)
        poll = select.poll()
        poll.register(feed, select.POLLOUT)
        for reading in into:
            poll.register(reading, select.POLLIN)
        while into:
            left = deadline - time.monotonic()
            ready = poll.poll(left * 1000) if left > 0 else []
            if not ready:
                return Ending.TIME
            for descriptor, _ in ready:
                if descriptor == feed:
                    if self._feed():
                        poll.unregister(feed)
                        self._stdin.close()
                    continue
                chunk = os.read(descriptor, _READ_BYTES)
                into[descriptor] += chunk
                if not chunk:
                    poll.unregister(descriptor)
                    del into[descriptor]
            if len(self.output) > MAX_OUTPUT_BYTES:
                return Ending.OUTPUT
            if len(self.result) > _MAX_RESULT_BYTES:
                return Ending.FOLDER
        return Ending.EXITED

    def drain(self) -> None:
        """Wait until nothing of the killed sandbox is left, and so nobody can write any more."""
        for end in (self._stdout, self._result):
            while os.read(end.fileno(), _READ_BYTES):
                pass

    def _feed(self) -> bool:
        """Write some of the folder; return whether that was all, or nobody reads any more."""
        try:
            self._rest = self._rest[os.write(self._stdin.fileno(), self._rest[:_READ_BYTES]) :]
        except BrokenPipeError:
            return True
        return not self._rest


def _outcome(ending: Ending, exchange: _Exchange, tree: Tree) -> Outcome:
    result = bytes(exchange.result)
    if not result.startswith(_STARTED):
        # Before it has seen the command: no command is to blame.
        said = exchange.output[:500].decode(errors="replace").strip()
        raise EnvironmentUnavailable(f"no sandbox could be made: {said or 'it did not start'}")
    output = bytes(exchange.output[:MAX_OUTPUT_BYTES])
    if ending is not Ending.EXITED:
        return Outcome(ending, tree, output)
    status, _, packed = result.removeprefix(_STARTED).partition(b"\n")
    try:
        return Outcome(ending, Tree.of_tar(packed), output, int(status))
    except TreeTooLarge:
        return Outcome(Ending.FOLDER, tree, output)
    except ValueError:
        return Outcome(Ending.BROKEN, tree, output)


def _root_folders() -> list[str]:
    arguments: list[str] = []
    for name in _ROOT_FOLDERS:
        path = Path("/", name)
        if path.is_symlink():
            arguments += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            arguments += ["--ro-bind", str(path), str(path)]
    return arguments
