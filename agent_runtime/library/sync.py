"""Environments, episodes and vectors for programs without an event loop.

    import agentgym

    with agentgym.make("textcraft") as env:
        with env.reset("textcraft_1000003") as episode:
            while not episode.ended:
                episode.step(episode.consult().action)
            print(episode.score)

Everything here is `agent_runtime.library.aio`, waited for on one background loop of the process.
Use each episode from one thread at a time; different ones may be played in different threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from agent_runtime.channel import ConnectionOptions
from agent_runtime.episode import Transition
from agent_runtime.images import Image
from agent_runtime.library import aio, vector
from agent_runtime.library.background import wait_for
from agent_runtime.library.values import Advice, Task, View
from agent_runtime.library.vector import Autoreset, Batch, Choice
from agentgym.env.v1 import environment_pb2 as pb

__all__ = ["Environment", "Episode", "Vector", "make"]


def make(
    environment: str,
    *,
    target: str = "",
    data: Path | str | None = None,
    server_options: Sequence[str] = (),
    connection: ConnectionOptions | None = None,
) -> Environment:
    """Open an environment; close it when done, or use it by `with`.

    Args:
        environment: Name of an environment, or of a module of yours that has one.
        target: HOST:PORT or unix:PATH of a running server; empty = a server process is started
            here, and ends with the last environment that uses it.
        data: Folder of official data files for a server that is started; default: AGENTGYM_DATA.
        server_options: Further arguments for it, as of `python -m env_servers serve`.
        connection: Deadlines, TLS and token; default: no TLS, the token of AGENTGYM_TOKEN.

    Raises:
        ServerNotStarted: The server does not come up; ServerArgumentsInvalid where the name or the
            options are wrong, with what would be right.
        ConnectionLost: Nobody answers at the target.
        EnvironmentFailure: The server has no such environment.
    """
    described = aio.make(
        environment,
        target=target,
        data=data,
        server_options=server_options,
        connection=connection,
    )
    wait_for(described.open())
    return Environment(described)


class Environment:
    """A family of tasks on a server."""

    def __init__(self, asynchronous: aio.Environment) -> None:
        """Wrap an open environment of the background loop; `make` does so."""
        self.asynchronous = asynchronous
        """The same environment; its coroutines belong to the background loop."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the server; a server that was started here ends with its last user."""
        wait_for(self.asynchronous.close())

    @property
    def name(self) -> str:
        """For example "textcraft"."""
        return self.asynchronous.name

    @property
    def version(self) -> str:
        """Changes when observations, rewards or tasks change."""
        return self.asynchronous.version

    @property
    def description(self) -> str:
        """What it is about, in a sentence or two."""
        return self.asynchronous.description

    @property
    def splits(self) -> Mapping[str, int]:
        """Number of tasks by split; the splits are disjoint, the first is the default."""
        return self.asynchronous.splits

    @property
    def capabilities(self) -> frozenset[str]:
        """Of "deterministic", "fork", "expert", "score", "render"."""
        return self.asynchronous.capabilities

    @property
    def action_formats(self) -> tuple[str, ...]:
        """How replies may be written; the first is the default."""
        return self.asynchronous.action_formats

    @property
    def profiles(self) -> tuple[str, ...]:
        """How tasks may be scored; the first is the default."""
        return self.asynchronous.profiles

    @property
    def max_rounds(self) -> int:
        """Steps that an evaluation allows an episode; the library itself sets no bound."""
        return self.asynchronous.max_rounds

    @property
    def success_score(self) -> float:
        """An episode is a success from this score on."""
        return self.asynchronous.success_score

    @property
    def functions_json(self) -> str:
        """The environment's functions as a JSON list of OpenAI-style tools."""
        return self.asynchronous.functions_json

    @property
    def limits(self) -> pb.Limits:
        """Bounds that the server enforces."""
        return self.asynchronous.limits

    def instruction(self, action_format: str = "") -> str:
        """Return what a model is told before the first observation; raises UnknownName."""
        return self.asynchronous.instruction(action_format)

    def acknowledgement(self, action_format: str = "") -> str:
        """Return what a model is made to answer to the instruction; raises UnknownName."""
        return self.asynchronous.acknowledgement(action_format)

    def tasks(self, split: str = "", *, item_ids: Sequence[str] | None = None) -> Iterator[Task]:
        """Iterate over the tasks of a split, in their order, fetched by and by.

        Args:
            split: Default: the first of `splits`.
            item_ids: Only these, in this order, wherever they belong.

        Raises:
            UnknownName: There is no such split.
            EnvironmentFailure: There is no such item.
        """
        if item_ids is not None:
            yield from wait_for(self.asynchronous.find_tasks(item_ids))
            return
        token = ""
        while True:
            tasks, token = wait_for(self.asynchronous.list_page(split, token))
            yield from tasks
            if not token:
                return

    def reset(
        self,
        task: Task | str | int | None = None,
        *,
        seed: int = 0,
        options: Mapping[str, Any] | None = None,
        profile: str = "",
        action_format: str = "",
        journal: Iterable[pb.JournalEntry] = (),
    ) -> Episode:
        """Open an episode.

        Args:
            task: A task, its item id or the integer of that; default: the first of the first split.
            seed: Of what the environment draws.
            options: As the environment's README describes them.
            profile: One of `profiles`; default: the first.
            action_format: How `reply` is read; default: the first of `action_formats`.
            journal: Inputs of another episode, which are played at once; every state hash that
                they have must come out again.

        Raises:
            UnknownName: No such action format.
            EnvironmentFailure: No such item, option or profile, no room, or the journal leads
                elsewhere (REPLAY_DIVERGED).
            ConnectionLost: The server is gone.
        """
        opened = self.asynchronous.reset(
            task,
            seed=seed,
            options=options,
            profile=profile,
            action_format=action_format,
            journal=journal,
        )
        return Episode(wait_for(opened))


