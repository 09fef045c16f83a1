"""Environments and episodes for programs with an event loop.

    import agentgym

    async with agentgym.aio.make("textcraft") as env:
        async with await env.reset("textcraft_1000003") as episode:
            while not episode.ended:
                advice = await episode.consult()
                await episode.step(advice.action)
            print(episode.score)

Episodes of one environment may be played at the same time, each by one task at a time: what they
send in the same turn of the event loop travels in one message.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from agent_runtime.channel import ConnectionOptions
from agent_runtime.connection import Connection
from agent_runtime.episode import RemoteEpisode, Transition
from agent_runtime.errors import EnvironmentFailure, EpisodeClosed, UnknownName
from agent_runtime.images import Image
from agent_runtime.library.places import OpenPlace, Place, enter, leave
from agent_runtime.library.values import (
    Advice,
    Task,
    View,
    action_format,
    advisor,
    capabilities,
    format_name,
    sendable,
)
from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2

__all__ = ["Environment", "Episode", "make"]

_PAGE: Final = 1_000


def make(
    environment: str,
    *,
    target: str = "",
    data: Path | str | None = None,
    server_options: Sequence[str] = (),
    connection: ConnectionOptions | None = None,
) -> Environment:
    """Return an environment to be opened by `async with`, or by `open` and `close`.

    Args:
        environment: Name of an environment, or of a module of yours that has one.
        target: HOST:PORT or unix:PATH of a running server; empty = a server process is started
            here, and ends with the last environment that uses it.
        data: Folder of official data files for a server that is started; default: AGENTGYM_DATA.
        server_options: Further arguments for it, as of `python -m env_servers serve`.
        connection: Deadlines, TLS and token; default: no TLS, the token of AGENTGYM_TOKEN.
    """
    return Environment(
        Place(
            environment=environment,
            target=target,
            data=None if data is None else Path(data),
            server_options=tuple(server_options),
            connection=connection or ConnectionOptions.secure(),
        )
    )


class Environment:
    """A family of tasks on a server."""

    def __init__(self, place: Place) -> None:
        """Describe it; `make` does so. Nothing is started before `open`."""
        self._place = place
        self._open: OpenPlace | None = None
        self._described = pb.GetEnvironmentResponse()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect, to a server that is started if no target was named.

        Raises:
            ServerNotStarted: The server does not come up; ServerArgumentsInvalid where the name or
                the options are wrong, with what would be right.
            ConnectionLost: Nobody answers at the target.
            EnvironmentFailure: The server has no such environment.
        """
        if self._open is not None:
            return
        opened = await enter(self._place)
        try:
            self._described = await opened.connection.get_environment(self._place.environment)
        except BaseException:
            await leave(opened)
            raise
        self._open = opened

    async def close(self) -> None:
        """Leave the server; a server that was started here ends with its last user.

        Episodes that are still open end there by themselves. Closing twice is no error.
        """
        opened, self._open = self._open, None
        if opened is not None:
            await leave(opened)

    # ------------------------------------------------------------------ what it is

    @property
    def name(self) -> str:
        """For example "textcraft"."""
        return self._described.name or self._place.environment

    @property
    def version(self) -> str:
        """Changes when observations, rewards or tasks change."""
        return self._described.version

    @property
    def description(self) -> str:
        """What it is about, in a sentence or two."""
        return self._described.description

    @property
    def splits(self) -> Mapping[str, int]:
        """Number of tasks by split; the splits are disjoint, the first is the default."""
        return {split.name: split.size for split in self._described.splits}

    @property
    def capabilities(self) -> frozenset[str]:
        """Of "deterministic", "fork", "expert", "score", "render"."""
        return capabilities(self._described.capabilities)

    @property
    def action_formats(self) -> tuple[str, ...]:
        """How replies may be written; the first is the default."""
        return tuple(map(format_name, self._described.action_formats))

    @property
    def profiles(self) -> tuple[str, ...]:
        """How tasks may be scored; the first is the default."""
        return tuple(self._described.profiles)

    @property
    def max_rounds(self) -> int:
        """Steps that an evaluation allows an episode; the library itself sets no bound."""
        return self._described.max_rounds

    @property
    def success_score(self) -> float:
        """An episode is a success from this score on."""
        return self._described.success_score

    @property
    def functions_json(self) -> str:
        """The environment's functions as a JSON list of OpenAI-style tools."""
        return self._described.functions_json

    @property
    def limits(self) -> pb.Limits:
        """Bounds that the server enforces."""
        return self._described.limits

    def instruction(self, action_format: str = "") -> str:
        """Return what a model is told before the first observation.

        Args:
            action_format: Default: the first of `action_formats`. Raises UnknownName.
        """
        return self._conversation_start(action_format).instruction

    def acknowledgement(self, action_format: str = "") -> str:
        """Return what a model is made to answer to the instruction; arguments as there."""
        return self._conversation_start(action_format).acknowledgement

    def _conversation_start(self, action_format: str) -> pb.ConversationStart:
        starts = {
            format_name(start.action_format): start for start in self._described.conversation_starts
        }
        wanted = action_format or next(iter(self.action_formats), "")
        if wanted not in starts:
            raise UnknownName("action format", wanted, starts)
        return starts[wanted]

    # ------------------------------------------------------------------ tasks

    async def tasks(
        self, split: str = "", *, item_ids: Sequence[str] | None = None
    ) -> AsyncIterator[Task]:
        """Iterate over the tasks of a split, in their order, fetched by and by.

        Args:
            split: Default: the first of `splits`.
            item_ids: Only these, in this order, wherever they belong.

        Raises:
            UnknownName: There is no such split.
            EnvironmentFailure: There is no such item.
        """
        if item_ids is not None:
            for task in await self.find_tasks(item_ids):
                yield task
            return
        token = ""
        while True:
            tasks, token = await self.list_page(split, token)
            for task in tasks:
                yield task
            if not token:
                return

    async def find_tasks(self, item_ids: Sequence[str]) -> list[Task]:
        """Return the named tasks, in this order; raises EnvironmentFailure for an unknown one."""
        summaries = await self.connection.get_tasks(self.name, item_ids)
        return [Task(it.item_id, it.category) for it in summaries]

    async def list_page(
        self, split: str = "", token: str = "", size: int = _PAGE
    ) -> tuple[list[Task], str]:
        """Return some tasks of a split and what to ask for the next ones with; empty = the end."""
        splits = self.splits
        split = split or next(iter(splits), "")
        if split not in splits:
            raise UnknownName("split", split, splits)
        page = await self.connection.list_tasks(self.name, split, token, size)
        # A server whose pages are empty and never end must not hold anybody for ever.
        following = page.next_page_token if page.tasks else ""
        return [Task(task.item_id, task.category) for task in page.tasks], following

    # ------------------------------------------------------------------ episodes

    async def reset(
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
        if task is None:
            tasks, _ = await self.list_page(size=1)
            if not tasks:
                raise ValueError(f"the first split of {self.name} has no tasks: name an item")
            task = tasks[0]
        item_id = task.item_id if isinstance(task, Task) else str(task)
        reset = pb.Reset(
            environment=self.name,
            item_id=item_id,
            seed=seed,
            profile=profile,
            action_format=_format(action_format, self.action_formats),
            images="images" in self.capabilities,
        )
        if options:
            reset.options.update(dict(options))
        remote = RemoteEpisode(
            self.connection,
            _episode_id(),
            reset,
            deterministic="deterministic" in self.capabilities,
        )
        episode = Episode(remote, item_id, await remote.reset(), self.action_formats)
        try:
            await episode.replay(journal)
        except BaseException:
            episode.close()
            raise
        return episode

    @property
    def connection(self) -> Connection:
        """The connection to the server; raises EpisodeClosed before `open` and after `close`."""
        if self._open is None:
            raise EpisodeClosed(f"the environment {self._place.environment} is not open")
        return self._open.connection


class Episode:
    """One attempt at a task; use it from one task of the event loop at a time."""

    def __init__(
        self, remote: RemoteEpisode, item_id: str, state: Transition, formats: Sequence[str]
    ) -> None:
        """Take over an episode that is open; `Environment.reset` does so."""
        self.remote = remote
        """The client's side of it, with what it needs to survive the loss of its server."""
        self._formats = formats
        self._closed = False
        self.item_id = item_id
        self.state = state
        """What the last reset or step led to."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the episode on its server, without waiting for it; twice is no error."""
        if not self._closed:
            self._closed = True
            self.remote.close()

    # ------------------------------------------------------------------ what it is

    @property
    def id(self) -> str:
        """Names the episode on its server."""
        return self.remote.episode_id

    @property
    def seq(self) -> int:
        """Steps so far."""
        return self.state.seq

    @property
    def text(self) -> str:
        """The observation: what the agent is shown now."""
        return self.state.text

    @property
    def images(self) -> tuple[Image, ...]:
        """What the agent is shown beside the text, where an option of the reset asks for it."""
        return self.state.images

    @property
    def reward(self) -> float | None:
        """Of the last step; None = it was not scored."""
        return self.state.reward

    @property
    def score(self) -> float | None:
        """Of the episode if it ended here; the last reward where the environment has no score."""
        return self.state.reward if self.state.score is None else self.state.score

    @property
    def terminated(self) -> bool:
        """The task's own rules ended it."""
        return self.state.terminated

    @property
    def truncated(self) -> bool:
        """A limit ended it."""
        return self.state.truncated

    @property
    def ended(self) -> bool:
        """It takes no more steps."""
        return self.state.ended

    @property
    def journal(self) -> tuple[pb.JournalEntry, ...]:
        """Its inputs so far, each with the hash of its state; `Environment.reset` takes them."""
        return self.remote.journal

    # ------------------------------------------------------------------ playing

    async def step(self, action: str) -> Transition:
        """Apply a native action, for example "move down".

        Raises:
            EnvironmentFailure: The server refused it, for example because the episode has ended.
            ConnectionLost: The server is gone and the episode cannot be rebuilt.
            EpisodeClosed: It was closed here.
        """
        self._require_open()
        self.state = await self.remote.step(sendable(action))
        return self.state

    async def reply(self, text: str, action_format: str = "") -> Transition:
        """Apply a model's whole reply; the server reads the action in it. Raises as `step`.

        Args:
            text: What the model wrote.
            action_format: How it is read; default: as the episode was opened.
        """
        self._require_open()
        self.state = await self.remote.step_reply(
            sendable(text), _format(action_format, self._formats)
        )
        return self.state

    async def call(self, name: str, arguments_json: str) -> Transition:
        """Apply a function call whose arguments are a JSON object. Raises as `step`."""
        self._require_open()
        self.state = await self.remote.step_call(name, arguments_json)
        return self.state

    async def consult(self, player: str = "expert", seed: int = 0) -> Advice:
        """Ask a scripted player what it would do now; changes nothing.

        Args:
            player: "expert", "random" or "noop".
            seed: For "random", and for the wording of the expert's thoughts.
        """
        self._require_open()
        advice = await self.remote.consult(advisor(player), seed)
        return Advice(advice.action, advice.thought, advice.reply)

    async def fork(self) -> Episode:
        """Return a copy in the same state, which goes on independently."""
        self._require_open()
        remote = await self.remote.fork(_episode_id())
        return Episode(remote, self.item_id, self.state, self._formats)

    async def render(self) -> tuple[View, ...]:
        """Return pictures of the state; needs the capability "render". Changes nothing."""
        self._require_open()
        answer = await self.remote.connection.render(self.id)
        return tuple(
            View(view.name, view.title, view.media_type, view.content) for view in answer.views
        )

    async def replay(self, journal: Iterable[pb.JournalEntry]) -> None:
        """Play the inputs of another episode; every state hash that they have must come out."""
        for entry in journal:
            given = entry.input
            if given.HasField("tool_call"):
                state = await self.call(given.tool_call.name, given.tool_call.arguments_json)
            elif given.HasField("reply"):
                name = format_name(given.action_format) if given.action_format else ""
                state = await self.reply(given.reply, name)
            else:
                state = await self.step(given.action)
            if entry.state_hash and entry.state_hash != state.state_hash:
                raise EnvironmentFailure(
                    f"the journal leads to another state of {self.item_id} at seq {state.seq}",
                    reason="REPLAY_DIVERGED",
                    fault=types_pb2.FAULT_ENVIRONMENT,
                    retriable=False,
                    metadata={"at_seq": str(state.seq)},
                )

    def _require_open(self) -> None:
        if self._closed:
            raise EpisodeClosed(f"episode {self.id} of {self.item_id} was closed")


def _episode_id() -> str:
    # Unguessable: who knows an id can attach to the episode.
    return secrets.token_hex(12)


_format = action_format
"""Under another name: several methods have a parameter of that one."""
