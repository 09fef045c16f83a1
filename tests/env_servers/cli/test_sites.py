"""`env_servers sites` serves WebArena's sites to a person's browser."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys

import httpx


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


async def front_pages(port: int) -> dict[str, str]:
    pages: dict[str, str] = {}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        for _ in range(200):
            try:
                await client.get("/", headers={"host": "home.localhost"})
                break
            except httpx.ConnectError:
                await asyncio.sleep(0.05)
        for host in ("home", "shop"):
            answer = await client.get("/", headers={"host": f"{host}.localhost:{port}"})
            pages[host] = answer.text
    return pages


def test_the_sites_are_served_on_a_port():
    port = free_port()
    command = [sys.executable, "-m", "env_servers", "sites", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            pages = asyncio.run(front_pages(port))
        finally:
            server.send_signal(signal.SIGINT)
        shown = server.communicate(timeout=30)[0]
    assert f"admin  http://admin.localhost:{port}/admin" in shown
    assert f'href="http://wiki.localhost:{port}/wiki"' in pages["home"]
    assert "Product Showcases" in pages["shop"]
