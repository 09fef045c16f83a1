"""One Sheet episode: a user's goal about a sheet of a workbook.

Profile `agentgym` compares the part that the sheet and the answer have both, after every call once
a sheet is open, and never takes a reward back; profile `fixed` compares all of both, once, when the
agent finishes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from env_servers.environments.sheet import picture
from env_servers.environments.sheet.expert import MAX_ROUNDS
from env_servers.environments.sheet.prompt import TOOLS
from env_servers.environments.sheet.scoring import overlap_share, strict_share
from env_servers.environments.sheet.sessions import (
    EmbeddedSession,
    SheetSession,
    get_assignment,
)
from env_servers.environments.sheet.tasks import NAME, OFFICIAL_PREFIX, load_tasks
from env_servers.environments.sheet.tools import NOT_OPEN
from env_servers.sdk import Advice, EnvironmentConfig, EnvironmentSpec, Parameter, View
from env_servers.toolkit.tool_calls import (
    Call,
    Reply,
    Tool,
    ToolEnvironment,
    ToolEpisode,
    ToolTaskSet,
    call_key,
    write_call,
)

__all__ = ["SheetWork"]

DONE: Final = "done"
MAX_KEPT: Final = 1000
"""Calls of an episode that its expert remembers."""

_ANSWER_IN_TEXT: Final = (
    "open_sheet",
    "get_A1_annotation",
    "get_cell_value",
    "get_value_by_formula",
    "get_note",
)
"""The others return a grid or a list, and text only to refuse."""


def _label(rng: random.Random) -> str:
    return f"{rng.choice('ABCDEFG')}{rng.randrange(1, 15)}"


_SAMPLES: Final[Mapping[str, Callable[[random.Random], Any]]] = {
    "num": lambda rng: rng.randrange(0, 3),
    "row": lambda rng: rng.randrange(1, 15),
    "col": lambda rng: rng.randrange(1, 8),
    "col_idx": lambda rng: rng.randrange(1, 8),
    "row_idx": lambda rng: rng.randrange(1, 15),
    "col_num": lambda rng: rng.randrange(1, 8),
    "index_list": lambda rng: sorted(rng.sample(range(1, 15), rng.randrange(1, 3))),
    "values_list": lambda rng: [[rng.randrange(100) for _ in range(rng.randrange(1, 5))]],
    "value": lambda rng: rng.randrange(1000),
    "content": lambda rng: rng.choice(("Check this.", "Done.", "")),
    "query": lambda rng: rng.choice(("1", "A", "re.compile('^[A-C]')")),
    "position": _label,
    "start_position": _label,
    "end_position": _label,
    "result_position": _label,
}


class SheetWork(ToolEnvironment):
    """Change a sheet until it is as it was asked for."""

    toolset = TOOLS
    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name=NAME,
        version="1.0.0",
        description="Change a spreadsheet as a user asks for, by calling tools.",
        grammar=TOOLS.grammar(),
        conversation_starts=TOOLS.conversation_starts(),
        max_rounds=MAX_ROUNDS,
        profiles=("agentgym", "fixed"),
        has_views=True,
        episode_bytes=128 * 1024,
        item_prefixes=(OFFICIAL_PREFIX,),
    )

    @classmethod
    def load_tasks(cls, config: EnvironmentConfig) -> ToolTaskSet:
        return load_tasks(config)

    def dense_reward(self, episode: ToolEpisode) -> float:
        session = _session(episode)
        if session.book.opened is None:  # there is nothing to compare yet
            return 0.0
        assignment = get_assignment(episode.task)
        return overlap_share(session.grid(assignment.sheet), assignment.target)

    def finish_reward(self, episode: ToolEpisode, answer: Any) -> float:
        assignment = get_assignment(episode.task)
        return strict_share(_session(episode).grid(assignment.sheet), assignment.target)

    def finish(self, episode: ToolEpisode, arguments: Mapping[str, Any]) -> Reply:
        return Reply(DONE)

    def advise_noop(self) -> Advice:
        return Advice(write_call("get_all_values", {}), "I only look at the sheet.")

    def remember(self, episode: ToolEpisode, call: Call, text: str, reply: Reply | None) -> None:
        """Remember that a call was made, not the grid that it returned: nobody compares grids.

        A call that was refused in words was not made.
        """
        if reply is None or (isinstance(reply.value, str) and call.tool not in _ANSWER_IN_TEXT):
            return
        key = call_key(call.tool, call.arguments)
        if key is not None and reply.value != NOT_OPEN and len(episode.outputs) < MAX_KEPT:
            episode.outputs[key] = None

    def draw_world(self, episode: ToolEpisode) -> Sequence[View]:
        session = episode.session
        if not isinstance(session, EmbeddedSession):
            return ()
        return picture.draw(session.spreadsheet, get_assignment(episode.task))

    def sample_argument(self, tool: Tool, parameter: Parameter, rng: random.Random) -> Any:
        if parameter.name == "name" and self.running:
            return rng.choice(sorted(get_assignment(self.episode.task).book))
        sample = _SAMPLES.get(parameter.name)
        return sample(rng) if sample else super().sample_argument(tool, parameter, rng)


def _session(episode: ToolEpisode) -> SheetSession:
    session = episode.session
    if not isinstance(session, SheetSession):
        raise TypeError("a session without sheets")
    return session
