"""The embedded engine in a process of its own, for as long as a run lasts: `embedded.process`.

What is recorded is what the same policy gives in the run's process: name, identity and weights'
versions, so that the one may go on with what the other began. The address is the session's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from agent_runtime.engine.checkpoint import weights_digest
from agent_runtime.models import resolve_model
from agent_runtime.policies import PolicyConfig, SGLangOptions
from agent_runtime.policies.sglang import SGLangPolicy
from agent_runtime.serving import ServeConfig, serving
from agent_runtime.serving.commands import embedded_words

__all__ = ["EngineProcessPolicy", "embedded_process"]


class EngineProcessPolicy(SGLangPolicy):
    """A checkpoint that an embedded engine serves for this run alone."""

    def __init__(self, name: str, url: str, config: PolicyConfig, version: str) -> None:
        """Prepare the policy; its engine is served already.

        Args:
            name: In records, as that of the policy in this process.
            url: Where the engine is served.
            config: With the settings for SGLang.
            version: Of the weights that the engine started with.
        """
        super().__init__(url, config)
        self._name = name
        self._version = version
        self._backend = ""

    async def start(self) -> None:
        """Check that the engine serves, and load its tokenizer. Raises PolicyError."""
        await super().start()
        self.name = self._name
        self._backend = str((await self.engines.server_info()).get("backend") or "")

    def identity(self) -> Mapping[str, str]:
        """The backend, and the version of the weights that it started with."""
        return {"backend": self._backend, "weights": self._version}


@asynccontextmanager
async def embedded_process(
    name: str, model: str, config: PolicyConfig
) -> AsyncGenerator[EngineProcessPolicy]:
    """Serve a checkpoint while the context is open, for the policy that it gives.

    Args:
        name: Of the policy, in records.
        model: Folder of the checkpoint, or a known model.
        config: Sampling, limits and the embedded engine's settings.

    Raises:
        PolicyMisconfigured: The model or the settings cannot be used.
        PolicyUnavailable: The engine did not start.
    """
    options = config.embedded
    folder = resolve_model(model)
    version = options.version or await asyncio.to_thread(weights_digest, Path(folder))
    serve = ServeConfig(
        engine="embedded", weight_version=version, engine_options=embedded_words(options)
    )
    own = SGLangOptions(
        chat_template=options.chat_template,
        template_date=options.template_date,
        recovery=config.sglang.recovery,
    )
    async with serving(folder, serve, chat_template=options.chat_template) as served:
        agent = replace(config, sglang=own)
        yield EngineProcessPolicy(name, served.address, agent, version)
