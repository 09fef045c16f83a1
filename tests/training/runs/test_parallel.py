"""Work in several processes, and the GPUs of each."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from training.errors import RecipeError
from training.runs.parallel import run_in_processes, share_devices


def note(folder: Path, number: int, others: int) -> None:
    """Write what this process sees; ends when as many have come."""
    (folder / str(number)).write_text(os.environ.get("CUDA_VISIBLE_DEVICES", "all"))
    while len(list(folder.iterdir())) < others:
        time.sleep(0.01)


def seen(folder: Path) -> list[str]:
    return [it.read_text() for it in sorted(folder.iterdir())]


def test_processes_at_a_time_see_gpus_of_their_own(tmp_path: Path) -> None:
    # The first two are there together, the third takes the place of one of them.
    work = [(tmp_path, 0, 2), (tmp_path, 1, 2), (tmp_path, 2, 3)]
    run_in_processes(note, work, max_workers=2, devices=share_devices(["0", "1", "2", "3"], 2, 2))
    first, second, third = seen(tmp_path)
    assert {first, second} == {"0,1", "2,3"}
    assert third in (first, second)


def test_more_seeds_at_a_time_than_gpus_are_refused() -> None:
    assert share_devices(["4", "7"], 2, 1) == ["4", "7"]
    with pytest.raises(RecipeError, match="max_workers: is 3, of 2 GPUs each, and 4 are here"):
        share_devices(["0", "1", "2", "3"], 3, 2)
