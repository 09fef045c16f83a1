"""The embedded engine served on this machine: `--engine embedded`.

Engine thread and HTTP server live in one process: that of `agent_runtime.serve`, which is started
for whoever asks from another one, or the asking one itself. There is no router; it is for machines
where SGLang does not run.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro
from aiohttp import web

from agent_runtime.engine.config import EmbeddedOptions
from agent_runtime.engine.http_server import EngineHttpServer
from agent_runtime.engine.worker import start_engine
from agent_runtime.errors import PolicyMisconfigured, PolicyUnavailable
from agent_runtime.huggingface import ModelTokenizer
from agent_runtime.serving.base import Served
from agent_runtime.serving.commands import Checkpoint, Command, embedded_command
from agent_runtime.serving.config import ServeConfig
from agent_runtime.serving.supervised import SupervisedEngines

if TYPE_CHECKING:
    from agent_runtime.engine.worker import EngineThread

__all__ = ["EmbeddedProcess", "EmbeddedServed", "embedded_options"]


class EmbeddedServed(Served):
    """One embedded engine behind an address, in this process."""

    def __init__(self, model: str, config: ServeConfig) -> None:
        """Check the settings; raises PolicyMisconfigured for those that only SGLang has."""
        self._folder = _model_folder(model)
        self._config = config
        self._options = embedded_options(config)
        self._resources = contextlib.AsyncExitStack()
        self._thread: EngineThread | None = None
        self._ended: asyncio.Task[PolicyUnavailable] | None = None

    @property
    def thread(self) -> EngineThread:
        """The engine at work; raises RuntimeError before `start`."""
        if self._thread is None:
            raise RuntimeError("the engine was not started")
        return self._thread

    async def start(self) -> None:
        try:
            await self._start()
        except BaseException:
            await self._resources.aclose()
            raise

    async def _start(self) -> None:
        tokenizer = await asyncio.to_thread(ModelTokenizer, self._folder)
        thread = await start_engine(self._folder, self._options, tokenizer.decode)
        self._thread = thread
        self._resources.push_async_callback(thread.close)
        version = (await thread.ready()).version
        http_server = EngineHttpServer(thread, self._folder, tokenizer, version)
        # Without handler_cancellation a client that hangs up would not be noticed.
        runner = web.AppRunner(
            http_server.app(), access_log=None, handler_cancellation=True, shutdown_timeout=1.0
        )
        await runner.setup()
        self._resources.push_async_callback(runner.cleanup)
        host = self._config.host
        try:
            await web.TCPSite(runner, host, self._config.port, backlog=16_384).start()
        except OSError as error:
            raise PolicyMisconfigured(f"cannot listen on {host}: {error}") from error
        self.address = f"http://{host}:{runner.addresses[0][1]}"
        self.engines = [self.address]
        self._ended = asyncio.create_task(
            thread.wait_stopped(), name="wait for the embedded engine's end"
        )
        self._resources.callback(self._ended.cancel)

    async def stop(self) -> None:
        await self._resources.aclose()

    async def wait(self) -> None:
        if self._ended is None:
            raise RuntimeError("the engine was not started")
        raise await asyncio.shield(self._ended)


class EmbeddedProcess(SupervisedEngines):
    """One embedded engine in a process of its own."""

    def __init__(self, model: str, config: ServeConfig, chat_template: Path | None = None) -> None:
        """Check the settings; raises PolicyMisconfigured for those that only SGLang has."""
        self._options = embedded_options(config)
        self._template = chat_template
        super().__init__(Checkpoint(str(_model_folder(model)), self._options.version), config)

    def _command(self, weights: Checkpoint, *, port: int, index: int) -> Command:
        return embedded_command(
            self._config, weights, self._options, port=port, chat_template=self._template
        )


def _model_folder(model: str) -> Path:
    folder = Path(model)
    if not folder.is_dir():
        raise PolicyMisconfigured(f"the embedded engine reads folders, and {model} is not one")
    return folder


def embedded_options(config: ServeConfig) -> EmbeddedOptions:
    """Derive the engine's settings; raises PolicyMisconfigured for what it cannot do."""
    if config.router or config.max_total_tokens is not None:
        raise PolicyMisconfigured(
            "--router and --max-total-tokens are for --engine sglang; the embedded engine takes "
            "--engine-options max-slots=N cache-gib=N"
        )
    base: dict[str, Any] = {
        "device": config.device,
        "dtype": config.dtype,
        "context_length": config.context_length,
        "version": config.weight_version,
    }
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            return tyro.cli(
                EmbeddedOptions, args=config.engine_arguments(), default=EmbeddedOptions(**base)
            )
    except (SystemExit, ValueError) as error:
        problem = " ".join(output.getvalue().split()) or str(error)
        raise PolicyMisconfigured(f"options of the embedded engine: {problem}") from None
