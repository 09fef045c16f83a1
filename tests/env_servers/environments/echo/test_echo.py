"""Echo keeps the contract, has the size it was asked for, and misbehaves only on request."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from env_servers.environments.echo import EchoEnvironment
from env_servers.environments.echo.environment import EXIT_STATUS
from env_servers.sdk import EnvironmentConfig, InvalidOption, ResetOptions, StopReason
from env_servers.sdk.contract import EnvironmentContract

TASKS = EchoEnvironment.load_tasks(EnvironmentConfig())
ITEM = "echo_1000003"


def start(seed=0, **options):
    echo = EchoEnvironment(TASKS)
    return echo, echo.reset(TASKS.get(ITEM), ResetOptions(seed=seed, options=options))


class TestEcho(EnvironmentContract):
    environment_name = "echo"


@given(st.text(st.characters(exclude_categories=("Cs",))), st.integers(0, 2000))
def test_every_observation_has_exactly_the_chosen_size(action, size):
    echo, first = start(observation_bytes=size)
    assert len(first.text.encode()) == size
    assert len(echo.step(action).text.encode()) == size


def test_a_step_is_counted_and_repeated():
    echo, _ = start()
    echo.step("one")
    assert echo.step("two\n").text.startswith("Step 2, you said: 'two\\n'. ")


def test_the_last_step_is_rewarded_and_no_other():
    echo, _ = start(length=3)
    steps = [echo.step("go") for _ in range(3)]
    assert [step.reward for step in steps] == [None, None, 1.0]
    assert [step.terminated for step in steps] == [False, False, True]
    assert steps[-1].stop_reason is StopReason.GOAL_REACHED


def test_saying_nothing_at_the_end_fails():
    echo, _ = start(length=1)
    last = echo.step("")
    assert (last.reward, last.stop_reason) == (0.0, StopReason.GOAL_FAILED)


def test_length_zero_never_ends():
    echo, _ = start(length=0)
    assert not any(echo.step("go").terminated for _ in range(1000))


def test_numbers_may_arrive_as_floats():
    _, first = start(observation_bytes=100.0, length=2.0)
    assert len(first.text) == 100


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("length", -1),
        ("length", 1.5),
        ("length", "3"),
        ("length", True),
        ("length", float("nan")),
        ("observation_bytes", 10**12),
        ("crash_at", None),
        ("diverge", 1),
        ("lenght", 3),
    ],
)
def test_impossible_options_are_refused_by_name(name, value):
    with pytest.raises(InvalidOption, match=name):
        start(**{name: value})


def test_task_and_seed_change_the_padding():
    texts = {start(seed=seed)[1].text for seed in range(5)}
    assert len(texts) == 5


def test_diverging_episodes_differ_from_their_replay_and_have_no_fingerprint():
    one, two = start(diverge=True)[0], start(diverge=True)[0]
    assert one.step("go").text != two.step("go").text
    assert one.fingerprint() is None


def test_a_crash_comes_at_its_step():
    echo, _ = start(crash_at=2)
    echo.step("go")
    with pytest.raises(RuntimeError, match="step 2"):
        echo.step("go")


def test_a_crash_at_step_zero_is_in_the_reset():
    with pytest.raises(RuntimeError, match="step 0"):
        start(crash_at=0)


def test_sleeping_and_hanging_asleep_wait_outside_the_gil(monkeypatch):
    waits = []
    monkeypatch.setattr(time, "sleep", waits.append)
    echo, _ = start(sleep_ms=5, hang_sleep_at=2)
    echo.step("go")
    echo.step("go")
    assert waits == [0.005, 0.005, 3600]


def test_spinning_watches_the_clock(monkeypatch):
    ticks = iter(range(100))
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks) / 1000)
    echo, _ = start(spin_ms=7)
    echo.step("go")
    assert next(ticks) == 8


FAULT = """
from env_servers.environments.echo import EchoEnvironment
from env_servers.sdk import EnvironmentConfig, ResetOptions
tasks = EchoEnvironment.load_tasks(EnvironmentConfig())
echo = EchoEnvironment(tasks)
echo.reset(tasks.get("echo_1000000"), ResetOptions(options={OPTIONS}))
print(echo.step("go").text[:6], flush=True)
echo.step("go")
print("still here", flush=True)
"""


def faulty_process(options):
    return subprocess.Popen(
        [sys.executable, "-c", FAULT.replace("{OPTIONS}", repr(options))],
        stdout=subprocess.PIPE,
        text=True,
    )


def test_exiting_ends_the_process_at_its_step():
    with faulty_process({"exit_at": 2}) as process:
        out, _ = process.communicate(timeout=60)
    assert (out, process.returncode) == ("Step 1\n", EXIT_STATUS)


def test_a_hang_computes_until_the_process_is_killed():
    with faulty_process({"hang_at": 2}) as process:
        assert process.stdout.readline() == "Step 1\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.5)
        process.kill()
        assert process.stdout.read() == ""
