import json
import subprocess
import sys

from agent_runtime import episode
from benchmark.whole_path import split
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
