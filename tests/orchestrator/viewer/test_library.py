"""Which runs the viewer knows of."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs the extra viewer")

from orchestrator.errors import RunNotFound
from orchestrator.store import RunStore
from orchestrator.viewer import library as module
from orchestrator.viewer.library import Library, state_of_files
from orchestrator.viewer.word_index import WordIndex
from tests.orchestrator.records import build_episode, build_manifest, build_session


def test_a_run_that_was_made_a_moment_ago_opens_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOOK_FOR_ONE", 0.0)
    library = Library([tmp_path])
    name = f"{tmp_path.name}/new"
    with pytest.raises(RunNotFound):
        library.open(name)
    with RunStore.create(tmp_path / "new", build_manifest(), build_session()):
        assert library.open(name).folder == tmp_path / "new"
    library.close()


def test_what_shards_add_is_noticed_listed_and_found_by_its_words(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    first = build_episode("maze_1", replies=("Action: open the chest",))
    second = build_episode("maze_2", replies=("Action: open the door",))
    with RunStore.create(folder, build_manifest(), build_session()) as store:
        store.append_all([first])
        library, words = Library([tmp_path]), WordIndex(folder, store.manifest.run_id)
        index(words)
        before = state_of_files(folder)
        with RunStore.open_shard(folder, "w0", build_session()) as shard:
            assert (begun := state_of_files(folder)) != before
            shard.append_all([second])
            assert state_of_files(folder) != begun
            opened = library.open(f"{tmp_path.name}/run")
            assert [it.item_id for it in opened.records()] == ["maze_1", "maze_2"]
            index(words)
            third = build_episode("maze_3", replies=("Action: open the window",))
            shard.append_all([third])
            index(words)
            assert words.find("open") == {it.episode_id for it in (first, second, third)}
            assert words.find("window") == {third.episode_id}
            assert words.indexed() == len(library.open(f"{tmp_path.name}/run").records()) == 3
    words.close()
    library.close()


def index(words: WordIndex) -> None:
    words.build()
    assert words._building is not None
    words._building.join()
    assert not words.problem
