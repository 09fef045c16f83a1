"""The official tasks: `webarena/test.raw.json` in the data folder, 812 of them.

Item ids are `webarena_<task_id>`. A file with evaluators, functions or fields that do not exist is
refused whole, with task and field.

Which tasks change a site: those whose score looks at pages of a site that keeps changes
(`program_html`), and those whose intent begins with a word of doing (`Cancel`, `Buy`), which are
scored by their answer where what they ask for is impossible. Some of them only look (they are
scored by the page that they end on); they wait for a site more often than they had to, and none
that changes a site is missed as long as the agent does what it was asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from env_servers.environments.webarena.evaluation import (
    Criteria,
    Evaluator,
    UnusableCriteria,
    check_target,
    read_criteria,
)
from env_servers.environments.webarena.official.sites import OfficialSites, Site
from env_servers.sdk import EnvironmentUnavailable

__all__ = [
    "AGENTEVAL",
    "DamagedTasks",
    "Geolocation",
    "OfficialTask",
    "find_tasks",
    "read_tasks",
]

_PLACES: Final = (
    Path("webarena", "test.raw.json"),
    Path("webarena", "config_files", "test.raw.json"),
)
_TABS: Final = " |AND| "
AGENTEVAL: Final = (
    *(24, 238, 228, 158, 278, 280, 22, 165, 300, 328, 239, 386, 387, 264, 23),  # shop
    *(65, 215, 4, 95, 115, 6, 680, 203, 214, 108, 110, 247, 122, 123, 128),  # administration
    *(318, 526, 537, 535, 168, 598, 27, 28, 67, 29),  # code hosting, forum
    *(36, 60, 74, 222, 251, 255, 381, 378, 365, 763),  # map
)
"""The 50 tasks of AgentEval's published list, by the numbers of tasks per site those that
AgentGym-RL evaluates. The paper on AgentGym counts 20 tasks, and nobody says which."""
_DOING: Final = frozenset(
    (
        *("add", "buy", "cancel", "change", "create", "delete", "dislike", "fork", "like", "make"),
        *("notify", "post", "reply", "send", "set", "star", "submit", "subscribe", "update"),
    )
)
"""First words of intents that ask for a change."""
_TYPES: Final[Mapping[str, type]] = {
    "task_id": int,
    "sites": list,
    "start_url": str,
    "intent": str,
    "intent_template_id": int,
    "require_login": bool,
    "eval": dict,
}


class DamagedTasks(EnvironmentUnavailable):
    """Raised for a task file that is not what it should be; says where and what to do."""

    def __init__(self, path: Path, where: str, problem: str) -> None:
        super().__init__(
            f"{path}, {where}: {problem}. Fetch config_files/test.raw.json of WebArena again. "
            "Without the file the embedded sites are played, which need no download."
        )


@dataclass(frozen=True, slots=True)
class Geolocation:
    """A place on the earth, in degrees."""

    latitude: float
    longitude: float


@dataclass(frozen=True, slots=True)
class OfficialTask:
    """One task. Addresses in it are placeholders until `place`."""

    number: int
    sites: tuple[Site, ...]
    intent: str
    start_urls: tuple[str, ...]
    """One tab each; the first is the current one."""
    logins: tuple[Site, ...]
    """Sites on which the agent is signed in."""
    template: int
    """Tasks of one template differ in what is filled in."""
    criteria: Criteria
    entry: Mapping[str, Any]
    """The `eval` of the file."""
    geolocation: Geolocation | None = None
    """Where the browser says that it is; None = it does not say."""

    @property
    def item_id(self) -> str:
        """Its id in this environment."""
        return f"webarena_{self.number}"

    @property
    def category(self) -> str:
        """Its sites in one order."""
        return "+".join(sorted(self.sites))

    @property
    def changes(self) -> frozenset[Site]:
        """Sites that it changes if it is done as asked; it must have them alone."""
        first = self.intent.split(maxsplit=1)[0].casefold()
        if Evaluator.PROGRAM not in self.criteria.evaluators and first not in _DOING:
            return frozenset()
        return frozenset(site.store for site in self.sites if site.changeable)

    @property
    def asks_the_shop(self) -> bool:
        """Whether its score is asked of the shop's own interface, as its administrator."""
        return any(
            "func:shopping_" in place
            for target in self.criteria.targets
            for place in (target.url, target.locator)
        )

    @property
    def reads(self) -> frozenset[Site]:
        """Sites that it only looks at; others may look at them, too."""
        return frozenset(site.store for site in self.sites if site.changeable) - self.changes

    def place(self, sites: OfficialSites) -> tuple[tuple[str, ...], Criteria]:
        """Return start addresses and criteria for the sites that are there.

        Raises EnvironmentUnavailable where one of its sites has no address.
        """
        sites.require((*self.sites, *self.logins))
        starts = tuple(sites.place(url) for url in self.start_urls)
        return starts, read_criteria(sites.place(self.entry))


def find_tasks(data_dir: Path | None) -> Path | None:
    """Return the task file, or None where there is none."""
    if data_dir is None:
        return None
    paths = (data_dir / place for place in _PLACES)
    return next((path for path in paths if path.is_file()), None)


def read_tasks(path: Path) -> tuple[OfficialTask, ...]:
    """Return the tasks of a file in its order; raises DamagedTasks."""
    try:
        entries: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedTasks(path, "whole file", f"cannot be read ({error})") from error
    if not isinstance(entries, list) or not entries:
        raise DamagedTasks(path, "whole file", "is no list of tasks")
    tasks = [_read(path, place, entry) for place, entry in enumerate(cast("list[object]", entries))]
    if len({task.number for task in tasks}) != len(tasks):
        raise DamagedTasks(path, "field task_id", "has a number twice")
    return tuple(tasks)


def _read(path: Path, place: int, entry: object) -> OfficialTask:
    if not isinstance(entry, dict):
        raise DamagedTasks(path, f"entry {place}", "is no object")
    fields = cast("dict[str, Any]", entry)
    for name, kind in _TYPES.items():
        if not isinstance(fields.get(name), kind):
            raise DamagedTasks(path, f"entry {place}, field {name}", f"is no {kind.__name__}")
    where = f"task {fields['task_id']}"
    if not fields["intent"].strip():
        raise DamagedTasks(path, f"{where}, field intent", "is empty")
    try:
        criteria = read_criteria(fields["eval"])
        for target in criteria.targets:
            check_target(target)
    except UnusableCriteria as error:
        raise DamagedTasks(path, f"{where}, field eval", str(error)) from error
    try:
        sites = tuple(Site(name) for name in fields["sites"])
        logins = _logins(fields.get("storage_state"))
    except ValueError as error:
        raise DamagedTasks(path, f"{where}, field sites", str(error)) from error
    try:
        geolocation = _geolocation(fields.get("geolocation"))
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedTasks(path, f"{where}, field geolocation", repr(error)) from error
    return OfficialTask(
        number=fields["task_id"],
        sites=sites,
        intent=fields["intent"],
        start_urls=tuple(fields["start_url"].split(_TABS)),
        logins=logins,
        template=fields["intent_template_id"],
        criteria=criteria,
        entry=fields["eval"],
        geolocation=geolocation,
    )


def _geolocation(value: Any) -> Geolocation | None:
    if value is None:
        return None
    return Geolocation(float(value["latitude"]), float(value["longitude"]))


def _logins(state: object) -> tuple[Site, ...]:
    """Sites of a file name such as `./.auth/gitlab.reddit_state.json`; none for null."""
    if state is None:
        return ()
    name = Path(str(state)).name.removesuffix("_state.json")
    return tuple(Site(site) for site in name.split("."))
