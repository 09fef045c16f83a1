"""Recorded conversations of the original: the same prompts, and the recorded rewards."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from env_servers.environments.bird import Bird
from env_servers.environments.bird.schema import Schema, read_schema_file
from env_servers.environments.bird.tasks import BirdTasks
from tests.env_servers.environments.bird.conftest import every_item
from tests.kit.data import read_conversations
from tests.kit.fidelity import FidelityContract

TABLE = re.compile(r"Table (.+?) has columns such as (.*?)\. (.*?) is the primary key\.")
FOREIGN = re.compile(r" The (.+?) of (.+?) is the foreign key of (.+?) of (.+?)\.(?= The |$)")


class TestRecordedConversations(FidelityContract):
    """The same prompts and the recorded rewards, where a question's database is there."""

    environment = Bird
    counts = (83, 0)

    @pytest.fixture(scope="class")
    @classmethod
    def replayed_tasks(cls, official: BirdTasks) -> BirdTasks:
        return official


def _read_prompt(text: str) -> tuple[Schema, list[tuple[int, int]]] | None:
    """The schema that a recorded description says, without foreign keys, and those of it.

    A foreign key is taken for the first pair of columns that the shift by one could mean; None
    where commas within names make the description ambiguous.
    """
    name, _, rest = text.partition(" contains tables such as ")
    names = rest.partition(". Table ")[0].split(", ")
    found = TABLE.findall(rest)
    if [table for table, _, _ in found] != names:
        return None
    columns: list[tuple[int, str]] = [(-1, "*")]
    primary: list[int | tuple[int, ...]] = []
    for number, (_, listed, keys) in enumerate(found):
        own = listed.split(", ")
        primary += [len(columns) + own.index(key) for key in keys.split(", ") if key in own]
        columns += [(number, column) for column in own]
    shifted = [column for _, column in columns[1:]]
    pairs: list[tuple[int, int]] = []
    for one, of_one, other, of_other in FOREIGN.findall(rest):
        places = [
            next(
                (
                    place
                    for place, (owner, _) in enumerate(columns)
                    if owner >= 0
                    and names[owner] == table
                    and shifted[place % len(shifted)] == said
                ),
                0,
            )
            for said, table in ((one, of_one), (other, of_other))
        ]
        if not all(places):
            return None
        pairs.append((places[0], places[1]))
    schema = Schema(name, tuple(names), tuple(columns), tuple(primary), tuple(pairs))
    return schema, pairs


def test_recorded_descriptions_can_be_written_again(data_dir: Path) -> None:
    """Every one whose names can be told apart: the sentences and the shift are the original's."""
    same = different = unread = 0
    for recording in read_conversations("sqlgym"):
        text = recording["conversations"][2]["value"].rpartition("\n\n")[0]
        read = _read_prompt(text)
        if read is None:
            unread += 1
        elif read[0].sentences() == text:
            same += 1
        else:
            different += 1
    assert different == 0
    assert same >= 1300, (same, unread)


@pytest.mark.parametrize("name", ("video_games", "university"))
def test_recorded_foreign_keys_are_the_true_ones_shifted(
    official: BirdTasks, data_dir: Path, name: str
) -> None:
    """The recorded names with the database's own keys give the recorded sentences."""
    puzzles = [official.get(item).payload for item in every_item(official, "official_train")]
    puzzle = next(puzzle for puzzle in puzzles if puzzle.base.database.name == name)
    read = _read_prompt(puzzle.prompt.rpartition("\n\n")[0])
    assert read is not None
    true = read_schema_file(name, puzzle.base.database.path())
    places = {(table, place): number for number, (table, place) in enumerate(_numbered(read[0]))}
    expected = {
        tuple(places[_numbered(true)[column]] for column in pair) for pair in true.foreign_keys
    }
    assert set(read[1]) <= expected
    assert len(read[1]) >= 5


def _numbered(schema: Schema) -> list[tuple[str, int]]:
    """Each column as (table, place within it), by its number."""
    found: list[tuple[str, int]] = []
    for owner, _ in schema.columns:
        table = schema.tables[owner] if owner >= 0 else ""
        found.append((table, sum(1 for name, _ in found if name == table)))
    return found
