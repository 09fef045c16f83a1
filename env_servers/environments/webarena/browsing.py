"""One episode in a browser: native actions go in, what the agent sees comes out.

Contains the order of events of a step as the original has it, and the manners in which its two
releases differ. It knows neither tasks nor scores.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from env_servers.environments.webarena.actions import (
    Action,
    Click,
    CloseTab,
    Direction,
    GoBack,
    GoForward,
    Goto,
    Hover,
    NewTab,
    Press,
    Scroll,
    Stop,
    TabFocus,
    Type,
    UnreadableAction,
    describe_action,
    parse_action,
)
from env_servers.environments.webarena.addresses import Addresses
from env_servers.environments.webarena.browser.errors import TabLost
from env_servers.environments.webarena.browser.gate import Refused
from env_servers.environments.webarena.browser.tab import Tab
from env_servers.environments.webarena.browser.window import MOST_TABS, Window
from env_servers.environments.webarena.observation.chromium112 import (
    place_separators,
    translate_nodes,
)
from env_servers.environments.webarena.observation.markup import read_markup
from env_servers.environments.webarena.observation.prompt import (
    NO_ACTION_BEFORE,
    frame_observation,
    list_tabs,
)
from env_servers.environments.webarena.observation.rectangles import (
    Layout,
    Rectangle,
    read_layout,
)
from env_servers.environments.webarena.observation.reports import (
    AccessibilityReport,
    Node,
    SnapshotReport,
)
from env_servers.environments.webarena.observation.tree import (
    Element,
    Tree,
    candidates,
    read_tree,
)

if TYPE_CHECKING:
    from playwright.async_api import Response

__all__ = ["AGENTGYM", "FIXED", "WEBARENA", "Browsing", "Manner", "Picture", "Seen", "Step", "View"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """What the releases of the original do differently, and what none does well."""

    lists_new_tabs_late: bool
    """A tab that a page opens is listed one step after the one that opened it."""
    fails_on_pages_tabs: bool
    """Tabs that the agent did not open itself cannot be looked at."""
    asks_before_goto: bool
    """An address is opened only when a plain request for it is answered with status 200."""


WEBARENA: Final = Manner(lists_new_tabs_late=True, fails_on_pages_tabs=True, asks_before_goto=False)
"""The original of the paper."""
AGENTGYM: Final = Manner(lists_new_tabs_late=True, fails_on_pages_tabs=False, asks_before_goto=True)
"""AgentGym's copy of it."""
FIXED: Final = Manner(lists_new_tabs_late=False, fails_on_pages_tabs=False, asks_before_goto=False)
"""Neither's faults."""

_NO_CLIENT: Final = "'Page' object has no attribute 'client'"
_STOP_ERROR: Final = "Unknown action type: ACTION_TYPES.STOP"
_RECT: Final = """function () {
  if (this.nodeType !== Node.TEXT_NODE) {
    const r = this.getBoundingClientRect();
    return [r.x, r.y, r.width, r.height];
  }
  const range = document.createRange();
  range.selectNode(this);
  const r = range.getBoundingClientRect();
  return [r.x, r.y, r.width, r.height];
}"""
_SCROLL: Final = """{
  const page = document.scrollingElement || document.body;
  page.scrollTop = page.scrollTop %s window.innerHeight;
}"""
_STATE: Final = """JSON.stringify([location.href, scrollX, scrollY,
  [...document.querySelectorAll('input, textarea, select')].map(
    each => [each.name, each.type === 'checkbox' || each.type === 'radio'
      ? each.checked : each.value]),
  Object.entries(sessionStorage), Object.entries(localStorage)])"""

_MOST_TYPED: Final = 10_000
"""Characters of one action."""
_TYPED_AT_ONCE: Final = 250
_MOST_KEYS: Final = 10
"""Pressed together."""
_OWN_PAGES: Final = ("chrome", "chrome-untrusted", "devtools", "file")
"""Schemes of the browser's own pages, some of which end it, and of this machine's files."""
_MOST_ELEMENTS: Final = 50_000
"""Of a page; reading a larger one would hold up all episodes of the process."""
_MOST_SHOWN: Final = 1 << 20
"""Characters of an observation; no real page's has a tenth of it."""

