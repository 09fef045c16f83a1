"""Playing on from a turn of a recorded episode, by hand and by policies, and keeping what comes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent_runtime.agents import agent_folder
from agent_runtime.errors import EnvironmentFailure, PolicyUnavailable
from agent_runtime.policies import Policy, PolicyConfig, make_policy
from agent_runtime.policies.base import Completion, EpisodeContext, PolicySession
from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2
from agentgym.episode.v1 import episode_pb2
from orchestrator import branching, export, replay, sample, show
from orchestrator.audit.command import main as audit_main
from orchestrator.branching import PERSON, Branch, ReplyForm
from orchestrator.client import ClientConfig, connection_options
from orchestrator.errors import UsageError
from orchestrator.fleet import Fleet, FleetConfig
from orchestrator.manifest import Manifest, read_manifest
from orchestrator.played_runs import keep_played, used_samples
from orchestrator.run_list import describe_run
from orchestrator.run_state import RunState
from orchestrator.store import RunReader
from tests.kit.server_process import ServerProcess

NAMES = ("maze", "textcraft")


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A run of a maze and a word, and the server that it was played on."""
    folder = tmp_path_factory.mktemp("played")
    with ServerProcess(folder, environments=list(NAMES)) as server:
        flags = ["--env", ",".join(NAMES), "--policy", "expert", "--episodes", "1"]
        run = folder / "runs" / "first"
        assert sample.main([*flags, "--servers", server.address, "--out", str(run)]) == 0
        yield run, server.address


def read(run: Path, environment: str = "maze") -> tuple[Manifest, episode_pb2.Episode]:
    with RunReader.open(run) as reader:
        return reader.manifest, next(reader.episodes(lambda it: it.environment == environment))


def on_fleet(
    played: tuple[Path, str], work: Callable[[Fleet], Awaitable[episode_pb2.Episode]]
) -> episode_pb2.Episode:
    async def go() -> episode_pb2.Episode:
        config = FleetConfig(servers=(played[1],))
        async with Fleet(NAMES, config, connection_options(ClientConfig())) as fleet:
            return await work(fleet)

    return asyncio.run(go())


def scripted(name: str) -> Policy:
    return make_policy(name, PolicyConfig())


class Failing(Policy):
    """Its server is away."""

    name = "failing"

    def open(self, context: EpisodeContext) -> PolicySession:
        return FailingSession()


class FailingSession(PolicySession):
    async def reply(self, messages: object, *, turn: int, seed: int) -> Completion:
        raise PolicyUnavailable("the model's server is away")


def test_a_person_goes_another_way_asks_takes_back_and_lets_a_policy_go_on(
    played: tuple[Path, str],
) -> None:
    manifest, record = read(played[0])
    before = record.SerializeToString(deterministic=True)

    async def work(fleet: Fleet) -> episode_pb2.Episode:
        branch = await Branch.from_turn(manifest, record, 2, fleet, sample=7)
        advice = await branch.consult(pb.ADVISOR_EXPERT, 0)
        assert advice.action == record.steps[3].parsed_action
        suggested = await branch.suggest()
        actions, form = suggested.actions, suggested.form
        assert set(actions) <= {"move up", "move down", "move left", "move right"}
        assert form is not None
        wall = await branch.act(form.write("fly away", "Why walk?"))
        assert wall.observation == record.steps[2].observation
        await branch.undo()
        with pytest.raises(UsageError, match="no turn of your own"):
            await branch.undo()
        other = next(it for it in actions if it != advice.action)
        step = await branch.act(form.write(other, "Another way."))
        assert (step.seq, step.parsed_action) == (3, other)
        with pytest.raises(PolicyUnavailable):
            await branch.go_on(Failing(), 1)
        assert branch.turn == 3
        await branch.go_on(scripted("expert"), 99)
        assert branch.ended
        with pytest.raises(UsageError, match="has ended"):
            await branch.act("Action: move up")
        await branch.close()
        return branch.record()

    branch = on_fleet(played, work)
    assert record.SerializeToString(deterministic=True) == before
    for mine, its in zip(branch.steps[:3], record.steps[:3], strict=True):
        its.ClearField("seconds")  # nobody waited for them here
        assert mine == its
    assert branch.parent == episode_pb2.Parent(
        run_id=record.run_id, episode_id=record.episode_id, turn=2
    )
    assert branch.policy == "person+expert"
    assert [it.policy for it in branch.generations][:2] == ["person", "expert"]
    assert [it.turn for it in branch.generations] == list(range(2, len(branch.steps) - 1))
    replies = [it for it in branch.messages if it.role == episode_pb2.ROLE_ASSISTANT][1:]
    assert [it.sampled for it in replies] == [False] * 2 + [True] * (len(branch.steps) - 3)
    assert branch.success
    assert branch.environment_seconds == pytest.approx(sum(it.seconds for it in branch.steps))
    folder = keep_played(played[0], branch, described(played, "maze"), {"expert": {}})
    assert folder == played[0].with_name("first-played")
    again = keep_played(played[0], renamed(branch, "b" * 32, 8), described(played, "maze"), {})
    assert again == folder
    assert used_samples([played[0], folder], "maze", record.item_id) == {0, 7, 8}


