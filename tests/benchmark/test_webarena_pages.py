"""Both sides of WebArena's benchmark see the same pages, and the original's way does its work."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.request

import pytest

pytest.importorskip("playwright", reason="needs the extra webarena")

from benchmark.baselines import webarena_original
from benchmark.environments.webarena_pages import Pages, address
from env_servers.environments.webarena.browser.gate import Request
from tests.env_servers.environments.webarena.chromium import needs_chromium


def test_a_page_is_the_same_in_process_and_over_http() -> None:
    pages = Pages(None)
    url = address(250)
    within = asyncio.run(pages(Request("GET", url, {})))
    with pages.serve() as port:
        path = url.removeprefix("http://list.test")
        asked = urllib.request.Request(
            f"http://127.0.0.1:{port}{path}", headers={"Host": "list.test"}
        )
        with urllib.request.urlopen(asked) as answer:
            assert answer.read() == within.body
    assert within.body.count(b"<li>") == 24


@pytest.mark.slow
@needs_chromium
def test_the_originals_way_opens_clicks_and_scrolls() -> None:
    with Pages(None).serve() as port:
        commands = [
            {"do": "reset", "url": address(250)},
            {"do": "click"},
            {"do": "scroll"},
        ]
        done = subprocess.run(
            [sys.executable, "-m", webarena_original.__name__, str(port)],
            input="".join(json.dumps(command) + "\n" for command in commands),
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    first, clicked, scrolled = (json.loads(line) for line in done.stdout.splitlines())
    assert 200 < first["nodes"] < 300
    assert clicked["url"] == f"{address(250)}&page=1"
    assert scrolled["nodes"] == clicked["nodes"]