class Episode:
    """One attempt at a task; use it from one thread at a time."""

    def __init__(self, asynchronous: aio.Episode) -> None:
        """Wrap an episode of the background loop; `Environment.reset` does so."""
        self.asynchronous = asynchronous
        """The same episode; its coroutines belong to the background loop."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the episode on its server; twice is no error."""
        wait_for(_call(self.asynchronous.close))

    @property
    def id(self) -> str:
        """Names the episode on its server."""
        return self.asynchronous.id

    @property
    def item_id(self) -> str:
        """The task that is played."""
        return self.asynchronous.item_id

    @property
    def state(self) -> Transition:
        """What the last reset or step led to."""
        return self.asynchronous.state

    @property
    def seq(self) -> int:
        """Steps so far."""
        return self.asynchronous.seq

    @property
    def text(self) -> str:
        """The observation: what the agent is shown now."""
        return self.asynchronous.text

    @property
    def images(self) -> tuple[Image, ...]:
        """What the agent is shown beside the text, where an option of the reset asks for it."""
        return self.asynchronous.images

    @property
    def reward(self) -> float | None:
        """Of the last step; None = it was not scored."""
        return self.asynchronous.reward

    @property
    def score(self) -> float | None:
        """Of the episode if it ended here; the last reward where the environment has no score."""
        return self.asynchronous.score

    @property
    def terminated(self) -> bool:
        """The task's own rules ended it."""
        return self.asynchronous.terminated

    @property
    def truncated(self) -> bool:
        """A limit ended it."""
        return self.asynchronous.truncated

    @property
    def ended(self) -> bool:
        """It takes no more steps."""
        return self.asynchronous.ended

    @property
    def journal(self) -> tuple[pb.JournalEntry, ...]:
        """Its inputs so far, each with the hash of its state; `Environment.reset` takes them."""
        return self.asynchronous.journal

    def step(self, action: str) -> Transition:
        """Apply a native action, for example "move down".

        Raises:
            EnvironmentFailure: The server refused it, for example because the episode has ended.
            ConnectionLost: The server is gone and the episode cannot be rebuilt.
            EpisodeClosed: It was closed here.
        """
        return wait_for(self.asynchronous.step(action))

    def reply(self, text: str, action_format: str = "") -> Transition:
        """Apply a model's whole reply; the server reads the action in it. Raises as `step`.

        Args:
            text: What the model wrote.
            action_format: How it is read; default: as the episode was opened.
        """
        return wait_for(self.asynchronous.reply(text, action_format))

    def call(self, name: str, arguments_json: str) -> Transition:
        """Apply a function call whose arguments are a JSON object. Raises as `step`."""
        return wait_for(self.asynchronous.call(name, arguments_json))

    def consult(self, player: str = "expert", seed: int = 0) -> Advice:
        """Ask a scripted player what it would do now; changes nothing.

        Args:
            player: "expert", "random" or "noop".
            seed: For "random", and for the wording of the expert's thoughts.
        """
        return wait_for(self.asynchronous.consult(player, seed))

    def fork(self) -> Episode:
        """Return a copy in the same state, which goes on independently."""
        return Episode(wait_for(self.asynchronous.fork()))

    def render(self) -> tuple[View, ...]:
        """Return pictures of the state; needs the capability "render". Changes nothing."""
        return wait_for(self.asynchronous.render())


