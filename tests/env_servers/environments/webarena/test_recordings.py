"""What the original showed is what is shown, step by step, on the recorded pages."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="needs the extra webarena")

from benchmark.fidelity.webarena import RecordedPages, replay_scenarios
from env_servers.environments.webarena.browser.gate import Request
from env_servers.environments.webarena.browsing import AGENTGYM, WEBARENA, Manner
from env_servers.environments.webarena.probe import PlainRequest
from env_servers.sdk import EnvironmentUnavailable
from tests.kit.data import data_fixture

data_dir = data_fixture("webarena/given")

KNOWN = {("slow_page", 0), ("timers", 4)}
"""The original looks while a page is still on its way; we wait for it."""
EVERY = 4
"""`python -m benchmark.fidelity --env webarena` plays them all."""


@pytest.mark.slow
@pytest.mark.parametrize("manner", [WEBARENA, AGENTGYM], ids=["original", "agentgym"])
async def test_recorded_scenarios_come_out_as_recorded(data_dir: Path, manner: Manner) -> None:
    try:
        score = await replay_scenarios(data_dir, manner, EVERY)
    except EnvironmentUnavailable as error:
        pytest.skip(str(error))
    assert {(each.scenario, each.step) for each in score.differences} <= KNOWN
    assert score.steps > 20


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("http://a.test/", ""),
        (" http://a.test/", ""),
        ("http://a.test/ ", "Failed to load the page: http://a.test/ "),
        ("a.test", "Invalid URL 'a.test': No scheme supplied. Perhaps you meant https://a.test?"),
        ("about:blank", "No connection adapters were found for 'about:blank'"),
        ("http://b.test/", "HTTPConnectionPool(host='b.test', port=80): Max retries exceeded"),
        ("http://a.test:1/", "HTTPConnectionPool(host='a.test', port=1): Max retries exceeded"),
        ("http://a.test/_redirect?to=http://a.test/", ""),
        ("http://a.test/_redirect?to=http://b.test/", "HTTPConnectionPool(host='b.test'"),
        ("http://a.test/_status?code=503", "Failed to load the page"),
    ],
)
async def test_agentgyms_release_asks_before_it_opens_an_address(
    tmp_path: Path, url: str, error: str
) -> None:
    (tmp_path / "a.test").mkdir()
    (tmp_path / "a.test" / "index.html").write_text("hello", encoding="utf-8")
    pages = RecordedPages(tmp_path)
    found = await PlainRequest(pages.hosts, pages)(url)
    assert found.startswith(error)
    assert bool(found) is bool(error)


async def test_recorded_pages_are_files_of_their_host_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a.test").mkdir()
    (tmp_path / "secret.html").write_text("secret", encoding="utf-8")
    answer = await RecordedPages(tmp_path)(Request("GET", "http://a.test/../secret.html", {}))
    assert answer.status == 404
