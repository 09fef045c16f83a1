"""Branches that people play in the viewer: opened, played, kept or discarded from its pages.

Each is an `orchestrator.branching.Branch` on the viewer's own environment servers. They are bounded
in number, and end when nobody has touched them for long or when the viewer ends; what was not kept
is lost then. Who may go on beside a person is said when the viewer is started: pages name no code.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from agent_runtime.logs import get_logger
from agent_runtime.policies import Policy, PolicyConfig, PolicySpec, make_policy
from agent_runtime.supervision import Supervisor
from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2
from agentgym.episode.v1 import episode_pb2
from orchestrator.branching import Branch, Suggestions
from orchestrator.errors import RunFolderError, UsageError
from orchestrator.manifest import EnvironmentIdentity
from orchestrator.played_runs import keep_played, played_folders, used_samples
from orchestrator.records import enum_name, summarise
from orchestrator.store import RunReader
from orchestrator.viewer import transcript
from orchestrator.viewer.library import Library
from orchestrator.viewer.live_servers import LiveServers
from orchestrator.viewer.opened_run import OpenedRun
from orchestrator.viewer.state_data import state_data
from orchestrator.viewer.travel import State

__all__ = ["PLAYERS", "Branches"]

log = get_logger(__name__)

PLAYERS: Final = (PolicySpec("expert"), PolicySpec("random"))
"""Policies that can go on where nobody said which."""
_MOST: Final = 8
"""Branches that are open at once."""
_IDLE_SECONDS: Final = 3600.0
"""After which a branch that nobody plays is discarded."""
_PATIENCE: Final = 300.0
"""Seconds for what a page asks: the start of a server, a turn of a slow model."""
_MOST_TURNS: Final = 100
"""That a policy plays for one question."""


@dataclass(slots=True)
class _Open:
    """A branch that is being played."""

    key: str
    run: str
    """Name of the run that it is played on from."""
    folder: Path
    branch: Branch
    lock: asyncio.Lock
    state: State | None = None
    """Where it is, with its pictures; None = nobody has looked since."""
    record: episode_pb2.Episode = field(default_factory=episode_pb2.Episode)
    """As it was when somebody looked last."""
    suggested: Suggestions = field(default_factory=Suggestions)
    expiry: asyncio.TimerHandle | None = None


class Branches:
    """The branches of all pages. Any thread may ask; they live on the servers' loop."""

    def __init__(
        self,
        library: Library,
        servers: LiveServers,
        players: Sequence[PolicySpec] = PLAYERS,
        config: PolicyConfig | None = None,
    ) -> None:
        """Play on from the runs of a library.

        Args:
            library: The runs.
            servers: Where their environments are played.
            players: The policies that can go on; started when first asked for.
            config: How they are set up.
        """
        self._library = library
        self._servers = servers
        self._players = {str(spec): spec for spec in players}
        self._config = config or PolicyConfig()
        self._open: dict[str, _Open] = {}
        self._opening = 0
        """Branches that are being opened."""
        self._samples: defaultdict[tuple[Path, str, str], set[int]] = defaultdict(set)
        """The numbers of those that are open, by run, environment and item."""
        self._policies: dict[str, Policy] = {}
        self._starting = asyncio.Lock()
        self._closing = Supervisor()

    def close(self) -> None:
        """Discard all branches, and end the policies."""
        if self._open or self._policies:
            self._servers.run(self._end(), timeout=_PATIENCE)

    def act(self, given: Mapping[str, Any]) -> Any:
        """Do what a page asks for: `do` is one of the names below.

        Raises what `Branch`, `LiveServers.fleet` and `keep_played` raise, and UsageError.
        """
        deeds: dict[str, Callable[[Mapping[str, Any]], Any]] = {
            "items": self._items,
            "open": self._begin,
            "look": self._look,
            "act": self._act,
            "advise": self._advise,
            "go_on": self._go_on,
            "undo": self._undo,
            "keep": self._keep,
            "discard": self._discard,
        }
        name = _text(given, "do")
        if name not in deeds:
            raise UsageError(f"a branch cannot {name[:40]!r}", valid=deeds)
        return deeds[name](given)

    def known_state(self, key: str, turn: int) -> State:
        """Return where a branch is; raises UsageError where it is not there, or not any more."""
        played = self._find(key)
        if played.state is None or played.state.turn != turn:
            raise UsageError("the branch has gone on since: look at it again")
        return played.state

    def known_record(self, key: str) -> episode_pb2.Episode:
        """Return a branch as it was looked at last; raises UsageError where there is none."""
        return self._find(key).record

    def family(self, run: OpenedRun, episode: episode_pb2.Episode) -> dict[str, Any]:
        """Return where an episode goes off, what else does there, and what goes off from it."""
        parent, siblings = None, []
        if episode.HasField("parent"):
            of = episode.parent
            name = self._library.name_by_id(of.run_id)
            parent = {"run": name, "run_id": of.run_id, "id": of.episode_id, "turn": of.turn}
            if name is not None:
                folder = self._library.folders()[name]
                siblings = self._children(folder, of.episode_id, episode.item_id)
        return {
            "parent": parent,
            "siblings": [it for it in siblings if it.get("id") != episode.episode_id],
            "branches": self._children(run.folder, episode.episode_id, episode.item_id),
        }

    def _children(self, parent: Path, episode_id: str, item_id: str) -> list[dict[str, Any]]:
        """Return the kept branches of an episode of an item."""
        found: list[dict[str, Any]] = []
        for folder in played_folders(parent):
            name = self._library.name_of(folder)
            if name is None:
                continue
            try:
                with RunReader.open(folder) as reader:
                    found += [
                        {"run": name, "turn": it.parent.turn, **_line(it)}
                        for it in reader.episodes(lambda its: its.item_id == item_id)
                        if it.parent.episode_id == episode_id
                    ]
            except RunFolderError as error:
                found.append({"run": name, "problem": str(error)})
        return found

    def _items(self, given: Mapping[str, Any]) -> Any:
        """Return the environments of a run, and some items of one that can be played."""
        run = self._library.open(_text(given, "run"))
        environments = sorted(it.name for it in run.manifest.environments)
        environment = given.get("environment") or environments[0]
        known = sorted({it.item_id for it in run.records() if it.environment == environment})
        return {"environments": environments, "environment": environment, "items": known}

    def _begin(self, given: Mapping[str, Any]) -> Any:
        """Open a branch of an episode at a turn, or a task from its start."""
        name = _text(given, "run")
        run = self._library.open(name)
        if "id" in given:
            record = run.episode(_text(given, "id"))
            opening = self._branch(run, record, _number(given, "turn", len(record.steps)))
        else:
            opening = self._task(run, _text(given, "environment"), _text(given, "item"))

        async def begin() -> Any:
            if len(self._open) + self._opening >= _MOST:
                opening.close()
                raise UsageError(f"{_MOST} branches are open: keep or discard one of them first")
            self._opening += 1
            try:
                branch = await opening
            finally:
                self._opening -= 1
            played = _Open(secrets.token_urlsafe(12), name, run.folder, branch, asyncio.Lock())
            self._open[played.key] = played
            self._keep_alive(played)
            try:
                return await self._data(played)
            except BaseException:  # no page knows of it
                await self._end_branch(played)
                raise

        return self._servers.run(begin(), timeout=_PATIENCE)

    async def _branch(self, run: OpenedRun, record: episode_pb2.Episode, turn: int) -> Branch:
        fleet = await self._servers.fleet(run.folder, record.environment)
        # Another number than the parent's: a policy that goes on would draw the same again.
        folders = run.folder, *played_folders(run.folder)
        async with self._sample(run, folders, record.environment, record.item_id) as sample:
            return await Branch.from_turn(run.manifest, record, turn, fleet, sample=sample)

    async def _task(self, run: OpenedRun, environment: str, item_id: str) -> Branch:
        names = [it.name for it in run.manifest.environments]
        if environment not in names:
            raise UsageError(f"the run has no environment {environment[:100]!r}", valid=names)
        fleet = await self._servers.fleet(run.folder, environment)
        (task,) = await fleet.get_items(environment, [item_id])
        # The number that a run would give it, so that both can be compared.
        folders = tuple(played_folders(run.folder))
        async with self._sample(run, folders, environment, task.item_id) as sample:
            return await Branch.of_task(
                run.manifest, environment, task.item_id, fleet, sample=sample
            )

    @asynccontextmanager
    async def _sample(
        self, run: OpenedRun, folders: Sequence[Path], environment: str, item_id: str
    ) -> AsyncGenerator[int]:
        """Give the first number of an item that is free in some runs and among open branches."""
        # In a thread: states that others look at wait for no disk.
        used = await asyncio.to_thread(used_samples, folders, environment, item_id)
        taken = self._samples[run.folder, environment, item_id]
        sample = next(it for it in itertools.count() if it not in used | taken)
        taken.add(sample)
        try:
            yield sample
        except BaseException:
            taken.discard(sample)
            raise

    def _look(self, given: Mapping[str, Any]) -> Any:
        """Return where a branch is."""
        return self._do(given, self._data)

    def _act(self, given: Mapping[str, Any]) -> Any:
        """Play a whole reply, or an action with a thought in the form of a reply."""

        async def act(played: _Open) -> Any:
            reply = given.get("reply")
            form = played.suggested.form
            if reply is None and form is not None:
                reply = form.write(_text(given, "action"), str(given.get("thought") or ""))
            if not isinstance(reply, str) or not reply:
                raise UsageError("what was posted has no reply to play")
            await played.branch.act(reply)
            return await self._data(played)

        return self._do(given, act)

    def _advise(self, given: Mapping[str, Any]) -> Any:
        """Return what the environment's expert would do."""

        async def advise(played: _Open) -> Any:
            advice = await played.branch.consult(pb.ADVISOR_EXPERT, played.branch.turn)
            return {"action": advice.action, "thought": advice.thought, "reply": advice.reply}

        return self._do(given, advise)

    def _go_on(self, given: Mapping[str, Any]) -> Any:
        """Let a policy play some turns."""
        name, turns = _text(given, "policy"), _number(given, "turns", _MOST_TURNS + 1)
        if name not in self._players:
            raise UsageError(
                f"no policy {name[:100]!r} can go on here: name it with --policy when the viewer "
                "is started",
                valid=self._players,
            )

        async def go_on(played: _Open) -> Any:
            await played.branch.go_on(await self._policy(name), turns, name=name)
            return await self._data(played)

        return self._do(given, go_on)

    def _undo(self, given: Mapping[str, Any]) -> Any:
        """Take the last turn back."""

        async def undo(played: _Open) -> Any:
            await played.branch.undo()
            return await self._data(played)

        return self._do(given, undo)

    def _keep(self, given: Mapping[str, Any]) -> Any:
        """Store a branch beside its parent's run, and end it; returns where it is."""

        async def keep(played: _Open) -> tuple[Path, str]:
            branch = played.branch
            record = branch.record()
            said = {name: it.identity() for name, it in self._policies.items()}
            said = {name: said[name] for name in branch.players if name in said}
            described = branch.plan.environment
            # In a thread: other branches, and states that others look at, wait for no disk.
            folder = await asyncio.to_thread(keep_played, played.folder, record, described, said)
            await self._end_branch(played)
            return folder, record.episode_id

        folder, episode_id = self._do(given, keep)
        return {"run": self._library.name_of(folder, again=True), "id": episode_id}

    def _discard(self, given: Mapping[str, Any]) -> Any:
        """End a branch; nothing of it stays."""

        async def discard(played: _Open) -> Any:
            await self._end_branch(played)
            return {"run": played.run}

        return self._do(given, discard)

    def _do(self, given: Mapping[str, Any], work: Callable[[_Open], Any]) -> Any:
        """Do something with a branch that nobody else is at, on the servers' loop."""
        played = self._find(_text(given, "branch"))

        async def do() -> Any:
            if played.lock.locked():
                raise UsageError("a turn is being played: wait for it")
            async with played.lock:
                self._keep_alive(played)
                return await work(played)

        return self._servers.run(do(), timeout=_PATIENCE)

    def _find(self, key: str) -> _Open:
        played = self._open.get(key)
        if played is None:
            raise UsageError(
                "there is no such branch any more: it was kept or discarded, nobody played it for "
                "long, or the viewer was started anew"
            )
        return played

    def _keep_alive(self, played: _Open) -> None:
        """Give a branch another while until it is discarded unasked."""

        def expire() -> None:
            log.info("idle branch is discarded", item_id=played.branch.plan.item_id)
            self._closing.start(self._end_branch(played), "close idle branch")

        if played.expiry is not None:
            played.expiry.cancel()
        played.expiry = asyncio.get_running_loop().call_later(_IDLE_SECONDS, expire)

    async def _policy(self, name: str) -> Policy:
        """Return a policy, started; raises PolicyError."""
        async with self._starting:
            if name not in self._policies:
                policy = make_policy(self._players[name], self._config)
                await policy.start()
                self._policies[name] = policy
            return self._policies[name]

    async def _end_branch(self, played: _Open) -> None:
        if self._open.pop(played.key, None) is None:
            return
        if played.expiry is not None:
            played.expiry.cancel()
        plan = played.branch.plan
        self._samples[played.folder, plan.environment.name, plan.item_id].discard(plan.sample)
        await played.branch.close()

    async def _end(self) -> None:
        ending = [self._end_branch(played) for played in list(self._open.values())]
        ending += [policy.close() for policy in self._policies.values()]
        # One that cannot be ended holds up nobody: servers are ended after this.
        for outcome in await asyncio.gather(*ending, return_exceptions=True):
            if isinstance(outcome, Exception):
                log.error("a branch or a policy did not end", error=repr(outcome))

    async def _data(self, played: _Open) -> dict[str, Any]:
        """Return a branch as the page shows it, its state looked at anew."""
        branch, record = played.branch, played.branch.record()
        played.record = record
        played.state = await _state(branch, record)
        played.suggested = Suggestions() if branch.ended else await branch.suggest()
        described, parent = branch.plan.environment, branch.parent
        start = branch.plan.first_messages()
        return {
            "branch": played.key,
            "run": played.run,
            "parent": {"id": parent.episode_id, "turn": parent.turn} if parent else None,
            "environment": described.name,
            "turn": branch.turn,
            "first_turn": branch.first_turn,
            "most_turns": branch.plan.rounds,
            "ended": branch.ended,
            **_line(record),
            "turns": transcript.as_data(record)["turns"],
            "state": state_data(record, played.state),
            "actions": played.suggested.actions,
            "example": played.suggested.example,
            "written": played.suggested.form is not None,
            "action_format": enum_name(types_pb2.ActionFormat, record.action_format).lower(),
            "instruction": start[0].text,
            "functions": described.functions_json,
            "has_expert": pb.CAPABILITY_EXPERT in described.capabilities,
            "players": list(self._players),
        }


async def _state(branch: Branch, record: episode_pb2.Episode) -> State:
    described, step = branch.plan.environment, record.steps[-1]
    return State(
        turn=branch.turn,
        state_hash=step.state_hash.hex(),
        info=dict(step.info) if step.info.fields else None,
        server=EnvironmentIdentity(
            name=described.name, version=described.version, digest=described.digest
        ),
        views=tuple(await branch.render()),
        draws=pb.CAPABILITY_RENDER in described.capabilities,
    )


def _line(record: episode_pb2.Episode) -> dict[str, Any]:
    """Return what a list says of an episode."""
    summary = summarise(record)
    names = ("item_id", "policy", "rounds", "score", "success", "stop_reason", "outcome")
    return {"id": record.episode_id, **{name: getattr(summary, name) for name in names}}


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value:
        raise UsageError(f"what was posted has no text {name!r}")
    return value


def _number(given: Mapping[str, Any], name: str, end: int) -> int:
    value = given.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < end:
        raise UsageError(f"{name} is a number from 0 to {end - 1}")
    return value
