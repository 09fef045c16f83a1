import json

import pytest

from benchmark.guard import __main__ as command
from benchmark.guard.ratios import ENVIRONMENTS, WIRE, measure

COMMITTED = {"wire step": 8.0, "maze step": 3.0, "maze reset": 6.0}


def test_figures_beyond_the_margin_and_unknown_ones_are_named():
    now = {"wire step": 15.9, "maze step": 6.1, "maze reset": 0.1, "chess step": 1.0}
    assert command.slower(now, COMMITTED, 2.0) == ["maze step", "chess step"]


async def test_costs_are_told_in_steps_of_echo():
    ratios = await measure((WIRE, "maze"), 1)
    assert list(ratios) == ["wire step", "maze step", "maze reset"]
    assert all(ratio > 0 for ratio in ratios.values())


def test_every_figure_is_committed():
    ratios = json.loads(command.COMMITTED.read_text())["ratios"]
    kinds = (f"{name} {what}" for name in ENVIRONMENTS for what in ("step", "reset"))
    assert list(ratios) == [WIRE, *kinds]


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """The names that were measured; every answer is the next of `rounds`."""
    asked, answers = [], []

    async def answer(names, rounds):
        asked.append((tuple(names), rounds))
        return answers.pop(0)

    monkeypatch.setattr(command, "measure", answer)
    monkeypatch.setattr(command, "COMMITTED", tmp_path / "guard.json")
    (tmp_path / "guard.json").write_text(json.dumps({"ratios": COMMITTED}))
    return asked, answers


def test_what_was_slow_once_is_measured_again_and_longer(measured, capsys):
    asked, answers = measured
    answers += [COMMITTED | {"maze step": 9.0}, {"maze step": 3.1, "maze reset": 6.0}]
    assert command.main([]) == 0
    assert asked[1] == (("maze",), 15)
    assert "slow" not in capsys.readouterr().err


def test_what_is_slow_twice_fails_by_name(measured, capsys):
    _, answers = measured
    answers += [COMMITTED | {"wire step": 17.0}, {"wire step": 18.0}]
    assert command.main([]) == 1
    assert "wire step" in capsys.readouterr().err


def test_saved_ratios_are_those_of_the_next_comparison(measured):
    _, answers = measured
    answers += [{"wire step": 30.0}, {"wire step": 31.0}]
    assert command.main(["--save"]) == 0
    assert command.main([]) == 0
