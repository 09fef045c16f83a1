"""Weather's tasks: generated ones and the official 343.

Generated tasks are a pure function of their index; their cities differ between train and eval, and
their answers are what the expert's plan finds.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

from env_servers.environments.weather.backends import EmbeddedWeather, LiveWeather, RecordedWeather
from env_servers.environments.weather.climate import SEED
from env_servers.environments.weather.expert import with_recorded_plan
from env_servers.environments.weather.gazetteer import City, Gazetteer, load_gazetteer
from env_servers.environments.weather.questions import TEMPLATES, Draw
from env_servers.environments.weather.session import WeatherSession
from env_servers.sdk import (
    EMBEDDED_BASE,
    EnvironmentConfig,
    EnvironmentUnavailable,
    RangeSplit,
    Task,
)
from env_servers.toolkit.tool_calls import (
    EMBEDDED,
    EVAL_BASE,
    LIVE,
    RECORDED,
    Backend,
    Recording,
    ToolSettings,
    ToolTask,
    ToolTaskSet,
    official_splits,
    read_tasks,
    solve,
)

__all__ = ["AGENT_EVAL", "EVAL_SIZE", "TRAIN_SIZE", "city_pools", "load_tasks"]

NAME: Final = "weather"
TRAIN_SIZE: Final = 4160
EVAL_SIZE: Final = 416
"""Both multiples of the number of templates, which then occur equally often."""
GENERATOR: Final = 1
"""Changes when templates, climate or cities change."""
LEAST_PEOPLE: Final = 100_000
"""Of cities that goals name."""
_EVAL_SHARE: Final = 5
_SETTINGS: Final = ("backend", "base_url", "calls_per_minute", "timeout")
_INIT: Final = ("current_date", "current_location")

AGENT_EVAL: Final = frozenset(
    (4, 12, 16, 17, 18, 20, 22, 39, 61, 105, 211, 217, 272, 296, 298, 311, 319, 322, 323, 327)
)
"""AgentEval's ids."""


def city_pools(gazetteer: Gazetteer) -> tuple[list[City], list[City]]:
    """Cities for (train, eval): those that a search for their name finds first."""
    cities = [
        city
        for city in gazetteer.cities
        if city.population >= LEAST_PEOPLE and gazetteer.is_first_match(city)
    ]
    # Largest first, so every fifth makes pools alike in size and spread.
    train = [city for number, city in enumerate(cities) if number % _EVAL_SHARE]
    return train, cities[::_EVAL_SHARE]


def load_tasks(config: EnvironmentConfig) -> ToolTaskSet:
    """Generated tasks, and the official ones where their file is in `data_dir`."""
    settings = ToolSettings.read(config, NAME, _SETTINGS)
    embedded = EmbeddedWeather()
    backends: dict[str, Backend] = {EMBEDDED: embedded}
    recording = Recording.read(config.data_dir, NAME) if config.data_dir is not None else None
    if recording is not None:
        backends[RECORDED] = RecordedWeather(recording)
    elif settings.backend == RECORDED:
        raise EnvironmentUnavailable(
            "backend recorded of weather needs agenttraj_l/weather.jsonl.gz or "
            "tools/derived_weather_io.jsonl in the folder of official data: set AGENTGYM_DATA"
        )
    if settings.backend == LIVE:
        backends[LIVE] = LiveWeather(settings)
    official_tasks = None
    if config.data_dir is not None:
        official_tasks = read_tasks(config.data_dir, NAME, required_init=_INIT)
    if official_tasks is not None:
        official_tasks = [with_recorded_plan(task, recording) for task in official_tasks]
    train, held_out = city_pools(load_gazetteer())
    splits = {
        "train": RangeSplit(EMBEDDED_BASE, TRAIN_SIZE, partial(_generated, embedded, train)),
        "eval": RangeSplit(EVAL_BASE, EVAL_SIZE, partial(_generated, embedded, held_out)),
    }
    official = official_splits(NAME, official_tasks, AGENT_EVAL)
    return ToolTaskSet(
        NAME,
        splits,
        official,
        backends,
        chosen=settings.backend,
        version=f"{GENERATOR} {SEED}",
    )


def _generated(embedded: EmbeddedWeather, cities: Sequence[City], index: int) -> Task:
    """Return the task of an index, with the answer that its plan finds."""
    template = TEMPLATES[index % len(TEMPLATES)]
    rng = random.Random(index)
    while True:
        draw = Draw.of(rng, cities)
        question = template(draw)
        session = WeatherSession(embedded.service, draw.today.isoformat(), draw.home.name)
        answer, calls = solve(
            question.plan, lambda tool, arguments, s=session: s.call(tool, arguments).value
        )
        if answer is not None:
            break
    # Lists are sorted when they are handed in.
    expected = sorted(answer) if isinstance(answer, list) else answer
    init = MappingProxyType(
        {"current_date": session.current_date, "current_location": session.current_location}
    )
    task = ToolTask(
        goal=question.goal,
        subgoals=(expected,),
        index=index,
        init=init,
        plan=question.plan,
        steps=calls + 1,
    )
    return Task(f"{NAME}_{index}", task, f"{calls} calls: {template.__name__}")