Probe = Callable[[str], Awaitable[str]]
"""Whether an address may be opened: an error's text, or nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """How pages are shown."""

    full: bool = False
    """All elements, not only those in the window."""
    html: bool = False
    """Elements as HTML, not as the accessibility tree."""
    chromium_112: bool = False
    """As the browser of published transcripts would have told it, as far as that can be known."""
    browser_numbers: bool = False
    """Elements are numbered by the browser, as the original does it: not reproducible."""
    images: bool = False
    """The agent sees the window, too."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An observation."""

    tab_line: str
    tree: Tree
    layout: Layout
    url: str

    @property
    def content(self) -> str:
        """The line of tabs and the tree."""
        return f"{self.tab_line}\n\n{self.tree.text}"


@dataclass(frozen=True, slots=True)
class Picture:
    """The window as an image."""

    png: bytes
    marks: Mapping[str, Rectangle]
    """By element numbers: the boxes of a set of marks, the root's among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a step led to."""

    text: str
    """What the agent reads: the framed observation, or why there is none."""
    action: Action | None = None
    seen: Seen | None = None
    previous_action: str = NO_ACTION_BEFORE
    error: str = ""
    """Why the action was not carried out."""
    notices: Sequence[str] = ()
    """What was done to pages."""
    crashed: bool = False
    """A page ended by itself, or was killed from outside."""
    refused: Sequence[Refused] = ()
    """Requests that left for nowhere."""

    @property
    def answer(self) -> str | None:
        """The final answer, where the action ended the episode."""
        return self.action.answer if isinstance(self.action, Stop) and self.seen else None


class _ActionFailed(Exception):
    """An action could not be carried out; the message is the original's."""


