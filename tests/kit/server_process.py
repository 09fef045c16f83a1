"""A server in a process of its own, for tests that kill, hang or signal it.

As a program: `python server_process.py ADDRESS_FILE CONFIG_JSON`.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from env_servers.sdk import Execution
from env_servers.server import EnvironmentServer, Security, ServerConfig, ServerLimits, serve
from env_servers.server.app import run_loop
from tests.kit.data import REPOSITORY

_PATIENCE_SECONDS = 30.0


class ServerProcess:
    """Start, signal and restart one server with these fields of ServerConfig and ServerLimits."""

    def __init__(self, folder: Path, *, limits: dict | None = None, **options) -> None:
        options.setdefault("environments", ["echo"])
        options.setdefault("bind", [f"unix:{folder / 'server.sock'}"])
        self._config = json.dumps({**options, "limits": limits or {}})
        self._address_file = folder / "address"
        self._log_file = folder / "log"
        self.process: subprocess.Popen | None = None

    def __enter__(self) -> "ServerProcess":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def address(self) -> str:
        return self._address_file.read_text().split()[0]

    @property
    def log(self) -> str:
        return self._log_file.read_text()

    def start(self) -> None:
        self._address_file.unlink(missing_ok=True)
        environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{REPOSITORY / 'gen'}"}
        with self._log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, __file__, str(self._address_file), self._config],
                stdout=log,
                stderr=log,
                env=environment,
            )
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self._address_file.exists():
            assert self.process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.02)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        return self.process.wait(_PATIENCE_SECONDS)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def worker_pids(self) -> list[int]:
        """Its worker processes."""
        path = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        pids = [int(pid) for pid in Path(path).read_text().split()]
        return [pid for pid in pids if b"worker" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def main() -> None:
    address_file, options = Path(sys.argv[1]), json.loads(sys.argv[2])
    limits = ServerLimits(**options.pop("limits"))
    execution = {name: Execution(how) for name, how in options.pop("execution", {}).items()}
    tuples = {key: tuple(options.pop(key)) for key in ("environments", "bind")}
    security = Security(**options.pop("security", {}))
    if "stuck_file" in options:
        options["stuck_file"] = Path(options["stuck_file"])
    config = ServerConfig(
        limits=limits, execution=execution, security=security, **tuples, **options
    )

    async def ready(server: EnvironmentServer) -> None:
        partial = address_file.with_suffix(".partial")
        partial.write_text("\n".join(server.addresses))
        partial.replace(address_file)

    run_loop(serve(config, ready))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
