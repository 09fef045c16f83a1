"""A fake SGLang engine that takes weights through a process group, over gloo; needs torch."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import torch
from aiohttp import web
from torch.distributed import PrefixStore, ProcessGroupGloo, TCPStore

from tests.kit.fake_sglang import FakeModel, FakeSGLang

__all__ = ["FakeGroupSGLang"]

_PATIENCE = timedelta(seconds=20)


class FakeGroupSGLang(FakeSGLang):
    """Keeps what it was sent; its replies do not depend on it."""

    def __init__(self, model: FakeModel, *, framed: bool = True) -> None:
        super().__init__(model)
        self.framed = framed
        """Whether it is told when an update begins and ends, as 0.5.17 is not."""
        self.weights: dict[str, torch.Tensor] = {}
        self.buckets: list[list[str]] = []
        """Names of the tensors of each request to receive them."""
        self.refuses = False
        """Whether it answers such requests without receiving anything."""
        self.groups: dict[str, ProcessGroupGloo] = {}
        """Those that it is in."""
        self.joined: list[str] = []
        """All that it came to, by their names."""
        self._updating = not framed

    def app(self) -> web.Application:
        app = super().app()
        app.add_routes(
            [
                web.post("/init_weights_update_group", self._join),
                web.post("/destroy_weights_update_group", self._leave),
                web.post("/update_weights_from_distributed", self._receive),
            ]
        )
        if self.framed:
            app.router.add_post("/begin_weight_update", self._begin_update)
            app.router.add_post("/end_weight_update", self._end_update)
        return app

    async def _begin_update(self, _: web.Request) -> web.Response:
        self._updating = True
        return _answer(success=True)

    async def _end_update(self, _: web.Request) -> web.Response:
        self._updating = False
        return _answer(success=True)

    async def _join(self, http: web.Request) -> web.Response:
        body = await http.json()
        name, size = body["group_name"], body["world_size"]
        assert body["backend"] == "gloo"

        def join() -> ProcessGroupGloo:
            """Where `init_process_group` would look, within SGLang's own prefix."""
            address = (body["master_address"], body["master_port"])
            store: Any = TCPStore(*address, size, timeout=_PATIENCE)
            for prefix in (name, f"{name}/", "cpu/"):
                store = PrefixStore(prefix, store)
            return ProcessGroupGloo(store, body["rank_offset"], size, timeout=_PATIENCE)

        self.groups[name] = await asyncio.to_thread(join)
        self.joined.append(name)
        return _answer(success=True)

    async def _leave(self, http: web.Request) -> web.Response:
        group = self.groups.pop((await http.json())["group_name"], None)
        return _answer(success=group is not None)

    async def _receive(self, http: web.Request) -> web.Response:
        body = await http.json()
        self.buckets.append(body["names"])
        if not self._updating or self.refuses:
            return _answer(success=False)
        group = self.groups[body["group_name"]]
        tensors = {
            name: torch.empty(shape, dtype=getattr(torch, dtype))
            for name, dtype, shape in zip(
                body["names"], body["dtypes"], body["shapes"], strict=True
            )
        }

        def receive() -> None:
            for tensor in tensors.values():
                group.broadcast(tensor, 0).wait()

        await asyncio.to_thread(receive)
        for request in self._running.values():
            self._catch_up(request)
        self.weights |= tensors
        self.version = body["weight_version"]
        if body["flush_cache"]:
            self._cache.clear()
        return _answer(success=True)


def _answer(*, success: bool) -> web.Response:
    body = {"success": success, "message": "" if success else "Refused."}
    return web.json_response(body, status=200 if success else 400)