@dataclass(slots=True, eq=False)
class Browsing:
    """The episode of one window."""

    window: Window
    addresses: Addresses
    objective: str
    manner: Manner = AGENTGYM
    view: View = field(default_factory=View)
    probe: Probe | None = None
    """Answers for `asks_before_goto`."""
    current: Tab = field(init=False)
    _elements: Mapping[str, Element] = field(init=False, default_factory=dict[str, Element])
    _numbers: dict[tuple[int, int, str], str] = field(
        init=False, default_factory=dict[tuple[int, int, str], str]
    )
    _listed: list[Tab] = field(init=False, default_factory=list[Tab])
    _crashed: bool = field(init=False, default=False)
    _refused: int = field(init=False, default=0)
    """How many refusals there were before this step."""

    async def open(self, urls: Sequence[str]) -> Step:
        """Open one tab per address; the first one is current.

        Raises:
            playwright.async_api.Error: An address cannot be opened.
        """
        first: Tab | None = None
        for url in urls or ("about:blank",):
            self.current = await self.window.new_tab()
            first = first or self.current
            if url != "about:blank":
                await self._navigate(url)
        if first is not None:
            await self._focus(first)
        return await self._observe(None, NO_ACTION_BEFORE, "")

    async def step(self, text: str) -> Step:
        """Carry out a native action; any text is legal."""
        self.window.begin_step()
        self._crashed = False
        self._refused = len(self.window.door.refused)
        try:
            action = parse_action(self.addresses.opened(text))
        except UnreadableAction as refusal:
            return Step(text=str(refusal))
        done = describe_action(action, self.shown)
        self._listed = list(self.window.tabs)
        budget = asyncio.timeout(self.window.options.limits.step)
        try:
            async with budget:
                return await self._observe(action, done, await self._attempt(action))
        except TimeoutError:
            if not budget.expired():
                raise
            return await self._observe(action, done, await self._start_over())

    async def _attempt(self, action: Action) -> str:
        """Carry out an action; return why it was not."""
        try:
            await self._act(action)
        except _ActionFailed as failure:
            return str(failure)
        except TabLost as lost:
            return await self._replace_lost(lost)
        return ""

    async def visit(self, url: str) -> int:
        """Open an address in the current tab and wait until the page is settled.

        Returns the status of the answer, 0 where there was none: a place on the same page.

        Raises:
            playwright.async_api.Error: It cannot be opened.
            TabLost: The page crashed or did not answer.
        """
        answer = await self._navigate(url)
        await self.window.settle(self.current)
        return 0 if answer is None else answer.status

    async def _navigate(self, url: str) -> Response | None:
        from playwright.async_api import Error

        tab = self.current
        try:
            return await tab.page.goto(url, timeout=self._navigation_limit)
        except Error as error:
            await tab.raise_lost(error)
            raise

    async def html(self) -> str:
        """Return the current page as its scripts have left it."""
        return await self.current.ask(self.current.page.content())

    async def picture(self) -> Picture:
        """Return what the window shows, and where the elements of the last observation are."""
        image = await self.screenshot()
        marks = {
            number: element.rectangle
            for number, element in self._elements.items()
            if element.rectangle is not None and element.rectangle.in_view
        }
        return Picture(image, marks)

    async def screenshot(self) -> bytes:
        """Return what the window shows as a PNG; raises TabLost and BrowserLost."""
        return await self.current.ask(self.current.page.screenshot())

    async def digest(self) -> bytes:
        """Return what identifies the state of all tabs: pages, places, and what was filled in."""
        state = hashlib.blake2b(digest_size=16)
        for number, tab in enumerate(self.window.tabs):
            try:
                told = await tab.evaluate(_STATE)
            except TabLost:
                told = "lost"
            state.update(f"{number} {tab is self.current} {told}\n".encode())
        return state.digest()

    @property
    def shown(self) -> Mapping[str, str]:
        """The lines of the last observation by their numbers, without indentation."""
        return {number: element.line for number, element in self._elements.items()}

    @property
    def _navigation_limit(self) -> float:
        return self.window.options.limits.navigation * 1000

    # -- acting

    async def _act(self, action: Action) -> None:
        from playwright.async_api import Error

        try:
            await self._carry_out(action)
        except Error as error:
            raise _ActionFailed(error.message) from error

    async def _carry_out(self, action: Action) -> None:
        tab = self.current
        page = tab.page
        match action:
            case Click(element_id):
                await tab.ask(page.mouse.click(*self._centre(element_id)))
            case Hover(element_id):
                await tab.ask(page.mouse.move(*self._centre(element_id)))
            case Type(element_id, text):
                await self._type(element_id, text)
            case Press(keys):
                if keys.count("+") >= _MOST_KEYS:
                    raise _ActionFailed(f"At most {_MOST_KEYS} keys are pressed together.")
                if "Meta" in keys and sys.platform != "darwin":
                    keys = keys.replace("Meta", "Control")
                await tab.ask(page.keyboard.press(keys))
            case Scroll(direction):
                await tab.evaluate(_SCROLL % ("-" if direction is Direction.UP else "+"))
            case _:
                await self._carry_out_on_tabs(action)

    async def _carry_out_on_tabs(self, action: Action) -> None:
        page = self.current.page
        match action:
            case NewTab():
                if len(self.window.tabs) >= MOST_TABS:
                    raise _ActionFailed(f"At most {MOST_TABS} tabs can be open.")
                self.current = await self.window.new_tab()
                self._listed.append(self.current)
            case TabFocus(number):
                if number >= len(self.window.tabs):
                    raise _ActionFailed("list index out of range")
                await self._focus(self.window.tabs[number])
            case CloseTab():
                await self._close_tab()
            case GoBack():
                await page.go_back(timeout=self._navigation_limit)
            case GoForward():
                await page.go_forward(timeout=self._navigation_limit)
            case Goto(url):
                await self._goto(url)
            case _:
                raise _ActionFailed(_STOP_ERROR)

    async def _type(self, element_id: str, text: str) -> None:
        if len(text) > _MOST_TYPED:
            raise _ActionFailed(f"At most {_MOST_TYPED:,} characters are typed at once.")
        tab = self.current
        await tab.ask(tab.page.mouse.click(*self._centre(element_id)))
        # In pieces, each of which is waited for: what was sent is typed, though nobody waits.
        for start in range(0, len(text), _TYPED_AT_ONCE):
            await tab.ask(tab.page.keyboard.type(text[start : start + _TYPED_AT_ONCE]))

    def _centre(self, element_id: str) -> tuple[float, float]:
        element = self._elements.get(element_id)
        if element is None or element.rectangle is None:
            raise _ActionFailed(repr(element_id))
        return element.rectangle.centre

    async def _goto(self, url: str) -> None:
        from playwright.async_api import TimeoutError as NavigationTimeout

        if (
            self.manner.asks_before_goto
            and self.probe is not None
            and (error := await self.probe(url))
        ):
            raise _ActionFailed(error)
        if url.strip().partition(":")[0].lower() in _OWN_PAGES:
            raise _ActionFailed(f"Page.goto: net::ERR_INVALID_URL at {url}")
        try:
            await self.current.page.goto(url, timeout=self._navigation_limit)
        except NavigationTimeout:
            await self.current.halt()
            raise

    async def _close_tab(self) -> None:
        await self.current.page.close()
        self.window.drop_closed()
        if self.window.tabs:
            await self._focus(self.window.tabs[-1])
            return
        self.current = await self.window.new_tab()
        # The original gives only those tabs a client that its reset or `new_tab` opened.
        self.current.opened_by_page = True
        self._listed.append(self.current)

    async def _focus(self, tab: Tab) -> None:
        self.current = tab
        await tab.ask(tab.page.bring_to_front())

    async def _replace_lost(self, lost: TabLost) -> str:
        """Put a blank tab in the place of the current one, if it is gone, and drop others."""
        gone = [tab for tab in self.window.tabs if tab.lost]
        ended = any(tab.lost and not tab.crashed for tab in gone)
        # What shared a process with a page that was ended, went with it.
        self._crashed = self._crashed or (bool(gone) and not ended)
        if any(tab is not self.current for tab in gone):
            self.window.notices.append("A tab whose page was gone was closed.")
        if self.current.lost or self.current.page.is_closed():
            await self._replace_current()
        self.window.drop(gone)
        self._listed = [tab for tab in self._listed if tab in self.window.tabs]
        return str(lost)

    async def _replace_current(self) -> None:
        gone, tabs = self.current, self.window.tabs
        place = tabs.index(gone) if gone in tabs else len(tabs)
        self.current = await self.window.new_tab()
        self.window.drop([gone])
        self.window.tabs.remove(self.current)
        self.window.tabs.insert(place, self.current)
        self._listed.append(self.current)

    async def _start_over(self) -> str:
        """Close all tabs of a window whose pages took all the time that a step may take."""
        gone = list(self.window.tabs)
        self.current = await self.window.new_tab()
        self.window.drop(gone)
        self._listed = [self.current]
        seconds = self.window.options.limits.step
        told = f"The step took more than {seconds:g} seconds; all tabs were closed."
        self.window.notices.append(told)
        return told

    # -- observing

    async def _observe(self, action: Action | None, done: str, error: str) -> Step:
        while True:
            try:
                seen = await self._see()
                break
            except TabLost as lost:
                error = await self._replace_lost(lost)
        if seen is None:
            return Step(text=_NO_CLIENT, action=action, error=error, crashed=self._crashed)
        self._elements = seen.tree.elements
        text = frame_observation(
            seen.content,
            url=self.addresses.shown(seen.url),
            objective=self.objective,
            previous_action=done,
        )
        if len(text) > _MOST_SHOWN:
            text = text[:_MOST_SHOWN]
            self.window.notices.append(f"The observation was cut after {_MOST_SHOWN:,} characters.")
        return Step(
            text=text,
            action=action,
            seen=seen,
            previous_action=done,
            error=error,
            notices=tuple(self.window.notices),
            crashed=self._crashed,
            refused=tuple(self.window.door.refused[self._refused :]),
        )

    async def _see(self) -> Seen | None:
        await self.window.settle(self.current)
        self.window.drop_closed()
        if self.current not in self.window.tabs:
            raise TabLost("The page closed itself.")
        if self.manner.fails_on_pages_tabs and self.current.opened_by_page:
            return None
        tab = self.current
        tree, layout = await (self._read_html(tab) if self.view.html else self._read_tree(tab))
        return Seen(await self._tab_line(layout.title), tree, layout, tab.page.url)

    async def _read_html(self, tab: Tab) -> tuple[Tree, Layout]:
        snapshot = await self._take_snapshot(tab)
        layout = read_layout(snapshot)
        tree = read_markup(snapshot, layout.rectangles, self._number_for, full=self.view.full)
        return tree, layout

    async def _read_tree(self, tab: Tab) -> tuple[Tree, Layout]:
        nodes, layout = await self._read_page(tab)
        rectangles = dict(layout.rectangles)
        rectangles.update(await self._ask_rectangles(tab, layout.unknown(candidates(nodes))))
        if self.view.chromium_112:
            nodes = translate_nodes(nodes, layout)
            rectangles.update(layout.markers)
            rectangles.update(place_separators(nodes, rectangles))
        tree = read_tree(
            nodes,
            rectangles,
            self._number,
            full=self.view.full,
        )
        return tree, layout

    async def _read_page(self, tab: Tab) -> tuple[list[Node], Layout]:
        await self._check_size(tab)
        report = await tab.read("Accessibility.getFullAXTree", AccessibilityReport)
        return report.nodes, read_layout(await self._take_snapshot(tab))

    async def _take_snapshot(self, tab: Tab) -> SnapshotReport:
        return await tab.read(
            "DOMSnapshot.captureSnapshot", SnapshotReport, computedStyles=list[str]()
        )

    async def _check_size(self, tab: Tab) -> None:
        counted = await tab.send("Memory.getDOMCounters")
        # Counts what earlier pages left behind, too, but costs nothing.
        if counted["nodes"] <= _MOST_ELEMENTS:
            return
        elements = await tab.evaluate("document.getElementsByTagName('*').length")
        if isinstance(elements, int) and elements > _MOST_ELEMENTS:
            await tab.end(f"The page had more than {_MOST_ELEMENTS:,} elements and was ended.")
            raise TabLost(tab.lost)

    async def _tab_line(self, current_title: str) -> str:
        listed = self.window.tabs
        if self.manner.lists_new_tabs_late and self._listed:
            listed = [tab for tab in listed if tab in self._listed]
        titles = [
            current_title if tab is self.current else await tab.ask(tab.page.title())
            for tab in listed
        ]
        return list_tabs(titles, listed.index(self.current))

    async def _ask_rectangles(self, tab: Tab, nodes: Sequence[int]) -> dict[int, Rectangle]:
        """Ask the nodes themselves, which the snapshot does not have."""
        found: dict[int, Rectangle] = {}
        for node in nodes:
            rectangle = await _ask_rectangle(tab, node)
            if rectangle is not None:
                found[node] = rectangle
        return found

    def _number(self, node: Node) -> str:
        return self._number_for(node.node_id)

    def _number_for(self, number: str) -> str:
        """Return an element's number for the browser's."""
        if self.view.browser_numbers:
            return number
        key = (self.current.number, self.current.document, number)
        return self._numbers.setdefault(key, str(len(self._numbers) + 1))


async def _ask_rectangle(tab: Tab, node: int) -> Rectangle | None:
    from playwright.async_api import Error

    try:
        resolved = await tab.send("DOM.resolveNode", backendNodeId=node)
        answer = await tab.send(
            "Runtime.callFunctionOn",
            objectId=resolved["object"]["objectId"],
            functionDeclaration=_RECT,
            returnByValue=True,
        )
    except Error:
        # The node went away, or is a pseudo-element.
        return None
    value = answer["result"].get("value")
    return Rectangle(*value) if value else None
