"""Item ids to tasks: embedded ones of all templates, and the official ones that can be played.

Embedded tasks are disjoint between train and eval. Official ids are those of the published file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from env_servers.environments.webarena.browser.chromium import AUTO, require_chromium
from env_servers.environments.webarena.browser.shared_browser import BrowserOptions
from env_servers.environments.webarena.official.settings import KEYS as OFFICIAL_KEYS
from env_servers.environments.webarena.official.settings import OfficialSettings
from env_servers.environments.webarena.official.task_file import find_tasks
from env_servers.environments.webarena.official.task_set import OfficialTasks
from env_servers.environments.webarena.options import NUMBERS, numbered_by_browser
from env_servers.environments.webarena.sites.embedded import embedded_base
from env_servers.environments.webarena.templates.admin_business import TEMPLATES as ADMIN_BUSINESS
from env_servers.environments.webarena.templates.admin_catalog import TEMPLATES as ADMIN_CATALOG
from env_servers.environments.webarena.templates.admin_orders import TEMPLATES as ADMIN_ORDERS
from env_servers.environments.webarena.templates.forum_errands import TEMPLATES as FORUM_ERRANDS
from env_servers.environments.webarena.templates.forum_reading import TEMPLATES as FORUM_READING
from env_servers.environments.webarena.templates.forum_votes import TEMPLATES as FORUM_VOTES
from env_servers.environments.webarena.templates.forum_writing import TEMPLATES as FORUM_WRITING
from env_servers.environments.webarena.templates.git_issues import TEMPLATES as GIT_ISSUES
from env_servers.environments.webarena.templates.git_pages import TEMPLATES as GIT_PAGES
from env_servers.environments.webarena.templates.git_people import TEMPLATES as GIT_PEOPLE
from env_servers.environments.webarena.templates.git_projects import TEMPLATES as GIT_PROJECTS
from env_servers.environments.webarena.templates.git_reading import TEMPLATES as GIT_READING
from env_servers.environments.webarena.templates.home import TEMPLATES as HOME_TEMPLATES
from env_servers.environments.webarena.templates.map_errands import TEMPLATES as MAP_ERRANDS
from env_servers.environments.webarena.templates.map_places import TEMPLATES as MAP_PLACES
from env_servers.environments.webarena.templates.map_ways import TEMPLATES as MAP_WAYS
from env_servers.environments.webarena.templates.several_sites import TEMPLATES as SEVERAL_SITES
from env_servers.environments.webarena.templates.shop_account import TEMPLATES as SHOP_ACCOUNT
from env_servers.environments.webarena.templates.shop_buying import TEMPLATES as SHOP_BUYING
from env_servers.environments.webarena.templates.shop_orders import TEMPLATES as SHOP_ORDERS
from env_servers.environments.webarena.templates.shop_products import TEMPLATES as SHOP_PRODUCTS
from env_servers.environments.webarena.templates.shop_shelves import TEMPLATES as SHOP_SHELVES
from env_servers.environments.webarena.templates.site_task import SiteTask
from env_servers.environments.webarena.templates.template import INSTANCES, Template
from env_servers.environments.webarena.templates.wiki import TEMPLATES as WIKI_TEMPLATES
from env_servers.environments.webarena.templates.wiki_relations import TEMPLATES as WIKI_RELATIONS
from env_servers.sdk import (
    EMBEDDED_BASE,
    EnvironmentConfig,
    InvalidOption,
    RangeSplit,
    RangeTaskSet,
    Task,
    item_index,
)

__all__ = [
    "CONTENT",
    "NAME",
    "TEMPLATES",
    "EmbeddedTask",
    "WebArenaTasks",
    "content_digest",
    "load_tasks",
    "read_settings",
]

NAME: Final = "webarena"
TEMPLATES: Final[tuple[Template[Any], ...]] = (
    *WIKI_TEMPLATES,
    *GIT_READING,
    *GIT_PAGES,
    *FORUM_ERRANDS,
    *FORUM_READING,
    *FORUM_VOTES,
    *FORUM_WRITING,
    *HOME_TEMPLATES,
    *MAP_ERRANDS,
    *MAP_PLACES,
    *MAP_WAYS,
    *WIKI_RELATIONS,
    *SHOP_PRODUCTS,
    *SHOP_SHELVES,
    *SHOP_ORDERS,
    *SHOP_BUYING,
    *SHOP_ACCOUNT,
    *GIT_ISSUES,
    *GIT_PROJECTS,
    *GIT_PEOPLE,
    *ADMIN_ORDERS,
    *ADMIN_CATALOG,
    *ADMIN_BUSINESS,
    *SEVERAL_SITES,
)
_SITES: Final = Path(__file__).parent / "sites"
_HELD_OUT: Final = 2
"""Instances of each template that are for evaluation: its last ones."""
_EVAL_BASE: Final = EMBEDDED_BASE + 500_000
CONTENT: Final = "a2422571856651cb"
"""What `content_digest` gives, which takes seconds; a test compares the two."""
_KEYS: Final = (*OFFICIAL_KEYS, "browser", NUMBERS)


@dataclass(frozen=True, slots=True)
class EmbeddedTask:
    """Which task it is; it is drawn when it is played."""

    template: Template[Any]
    number: int

    def draw(self) -> SiteTask:
        """Return the task."""
        return self.template.instance(self.number)


class WebArenaTasks(RangeTaskSet):
    """All tasks, and what the episodes of this process share."""

    def __init__(
        self,
        splits: Mapping[str, RangeSplit],
        official: OfficialTasks,
        browser: BrowserOptions,
        *,
        browser_numbers: bool = False,
    ) -> None:
        super().__init__(NAME, splits)
        self.official = official
        self.browser = browser
        self.browser_numbers = browser_numbers

    def splits(self) -> Mapping[str, int]:
        official = {name: len(numbers) for name, numbers in self.official.splits.items()}
        return {**super().splits(), **official}

    def item_ids(self, split: str, start: int, stop: int) -> Sequence[str]:
        numbers = self.official.splits.get(split)
        if numbers is not None:
            return [f"{NAME}_{number}" for number in numbers[start:stop]]
        return super().item_ids(split, start, stop)

    def get(self, item_id: str) -> Task:
        index = item_index(item_id, names=(NAME,))
        if index >= EMBEDDED_BASE:
            return super().get(item_id)
        task = self.official.get(index)
        return Task(task.item_id, task, task.category)

    def digest(self) -> bytes:
        text = CONTENT.encode() + self.official.digest()
        return hashlib.blake2b(super().digest() + text, digest_size=8).digest()


def load_tasks(config: EnvironmentConfig) -> WebArenaTasks:
    """Return the embedded tasks, and those of official sites that are there.

    Neighbours among the embedded ones are of different templates.

    Raises:
        InvalidOption: A setting does not exist, or its value is none.
        EnvironmentUnavailable: The official task file is damaged, or there is no browser.
    """
    values = read_settings(config)
    held_out = _HELD_OUT * len(TEMPLATES)
    learned = (INSTANCES - _HELD_OUT) * len(TEMPLATES)
    settings = OfficialSettings.read(values)
    chromium = values.get("browser", AUTO)
    require_chromium(chromium)
    return WebArenaTasks(
        {
            "train": RangeSplit(EMBEDDED_BASE, learned, lambda i: _task(i, i - EMBEDDED_BASE)),
            "eval": RangeSplit(_EVAL_BASE, held_out, lambda i: _task(i, i - _EVAL_BASE + learned)),
        },
        OfficialTasks(find_tasks(config.data_dir), settings),
        BrowserOptions(chromium=chromium, resolver_rules=settings.resolver_rules),
        browser_numbers=numbered_by_browser(values),
    )


def content_digest() -> str:
    """Return a hash of all that the sites hold, of their pages' templates, and of every task.

    Its checks and the code of the sites are told by the version of the environment, as all code is.
    """
    digest = hashlib.blake2b(digest_size=8)
    base = embedded_base()
    for database in base.databases:
        digest.update(base.digest(database).encode())
    for page in sorted(_SITES.rglob("*.html")):
        digest.update(page.read_text(encoding="utf-8").encode())
    for template in TEMPLATES:
        for task in map(template.instance, range(INSTANCES)):
            content = template.name, task.intent, task.start, task.criteria, task.plan
            digest.update(repr(content).encode())
    return digest.hexdigest()


def read_settings(config: EnvironmentConfig) -> Mapping[str, str]:
    """Return the settings of this environment by their keys; raises InvalidOption."""
    prefix = f"{NAME}."
    values = {
        key.removeprefix(prefix): str(value)
        for key, value in config.settings.items()
        if key.startswith(prefix)
    }
    for key in values:
        if key not in _KEYS:
            raise InvalidOption(f"unknown setting {prefix}{key[:100]}", valid=_KEYS)
    return values


def _task(index: int, place: int) -> Task:
    number, template = divmod(place, len(TEMPLATES))
    chosen = TEMPLATES[template]
    return Task(f"{NAME}_{index}", EmbeddedTask(chosen, number), chosen.site)
