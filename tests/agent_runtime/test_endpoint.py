"""How an HTTP server is spoken to, whatever it serves."""

from __future__ import annotations

from aiohttp import web

from agent_runtime.endpoint import Endpoint


async def test_a_command_does_not_go_into_a_connection_that_the_server_is_closing() -> None:
    """It cannot be sent twice, and a pooled connection may be closing when it is used again."""
    connections: list[object] = []

    async def answer(request: web.Request) -> web.Response:
        connections.append(request.transport)
        return web.json_response({})

    app = web.Application()
    app.add_routes([web.post("/command", answer), web.post("/request", answer)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    endpoint = Endpoint(f"http://127.0.0.1:{runner.addresses[0][1]}", timeout=5)
    await endpoint.open()
    try:
        for _ in range(2):
            await endpoint.post("/request", {})
        assert len(set(connections)) == 1
        for _ in range(2):
            await endpoint.control("/command", {}, timeout=5)
        assert len(set(connections)) == 3
    finally:
        await endpoint.close()
        await runner.cleanup()
