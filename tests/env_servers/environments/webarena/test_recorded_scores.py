"""Scores equal the original's recorded ones, and its failures fail."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from env_servers.environments.webarena.evaluation import (
    EvaluationFailed,
    Page,
    evaluate,
    read_criteria,
)
from tests.env_servers.environments.webarena.recorded import (
    EVALUATORS,
    PAGES,
    BrowserPage,
    FileShop,
    SaidBefore,
    StillPage,
    open_pages,
    read_cases,
)
from tests.kit.data import needs_data, require_data

BROWSER = shutil.which("chromium-headless-shell") or shutil.which("chromium")
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


def finish(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Return what a coroutine returns that never waits, as with synchronous calls."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    if BROWSER is None or importlib.util.find_spec("playwright") is None:
        pytest.skip("needs playwright and Chromium: pip install '.[webarena]'")
    with open_pages(require_data(PAGES) / PAGES, BROWSER) as page:
        yield page


@pytest.mark.slow
def test_scores_of_pages_are_the_recorded_ones(page: Any) -> None:
    folder = require_data(PAGES)
    cases = [case for case in read_cases(folder) if "program_html" in case["eval"]["eval_types"]]
    assert len(cases) >= 40
    for case in cases:
        page.goto(case["page_url"])
        outcome, url, _ = finish(play(case, BrowserPage(page), folder / PAGES))
        assert outcome == expected(case), case
        assert url == case.get("page_url_after", case["page_url"]), case
