"""Official sites for tests: the embedded ones on ports, as a user would have the originals."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from pathlib import Path
from typing import Any

import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import Receive, Scope, Send

from env_servers.environments.webarena.sites.embedded import embedded_network, new_world
from env_servers.environments.webarena.sites.shop.service import WorldShop
from env_servers.environments.webarena.sites.visit import SESSIONS

__all__ = ["ACCOUNTS", "StandIn", "entry"]

_SITES = {
    "shopping": ("shop", ""),
    "shopping_admin": ("admin", "/admin"),
    "reddit": ("forum", ""),
    "gitlab": ("git", ""),
    "wikipedia": ("wiki", "/wiki"),
    "map": ("map", ""),
    "homepage": ("home", ""),
}
ACCOUNTS = {
    "shopping": {"name": "hana.marsh@mail.test", "password": "Password.123"},
    "shopping_admin": {"name": "admin", "password": "admin1234"},
    "reddit": {"name": "quiet_lantern", "password": "forum1234"},
    "gitlab": {"name": "byte_weaver", "password": "weave-1234"},
}


class StandIn:
    """All sites in one world, each at an address of its own; a judge, and a hook that sets back."""

    def __init__(self) -> None:
        self.world = new_world()
        self.failing: dict[str, int] = {}
        """Sites that answer every request with a status."""
        self.sign_ins: list[str] = []
        """Sites whose sign-in form was sent."""
        self.set_back = 0
        self.verdicts: list[str | int] = []
        """What the judge says, or answers with, one after the other; then `correct`."""
        self._network = embedded_network()
        self._sites: dict[str, str] = {}
        self._addresses: dict[str, str] = {}
        self._sockets: list[socket.socket] = []
        # Cookies know no ports, so each site has a host of its own.
        for number, (site, (_, path)) in enumerate(_SITES.items(), start=2):
            host = f"127.0.0.{number}"
            listening = socket.socket()
            listening.bind((host, 0))
            listening.listen()
            self._sockets.append(listening)
            self._sites[host] = site
            self._addresses[site] = f"http://{host}:{listening.getsockname()[1]}{path}"
        config = uvicorn.Config(self._app, interface="asgi3", log_level="warning", lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._server.serve(self._sockets)), daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join()

    def url(self, site: str) -> str:
        return self._addresses[site]

    def settings(self, folder: Path, **more: object) -> dict[str, Any]:
        """Return what a server is told with `--set`."""
        accounts = folder / "accounts.json"
        accounts.write_text(json.dumps(ACCOUNTS), encoding="utf-8")
        values = {**self._addresses, "accounts": accounts, "site_seconds": 5, **more}
        return {f"webarena.{key}": str(value) for key, value in values.items()}

    def forget_logins(self) -> None:
        """End all sessions, as a site does that is restarted."""
        for session in list(self.world[SESSIONS]):
            self.world[SESSIONS].remove(session.id)

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        site, path = self._sites[scope["server"][0]], scope["path"]
        if site in self.failing:
            app = PlainTextResponse("out of order", self.failing[site])
        elif site == "homepage" and path == "/reset":
            self.world = new_world()
            self.set_back += 1
            app = PlainTextResponse("set back")
        elif site == "homepage" and path == "/v1/chat/completions":
            app = await self._judge(Request(scope, receive))
        elif path.endswith("/integration/admin/token"):
            app = JSONResponse("token")
        elif path.startswith("/rest/V1/"):
            app = JSONResponse(await WorldShop(self.world).get(path.removeprefix("/rest/V1/")))
        else:
            if scope["method"] == "POST" and ("sign_in" in path or "ogin" in path):
                self.sign_ins.append(site)
            name = _SITES[site][0]
            headers = [(key, value) for key, value in scope["headers"] if key != b"host"]
            headers.append((b"host", f"{name}.test".encode()))
            app = self._network.within(self.world)
            scope = {**scope, "headers": headers}
        await app(scope, receive, send)

    async def _judge(self, request: Request) -> JSONResponse | PlainTextResponse:
        await request.json()
        verdict = self.verdicts.pop(0) if self.verdicts else "correct"
        if isinstance(verdict, int):
            return PlainTextResponse("busy", verdict)
        message = {"role": "assistant", "content": verdict}
        return JSONResponse({"choices": [{"message": message}]})


def entry(number: int, intent: str, start: str, sites: list[str], **fields: Any) -> dict[str, Any]:
    """Return a task in the format of the official file; `answers`, `url`, `targets` score it."""
    answers, url = fields.pop("answers", None), fields.pop("url", "")
    targets = fields.pop("targets", [])
    scored_by = {"string_match": answers, "url_match": url, "program_html": targets}
    state = ".".join(site for site in sites if site in ACCOUNTS)
    return {
        "task_id": number,
        "sites": sites,
        "intent": intent,
        "intent_template_id": number,
        "start_url": start,
        "require_login": True,
        "storage_state": f"./.auth/{state}_state.json" if state else None,
        "geolocation": None,
        "eval": {
            "eval_types": [name for name, value in scored_by.items() if value],
            "reference_answers": answers,
            "reference_url": url,
            "program_html": targets,
        },
        **fields,
    }
