"""Hostile pages and hostile actions, all in one browser, beside an episode that only scrolls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import psutil
import pytest

pytest.importorskip("playwright", reason="needs the extra webarena")

from env_servers.environments.webarena.addresses import Addresses
from env_servers.environments.webarena.browser.errors import BrowserLost
from env_servers.environments.webarena.browser.gate import Door, Request
from env_servers.environments.webarena.browser.shared_browser import BrowserOptions, SharedBrowser
from env_servers.environments.webarena.browser.tab import Limits
from env_servers.environments.webarena.browser.turns import Turns
from env_servers.environments.webarena.browser.window import MOST_TABS, WindowOptions
from env_servers.environments.webarena.browsing import FIXED, Browsing, Step
from env_servers.sdk import EnvironmentUnavailable
from tests.env_servers.environments.webarena.page import HOST, Page

QUICK = WindowOptions(
    limits=Limits(answer=3.0, settled=3.0, navigation=5.0, interrupted=1.5, step=30.0)
)


CLICKED = {
    "microtasks": "const f = () => Promise.resolve().then(f); f()",
    "timers": "setInterval(() => { for (let i = 0; i < 1e8; i++); }, 1)",
    "prompts": "for (;;) prompt('no')",
    "later": "setInterval(() => confirm('no'), 5)",
    "windows": "for (;;) window.open('/calm')",
    "states": "for (let i = 0; ; i++) history.pushState({}, '', '/' + i)",
    "memory": "window.kept = []; for (let i = 0; i < 64; i++) {"
    " const part = new Uint8Array(1 << 26); part.fill(1); kept.push(part) }",
    "title": "document.title = 't'.repeat(3e6)",
    "fetches": "for (let i = 0; i < 2000; i++) fetch('/calm?' + i)",
    "workers": "for (let i = 0; i < 20; i++) new Worker('data:text/javascript,for(;;);')",
    "print": "print(); document.body.requestFullscreen(); navigator.geolocation"
    ".getCurrentPosition(() => 0)",
    "download": "const a = document.createElement('a'); a.href = 'data:a/b,x';"
    " a.download = 'x'; a.click()",
    "file": "const f = document.createElement('input'); f.type = 'file'; f.click()",
    "worker": "navigator.serviceWorker.register('/worker.js')",
}
OPENED = {
    "loop": "<script>for (;;);</script>",
    "alerts": "<script>for (;;) alert('no')</script>",
    "bombs": "<script>for (let i = 0; i < 500; i++) window.open('/bombs')</script>",
    "refresh": "<meta http-equiv=refresh content='0;url=/refresh'>",
    "onwards": "<script>location.href = '/onwards?' + Math.random()</script>",
    "elements": "<p>x</p>" * 80_000,
    "frames": "<script>for (let i = 0; i < 3000; i++)"
    " document.body.append(document.createElement('iframe'))</script>",
}


async def respond(request: Request) -> Page:
    name = urlsplit(request.url).path.strip("/")
    if name == "redirect":
        return Page(b"", 302, (("Location", "/redirect"),))
    if name == "huge":
        return Page(b"word " * 10_000_000)
    if name in CLICKED:
        script = f"document.querySelector('button').onclick = () => {{ {CLICKED[name]} }}"
        return Page(f"<title>{name}</title><button>Go</button><script>{script}</script>".encode())
    return Page(f"<title>{name}</title><p>You are here</p><body>{OPENED.get(name, '')}".encode())


@asynccontextmanager
async def episode(
    shared: SharedBrowser, path: str, options: WindowOptions = QUICK
) -> AsyncIterator[tuple[Browsing, Step]]:
    window = await shared.open_window(Door({HOST}, respond), options)
    try:
        browsing = Browsing(window, Addresses({}), "Try it", FIXED)
        yield browsing, await browsing.open([f"http://{HOST}/{path}"])
    finally:
        await window.close()


async def click(browsing: Browsing, step: Step) -> Step:
    assert step.seen is not None
    elements = step.seen.tree.elements.items()
    number = next(n for n, element in elements if "button 'Go'" in element.line)
    return await browsing.step(f"click [{number}]")


async def returns(browsing: Browsing) -> bool:
    step = await browsing.step(f"goto [http://{HOST}/calm]")
    await browsing.digest()
    return "You are here" in step.text


@asynccontextmanager
async def calm_neighbour(shared: SharedBrowser) -> AsyncIterator[None]:
    """Another episode, which must not notice anything."""

    async def scroll() -> None:
        async with episode(shared, "calm", WindowOptions()) as (browsing, first):
            while True:
                step = await browsing.step("scroll [down]")
                assert step.text == first.text.replace("ACTION: None", "ACTION: scroll [down]")
                assert not step.notices
                await asyncio.sleep(0.1)

    task = asyncio.create_task(scroll())
    try:
        yield
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def largest_process() -> int:
    """Bytes of the largest process of the browser."""
    sizes = [0]
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            sizes.append(process.memory_info().rss)
    return max(sizes)


SAYS = {
    "microtasks": "its script was ended",
    "timers": "its script was ended",
    "prompts": "one dialog after another",
    "later": "one dialog after another",
    "windows": f"more than {MOST_TABS} tabs",
    "states": "",
    "title": "The observation was cut",
    "loop": "Timeout",
    "alerts": "one dialog after another",
    "bombs": f"more than {MOST_TABS} tabs",
    "onwards": "Timeout",
    "elements": "more than 50,000 elements",
    "redirect": "ERR_TOO_MANY_REDIRECTS",
    "huge": "ERR_FAILED",
}


@pytest.mark.slow
@pytest.mark.parametrize("names", [list(CLICKED), [*OPENED, "redirect", "huge"]])
async def test_hostile_pages_say_what_was_done_to_them_and_nobody_else_notices(
    browser: SharedBrowser, names: list[str]
) -> None:
    async with calm_neighbour(browser):
        for name in names:
            async with episode(browser, name if name in CLICKED else "calm") as (browsing, step):
                if name in CLICKED:
                    step = await click(browsing, step)
                else:
                    step = await browsing.step(f"goto [http://{HOST}/{name}]")
                assert SAYS.get(name, "") in f"{step.error} {step.notices}", (name, step.error)
                assert len(step.text) < 2_000_000
                assert largest_process() < 3 << 30, name
                assert await returns(browsing), name
    assert browser.processes_started == 1


HOSTILE_ACTIONS = {
    f"type [3] [{'x' * 1_000_000}]": "At most 10,000 characters",
    f"press [{'a+' * 100_000}a]": "At most 10 keys",
    "press [nonsense]": "Unknown key",
    "press [Control+w]": "",
    "press [\x00]": "Unknown key",
    f"click [{'9' * 100_000}]": "999",
    "goto [chrome://crash]": "ERR_INVALID_URL",
    "goto [Chrome://hang]": "ERR_INVALID_URL",
    "goto [file:///etc/passwd]": "ERR_INVALID_URL",
    "goto [view-source:file:///etc/passwd]": "ERR_",
    "goto [javascript:for(;;);]": "ERR_ABORTED",
    "goto [data:text/html,<p>x]": "",
    "goto [about:crash]": "",
    f"goto [http://{HOST}/calm?{'x' * 1_000_000}]": "",
    f"goto [{'x' * 1_000_000}]": "invalid URL",
    "goto [http://[::1/]": "invalid URL",
    "goto [\x00]": "invalid URL",
}


@pytest.mark.slow
async def test_hostile_actions_are_observations(browser: SharedBrowser) -> None:
    async with calm_neighbour(browser), episode(browser, "calm") as (browsing, _):
        for action, says in HOSTILE_ACTIONS.items():
            step = await browsing.step(action)
            assert says in step.error, action[:80]
            assert len(step.text) < 2_000_000
            assert await returns(browsing), action[:80]
        for _ in range(MOST_TABS - 1):
            assert not (await browsing.step("new_tab")).error
        assert "At most" in (await browsing.step("new_tab")).error
        assert len(browsing.window.tabs) == MOST_TABS
    assert browser.processes_started == 1


LEAVES = """
const away = '127.0.0.1:%d', quiet = () => 0;
for (const rel of ['dns-prefetch', 'preconnect', 'prefetch', 'preload', 'prerender']) {
  const link = document.createElement('link');
  link.rel = rel; link.as = 'image'; link.href = `http://${away}/${rel}`;
  document.head.append(link);
}
for (const tag of ['iframe', 'embed', 'img', 'script', 'video']) {
  const element = document.createElement(tag); element.src = `http://${away}/${tag}`;
  document.body.append(element);
}
navigator.sendBeacon(`http://${away}/beacon`, 'x');
fetch(`http://${away}/fetch`, {keepalive: true, method: 'POST', body: 'x'}).catch(quiet);
new WebSocket(`ws://${away}/socket`);
new EventSource(`http://${away}/events`);
new Worker(URL.createObjectURL(new Blob([
  `fetch('http://${away}/worker').catch(e => 0); new WebSocket('ws://${away}/worker')`])));
