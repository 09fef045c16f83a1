"""Engine processes of one model on this machine: started, watched, restarted, ended.

Engines start first, then what stands in front of them, each waited for until it is ready. An engine
that died is started again with the weights that engines were last seen to serve, under the version
that they reported, so that a restart never brings old weights back. A restarted engine that cannot
have them starts with the first ones and says so by its version; whoever samples from it has to
notice (`agent_runtime.sglang.health`).

Which program an engine is, is the subclass's business.
"""

from __future__ import annotations

import asyncio
import socket
from abc import abstractmethod
from pathlib import Path
from typing import Any, Final

import aiohttp

from agent_runtime.errors import PolicyError, PolicyMisconfigured, PolicyUnavailable
from agent_runtime.logs import get_logger
from agent_runtime.serving.base import Served
from agent_runtime.serving.commands import Checkpoint, Command
from agent_runtime.serving.config import ServeConfig
from agent_runtime.serving.machine import free_port
from agent_runtime.serving.process import ServerProcess
from agent_runtime.supervision import cancel_tasks, supervise
from agent_runtime.temporary_folders import TemporaryFolder

__all__ = ["SupervisedEngines"]

_WATCH_SECONDS: Final = 2.0
_PROBE_TIMEOUT: Final = 10.0
_RESTART_PAUSE: Final = 1.0
"""Seconds before the first restart of an engine; each further one waits twice as long."""
_LONGEST_PAUSE: Final = 30.0
_STABLE_SECONDS: Final = 60.0
"""An engine that lived this long is restarted after the first pause again. Without back-off one
that dies at its start (a broken installation, no memory) burns all its restarts in seconds, while
what ails it would have passed."""

log = get_logger(__name__)