class Vector:
    """A number of episodes of one environment, one in each slot, stepped together.

    with agentgym.Vector("textcraft", 1000) as vector:
        batch = vector.reset()
        batch = vector.step([...])

    """

    def __init__(
        self,
        environment: Environment | str,
        count: int,
        *,
        tasks: Sequence[Task | str | int] | None = None,
        split: str = "",
        seed: int = 0,
        choose: Choice | None = None,
        autoreset: Autoreset | str = Autoreset.NEXT_STEP,
        options: Mapping[str, Any] | None = None,
        profile: str = "",
        action_format: str = "",
        target: str = "",
    ) -> None:
        """Open the environment if need be; `reset` opens the episodes.

        Args:
            environment: An open one, which stays the caller's, or a name for `make`.
            count: Number of slots, at least 1.
            tasks: What is played, in this order, and again from the first; default: the split's.
            split: Default: the environment's first.
            seed: Of the first episode; each further one has the next number.
            choose: Says, for the number of a slot, the task and the seed that it plays next; in
                place of `tasks`, `split` and `seed`. Called on the background loop.
            autoreset: What becomes of a slot whose episode has ended.
            options: Of each reset, as the environment's README describes them.
            profile: One of the environment's profiles.
            action_format: How `reply` is read.
            target: As of `make`, where a name is given.

        Raises:
            ValueError: `count` is less than 1, `tasks` is empty, or there is no such mode.
        """
        self._own = make(environment, target=target) if isinstance(environment, str) else None
        opened = self._own or environment
        assert isinstance(opened, Environment)
        self.environment = opened
        try:
            self.asynchronous = vector.Vector(
                opened.asynchronous,
                count,
                tasks=tasks,
                split=split,
                seed=seed,
                choose=choose,
                autoreset=autoreset,
                options=options,
                profile=profile,
                action_format=action_format,
            )
        except BaseException:
            if self._own is not None:
                self._own.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self.asynchronous)

    @property
    def autoreset(self) -> Autoreset:
        """What becomes of a slot whose episode has ended."""
        return self.asynchronous.autoreset

    @property
    def episodes(self) -> tuple[Episode | None, ...]:
        """The episode of each slot; None before the first reset, and where it failed."""
        return tuple(it and Episode(it) for it in self.asynchronous.episodes)

    def close(self) -> None:
        """End all episodes, and leave the server where it was opened here."""
        wait_for(_call(self.asynchronous.close))
        if self._own is not None:
            self._own.close()

    def reset(self, slots: Sequence[bool] | None = None, *, seed: int | None = None) -> Batch:
        """Open new episodes, each of the next task.

        Args:
            slots: Which ones get a new episode; default: all.
            seed: With one, tasks and seeds begin anew: the first episode has this seed.
        """
        return wait_for(self.asynchronous.reset(slots, seed=seed))

    def step(self, actions: Sequence[str | None]) -> Batch:
        """Apply one native action in each slot; None leaves the slot's episode as it is.

        Raises ValueError where there are not as many actions as slots.
        """
        return wait_for(self.asynchronous.step(actions))

    def reply(self, texts: Sequence[str | None]) -> Batch:
        """Apply one whole reply of a model in each slot; the server reads the actions in them."""
        return wait_for(self.asynchronous.reply(texts))

    def consult(self, player: str = "expert", seed: int = 0) -> list[Advice | None]:
        """Ask a scripted player what it would do in each slot; None where no step can be made."""
        return wait_for(self.asynchronous.consult(player, seed))


async def _call(function: Callable[[], None]) -> None:
    """Call what has to be called on the loop."""
    function()
