"""WebArena's original shape: a browser for each environment, sleeps, calls for each node.

As the original does it: Playwright's synchronous API; a reset starts Playwright and Chromium anew;
every action is followed by 1.5 s of sleep; an observation asks for a snapshot of the layout, five
facts of the window, the accessibility tree, then twice for each of its nodes (which object it is,
where that is), one after the other, takes a screenshot that nobody sees, and reads the page's HTML.

`python -m benchmark.baselines.webarena_original PORT` answers commands of `webarena.py` of
`benchmark.environments`, one JSON line each on standard input and output. In its favour: the lines
of the tree are not written, pages are served by another process, and no model text is parsed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from env_servers.environments.webarena.browser.chromium import AUTO, find_chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, CDPSession, Page, Playwright

__all__ = ["Original", "main"]

SLEEP_S: Final = 1.5
_WINDOW_FACTS: Final = (
    "window.pageYOffset",
    "window.pageXOffset",
    "window.screen.width",
    "window.screen.height",
    "window.devicePixelRatio",
)
_RECTANGLE: Final = """function () {
  if (this.nodeType === Node.TEXT_NODE) {
    const range = document.createRange();
    range.selectNode(this);
    return range.getBoundingClientRect();
  }
  return this.getBoundingClientRect();
}"""
_LINK: Final = "document.querySelector('a').getBoundingClientRect().toJSON()"
_SCROLLS: Final = ("+", "-")
_SCROLL: Final = "document.scrollingElement.scrollTop %s= window.innerHeight"


class Original:
    """One environment."""

    def __init__(self, port: int) -> None:
        """All hosts are served at a port of this machine."""
        self._port = port
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None
        self._page: Page | None = None
        self._session: CDPSession | None = None
        self._scrolled = 0

    def reset(self, url: str) -> dict[str, Any]:
        """Start Playwright and a browser, open an address, wait and look."""
        from playwright.sync_api import sync_playwright

        self.close()
        self._playwright = sync_playwright().start()
        chromium = self._playwright.chromium
        self._browser = chromium.launch(
            executable_path=find_chromium(AUTO),
            args=[f"--host-resolver-rules=MAP * 127.0.0.1:{self._port}"],
        )
        context = self._browser.new_context(
            viewport={"width": 1280, "height": 720}, device_scale_factor=1
        )
        self._page = context.new_page()
        self._session = context.new_cdp_session(self._page)
        self._session.send("Accessibility.enable")
        self._page.goto(url)
        time.sleep(SLEEP_S)
        return {"nodes": self._observe()}

    def scroll(self) -> dict[str, Any]:
        """Scroll down or up in turn and look, without the sleep: what an observation costs."""
        page = self._opened
        page.evaluate(_SCROLL % _SCROLLS[self._scrolled % 2])
        self._scrolled += 1
        return {"nodes": self._observe()}

    def click(self) -> dict[str, Any]:
        """Click the page's first link, wait and look."""
        page = self._opened
        link = page.evaluate(_LINK)
        page.mouse.click(link["x"] + link["width"] / 2, link["y"] + link["height"] / 2)
        time.sleep(SLEEP_S)
        return {"nodes": self._observe(), "url": page.url}

    def close(self) -> None:
        """End the browser and Playwright."""
        if self._browser is not None:
            self._browser.close()
        if self._playwright is not None:
            self._playwright.stop()
        self._browser = self._playwright = None

    @property
    def _opened(self) -> Page:
        assert self._page is not None, "reset comes first"
        return self._page

    def _observe(self) -> int:
        """Do what an observation of the original does; returns how many nodes the tree has."""
        page, session = self._opened, self._session
        assert session is not None
        session.send(
            "DOMSnapshot.captureSnapshot",
            {"computedStyles": [], "includeDOMRects": True, "includePaintOrder": True},
        )
        for fact in _WINDOW_FACTS:
            page.evaluate(fact)
        nodes = session.send("Accessibility.getFullAXTree", {})["nodes"]
        for node in nodes:
            _rectangle(session, node)
        page.title()
        page.screenshot()
        page.content()
        return len(nodes)


def _rectangle(session: CDPSession, node: dict[str, Any]) -> Any:
    from playwright.sync_api import Error

    if "backendDOMNodeId" not in node or node["role"]["value"] == "RootWebArea":
        return None
    try:
        found = session.send("DOM.resolveNode", {"backendNodeId": node["backendDOMNodeId"]})
        return session.send(
            "Runtime.callFunctionOn",
            {
                "objectId": found["object"]["objectId"],
                "functionDeclaration": _RECTANGLE,
                "returnByValue": True,
            },
        )
    except Error:
        return None


def main() -> None:
    """Carry out `{"do": ..., "url": ...}`, line by line, until the input ends."""
    environment = Original(int(sys.argv[1]))
    commands: dict[str, Callable[..., dict[str, Any]]] = {
        "reset": environment.reset,
        "scroll": environment.scroll,
        "click": environment.click,
    }
    for line in sys.stdin:
        command = json.loads(line)
        answer = commands[command.pop("do")](**command)
        print(json.dumps(answer), flush=True)
    environment.close()


if __name__ == "__main__":
    main()
