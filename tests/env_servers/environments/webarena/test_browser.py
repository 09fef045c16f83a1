"""A real browser on pages of this file: what agents do, and what hostile pages do to them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import psutil
import pytest

pytest.importorskip("playwright", reason="needs the extra webarena")

from env_servers.environments.webarena.addresses import Addresses
from env_servers.environments.webarena.browser.chromium import check_version, find_chromium
from env_servers.environments.webarena.browser.errors import BrowserLost, SiteFailed, TabLost
from env_servers.environments.webarena.browser.gate import Door, Request
from env_servers.environments.webarena.browser.shared_browser import BrowserOptions, SharedBrowser
from env_servers.environments.webarena.browser.tab import Limits
from env_servers.environments.webarena.browser.window import WindowOptions
from env_servers.environments.webarena.browsing import AGENTGYM, FIXED, Browsing, Manner, Step
from env_servers.environments.webarena.observation.reports import AccessibilityReport
from env_servers.sdk import EnvironmentUnavailable
from tests.env_servers.environments.webarena.page import HOST, Page

QUICK = WindowOptions(limits=Limits(answer=1.5, settled=2.0, navigation=3.0, interrupted=1.5))


PAGES: Mapping[str, str] = {
    "/": "<title>Start</title><h1>Start</h1><a href=/next>Next</a>",
    "/next": "<title>Next</title><p>You are here</p>",
    "/form": "<title>Form</title><form method=post action=/save><label>Name <input name=n></label>"
    "<button>Save</button></form>",
    "/tabs": "<title>Tabs</title><a href=/next target=_blank>Open</a>",
    "/timer": "<title>Timer</title><p id=p>0</p><script>let n = 0; setInterval(() => {"
    "p.textContent = ++n + ' at ' + Date.now()}, 100)</script>",
    "/loop": "<title>Loop</title><button onclick='for (;;) {}'>Hang</button>",
    "/alerts": "<title>Alerts</title><button onclick=\"for (;;) alert('no')\">Alerts</button>",
    "/bomb": '<title>Bomb</title><button onclick="for (let i = 0; i < 60; i++)'
    " window.open('/next')\">Bomb</button>",
    "/away": "<title>Away</title><a href=http://evil.test/x>Away</a><img src=http://evil.test/y>",
    "/gone": "<title>Gone</title><button onclick='window.close()'>Close</button>",
    "/endless": "<title>Endless</title><button onclick='location.reload()'>Go</button>"
    "<script>setTimeout(() => location.reload(), 10)</script>",
    "/half": "<title>Half</title><p id=p></p><script>p.textContent = 'a \\ud83d b'</script>",
    "/big": "<title>Big</title>" + "<p>word</p>" * 6_000,
}


async def respond(request: Request) -> Page:
    path = urlsplit(request.url).path
    if path == "/save":
        return Page(b"", 303, (("Location", "/saved"), ("Set-Cookie", "who=me; Path=/")))
    if path == "/saved":
        return Page(f"<title>Saved</title><p>{request.headers.get('Cookie')}</p>".encode())
    if path == "/broken":
        raise RuntimeError("the site is broken")
    found = PAGES.get(path)
    return Page(found.encode()) if found else Page(b"<title>Missing</title>", 404)


@asynccontextmanager
async def episode(
    browser: SharedBrowser, path: str, manner: Manner = AGENTGYM
) -> AsyncIterator[tuple[Browsing, Step]]:
    window = await browser.open_window(Door({HOST}, respond), QUICK)
    try:
        browsing = Browsing(window, Addresses({}), "Try it", manner)
        yield browsing, await browsing.open([f"http://{HOST}{path}"])
    finally:
        await window.close()


def number_of(step: Step, text: str) -> str:
    assert step.seen is not None
    return next(n for n, element in step.seen.tree.elements.items() if text in element.line)


@pytest.mark.slow
async def test_an_agent_clicks_types_and_goes_back(browser: SharedBrowser) -> None:
    async with episode(browser, "/") as (browsing, step):
        assert step.text == (
            "OBSERVATION:\nTab 0 (current): Start\n\n"
            "[1] RootWebArea 'Start' focused: True url: http://a.test/\n"
            "\t[2] heading 'Start'\n\t[4] link 'Next' url: http://a.test/next\n"
            "URL: http://a.test/\nOBJECTIVE: Try it\nPREVIOUS ACTION: None"
        )
        step = await browsing.step("click [4]")
        assert "You are here" in step.text
        assert step.text.endswith("click [4] where [4] is link 'Next' url: http://a.test/next")
        step = await browsing.step("go_back")
        assert "heading 'Start'" in step.text
        picture = await browsing.picture()
        assert picture.png.startswith(b"\x89PNG")
        assert len(picture.marks) >= 3
        assert "<h1>Start</h1>" in await browsing.html()
        await browsing.step("goto [http://a.test/form]")
        step = await browsing.step("scroll [down]")
        step = await browsing.step(f"type [{number_of(step, 'textbox')}] [Ida]")
        assert "who=me" in step.text, "the redirect of a form keeps its cookie"
        assert (await browsing.step("stop [42]")).answer == "42"


@pytest.mark.slow
async def test_a_tab_that_a_page_opens_is_listed_late_or_at_once(browser: SharedBrowser) -> None:
    for manner, listed in ((AGENTGYM, False), (FIXED, True)):
        async with episode(browser, "/tabs", manner) as (browsing, step):
            step = await browsing.step(f"click [{number_of(step, 'link')}]")
            assert ("Tab 1: Next" in step.text) is listed
            step = await browsing.step("tab_focus [1]")
            assert "Tab 0: Tabs | Tab 1 (current): Next" in step.text
            step = await browsing.step("close_tab")
            assert "Tab 0 (current): Tabs" in step.text
            assert (await browsing.step("tab_focus [7]")).error == "list index out of range"


@pytest.mark.slow
async def test_interleaved_episodes_see_what_one_alone_sees(browser: SharedBrowser) -> None:
    async def play() -> list[object]:
        async with episode(browser, "/timer") as (browsing, step):
            texts: list[object] = [step.text]
            for _ in range(3):
                texts.append((await browsing.step("scroll [down]")).text)
                texts.append(await browsing.digest())
            return texts

    alone = await play()
    assert all(played == alone for played in await asyncio.gather(*(play() for _ in range(6))))
    assert "15 at" in str(alone[0])


@pytest.mark.slow
async def test_nothing_leaves_for_other_hosts_and_it_is_recorded(browser: SharedBrowser) -> None:
    async with episode(browser, "/away") as (browsing, step):
        step = await browsing.step(f"click [{number_of(step, 'link')}]")
        assert "chrome-error://chromewebdata/" in step.text
        step = await browsing.step("goto [http://127.0.0.1:22/]")
        assert step.error.startswith("Page.goto: net::ERR_")
        refused = [refusal.url for refusal in browsing.window.door.refused]
        assert "http://evil.test/x" in refused
        assert "http://evil.test/y" in refused


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "button", "says"),
    [
        ("/loop", "Hang", "its script was ended"),
        ("/alerts", "Alerts", "one dialog after another"),
        ("/bomb", "Bomb", "more than 20 tabs"),
        ("/gone", "Close", ""),
        ("/endless", "Go", ""),
    ],
)
async def test_hostile_pages_are_survived(
    browser: SharedBrowser, path: str, button: str, says: str
) -> None:
    async with episode(browser, path) as (browsing, step):
        number = number_of(step, f"button {button!r}")
        step = await browsing.step(f"click [{number}]")
        assert says in " ".join(step.notices), (step.error, len(browsing.window.tabs))
        step = await browsing.step(f"goto [http://{HOST}/next]")
        assert "You are here" in step.text, (step.error, step.text)


@pytest.mark.slow
async def test_a_huge_page_is_shown(browser: SharedBrowser) -> None:
    window = await browser.open_window(Door({HOST}, respond))
    step = await Browsing(window, Addresses({}), "Try it").open([f"http://{HOST}/big"])
    assert "word" in step.text
    await window.close()


@pytest.mark.slow
async def test_half_a_character_is_shown_as_python_writes_it(browser: SharedBrowser) -> None:
    async with episode(browser, "/half") as (_, step):
        assert r"StaticText 'a \ud83d b'" in step.text


@pytest.mark.slow
async def test_a_report_that_a_page_can_no_longer_make_fails_at_once(
    browser: SharedBrowser,
) -> None:
    async with episode(browser, "/loop") as (browsing, _):
        tab = browsing.current
        hung = asyncio.ensure_future(tab.evaluate("(() => { for (;;); })()"))
        report = asyncio.ensure_future(tab.read("Accessibility.getFullAXTree", AccessibilityReport))
        await asyncio.sleep(0.1)
        for process in psutil.Process(await browser.process_id()).children(recursive=True):
            if "--type=renderer" in process.cmdline():
                process.kill()
        with pytest.raises(TabLost, match="crashed"):
            await report
        with pytest.raises(TabLost):
            await hung


@pytest.mark.slow
async def test_a_site_that_raises_is_the_environments_fault(browser: SharedBrowser) -> None:
    async with episode(browser, "/") as (browsing, _):
        with pytest.raises(SiteFailed, match="the site is broken"):
            await browsing.step(f"goto [http://{HOST}/broken]")


@pytest.mark.slow
async def test_a_killed_browser_is_told_and_replaced(browser: SharedBrowser) -> None:
    async with episode(browser, "/") as (browsing, _):
        os.kill(await browser.process_id(), signal.SIGKILL)
        with pytest.raises(BrowserLost):
            await browsing.step("scroll [down]")
    async with episode(browser, "/") as (_, step):
        assert "heading 'Start'" in step.text
    assert browser.processes_started == 2


@pytest.mark.slow
async def test_a_browser_is_replaced_after_its_share_of_windows() -> None:
    shared = SharedBrowser(BrowserOptions(windows_per_process=2))
    try:
        async with episode(shared, "/") as (first, _):
            for _ in range(3):
                async with episode(shared, "/next") as (_, step):
                    assert "You are here" in step.text
            assert "heading 'Start'" in (await first.step("scroll [down]")).text
        assert shared.processes_started == 2
    except EnvironmentUnavailable as error:
        pytest.skip(str(error))
    finally:
        await shared.close()


def test_a_missing_or_old_browser_is_named_with_the_command(monkeypatch) -> None:
    monkeypatch.setenv("PATH", "")
    for choice in ("auto", "/no/such/browser"):
        with pytest.raises(EnvironmentUnavailable, match="playwright install"):
            find_chromium(choice)
    with pytest.raises(EnvironmentUnavailable, match=r"is Chromium 112\.0\.1, at least"):
        check_version("112.0.1", find_chromium("/bin/sh"))
