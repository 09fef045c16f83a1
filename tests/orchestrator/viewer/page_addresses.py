"""An address of every page of the viewer, for tests that look at all of them."""

from __future__ import annotations

import re

from tests.kit.viewer import RunningViewer

__all__ = ["page_addresses"]


def page_addresses(
    viewer: RunningViewer, run: str, other: str, training: str
) -> dict[str, tuple[str, str]]:
    """Return by path: an address with much on its page, and a selector of what is there at last.

    Args:
        viewer: It shows them.
        run: Has an episode with tokens.
        other: What it is compared with.
        training: Of AgentEvol.

    Raises:
        KeyError: The viewer has a page that is not told of here.
    """
    rows = viewer.ask("episodes", run=run)["rows"]
    played = next(it["episode_id"] for it in rows if it["outcome"] != "failed")
    known = {
        "/": ({}, "tbody .state:not(.waiting)"),
        "/run": ({"run": run, "other": other}, "#other"),
        "/episodes": ({"run": run, "sort": "-rounds"}, ".row .cell.item a"),
        "/training": ({"training": training}, ".interval-mark"),
        "/compare": ({"run": run, "other": other}, "td.figure"),
        "/episode": ({"run": run, "id": played, "turn": 1, "tokens": 1}, ".token.context"),
        "/live": ({"run": run}, ".count"),
        "/watch": ({"run": run, "id": played}, ".after a"),
    }
    rows = viewer.ask("episodes", run=other)["rows"]
    both = {"run": run, "id": played, "other_run": other, "other_id": rows[0]["episode_id"]}
    known |= {"/play": ({"run": run}, "#item"), "/side-by-side": (both, ".sides .turn")}
    _, _, script = viewer.request("/assets/main.js")
    paths = re.findall(r'^  "(/[\w-]*)": \{ show', script.decode(), re.MULTILINE)
    assert "/episode" in paths, "main.js lists its pages in another way by now"
    return {path: (viewer.page(path, **known[path][0]), known[path][1]) for path in paths}
