"""A fake SGLang engine that takes LoRA adapters by name, as 0.5.23 with --enable-lora does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.kit.fake_sglang import FakeModel, FakeSGLang

__all__ = ["FakeAdapterSGLang"]


class FakeAdapterSGLang(FakeSGLang):
    """Knows which adapters it holds; its replies do not depend on them."""

    def __init__(self, model: FakeModel) -> None:
        super().__init__(model)
        self.takes_adapters = True
        """Whether it was started with --enable-lora."""
        self.adapters: dict[str, str] = {}
        """Paths of those that are loaded, by name."""
        self.loaded: list[tuple[str, int]] = []
        """Names of all that were, each with the bytes of its tensors."""
        self.updates: list[str] = []
        """Folders of whole weights that it was given."""

    def app(self) -> web.Application:
        app = super().app()
        app.add_routes(
            [
                web.post("/load_lora_adapter", self._load_adapter),
                web.post("/unload_lora_adapter", self._unload_adapter),
            ]
        )
        return app

    async def _generate(self, http: web.Request) -> web.StreamResponse:
        name = (await http.json()).get("lora_path")
        if name and name not in self.adapters:
            problem = f"Got LoRA adapter that has never been loaded: {name}"
            return web.json_response({"error": {"message": problem}}, status=400)
        return await super()._generate(http)

    async def _update(self, http: web.Request) -> web.Response:
        self.updates.append((await http.json())["model_path"])
        return await super()._update(http)

    async def _load_adapter(self, http: web.Request) -> web.Response:
        body = await http.json()
        name, file = body["lora_name"], Path(body["lora_path"], "adapter_model.safetensors")
        if not self.takes_adapters:
            return _answer("LoRA is not enabled. Please set `--enable-lora` to enable LoRA.")
        if name in self.adapters:
            return _answer(f"LoRA with name {name} already exists.")
        size = await asyncio.to_thread(lambda: file.stat().st_size if file.is_file() else 0)
        if not size:
            return _answer(f"Can't find 'adapter_config.json' at {body['lora_path']}")
        self.adapters[name] = body["lora_path"]
        self.loaded.append((name, size))
        return _answer(None)

    async def _unload_adapter(self, http: web.Request) -> web.Response:
        name = (await http.json())["lora_name"]
        known = self.adapters.pop(name, None)
        return _answer(None if known else f"LoRA with name {name} does not exist.")


def _answer(problem: str | None) -> web.Response:
    answer: dict[str, Any] = {"success": problem is None, "error_message": problem}
    return web.json_response(answer, status=200 if problem is None else 400)
