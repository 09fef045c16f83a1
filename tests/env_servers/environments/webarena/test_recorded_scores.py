"""Scores equal the original's recorded ones, and its failures fail."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from env_servers.environments.webarena.addresses import Addresses
from env_servers.environments.webarena.browser.gate import Door, Request
from env_servers.environments.webarena.browser.shared_browser import SharedBrowser
from env_servers.environments.webarena.browsing import Browsing
from env_servers.environments.webarena.evaluation import (
    EvaluationFailed,
    Page,
    evaluate,
    read_criteria,
)
from env_servers.environments.webarena.judged_page import JudgedPage
from env_servers.sdk import EnvironmentUnavailable
from tests.env_servers.environments.webarena.recorded import (
    EVALUATORS,
    PAGES,
    FileAnswer,
    FileShop,
    SaidBefore,
    StillPage,
    read_cases,
    recorded_page,
)
from tests.kit.data import needs_data, require_data

pytestmark = needs_data(EVALUATORS, PAGES)


async def play(case: dict[str, Any], page: Page, folder: Path) -> tuple[Any, str, int]:
    """Return the score or the failure's text, the last address, and the judge's calls."""
    said = SaidBefore(case.get("judge_answer", ""))
    try:
        score = await evaluate(
            read_criteria(case["eval"]),
            intent=case["intent"],
            answer=case["answer"],
            page=page,
            judge=said.judge(),
            shop=FileShop(folder),
        )
    except EvaluationFailed as error:
        return error.shown, page.url, said.calls
    assert bool(score.judged_by) is (said.calls > 0)
    return score.value, page.url, said.calls


def expected(case: dict[str, Any]) -> Any:
    return case["message"] if "error" in case else case["score"]


async def test_scores_of_answers_and_addresses_are_the_recorded_ones() -> None:
    folder = require_data(PAGES)
    cases = [
        case for case in read_cases(folder) if "program_html" not in case["eval"]["eval_types"]
    ]
    assert len(cases) >= 140
    for case in cases:
        outcome, _, calls = await play(case, StillPage(case.get("page_url", "")), folder / PAGES)
        assert outcome == expected(case), case
        assert calls == case.get("judge_calls", 0), case


@pytest.fixture
async def page() -> AsyncIterator[JudgedPage]:
    pytest.importorskip("playwright", reason="needs the extra webarena")
    pages = require_data(PAGES) / PAGES

    async def respond(request: Request) -> FileAnswer:
        return recorded_page(pages, request.url)

    browser = SharedBrowser()
    try:
        try:
            window = await browser.open_window(Door({p.name for p in pages.iterdir()}, respond))
        except EnvironmentUnavailable as error:
            pytest.skip(str(error))
        browsing = Browsing(window, Addresses({}), "Say it")
        await browsing.open(["about:blank"])
        yield JudgedPage(browsing)
    finally:
        await browser.close()


@pytest.mark.slow
async def test_scores_of_pages_are_the_recorded_ones(page: JudgedPage) -> None:
    folder = require_data(PAGES)
    cases = [case for case in read_cases(folder) if "program_html" in case["eval"]["eval_types"]]
    assert len(cases) >= 40
    for case in cases:
        await page.goto(case["page_url"])
        outcome, url, _ = await play(case, page, folder / PAGES)
        if isinstance(outcome, str):
            outcome = outcome.partition("\nCall log:")[0]
        assert outcome == expected(case), case
        assert url == case.get("page_url_after", case["page_url"]), case
