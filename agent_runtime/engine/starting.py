"""From a model folder to an engine at work, or to the reason why there can be none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from agent_runtime.engine.config import EmbeddedOptions
from agent_runtime.engine.engine import load_engine
from agent_runtime.engine.worker import EngineThread

__all__ = ["start_engine"]


async def start_engine(
    folder: Path, options: EmbeddedOptions, decode: Callable[[Sequence[int]], str]
) -> EngineThread:
    """An engine for a checkpoint folder, ready for requests; `decode` gives the text of ids.

    Raises PolicyMisconfigured where the backend's extra is missing or the folder holds no usable
    model.
    """
    thread = EngineThread(lambda: load_engine(folder, options, decode))
    try:
        await thread.ready()
    except BaseException:
        await thread.close()
        raise
    return thread
