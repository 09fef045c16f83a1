"""LoRA adapters on SGLang engines, by name: loaded, asked for, unloaded.

A name is never used again, for engines cache prompts by it. Two adapters stay loaded: the one that
requests ask for, and the one before it, for requests that are on their way. An engine unloads one
only when its last request has ended.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from agent_runtime.endpoint import Endpoint
from agent_runtime.errors import PolicyError, PolicyMisconfigured, PolicyRejected
from agent_runtime.logs import get_logger

__all__ = ["Adapter", "Adapters", "load_adapter", "unload_adapter"]

_HELD: Final = 2
_TIMEOUT: Final = 600.0
"""Seconds: until an engine has read an adapter; until the last request with an old one ended."""

log = get_logger(__name__)


class Adapter(NamedTuple):
    """A LoRA adapter."""

    name: str
    """By which requests ask for it; of these weights alone."""
    path: str
    """Its folder as the engines see it."""


class Adapters:
    """Those that the engines of a group should hold."""

    def __init__(self) -> None:
        self._held: list[Adapter] = []

    @property
    def newest(self) -> Adapter | None:
        """The one that requests ask for; None = they ask for the weights alone."""
        return self._held[-1] if self._held else None

    def require_new(self, name: str) -> None:
        """Raise PolicyMisconfigured for a name under which something else may be cached."""
        if not name or any(it.name == name for it in self._held):
            raise PolicyMisconfigured(f"adapter {name!r} is loaded already: name a new one")

    def add(self, adapter: Adapter) -> list[Adapter]:
        """Ask for this one from now on; returns those that are to be unloaded."""
        self._held.append(adapter)
        dropped = self._held[:-_HELD]
        del self._held[:-_HELD]
        return dropped

    def clear(self) -> list[Adapter]:
        """Ask for none from now on; returns those that are to be unloaded."""
        dropped, self._held = self._held, []
        return dropped


async def load_adapter(client: Endpoint, adapter: Adapter) -> None:
    """Load an adapter on an engine.

    Raises:
        PolicyMisconfigured: The engine takes none, or not this one.
        PolicyError: It did not answer.
    """
    body = {"lora_name": adapter.name, "lora_path": adapter.path}
    try:
        answer: dict[str, Any] = await client.control("/load_lora_adapter", body, timeout=_TIMEOUT)
        problem = answer.get("error_message") if answer.get("success") is False else ""
    except PolicyRejected as error:
        problem = str(error)
    if problem:
        raise PolicyMisconfigured(
            f"{client.base_url} does not take the adapter {adapter.path}: {problem}. Is it served "
            "with --enable-lora, --lora-target-modules all, --max-lora-rank of its rank at least, "
            "and --max-loras-per-batch and --max-loaded-loras of 3 at least?"
        )


async def unload_adapter(client: Endpoint, adapter: Adapter) -> None:
    """Unload an adapter, as well as that goes: one that stays costs memory, and nothing else."""
    try:
        await client.control("/unload_lora_adapter", {"lora_name": adapter.name}, timeout=_TIMEOUT)
    except PolicyError as error:
        log.warning("adapter stays loaded", engine=client.base_url, error=str(error))
