"""Pictures of the viewer's pages, for the documentation.

    python -m benchmark.screenshots                          into docs/assets
    python -m benchmark.screenshots --training runs/grpo     with the page of a training

Plays small runs with what the package brings (its agent, its tasks), opens
`python -m orchestrator.view` on them with a headless Chromium, and does what a person would. Seeds
are fixed; times and dates are those of the day.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import tyro
from playwright.sync_api import Page, sync_playwright

from benchmark.viewer import running_viewer
from env_servers.environments.webarena.browser.chromium import AUTO, find_chromium

_RUNS: Final = {"expert": "expert", "agent": "agent", "random": "random"}
"""Policies by the names of their runs, all of the same tasks."""
_SAMPLE: Final = (sys.executable, "-m", "orchestrator.sample", "--spawn", "1")
_TASKS: Final = ("--suite", "demo", "--env", "maze,textcraft,babyai", "--episodes", "8")
_MOST_BYTES: Final = 150_000
"""Of a picture: a repository carries every version of it for ever."""


@dataclass(frozen=True, slots=True)
class Options:
    """Photograph the viewer's pages."""

    out: Path = Path("docs/assets")
    """Folder of the pictures, which are replaced."""
    training: Path | None = None
    """Folder of a training, which needs torch and time; none = no picture of it."""


class Photographer:
    """A browser on a viewer."""

    def __init__(self, page: Page, address: str, out: Path) -> None:
        """Open the viewer at the address that it printed."""
        self.page = page
        self._origin = address.partition("/?")[0]
        self._out = out
        page.goto(address)

    def go(self, path: str, **asked: object) -> None:
        """Open a page of the viewer."""
        self.page.goto(f"{self._origin}{path}?{urlencode(asked)}")

    def take(self, name: str) -> None:
        """Write what the window shows. Raises ValueError where that is too large a file."""
        self.page.wait_for_timeout(300)  # pages that follow a run are never idle
        path = self._out / f"viewer-{name}.png"
        self.page.screenshot(path=path, animations="disabled")
        size = path.stat().st_size
        print(f"{path} {size / 1000:.0f} kB")
        if size > _MOST_BYTES:
            raise ValueError(f"{path} has {size} bytes, at most {_MOST_BYTES}")


def play_runs(folder: Path) -> None:
    """Play the runs, with servers of their own."""
    for name, policy in _RUNS.items():
        flags = ["--policy", policy, *_TASKS, "--out", str(folder / name)]
        subprocess.run([*_SAMPLE, *flags], check=True, capture_output=True)


def overview(camera: Photographer) -> None:
    """The lists: runs, one run, its episodes, a comparison."""
    camera.page.locator("tbody .state").nth(len(_RUNS) - 1).wait_for()
    camera.take("runs")
    camera.go("/run", run="runs/agent")
    camera.page.get_by_role("heading", name="Results").wait_for()
    camera.take("run")
    camera.go("/episodes", run="runs/agent", outcome="success", min_rounds=3, sort="-rounds")
    camera.page.locator(".row .item a").first.wait_for()
    camera.take("episodes")
    camera.go("/compare", run="runs/random", other="runs/agent")
    camera.page.locator("td.figure").first.wait_for()
    camera.take("compare")


def one_episode(camera: Photographer) -> None:
    """An episode: its turns beside the environment's pictures, its tokens."""
    page = camera.page
    _open_long(camera, "maze")
    page.get_by_role("button", name="Show the environment's state").click()
    page.locator(".state-panel .view").first.wait_for(timeout=60_000)
    page.get_by_label("Turn", exact=True).fill("4")
    page.get_by_text("Replayed the reset and 4 turns").wait_for()
    page.evaluate("scrollTo(0, 0)")
    camera.take("episode")
    page.get_by_role("button", name="Show the environment's state").click()
    page.evaluate("scrollTo(0, 0)")
    page.keyboard.press("t")
    page.locator(".token-run.text").first.wait_for()
    page.get_by_label("Colour", exact=True).select_option("entropy")
    page.locator(".token-run .sampled").first.evaluate("it => it.scrollIntoView({block: 'center'})")
    camera.take("tokens")


def playing_on(camera: Photographer) -> None:
    """A person plays on from turn 2, keeps the branch, and sees both side by side."""
    page = camera.page
    _open_long(camera, "maze")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.get_by_role("button", name="Play on from here").click()
    page.get_by_label("Action", exact=True).wait_for(timeout=60_000)
    page.get_by_role("button", name="Ask the expert").click()
    page.get_by_role("button", name="Take it over").wait_for()
    camera.take("play")
    page.get_by_role("button", name="Take it over").click()
    page.get_by_role("button", name="Play it").click()
    page.get_by_text("Turn 3 of").wait_for()
    page.get_by_label("go on for").fill("15")
    page.get_by_role("button", name="Go on").click()
    page.get_by_text("It has ended").wait_for(timeout=60_000)
    page.get_by_role("button", name="Keep").click()
    page.get_by_role("link", name="Side by side").click()
    page.get_by_role("link", name="To where they part").click()
    camera.take("side-by-side")


def _open_long(camera: Photographer, environment: str) -> None:
    """Open the longest episode that the agent won: on a detour, which the expert does not make."""
    asked = {"environment": environment, "outcome": "success", "min_rounds": 5, "sort": "-rounds"}
    camera.go("/episodes", run="runs/agent", **asked)
    camera.page.locator(".row .item a").first.click()
    camera.page.locator(".turn").first.wait_for()


def playing_now(camera: Photographer) -> None:
    """A live run: what it plays, and one of its episodes."""
    page = camera.page
    flags = ["--policy", "agent", "--env", "maze", "--episodes", "400", "--concurrency", "8"]
    command = [*_SAMPLE, *flags, "--out", "runs/live"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        try:
            while not Path("runs/live/manifest.json").exists():
                page.wait_for_timeout(100)
            camera.go("/live", run="runs/live")
            page.locator("tbody a").nth(5).wait_for()
            page.wait_for_timeout(4000)  # until they are at different turns
            camera.take("live")
            page.locator("tbody a").last.click()
            page.locator(".turn").nth(1).wait_for()
            camera.take("watch")
        finally:
            run.send_signal(signal.SIGINT)


def a_training(camera: Photographer) -> None:
    """What a training came to."""
    camera.page.locator(".trainings a").first.click()
    camera.page.locator(".chart").first.wait_for()
    camera.take("training")


def main() -> None:
    """Play, look, and write the pictures."""
    options = tyro.cli(Options, prog="benchmark.screenshots")
    out, training = options.out.resolve(), options.training and options.training.resolve()
    out.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="screenshots-") as temporary,
        contextlib.chdir(temporary),  # so that no picture shows where that is
    ):
        runs = Path("runs")
        play_runs(runs)
        photograph(runs, out, [overview, one_episode, playing_on, playing_now])
        if training is not None:
            shutil.copytree(training, runs / training.name)
            photograph(runs / training.name, out, [a_training])


def photograph(folder: Path, out: Path, scenes: Sequence[Callable[[Photographer], None]]) -> None:
    """Start a viewer on a folder, and take the pictures of some scenes."""
    with running_viewer(folder) as (address, _), sync_playwright() as playwright:
        path = find_chromium(AUTO)
        browser = playwright.chromium.launch(executable_path=path, chromium_sandbox=False)
        page = browser.new_page(viewport={"width": 1120, "height": 660}, locale="en")
        page.set_default_timeout(30_000)
        camera = Photographer(page, address, out)
        for scene in scenes:
            scene(camera)
        browser.close()


if __name__ == "__main__":
    main()
