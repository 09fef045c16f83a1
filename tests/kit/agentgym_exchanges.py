"""Recorded exchanges of AgentGym's original servers, and the same requests sent to a gateway.

The recordings (`agentgym_http/exchanges.jsonl` in the data folder) are compared as far as they are
comparable: status, JSON replies field by field, where the fault of a refused request is, which
methods are allowed, where a redirect leads. Not compared is what nobody relies on: the wording of
refusals, the text of status 500, descriptions of the API.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

__all__ = ["Replay", "alike", "read_exchanges"]

_SHORTENED = re.compile(r"\.\.\.\[recorder: text of \d+ characters truncated\]\Z")
_CUT = re.compile(r"(.)\1*\.\.\.\[recorder: (\d+) characters of the same letter\]", re.DOTALL)


def read_exchanges(data: Path, environment: str) -> Sequence[list[dict[str, Any]]]:
    """Return the recorded exchanges of an environment, for each server process that answered."""
    lines = (data / "agentgym_http" / "exchanges.jsonl").read_text("utf-8").splitlines()
    processes: list[list[dict[str, Any]]] = []
    source = ""
    for exchange in map(json.loads, lines):
        if exchange["environment"] != environment or exchange["method"] == "CLIENT":
            continue
        if exchange["source"] != source or exchange.get("note") == "fresh server":
            processes.append([])
        source = exchange["source"]
        processes[-1].append(exchange)
    return processes


Comparable = Callable[[Mapping[str, Any], Any, Any], str]
"""From an exchange, the recorded reply and the one of here: why they differ; empty = not at all."""


def _unrecorded(exchange: Mapping[str, Any]) -> int:
    """How often the same step was sent before, without being recorded; its note says so."""
    said = re.search(
        r"(\d+) (?:illegal actions were sent|unrecorded|further)", exchange.get("note", "")
    )
    return int(said[1]) if said else 0


def alike(there: Any, here: Any) -> bool:
    """Whether replies are equal, as far as long texts were recorded."""
    if isinstance(there, dict) and isinstance(here, dict):
        return there.keys() == here.keys() and all(alike(there[key], here[key]) for key in there)
    if isinstance(there, list) and isinstance(here, list):
        return len(there) == len(here) and all(map(alike, there, here))
    if isinstance(there, str) and isinstance(here, str) and (cut := _SHORTENED.search(there)):
        return here.startswith(there[: cut.start()])
    return there == here


@dataclass
class Replay:
    """What came of sending recorded requests again."""

    prefix: str = ""
    ids: dict[int, int] = field(default_factory=dict)
    """Random numbers of the original's environments -> those of here."""
    compared: int = 0
    differences: list[tuple[Mapping[str, Any], str]] = field(default_factory=list)

    async def send(self, client: httpx.AsyncClient, exchange: Mapping[str, Any]) -> httpx.Response:
        """Send one recorded request again."""
        headers = dict(exchange.get("request_headers") or {})
        content: bytes | None = None
        raw = exchange.get("body_raw")
        if raw is not None:
            for there, here in self.ids.items():
                raw = raw.replace(f'"env_idx": {there}', f'"env_idx": {here}')
            content = ast.literal_eval(raw) if raw.startswith("b'") else raw.encode()
            if exchange.get("request_content_type"):
                headers["content-type"] = exchange["request_content_type"]
        elif exchange["body"] is not None:
            content = json.dumps(self._here(exchange["body"])).encode()
            headers["content-type"] = exchange.get("request_content_type") or "application/json"
        elif exchange.get("request_content_type"):
            headers["content-type"] = exchange["request_content_type"]
        query = exchange["query"] or ""
        for there, here in self.ids.items():
            query = query.replace(f"env_idx={there}", f"env_idx={here}")
        url = f"http://127.0.0.1:8000{self.prefix}{exchange['path']}{'?' + query if query else ''}"
        request = client.build_request(exchange["method"], url, content=content, headers=headers)
        if content is not None and "content-type" not in headers:
            request.headers.pop("content-type", None)
        return await client.send(request, follow_redirects=False)

    async def play(
        self, client: httpx.AsyncClient, exchange: Mapping[str, Any], comparable: Comparable
    ) -> None:
        """Send one request again and compare what comes back."""
        for _ in range(_unrecorded(exchange)):
            await self.send(client, exchange)
        response = await self.send(client, exchange)
        self.compared += 1
        why = self._compare(exchange, response, comparable)
        if why:
            self.differences.append((exchange, why))

    def _compare(
        self, exchange: Mapping[str, Any], response: httpx.Response, comparable: Comparable
    ) -> str:
        status = exchange["status"]
        if response.status_code != status:
            return f"status {response.status_code} and not {status}: {response.text[:100]}"
        headers = exchange.get("headers") or {}
        if status == 405 and response.headers["allow"] != headers.get("allow"):
            return f"allows {response.headers['allow']}"
        if status == 307:
            there, here = (urlsplit(it["location"]).path for it in (headers, response.headers))
            return "" if here == there else f"leads to {here}"
        if status in (400, 404, 405) and exchange["reply"]:
            return "" if "detail" in response.json() else response.text
        if status == 422:
            return self._compare_places(exchange["reply"], response.json())
        if status != 200:
            return ""
        if not response.headers["content-type"].startswith("application/json"):
            return ""  # an answer to a browser: a page, or what CORS asks
        reply, recorded = response.json(), exchange["reply"]
        if exchange["path"] == "/openapi.json":
            return self._compare_routes(recorded["paths"], reply["paths"])
        if exchange["path"] == "/create" and isinstance(recorded, int):
            self.ids[recorded] = reply
            return "" if isinstance(reply, int) else f"created {reply}"
        return comparable(exchange, self._here(recorded), reply)

    @staticmethod
    def _compare_places(there: Any, here: Any) -> str:
        places = [[it["loc"] for it in reply["detail"]] for reply in (there, here)]
        return "" if places[0] == places[1] else f"faults at {places[1]} and not {places[0]}"

    def _compare_routes(self, there: Any, here: Any) -> str:
        missing = [path for path in there if self.prefix + path not in here]
        return f"has no {', '.join(missing)}" if missing else ""

    def _here(self, value: Any) -> Any:
        """What was recorded with the numbers of this gateway and nothing cut."""
        if isinstance(value, dict):
            changed = {key: self._here(it) for key, it in value.items()}
            number = value.get("env_idx")
            if type(number) is int:
                changed["env_idx"] = self.ids.get(number, number)
            return changed
        if isinstance(value, list):
            mapped = [self.ids.get(it, it) if type(it) is int else it for it in value]
            return [self._here(it) for it in mapped]
        if isinstance(value, str):
            return _CUT.sub(lambda cut: cut[1] * int(cut[2]), value)
        return value