const peer = new RTCPeerConnection({iceServers: [{urls: `stun:127.0.0.1:%d`},
  {urls: `turn:${away}?transport=tcp`, username: 'a', credential: 'b'}]});
peer.createDataChannel('x');
peer.createOffer().then(offer => peer.setLocalDescription(offer));
"""


@pytest.mark.slow
async def test_nothing_leaves_a_page_by_any_way(browser: SharedBrowser) -> None:
    arrived: list[str] = []

    class Datagrams(asyncio.DatagramProtocol):
        def datagram_received(self, data: bytes, addr: object) -> None:
            arrived.append(f"datagram {data[:20]!r}")

    def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.append("connection")
        writer.close()

    loop = asyncio.get_running_loop()
    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    transport, _ = await loop.create_datagram_endpoint(Datagrams, ("127.0.0.1", 0))
    datagrams = transport.get_extra_info("socket").getsockname()[1]
    CLICKED["leaves"] = LEAVES % (port, datagrams)
    try:
        async with episode(browser, "leaves") as (browsing, step):
            await click(browsing, step)
            # What leaves, leaves in real time.
            await asyncio.sleep(1)
            await browsing.step("scroll [down]")
            refused = {urlsplit(each.url).path for each in browsing.window.door.refused}
        assert not arrived
        assert {"/beacon", "/prefetch", "/iframe", "/embed", "/img", "/script", "/video"} <= refused
    finally:
        server.close()
        transport.close()


@pytest.mark.slow
async def test_a_killed_driver_is_told_and_replaced(browser: SharedBrowser) -> None:
    async with episode(browser, "calm") as (browsing, _):
        for child in psutil.Process().children():
            if child.name().startswith("node"):
                child.kill()
        with pytest.raises(BrowserLost):
            await browsing.step("scroll [down]")
    async with episode(browser, "calm") as (_, step):
        assert "You are here" in step.text
    assert browser.processes_started == 2


@pytest.mark.slow
async def test_a_killed_page_is_replaced_and_said_to_have_crashed(browser: SharedBrowser) -> None:
    async with episode(browser, "calm") as (browsing, _):
        main = psutil.Process(await browser.process_id())
        for process in main.children(recursive=True):
            if "--type=renderer" in process.cmdline():
                process.kill()
        step = await browsing.step("scroll [down]")
        assert (step.error, step.crashed) == ("The page crashed.", True)
        assert await returns(browsing)


@pytest.mark.slow
async def test_a_browser_that_grew_too_large_gets_no_more_windows() -> None:
    shared = SharedBrowser(BrowserOptions(spare_bytes=0, window_bytes=0))
    try:
        async with episode(shared, "calm") as (browsing, _):
            for _ in range(16):
                await (await shared.open_window(Door({HOST}, respond))).close()
            assert shared.processes_started == 2
            assert await returns(browsing), "the old one lives as long as its windows"
    except EnvironmentUnavailable as error:
        pytest.skip(str(error))
    finally:
        await shared.close()


async def test_so_many_work_at_once_and_who_hangs_lets_the_next_one_begin() -> None:
    turns = Turns(2, seconds=0.05)
    working, most = 0, 0

    async def work() -> None:
        nonlocal working, most
        async with turns.one():
            working += 1
            most = max(most, working)
            await asyncio.sleep(0)
            working -= 1

    await asyncio.gather(*(work() for _ in range(10)))
    assert most == 2
    hung = [asyncio.create_task(_hang(turns)) for _ in range(2)]
    await asyncio.sleep(0)
    await work()
    for task in hung:
        task.cancel()


async def _hang(turns: Turns) -> None:
    async with turns.one():
        await asyncio.Event().wait()
