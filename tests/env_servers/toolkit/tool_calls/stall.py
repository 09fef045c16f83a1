"""A market stall: the smallest environment on the tool layer, and an example of how to write one.

One tool tells the price of a thing, one the things there are; the task asks for the dearest.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from typing import Any, ClassVar

from env_servers.sdk import (
    EMBEDDED_BASE,
    EnvironmentConfig,
    EnvironmentSpec,
    Parameter,
    RangeSplit,
    Task,
)
from env_servers.toolkit.tool_calls import (
    CHECK_VALID_ACTIONS,
    EMBEDDED,
    EVAL_BASE,
    FINISH,
    Backend,
    Plan,
    PlannedCall,
    Session,
    Tool,
    ToolEnvironment,
    ToolError,
    ToolSet,
    ToolSettings,
    ToolTask,
    ToolTaskSet,
    solve,
)
from env_servers.toolkit.tool_calls.backends import TooledSession

TOOLS = ToolSet(
    (
        Tool("get_things", "List what is sold.", "Names."),
        Tool(
            "get_price",
            "Tell a price.",
            "The price in euros.",
            (Parameter("thing", "string", "What to ask for."),),
        ),
        CHECK_VALID_ACTIONS,
        FINISH,
    ),
    hints=("Prices differ every day.",),
    example=("I want to know the price of figs.", "get_price", {"thing": "figs"}),
)


class StallSession(TooledSession):
    toolset: ClassVar[ToolSet] = TOOLS

    def __init__(self, prices: dict[str, float]) -> None:
        self.prices = prices

    def get_things(self) -> list[str]:
        return sorted(self.prices)

    def get_price(self, thing: Any) -> float:
        if thing not in self.prices:
            raise ToolError(f"there is no {thing}")
        return self.prices[thing]


class StallBackend(Backend):
    def open(self, task: ToolTask) -> Session:
        return StallSession(dict(task.init))


def dearest() -> Plan:
    def run() -> Generator[PlannedCall, Any, Any]:
        things = yield PlannedCall("get_things", {}, ("I look at what there is.", "What is sold?"))
        best, most = "", -1.0
        for thing in things:
            price = yield PlannedCall(
                "get_price", {"thing": thing}, (f"I need the price of {thing}.",)
            )
            if price > most:
                best, most = thing, price
        return best

    return run


def make(index: int) -> Task:
    rng = random.Random(index)
    names = rng.sample(("figs", "dates", "plums", "pears"), 3)
    prices = {name: round(rng.uniform(1, 9), 2) for name in names}
    plan = dearest()
    session = StallSession(prices)
    answer, calls = solve(plan, lambda tool, given: session.call(tool, given).value)
    task = ToolTask(
        goal="What is dearest? Answer with its name.",
        subgoals=(answer,),
        index=index,
        init=prices,
        plan=plan,
        steps=calls + 1,
    )
    return Task(f"stall_{index}", task, "dearest")


class Stall(ToolEnvironment):
    toolset = TOOLS
    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="stall",
        version="1",
        description="Compare prices on a market stall.",
        grammar=TOOLS.grammar(),
        conversation_starts=TOOLS.conversation_starts(),
        max_rounds=10,
        profiles=("agentgym", "fixed"),
    )

    @classmethod
    def load_tasks(cls, config: EnvironmentConfig) -> ToolTaskSet:
        settings = ToolSettings.read(config, "stall")
        splits = {
            "train": RangeSplit(EMBEDDED_BASE, 50, make),
            "eval": RangeSplit(EVAL_BASE, 10, make),
        }
        backends = {EMBEDDED: StallBackend()}
        return ToolTaskSet("stall", splits, {}, backends, chosen=settings.backend)


environment = Stall
