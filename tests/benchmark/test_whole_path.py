import json
import subprocess
import sys

from agent_runtime import episode
from benchmark.whole_path import compare, split
from benchmark.whole_path.replies import write_replies
from env_servers.environments.maze import environment
from orchestrator import dispatcher, store


def test_every_part_of_the_path_is_told_apart_by_its_files():
    files = (
        sys.modules[environment.__module__].__file__,
        episode.__file__,
        dispatcher.__file__,
        store.__file__,
    )
    assert [split.part_of(file) for file in files] == [
        "environment",
        "client",
        "orchestrator",
        "store",
    ]
    assert split.part_of(json.__file__) is None


def test_a_program_says_where_its_cpu_went_and_keeps_its_exit_status(tmp_path):
    (tmp_path / "busy.py").write_text("import sys\nsum(range(3_000_000))\nsys.exit(3)\n")
    command = [sys.executable, split.__file__, "parts.json", "busy"]
    assert subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": "."}).returncode == 3
    seconds = json.loads((tmp_path / "parts.json").read_text())
    assert seconds[split.LOOP] > 0


def test_the_experts_replies_are_written_for_the_items_asked_for(tmp_path):
    items = write_replies("maze", 2, tmp_path / "replies.json")
    replies = json.loads((tmp_path / "replies.json").read_text())
    assert list(replies) == items
    assert all("Action:" in reply for said in replies.values() for reply in said)


def test_replies_of_random_are_the_same_each_time_and_last_longer(tmp_path):
    written = []
    for name, player in (("expert", "expert"), ("first", "random"), ("second", "random")):
        write_replies("textcraft", 3, tmp_path / name, player)
        written.append(json.loads((tmp_path / name).read_text()))
    expert, first, second = written
    assert first == second
    assert sum(map(len, first.values())) > sum(map(len, expert.values()))


def test_agentgyms_loop_plays_the_same_episodes_as_ours(tmp_path):
    replies = tmp_path / "replies.json"
    items = write_replies("textcraft", 2, replies)
    ours = compare.play_ours(items, replies, 1, tmp_path, 8)
    theirs = compare.play_loop("agentgym", sys.executable, replies, 2, tmp_path)
    assert (ours.episodes, theirs.episodes) == (2, 4)
    assert theirs.steps == 2 * ours.steps > 0
    assert ours.rewards == theirs.rewards == dict.fromkeys(items, frozenset({1.0}))
    assert min(ours.cpu, theirs.cpu, ours.seconds, theirs.seconds) > 0