def described(played: tuple[Path, str], name: str) -> pb.GetEnvironmentResponse:
    found: list[pb.GetEnvironmentResponse] = []

    async def work(fleet: Fleet) -> episode_pb2.Episode:
        found.append(fleet.described[name])
        return episode_pb2.Episode()

    on_fleet(played, work)
    return found[0]


def renamed(record: episode_pb2.Episode, episode_id: str, number: int) -> episode_pb2.Episode:
    other = episode_pb2.Episode()
    other.CopyFrom(record)
    other.episode_id, other.sample = episode_id, number
    return other


def test_a_policy_that_goes_on_alone_gives_what_a_run_would_have_recorded(
    played: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The branch is a run's episode for every command: audit, replay, show, list, export."""
    manifest, record = read(played[0], "maze")

    async def work(fleet: Fleet) -> episode_pb2.Episode:
        branch = await Branch.from_turn(manifest, record, 3, fleet, sample=1)
        assert await branch.go_on(scripted("expert"), 1) == 1
        await branch.go_on(scripted("expert"), 99)
        await branch.close()
        return branch.record()

    branch = on_fleet(played, work)
    assert branch.policy == "expert"
    assert [it.parsed_action for it in branch.steps] == [it.parsed_action for it in record.steps]
    assert [it.text for it in branch.messages[:9]] == [it.text for it in record.messages[:9]]
    parent = tmp_path / "alone"
    copy_manifest(played[0], parent)
    folder = keep_played(parent, branch, described(played, "maze"), {"expert": {}})
    assert audit_main([str(folder)]) == 0
    assert replay.main([str(folder), "--servers", played[1]]) == 0
    capsys.readouterr()
    assert show.main([str(folder), "--episode", branch.episode_id, "--plain"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert f"branch of episode {record.episode_id} of run {record.run_id} at turn 3" in told
    assert "assistant - turn 1 of the parent" in told
    out = tmp_path / "out.json"
    flags = ["--format", "agenttraj", "--out", str(out), "--only-success"]
    assert export.main([str(folder), *flags]) == 0
    (conversation,) = json.loads(out.read_text())
    losses = [it["loss"] for it in conversation["conversations"] if it["from"] == "gpt"]
    assert losses == [False] * 4 + [True] * (len(branch.steps) - 4)


def test_tokens_are_kept_where_one_policy_played_all_of_the_branch(
    played: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tokenizers", reason="needs the extra tokenizers")
    manifest, record = read(played[0], "maze")
    alone: list[episode_pb2.Episode] = []

    async def work(fleet: Fleet) -> episode_pb2.Episode:
        agent = scripted("agent")
        await agent.start()
        branch = await Branch.from_turn(manifest, record, 1, fleet, sample=1)
        await branch.go_on(agent, 1)
        await branch.go_on(agent, 1)
        alone.append(branch.record())
        await branch.undo()
        await branch.go_on(agent, 1)
        both = branch.record()
        await branch.close()
        await agent.close()
        return both

    anew = on_fleet(played, work)
    assert len(alone[0].token_segments) == 1
    assert [it.turn for it in alone[0].generations] == [1, 2]
    # The second session's ledger would not have what the first one sampled.
    assert not anew.token_segments and len(anew.generations) == 2
    copy_manifest(played[0], tmp_path / "parent")
    folder = keep_played(tmp_path / "parent", alone[0], described(played, "maze"), {})
    assert audit_main([str(folder), "--tokenizer", str(agent_folder(""))]) == 0
    assert "1 rendered again" in capsys.readouterr().out


def copy_manifest(run: Path, target: Path) -> None:
    target.mkdir(parents=True)
    (target / "manifest.json").write_bytes((run / "manifest.json").read_bytes())


def test_a_person_plays_a_whole_task_as_a_demonstration(
    played: tuple[Path, str], tmp_path: Path
) -> None:
    manifest, record = read(played[0], "maze")

    async def work(fleet: Fleet) -> episode_pb2.Episode:
        branch = await Branch.of_task(manifest, "maze", record.item_id, fleet, sample=3)
        while not branch.ended:
            advice = await branch.consult(pb.ADVISOR_EXPERT, 0)
            await branch.act(advice.reply)
        await branch.close()
        return branch.record()

    demonstration = on_fleet(played, work)
    assert demonstration.policy == PERSON
    assert not demonstration.HasField("parent")
    assert demonstration.seed == record.seed
    assert demonstration.success
    parent = tmp_path / "by-hand"
    copy_manifest(played[0], parent)
    folder = keep_played(parent, demonstration, described(played, "maze"), {})
    assert audit_main([str(folder)]) == 0
    entry = describe_run(folder)
    assert (entry.state, entry.played_from) == (RunState.FINISHED, "by-hand")


def test_a_strangers_servers_do_not_become_ones_own_by_keeping_a_branch(
    played: tuple[Path, str], tmp_path: Path
) -> None:
    manifest, record = read(played[0])

    async def work(fleet: Fleet) -> episode_pb2.Episode:
        branch = await Branch.from_turn(manifest, record, 0, fleet, sample=1)
        await branch.act("Action: move up")
        await branch.close()
        return branch.record()

    branch = on_fleet(played, work)
    for whose, expected in (("own", {"servers": [played[1]]}), ("strangers", {})):
        parent = tmp_path / whose
        copy_manifest(played[0], parent)
        if whose == "strangers":
            document = json.loads((parent / "manifest.json").read_text())
            document["signature"] = "0" * 64
            (parent / "manifest.json").write_text(json.dumps(document))
        folder = keep_played(parent, branch, described(played, "maze"), {})
        settings = read_manifest(folder).sessions[-1].settings
        fleet_settings = settings.get("fleet", {})
        assert {it: fleet_settings[it] for it in expected} == expected
        assert ("fleet" in settings) == bool(expected)


def test_a_branch_that_its_server_let_go_is_opened_again_where_it_was(
    played: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest, record = read(played[0])
    monkeypatch.setattr(branching, "_IDLE_SECONDS", 0.0)

    async def work(fleet: Fleet) -> episode_pb2.Episode:
        branch = await Branch.from_turn(manifest, record, 1, fleet, sample=1)
        first = await branch.act(record.steps[2].input.reply)
        branch._scratch.live.close()  # as after an idle limit, while a person thinks
        second = await branch.act(record.steps[3].input.reply)
        assert (first.state_hash, second.state_hash) == tuple(
            it.state_hash for it in record.steps[2:4]
        )
        await branch.close()
        return branch.record()

    branch = on_fleet(played, work)
    assert len(branch.generations) == 2 and len(branch.steps) == 4


def test_a_training_steps_episode_goes_on_under_the_messages_that_it_began_with(
    played: tuple[Path, str],
) -> None:
    manifest, record = read(played[0], "textcraft")
    manifest = replace(manifest, config={"step": 1}, policies=None)
    record.messages[0].text, record.messages[1].text = "Craft.", "Yes."

    async def work(fleet: Fleet) -> episode_pb2.Episode:
        branch = await Branch.from_turn(manifest, record, 1, fleet, sample=1)
        await branch.go_on(scripted("noop"), 2)
        await branch.close()
        return branch.record()

    branch = on_fleet(played, work)
    assert [it.text for it in branch.messages[:2]] == ["Craft.", "Yes."]
    assert branch.stop_reason == types_pb2.STOP_REASON_CANCELLED
    assert branch.truncated and not branch.success


def test_what_cannot_be_played_on_says_why(played: tuple[Path, str]) -> None:
    manifest, record = read(played[0])
    last = len(record.steps) - 1

    async def work(fleet: Fleet) -> episode_pb2.Episode:
        for turn, problem in ((last, "nothing can be played after"), (last + 1, "no turn")):
            with pytest.raises(UsageError, match=problem):
                await Branch.from_turn(manifest, record, turn, fleet, sample=1)
        with pytest.raises(UsageError, match="maze_x"):
            await Branch.of_task(manifest, "maze", "maze_x", fleet, sample=1)
        branch = await Branch.from_turn(manifest, record, 0, fleet, sample=1)
        with pytest.raises(EnvironmentFailure, match="a text may have"):
            await branch.act("x" * 5_000_000)
        assert branch.turn == 0
        await branch.act("Action: move up")
        await branch.undo()
        await branch.close()
        return branch.record()

    unplayed = on_fleet(played, work)
    with pytest.raises(UsageError, match="nothing was played"):
        keep_played(played[0], unplayed, described(played, "maze"), {})


@pytest.mark.parametrize(
    ("reply", "action", "thought", "written"),
    [
        ("Thought:\nso\n\nAction:\nup", "up", "so", "Thought:\nwhy\n\nAction:\ndown"),
        ("Thought:\n\n\nAction:\nup", "up", "", "Thought:\nwhy\n\nAction:\ndown"),
        ("up", "up", "", "whydown"),
    ],
)
def test_the_form_of_a_reply_is_read_off_one(
    reply: str, action: str, thought: str, written: str
) -> None:
    form = ReplyForm.of(pb.Advice(action=action, thought=thought, reply=reply))
    assert form is not None
    assert form.write("down", "why") == written


def test_a_reply_without_its_action_has_no_form() -> None:
    assert ReplyForm.of(pb.Advice(action="move up", reply='{"function_name": "move"}')) is None
