"""A model served on this machine: by which engine, and whether it can be spoken to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.huggingface import HuggingFaceRenderer, check_vocabulary
from agent_runtime.models import resolve_model
from agent_runtime.serving.base import Served
from agent_runtime.serving.commands import Checkpoint, Command, engine_command, router_command
from agent_runtime.serving.config import ServeConfig
from agent_runtime.serving.installation import find_python
from agent_runtime.serving.machine import Machine, detect, free_port
from agent_runtime.serving.process import ServerProcess
from agent_runtime.serving.supervised import SupervisedEngines

__all__ = ["SGLangServed", "check_model", "serving"]


class SGLangServed(SupervisedEngines):
    """SGLang engines of one model, with their router."""

    def __init__(self, model: str, config: ServeConfig, machine: Machine | None = None) -> None:
        super().__init__(Checkpoint(model, config.weight_version), config)
        self._machine = machine
        self._device = "cpu"
        self._python = Path()

    async def _prepare(self) -> None:
        machine = self._machine or await asyncio.to_thread(detect)
        self._device = machine.device(self._config.device)
        self._python = await asyncio.to_thread(find_python, self._config.python)

    def _command(self, weights: Checkpoint, *, port: int, index: int) -> Command:
        return engine_command(
            self._python, self._config, weights, device=self._device, port=port, index=index
        )

    async def _start_front(self) -> ServerProcess | None:
        config = self._config
        if not config.router:
            return None
        port = config.port or free_port(config.host)
        self.address = f"http://{config.host}:{port}"
        command = router_command(
            self._python, config, self.engines, port=port, metrics_port=free_port("127.0.0.1")
        )
        self._front = ServerProcess("router", self._folder / "router.log")
        await self._front.start(command)
        await self._front.wait_ready(self._all_routed, config.ready_seconds)
        return self._front

    async def _all_routed(self) -> bool:
        ready = await self._get(f"{self.address}/readiness")
        return ready.get("healthy_workers") == len(self.engines)


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
    model: str,
    config: ServeConfig,
    *,
    chat_template: Path | None = None,
    in_process: bool = False,
) -> AsyncGenerator[Served]:
    """Serve a model while the context is open.

    Args:
        model: Folder of a checkpoint in the Hugging Face layout, a known model, or a name on the
            hub.
        config: What serves it, and how.
        chat_template: A jinja chat template for a model that has none.
        in_process: Run an embedded engine in this process, which does nothing else; else each
            engine is a process of its own, which is restarted when it dies.

    Raises:
        PolicyMisconfigured: The model cannot be served and spoken to.
        PolicyUnavailable: It was not served in time.
    """
    model = resolve_model(model)
    await asyncio.to_thread(check_model, model, chat_template)
    served = _served(model, config, chat_template, in_process)
    await served.start()
    try:
        yield served
    finally:
        await served.stop()


def _served(
    model: str, config: ServeConfig, chat_template: Path | None, in_process: bool
) -> Served:
    if config.engine == "sglang":
        return SGLangServed(model, config)
    # Imported here: --help and SGLang need nothing of the engine.
    from agent_runtime.serving.embedded import EmbeddedProcess, EmbeddedServed

    if in_process:
        return EmbeddedServed(model, config)
    return EmbeddedProcess(model, config, chat_template)
