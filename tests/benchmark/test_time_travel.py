"""The benchmark of time travel goes to a turn as a person does, and draws what it says."""

import json

import pytest

pytest.importorskip("playwright", reason="needs playwright")
pytest.importorskip("starlette", reason="needs the extra viewer")

from benchmark import time_travel
from tests.env_servers.environments.webarena.chromium import needs_chromium


@pytest.mark.slow
@needs_chromium
def test_past_states_are_gone_to_and_pictures_drawn(monkeypatch, capsys):
    flags = ["--travel", "maze", "--turn", "3", "--episodes", "4", "--pictures", "wordle"]
    monkeypatch.setattr("sys.argv", ["time_travel", *flags, "--drawn-episodes", "2", "--out", "-"])
    time_travel.main()
    figures = json.loads(capsys.readouterr().out)
    maze = figures["travel"]["maze"]
    assert maze["episodes"] == 3
    assert {"turn_seconds", "one_back_seconds", "one_forward_seconds", "cold_seconds"} < set(maze)
    assert figures["pictures"]["wordle"]["states"] > 2
