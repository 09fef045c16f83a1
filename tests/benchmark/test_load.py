import asyncio
import json
import sys
from array import array

import psutil
import pytest

from benchmark.baselines.contenders import baseline
from benchmark.drive import ClosedLoop, Tally, Window
from benchmark.load import Contender, Outcome, Settings, measure, python_server, served
from benchmark.manifest import read_manifest

QUICK = Settings(episodes=(2,), seconds=0.3, warmup_s=0.0, rounds=1, open_timeout_s=20)
HERE = "tests.benchmark.clients"


def test_contenders_alternate_and_every_cell_is_measured():
    before = psutil.Process().children(recursive=True)
    contenders = [baseline("in process"), baseline("ceiling: TCP msgpack, coalesced")]
    seen = []
    settings = Settings(episodes=(1, 3), seconds=0.3, warmup_s=0.0, rounds=2)
    report = measure(contenders, settings, on_cell=seen.append)
    names = [contender.name for contender in contenders]
    assert [cell.contender for cell in report.cells] == names * 4
    assert [cell.episodes for cell in report.cells] == [1] * 4 + [3] * 4
    assert tuple(seen) == report.cells
    for cell in report.cells:
        assert cell.steps > 0
        assert cell.errors == {}
        assert cell.client_rss_mib is not None
        assert (cell.server_cpu_s is None) == (cell.contender == "in process")
    assert sys.executable not in json.dumps(report.as_json())
    assert set(psutil.Process().children(recursive=True)) <= set(before)


@pytest.mark.parametrize(
    ("client", "outcome", "detail"),
    [
        ("Client", Outcome.OK, ""),
        ("Forgetful", Outcome.ERRORS, ""),
        ("NeverAnswers", Outcome.STARVED, ""),
        ("AnswersOnce", Outcome.STARVED, ""),
        ("NeverOpens", Outcome.NOT_OPENED, "TimeoutError"),
        ("Dies", Outcome.FAILED, "the client gave up"),
    ],
)
def test_a_client_that_fails_gives_a_cell_that_says_so(client, outcome, detail):
    settings = Settings(episodes=(2,), seconds=0.3, warmup_s=0.0, rounds=1, open_timeout_s=1)
    (cell,) = measure([Contender(name="x", client=f"{HERE}:{client}")], settings).cells
    assert cell.outcome is outcome
    assert detail in cell.detail
    assert cell.errors == ({"WrongAnswer": 1} if client == "Forgetful" else {})


def test_a_server_that_does_not_start_is_reported_and_the_others_are_measured():
    broken = Contender(
        name="broken", client=f"{HERE}:Client", server=(sys.executable, "-c", "exit('no luck')")
    )
    cells = measure([broken, baseline("in process")], QUICK).cells
    assert cells[0].outcome is Outcome.FAILED
    assert "no luck" in cells[0].detail
    assert cells[1].outcome is Outcome.OK


STUBBORN = """
import signal, socket, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
listening = socket.create_server(("127.0.0.1", {port}))
time.sleep(60)
"""


@pytest.mark.parametrize(
    "server",
    [python_server("benchmark.baselines.tcp_msgpack"), (sys.executable, "-c", STUBBORN)],
    ids=["a good server", "a server that ignores SIGTERM"],
)
async def test_a_server_is_stopped_when_its_measurement_is_cancelled(server):
    started: asyncio.Future[psutil.Process] = asyncio.get_running_loop().create_future()

    async def use_it() -> None:
        async with served(Contender(name="x", client="", server=server), "echo") as (_, process):
            assert process is not None
            started.set_result(process)
            await asyncio.Event().wait()

    task = asyncio.create_task(use_it())
    process = await started
    assert process.is_running()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not process.is_running()


def test_more_episodes_than_a_contender_can_hold_are_skipped():
    small = Contender(name="small", client=f"{HERE}:Client", max_episodes=1)
    (cell,) = measure([small], QUICK).cells
    assert cell.outcome is Outcome.SKIPPED
    assert cell.detail == "at most 1"


def test_percentiles_are_nearest_ranks():
    tally = Tally(array("d", [n / 1000 for n in range(100, 0, -1)]), answered=1)
    read = tally.as_json()
    assert (read["steps"], read["p50_ms"], read["p99_ms"]) == (100, 50.0, 99.0)
    assert read["max_ms"] == 100.0
    assert "p50_ms" not in Tally().as_json()


def test_answers_outside_the_window_are_not_counted():
    tally = Tally()
    loop = ClosedLoop((("a",),), Window(float("inf"), float("inf")), echoes=True, max_steps=3)
    loop.play(0, lambda action: action, tally)
    assert not tally.latencies
    assert tally.observation_bytes == 1


def test_a_failing_step_ends_its_episode_and_is_counted_by_type():
    def step(_action: str) -> str:
        raise ConnectionResetError

    tally = Tally()
    ClosedLoop((("a",),), Window(0, float("inf")), echoes=True).play(0, step, tally)
    assert tally.errors == {"ConnectionResetError": 1}


def test_the_manifest_names_the_machine_and_no_absolute_path(monkeypatch):
    words = ["/usr/bin/python3", "-m", "x", "--results=/home/me/here", "/tmp/there", "a/b"]
    monkeypatch.setattr(sys, "orig_argv", words)
    manifest = read_manifest()
    assert manifest.command == "python -m x --results=here there a/b"
    assert manifest.cores >= 1
    assert manifest.memory_gib > 0
    assert manifest.packages["grpcio"]
