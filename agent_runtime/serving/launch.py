"""A model served on this machine: engines, a router in front of them, and their end.

Engines start first, then the router, each waited for until it is ready. An engine that died is
started again with the weights that engines were last seen to serve, under the version that they
reported, so that a restart never brings old weights back. A restarted engine that cannot have them
starts with the first ones and says so by its version; whoever samples from it has to notice
(`agent_runtime.sglang.health`).

`ENGINES` is where further kinds of engines are added.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp

from agent_runtime.errors import PolicyMisconfigured, PolicyUnavailable
from agent_runtime.huggingface import HuggingFaceRenderer, check_vocabulary
from agent_runtime.logs import get_logger
from agent_runtime.models import resolve_model
from agent_runtime.serving.base import Served
from agent_runtime.serving.commands import Checkpoint, engine_command, router_command
from agent_runtime.serving.config import ServeConfig
from agent_runtime.serving.installation import find_python
from agent_runtime.serving.machine import Machine, detect, free_port
from agent_runtime.serving.process import ServerProcess
from agent_runtime.supervision import cancel_tasks, supervise
from agent_runtime.temporary_folders import TemporaryFolder

__all__ = ["ENGINES", "SGLangServed", "check_model", "serving"]

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


class SGLangServed(Served):
    """SGLang engines of one model, with their router."""

    def __init__(self, model: str, config: ServeConfig, machine: Machine | None = None) -> None:
        self.restarts = 0
        """Engines that were started again."""
        self._config = config
        self._weights = Checkpoint(model, config.weight_version)
        self._first = self._weights
        self._machine = machine
        self._device = "cpu"
        self._python = Path()
        self._folder = Path()
        self._temporary: TemporaryFolder | None = None
        self._processes: list[ServerProcess] = []
        self._router: ServerProcess | None = None
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
        machine = self._machine or await asyncio.to_thread(detect)
        self._device = machine.device(config.device)
        self._python = await asyncio.to_thread(find_python, config.python)
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
            ports = [config.port]
        self.engines = [f"http://{config.host}:{port}" for port in ports]
        self._processes = [
            ServerProcess(f"engine {index}", self._folder / f"engine-{index}.log")
            for index in range(count)
        ]
        await asyncio.gather(*(self._run_engine(index) for index in range(count)))
        self.address = self.engines[0]
        if config.router:
            await self._run_router()
        self._tasks = [
            supervise(self._keep_running(index), f"keep engine {index} running")
            for index in range(count)
        ]
        self._tasks.append(supervise(self._follow_weights(), "follow weights"))
        if self._router is not None:
            self._tasks.append(supervise(self._watch_router(self._router), "watch the router"))
        log.info("model served", model=self._first.path, address=self.address, engines=count)

    async def stop(self) -> None:
        await self._end(keep_logs=False)

    async def wait(self) -> None:
        await asyncio.gather(*self._tasks)

    async def _end(self, *, keep_logs: bool) -> None:
        await cancel_tasks(*self._tasks)
        self._tasks = []
        if self._router is not None:
            await self._router.stop()
        await asyncio.gather(*(process.stop() for process in self._processes))
        if self._session is not None:
            await self._session.close()
        if self._temporary is None:
            return
        if keep_logs:
            self._temporary.keep()
        else:
            self._temporary.remove()

    async def _run_engine(self, index: int) -> None:
        process, url = self._processes[index], self.engines[index]
        command = engine_command(
            self._python,
            self._config,
            self._weights,
            device=self._device,
            port=int(url.rpartition(":")[2]),
            index=index,
        )
        await process.start(command)
        await process.wait_ready(lambda: self._healthy(url), self._config.ready_seconds)

    async def _run_router(self) -> None:
        config = self._config
        port = config.port or free_port(config.host)
        self.address = f"http://{config.host}:{port}"
        command = router_command(
            self._python, config, self.engines, port=port, metrics_port=free_port("127.0.0.1")
        )
        self._router = ServerProcess("router", self._folder / "router.log")
        await self._router.start(command)
        await self._router.wait_ready(self._all_routed, config.ready_seconds)

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
        except PolicyUnavailable as error:
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

    async def _watch_router(self, router: ServerProcess) -> None:
        status = await router.wait()
        raise PolicyUnavailable(f"the router ended (status {status}):\n{router.log_tail()}")

    def _still_there(self, weights: Checkpoint) -> bool:
        return weights == self._first or Path(weights.path, "config.json").is_file()

    async def _healthy(self, url: str) -> bool:
        return await self._status(f"{url}/health") == 200

    async def _all_routed(self) -> bool:
        ready = await self._get(f"{self.address}/readiness")
        return ready.get("healthy_workers") == len(self.engines)

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


def _embedded(model: str, config: ServeConfig) -> Served:
    from agent_runtime.serving.embedded import EmbeddedServed

    return EmbeddedServed(model, config)


ENGINES: Final[Mapping[str, Callable[[str, ServeConfig], Served]]] = {
    "sglang": SGLangServed,
    "embedded": _embedded,
}
"""How each kind of engine is served: from a model folder and a configuration."""


def check_model(model: str, chat_template: Path | None = None) -> None:
    """Raise PolicyMisconfigured for a folder that cannot be served and spoken to.

    A name that is no folder is left to the engine, which looks for it on the hub.
    """
    folder = Path(model)
    if not folder.is_dir():
        if folder.is_absolute() or model.startswith("."):
            raise PolicyMisconfigured(f"there is no model folder {model}")
        return
    if not (folder / "config.json").is_file():
        raise PolicyMisconfigured(f"{model} is no model folder: it has no config.json")
    try:
        template = chat_template.read_text(encoding="utf-8") if chat_template else None
    except OSError as error:
        raise PolicyMisconfigured(f"chat template: {error}") from error
    HuggingFaceRenderer(folder, chat_template=template)
    check_vocabulary(folder)


@asynccontextmanager
async def serving(
    model: str, config: ServeConfig, *, chat_template: Path | None = None
) -> AsyncGenerator[Served]:
    """Serve a model while the context is open.

    Args:
        model: Folder of a checkpoint in the Hugging Face layout, a known model, or a name on the
            hub.
        config: What serves it, and how.
        chat_template: A jinja chat template for a model that has none.

    Raises:
        PolicyMisconfigured: The model cannot be served and spoken to.
        PolicyUnavailable: It was not served in time.
    """
    model = resolve_model(model)
    await asyncio.to_thread(check_model, model, chat_template)
    served = ENGINES[config.engine](model, config)
    await served.start()
    try:
        yield served
    finally:
        await served.stop()