class SupervisedEngines(Served):
    """Engines of one model, each a process."""

    def __init__(self, weights: Checkpoint, config: ServeConfig) -> None:
        """Describe what the engines start with; nothing runs before `start`."""
        self.restarts = 0
        """Engines that were started again."""
        self._config = config
        self._weights = self._first = weights
        self._folder = Path()
        self._temporary: TemporaryFolder | None = None
        self._processes: list[ServerProcess] = []
        self._front: ServerProcess | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self._session: aiohttp.ClientSession | None = None

    @property
    def log_dir(self) -> Path:
        """Folder of the servers' logs."""
        return self._folder

    @property
    def pids(self) -> list[int]:
        """Process ids of the engines that run."""
        return [process.pid for process in self._processes if process.pid is not None]

    async def start(self) -> None:
        try:
            await self._start()
        except BaseException:
            await self._end(keep_logs=True)
            raise

    async def _start(self) -> None:
        config = self._config
        await self._prepare()
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_PROBE_TIMEOUT))
        if config.log_dir is None:
            self._temporary = TemporaryFolder()
            self._folder = self._temporary.path
        else:
            self._folder = config.log_dir
            self._folder.mkdir(parents=True, exist_ok=True)
        count = max(1, config.router)
        ports = [free_port(config.host) for _ in range(count)]
        if not config.router and config.port:
            _require_free(config.host, config.port)
            ports = [config.port]
        self.engines = [f"http://{config.host}:{port}" for port in ports]
        self._processes = [
            ServerProcess(f"engine {index}", self._folder / f"engine-{index}.log")
            for index in range(count)
        ]
        await asyncio.gather(*(self._run_engine(index) for index in range(count)))
        self.address = self.engines[0]
        front = await self._start_front()
        self._tasks = [
            supervise(self._keep_running(index), f"keep engine {index} running")
            for index in range(count)
        ]
        self._tasks.append(supervise(self._follow_weights(), "follow weights"))
        if front is not None:
            self._tasks.append(supervise(_watch_front(front), f"watch the {front.name}"))
        log.info("model served", model=self._first.path, address=self.address, engines=count)

    async def stop(self) -> None:
        await self._end(keep_logs=False)

    async def wait(self) -> None:
        await asyncio.gather(*self._tasks)

    async def _end(self, *, keep_logs: bool) -> None:
        await cancel_tasks(*self._tasks)
        self._tasks = []
        if self._front is not None:
            await self._front.stop()
        await asyncio.gather(*(process.stop() for process in self._processes))
        if self._session is not None:
            await self._session.close()
        if self._temporary is None:
            return
        if keep_logs:
            self._temporary.keep()
        else:
            self._temporary.remove()

    async def _prepare(self) -> None:
        """Find out what the commands need; raises PolicyMisconfigured where it is not there."""

    @abstractmethod
    def _command(self, weights: Checkpoint, *, port: int, index: int) -> Command:
        """Return how an engine is started; `index` is its place among those of this machine."""

    async def _start_front(self) -> ServerProcess | None:
        """Start what takes the requests in the engines' place, and set `address`; None = nothing.

        Whoever overrides it sets `_front` before it starts the process.
        """
        return None

    async def _run_engine(self, index: int) -> None:
        process, url = self._processes[index], self.engines[index]
        port = int(url.rpartition(":")[2])
        await process.start(self._command(self._weights, port=port, index=index))
        await process.wait_ready(lambda: self._healthy(url), self._config.ready_seconds)

    async def _keep_running(self, index: int) -> None:
        """Start an engine again when it died, as often as allowed."""
        process, clock = self._processes[index], asyncio.get_running_loop().time
        pause, started = _RESTART_PAUSE, clock()
        for restart in range(self._config.max_restarts):
            status = await process.wait()
            if clock() - started >= _STABLE_SECONDS:
                pause = _RESTART_PAUSE
            log.warning(
                "engine died",
                engine=process.name,
                exit_status=status,
                restarts=restart,
                restart_in=pause,
                log_file=str(process.log_file),
            )
            await process.stop()  # what the dead leader left behind holds its port
            await asyncio.sleep(pause)
            pause, started = min(2 * pause, _LONGEST_PAUSE), clock()
            if not self._still_there(self._weights):
                self._weights = self._first
            self.restarts += 1
            await self._restart(index)
        status = await process.wait()
        log.error(
            "engine given up",
            engine=process.name,
            exit_status=status,
            restarts=self._config.max_restarts,
            log_file=str(process.log_file),
        )
        raise PolicyUnavailable(
            f"the {process.name} ended again (status {status}) after "
            f"{self._config.max_restarts} restarts:\n{process.log_tail()}"
        )

    async def _restart(self, index: int) -> None:
        process = self._processes[index]
        try:
            await self._run_engine(index)
        except PolicyError as error:
            log.warning("engine did not start", engine=process.name, error=str(error))
        else:
            log.info("engine restarted", engine=process.name, version=self._weights.version)

    async def _follow_weights(self) -> None:
        """Remember which weights the engines serve, for the next restart."""
        while True:
            for url in self.engines:
                model = await self._get(f"{url}/model_info")
                path, version = model.get("model_path"), model.get("weight_version")
                if isinstance(path, str) and isinstance(version, str):
                    served = Checkpoint(path, version)
                    if served not in (self._weights, self._first):
                        self._weights = served
            await asyncio.sleep(_WATCH_SECONDS)

    def _still_there(self, weights: Checkpoint) -> bool:
        return weights == self._first or Path(weights.path, "config.json").is_file()

    async def _healthy(self, url: str) -> bool:
        return await self._status(f"{url}/health") == 200

    async def _status(self, url: str) -> int:
        assert self._session is not None
        try:
            async with self._session.get(url) as response:
                await response.read()
                return response.status
        except (aiohttp.ClientError, OSError, TimeoutError):
            return 0

    async def _get(self, url: str) -> dict[str, Any]:
        assert self._session is not None
        try:
            async with self._session.get(url) as response:
                return await response.json() if response.status == 200 else {}
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
            return {}


async def _watch_front(front: ServerProcess) -> None:
    status = await front.wait()
    raise PolicyUnavailable(f"the {front.name} ended (status {status}):\n{front.log_tail()}")


def _require_free(host: str, port: int) -> None:
    """Raise PolicyMisconfigured where another server would be taken for the one to be started."""
    with socket.socket() as probe:
        # What an earlier server's connections left behind binds nobody.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise PolicyMisconfigured(f"cannot listen on {host}:{port}: {error}") from error
