"""One WebShop episode: find a product that fits the instruction, choose its options, buy it.

Contains the episode's life: which goal and prices it has, and what of a visit becomes an
observation and a reward. The reward is 0 until something is bought, which ends the episode with a
reward in [0, 1]. The shop, with its search index, is shared by all episodes of a process.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from env_servers.environments.webshop import picture
from env_servers.environments.webshop.catalogue import Product, draw_price
from env_servers.environments.webshop.expert import advise, random_advice
from env_servers.environments.webshop.goals import NO_LIMIT, Goal
from env_servers.environments.webshop.prompt import CONVERSATION_STARTS, GRAMMAR
from env_servers.environments.webshop.tasks import TaskSpec, WebShopTasks, load_tasks
from env_servers.environments.webshop.visit import Visit, read_action
from env_servers.sdk import (
    Advice,
    EnvironmentConfig,
    EnvironmentSpec,
    EpisodeEnvironment,
    InvalidOption,
    Observation,
    ResetOptions,
    StopReason,
    Task,
    View,
)

__all__ = ["WebShop"]

_OPTIONS: Final = ("price_limit", "list_actions")
_NOTHING: Final = "Nothing happened: the page has nothing like that. "


@dataclass(slots=True)
class _Episode:
    """The state of one episode."""

    visit: Visit
    goal: Goal
    fixed: bool
    list_actions: bool = False
    """Every event's info has what can be done on the page."""
    steps: int = 0
    """Actions so far; they vary only the wording of thoughts."""


class WebShop(EpisodeEnvironment[_Episode]):
    """Shop for a product in a simulated online shop."""

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="webshop",
        version="1.0.0",
        description="Find, configure and buy a product that fits an instruction, in a web shop.",
        grammar=GRAMMAR,
        conversation_starts=CONVERSATION_STARTS,
        max_rounds=10,
        has_views=True,
        profiles=("agentgym", "fixed"),
        episode_bytes=48 * 1024,
    )
    option_names = _OPTIONS
    tasks: WebShopTasks

    @classmethod
    def load_tasks(cls, config: EnvironmentConfig) -> WebShopTasks:
        return load_tasks(config)

    def start(self, task: Task, options: ResetOptions) -> tuple[_Episode, Observation]:
        task_spec: TaskSpec = task.payload
        fixed = options.profile == "fixed"
        seed = None if fixed else options.seed
        product = task_spec.shop.products[task_spec.goal.number]
        price = draw_price(product, seed)
        limit = task_spec.goal.limit(price)
        if "price_limit" in options.options:
            limit = _given_limit(options.options["price_limit"])
            price = _price_under(task_spec.goal, product, limit, price)
        goal_spec = task_spec.goal.spec(product, limit)
        visit = Visit(
            shop=task_spec.shop,
            goal_spec=replace(goal_spec, exact_options=fixed),
            sentence=task_spec.goal.sentence(limit),
            price_seed=seed,
            known_prices={product.asin: price},
        )
        list_actions = options.options.get("list_actions", False)
        if not isinstance(list_actions, bool):
            raise InvalidOption("option list_actions must be a boolean")
        episode = _Episode(visit, task_spec.goal, fixed, list_actions)
        return episode, Observation(_page_text(episode), info=_listed_actions(episode))

    def step(self, action: str) -> Observation:
        episode = self.episode
        episode.steps += 1
        verb, argument = read_action(action)
        if episode.fixed:
            verb, argument = verb.strip().lower(), argument.strip()
        argument = argument.lower()
        visit = episode.visit
        before, score = visit.page, None
        if verb == "search":
            visit.search(argument)
        elif verb == "click":
            score = visit.click(argument)
        text = _page_text(episode)
        if score is None:
            note = _NOTHING if episode.fixed and visit.page is before else ""
            return Observation(note + text, reward=0.0, info=_listed_actions(episode))
        reached = score.reward >= self.spec.success_score
        return Observation(
            text,
            reward=score.reward,
            terminated=True,
            stop_reason=StopReason.GOAL_REACHED if reached else StopReason.ANSWERED,
            info=_listed_actions(episode),
        )

    def fork_episode(self, episode: _Episode) -> _Episode:
        return replace(episode, visit=episode.visit.copy())

    def fingerprint(self) -> bytes:
        state = (self.episode.fixed, *self.episode.visit.state())
        return repr(state).encode("utf-8", "backslashreplace")

    def render(self) -> Sequence[View]:
        return picture.draw(self.episode.visit)

    def advise_expert(self, seed: int) -> Advice:
        episode = self.episode
        return advise(episode.visit, episode.goal, seed + episode.steps)

    def advise_random(self, rng: random.Random) -> Advice:
        episode = self.episode
        return random_advice(episode.visit, episode.goal, rng)

    def advise_noop(self) -> Advice:
        return Advice("click[]", "I wait and do nothing.")


def _listed_actions(episode: _Episode) -> Mapping[str, Any] | None:
    """Return what can be done on the open page, where the reset asked for it."""
    if not episode.list_actions:
        return None
    page = episode.visit.page
    return {"has_search_bar": page.has_search_bar, "clickables": list(page.clickables)}


def _page_text(episode: _Episode) -> str:
    """Return the open page's text; the fixed profile adds what can be done and what is chosen."""
    page = episode.visit.page
    if not episode.fixed:
        return page.text
    actions = ["search[keywords]"] if page.has_search_bar else []
    actions += [f"click[{name}]" for name in page.clickables if not page.has_search_bar]
    lines = [page.text]
    if episode.visit.chosen and page.clickables:
        chosen = ", ".join(f"{key}: {value}" for key, value in episode.visit.chosen.items())
        lines.append(f"Chosen options: {chosen}")
    if actions:
        lines.append(f"Available actions: {', '.join(actions)}")
    return "\n".join(lines)


def _given_limit(value: Any) -> float:
    """Return the option `price_limit`: dollars above 0, or 0 for a goal without limit."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < NO_LIMIT:
        raise InvalidOption("option price_limit must be a number of dollars, 0 for no limit")
    return float(value) or NO_LIMIT


def _price_under(goal: Goal, product: Product, limit: float, drawn: float) -> float:
    """Return a price of the product for which its goal would have this limit.

    The drawn price where a range allows none.
    """
    if goal.step is None or limit >= NO_LIMIT or len(product.prices) == 1:
        return drawn
    above = limit - 10.0 * goal.step
    low, high = max(product.prices[0], above - 10.0), min(product.prices[1], above)
    return (low + high) / 2 if low < high else drawn
