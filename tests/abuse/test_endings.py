"""An episode that ends its server is found out, named and given up; its neighbours finish."""

import json

import pytest

from orchestrator import sample
from orchestrator.store import RunReader
from tests.abuse.bomb import BOMB

_TASKS = 16


@pytest.mark.parametrize("servers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_task_that_ends_its_server_fails_alone_and_is_named(servers, tmp_path, capsys):
    """One task of 200 once had 16 episodes given up: its neighbours used up their rebuilds."""
    run = tmp_path / "run"
    flags = ["--env", "tests.abuse.bomb", "--policy", "expert", "--split", "eval"]
    items = ",".join(f"echo_{1_010_000 + number}" for number in range(_TASKS))
    flags += ["--items", items, "--spawn", str(servers)]
    flags += ["--options", json.dumps({"length": 10}), "--out", str(run), "--json"]
    assert sample.main(flags) == 1
    summary = json.loads(capsys.readouterr().out)
    assert (summary["finished"], summary["failed"]) == (_TASKS - 1, 1)
    with RunReader.open(run) as reader:
        (culprit,) = [record for record in reader.episodes() if record.HasField("error")]
    assert culprit.item_id == BOMB
    assert culprit.error.reason == "ENDS_SERVER"
    assert BOMB in culprit.error.message
    assert "seq 3" in culprit.error.message
    story = [json.loads(line) for line in (run / "logs" / "run.jsonl").read_text().splitlines()]
    (named,) = [line for line in story if line["event"] == "command given up"]
    assert (named["item_id"], named["seq"]) == (BOMB, 3)
    for number in range(servers):
        assert "serving" in (run / "logs" / f"server-{number}.log").read_text()
