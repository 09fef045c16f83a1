"""Official tasks through a real browser, on stand-ins of the sites that are served on ports."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip("playwright", reason="needs the extra webarena")

from env_servers.environments.webarena.environment import WebArena
from env_servers.environments.webarena.official.reservations import SiteBusy
from env_servers.sdk import (
    EnvironmentConfig,
    EnvironmentUnavailable,
    Observation,
    ResetOptions,
    StopReason,
)
from tests.env_servers.environments.webarena.chromium import needs_chromium
from tests.env_servers.environments.webarena.standin import ACCOUNTS, StandIn, entry

pytestmark = [pytest.mark.slow, needs_chromium]

STATUS = {
    "url": "__GITLAB__/byte_weaver",
    "locator": "document.querySelector('.cover-status').outerText",
    "required_contents": {"must_include": ["out for lunch"]},
}
TASKS = [
    entry(0, "What is my name?", "__SHOPPING__/customer/account/", ["shopping"],
          answers={"must_include": ["Hana Marsh"]}),
    entry(1, "Set my status to what I do at noon", "__GITLAB__/-/profile", ["gitlab"],
          targets=[STATUS]),
    entry(2, "Go to the map", "__MAP__ |AND| __HOMEPAGE__", ["map"], url="__MAP__",
          geolocation={"latitude": 40.5, "longitude": -80.0}),
    entry(3, "What is this site?", "__REDDIT__", ["reddit"], answers={"fuzzy_match": ["a forum"]}),
    entry(4, "Show the newest order", "__SHOPPING_ADMIN__", ["shopping_admin"],
          url="__SHOPPING__/x"),
]  # fmt: skip


@pytest.fixture(scope="module")
def served() -> Iterator[StandIn]:
    standin = StandIn()
    yield standin
    standin.close()


@pytest.fixture
def sites(served: StandIn) -> Iterator[StandIn]:
    yield served
    served.failing.clear()
    served.verdicts.clear()


@pytest.fixture
def begin(sites: StandIn, tmp_path: Path) -> Iterator[Callable[..., tuple[WebArena, str]]]:
    """A function that starts a task on the stand-ins: `begin(0, judge=...)`."""
    (tmp_path / "webarena").mkdir()
    (tmp_path / "webarena" / "test.raw.json").write_text(json.dumps(TASKS), encoding="utf-8")
    loaded: dict[str, tuple[type[WebArena], Any]] = {}
    episodes: list[WebArena] = []

    def start(number: int, **settings: object) -> tuple[WebArena, str]:
        key = repr(settings)
        if key not in loaded:
            config = EnvironmentConfig(tmp_path, sites.settings(tmp_path, **settings))
            kind: Any = WebArena.configured(config)
            loaded[key] = kind, kind.load_tasks(config)
        kind, tasks = loaded[key]
        episode = kind(tasks)
        episodes.append(episode)
        first = episode.reset(tasks.get(f"webarena_{number}"), ResetOptions(0, "webarena", {}))
        return episode, first.text

    yield start
    for episode in episodes:
        episode.close()


def find(text: str, role: str, name: str) -> str:
    found = re.search(rf"\[(\d+)\] {role} '{name}", text)
    assert found is not None, text
    return found[1]


def set_status(episode: WebArena, page: str) -> Observation:
    page = episode.step(f"type [{find(page, 'textbox', 'Your status')}] [out for lunch] [0]").text
    while "button 'Update profile settings" not in page:
        page = episode.step("scroll [down]").text
    episode.step(f"click [{find(page, 'button', 'Update profile settings')}]")
    return episode.step("stop []")


def test_a_reading_task_is_played_signed_in_and_scored(begin: Any, sites: StandIn) -> None:
    episode, page = begin(0)
    assert "Hana Marsh" in page
    assert "URL: http://onestopmarket.com/customer/account" in page
    last = episode.step("stop [Hana Marsh]")
    assert (last.reward, last.terminated, last.info) == (1.0, True, None)
    assert episode.fingerprint() is None
    assert not type(episode).spec.deterministic


def test_several_addresses_are_tabs_and_the_place_is_told(begin: Any) -> None:
    episode, page = begin(2)
    assert page.startswith("OBSERVATION:\nTab 0 (current): ")
    assert "| Tab 1: " in page
    assert episode.step("stop []").reward == 1.0


def test_writers_take_turns_and_the_site_is_set_back_between(begin: Any, sites: StandIn) -> None:
    hook = f"{sites.url('homepage')}/reset"
    before = sites.set_back
    first, page = begin(1, reset_gitlab=hook)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(begin, 1, reset_gitlab=hook)
        last = set_status(first, page)
        assert (last.reward, last.stop_reason) == (1.0, StopReason.GOAL_REACHED)
        assert not waiting.done()
        first.close()
        second, page = waiting.result()
    assert sites.set_back == before + 1
    assert "out for lunch" not in page
    assert second.step("stop []").reward == 0.0
    with pytest.raises(SiteBusy, match="wait_seconds"):
        begin(1, reset_gitlab=hook, wait_seconds=0.2)


def test_a_login_that_ended_is_made_anew_once(begin: Any, sites: StandIn) -> None:
    begin(1)[0].close()
    before = len(sites.sign_ins)
    begin(1)[0].close()
    assert len(sites.sign_ins) == before
    sites.forget_logins()
    begin(1)
    assert len(sites.sign_ins) == before + 1


def test_an_account_that_is_not_let_in_is_a_fault(
    begin: Any, sites: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ACCOUNTS["gitlab"], "password", "changed")
    with pytest.raises(EnvironmentUnavailable, match=r"gitlab .* does not let byte_weaver in"):
        begin(1, judge_seconds=9)


@pytest.mark.parametrize("number", [0, 4])
def test_a_site_that_fails_in_an_episode_is_a_fault_and_no_score(
    begin: Any, sites: StandIn, number: int
) -> None:
    episode, _ = begin(number)
    site = TASKS[number]["sites"][0]
    sites.failing[site] = 500
    says = f"official site {site} .* answers 500"
    with pytest.raises(EnvironmentUnavailable, match=says):
        episode.step("stop [wrong]")
    with pytest.raises(EnvironmentUnavailable, match=says):
        episode.step(f"goto [{sites.url(site)}]")
    with pytest.raises(EnvironmentUnavailable, match=says):
        begin(number)


def test_a_dead_site_is_named_with_how_long_it_was_waited_for(begin: Any, sites: StandIn) -> None:
    says = r"official site map at http://127.0.0.1:9 does not answer within 2 s"
    with pytest.raises(EnvironmentUnavailable, match=says):
        begin(2, map="http://127.0.0.1:9", site_seconds=2)


def test_other_hosts_and_unreserved_sites_are_out_of_reach(begin: Any, sites: StandIn) -> None:
    episode, _ = begin(0)
    for url in ("http://127.0.0.1:9", sites.url("gitlab"), "http://example.com"):
        assert "chrome-error" in episode.step(f"goto [{url}]").text
    embedded = WebArena.load_tasks(EnvironmentConfig())
    alone = WebArena(embedded)
    alone.reset(embedded.get("webarena_1500000"), ResetOptions(0, "webarena", {}))
    assert "chrome-error" in alone.step(f"goto [{sites.url('map')}]").text
    alone.close()
    assert "openstreetmap.org" in episode.step(f"goto [{sites.url('map')}]").text


def test_a_judge_decides_and_is_named(begin: Any, sites: StandIn) -> None:
    judge = {"judge": f"{sites.url('homepage')}/v1", "judge_model": "wise"}
    sites.verdicts[:] = [429, "partially correct"]
    last = begin(3, **judge)[0].step("stop [A forum]")
    assert (last.reward, last.info) == (0.0, {"judged_by": "wise"})
    episode, _ = begin(3, **judge)
    sites.verdicts[:] = ["who knows"]
    with pytest.raises(EnvironmentUnavailable, match="webarena_3 could not be scored: the judge"):
        episode.step("stop [A forum]")
    last = begin(3)[0].step("stop [A forum]")
    assert (last.reward, last.info) == (1.0, {"judged_by": "offline rule"})


def test_a_browser_that_dies_ends_the_episode_and_frees_its_sites(begin: Any) -> None:
    episode, _ = begin(1)
    for process in psutil.Process().children(recursive=True):
        if process.name().startswith("chrom"):
            process.kill()
    with pytest.raises(EnvironmentUnavailable, match="webarena_1 is played on official sites"):
        episode.step("scroll [down]")
    assert "Your status" in begin(1)[1]
