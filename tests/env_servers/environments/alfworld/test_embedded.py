"""Generated games: what they hold, that they differ by room, and that each can be solved."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter

import pytest

from env_servers.environments.alfworld.embedded import LAYOUTS, UNSEEN_LAYOUTS, game_texts, layout
from env_servers.environments.alfworld.embedded import assign as assign_game
from env_servers.environments.alfworld.game import GroundedAction, read_game
from env_servers.environments.alfworld.scripted_player import plan
from env_servers.environments.alfworld.tasks import EMBEDDED, AlfworldTasks
from env_servers.environments.alfworld.tasktypes import TaskType
from env_servers.environments.alfworld.vocabulary import HOLDS, LAMPS, OPENABLE, ROOMS, RoomKind
from tests.env_servers.environments.alfworld.conftest import solve, start

SPLITS = tuple(EMBEDDED)


def ids(tasks: AlfworldTasks, split: str) -> list[str]:
    return list(tasks.item_ids(split, 0, 10**6))


def test_there_are_thousands_of_games_without_any_data(embedded: AlfworldTasks) -> None:
    assert embedded.splits() == {"train": 12_000, "eval_seen": 300, "eval": 300}
    assert ids(embedded, "train")[0] == "alfworld_1000000"


@pytest.mark.parametrize("split", SPLITS)
def test_every_split_has_all_six_kinds_of_tasks_equally(
    embedded: AlfworldTasks, split: str
) -> None:
    counted = Counter(embedded.category(item) for item in ids(embedded, split))
    assert set(counted) == {kind.value for kind in TaskType}
    assert len(set(counted.values())) == 1


def test_no_room_layout_is_trained_on_and_held_out() -> None:
    for kind in RoomKind:
        seen = {layout(kind, n, unseen=False) for n in range(LAYOUTS)}
        held_out = {layout(kind, n, unseen=True) for n in range(UNSEEN_LAYOUTS)}
        assert seen.isdisjoint(held_out)
        assert len(seen) > 30
        assert len(held_out) > 12


def test_seen_games_are_in_trained_rooms_and_are_other_games(embedded: AlfworldTasks) -> None:
    texts = {}
    for split in SPLITS:
        chosen = [embedded.get(item).payload for item in ids(embedded, split)[:60]]
        texts[split] = {json.dumps(embedded.game_file(source)) for source in chosen}
        assert len(texts[split]) == 60
    assert texts["train"].isdisjoint(texts["eval_seen"])
    assert texts["train"].isdisjoint(texts["eval"])


@pytest.mark.parametrize("split", SPLITS)
def test_the_expert_solves_generated_games_within_the_rounds(
    embedded: AlfworldTasks, split: str
) -> None:
    for item in ids(embedded, split)[:60]:
        episode, _ = start(embedded, item)
        last, count = solve(episode)
        assert (last.reward, last.terminated) == (1.0, True), item
        assert 3 <= count <= 12


def test_a_command_means_what_a_search_of_everything_that_can_be_done_finds(
    embedded: AlfworldTasks,
) -> None:
    once_offered: set[str] = set()
    for item in ids(embedded, "train")[:6]:
        played = embedded.game(embedded.get(item).payload)
        state, choose = played.first, random.Random(item)
        for _ in range(12):
            meanings: dict[str, GroundedAction] = {}
            for action in played.grammar.actions:
                for grounded in played.grounded_actions(state, action):
                    meanings.setdefault(played.command(state, grounded), grounded)
            assert sorted(meanings) == played.admissible(state)
            once_offered.update(meanings)
            for command in once_offered:
                assert played.find(state, command) == meanings.get(command), (item, command)
            state, _ = played.act(state, choose.choice(sorted(meanings)))


@pytest.mark.slow
def test_the_expert_solves_every_held_out_game_and_a_thousand_others(
    embedded: AlfworldTasks,
) -> None:
    everything = ids(embedded, "eval") + ids(embedded, "eval_seen") + ids(embedded, "train")[::12]
    for item in everything:
        episode, _ = start(embedded, item)
        assert solve(episode)[0].reward == 1.0, item


def test_no_generated_game_is_won_before_it_begins(embedded: AlfworldTasks) -> None:
    for item in ids(embedded, "train")[:120]:
        game = embedded.game(embedded.get(item).payload)
        assert not game.won(game.first)


def test_a_generated_game_written_as_a_file_is_the_same_game(embedded: AlfworldTasks) -> None:
    for item in ids(embedded, "eval")[:12]:
        made = embedded.game(embedded.get(item).payload)
        read = read_game(json.dumps(embedded.game_file(embedded.get(item).payload)))
        assert read.intro() == made.intro()
        ours, theirs = plan(made, made.first, 30), plan(read, read.first, 30)
        assert ours == theirs
        state, other = made.first, read.first
        for step in ours or []:
            assert made.admissible(state) == read.admissible(other)
            state, told = made.do(state, step.grounded)
            other, told_too = read.do(other, step.grounded)
            assert told == told_too
        assert made.won(state)
        assert read.won(other)


def test_generated_games_are_the_same_on_every_machine() -> None:
    """The figure changes only with the generator: then raise the spec's version."""
    digest = hashlib.blake2b(digest_size=8)
    for split, found in EMBEDDED.items():
        for number in range(0, found.size, found.size // 30):
            texts = game_texts(assign_game(number, unseen=found.unseen, stream=split))
            digest.update(json.dumps(texts, sort_keys=True).encode())
    assert digest.hexdigest() == "7cd18ba882ff72ae"


def test_the_vocabulary_is_closed() -> None:
    for room in ROOMS.values():
        assert set(room.receptacles) <= set(HOLDS)
        for thing in room.objects:
            assert any(thing in HOLDS[place] for place in room.receptacles), thing
    assert set(HOLDS) >= OPENABLE
    known = {thing for room in ROOMS.values() for thing in room.objects}
    assert known >= LAMPS


def test_a_room_reads_like_the_recorded_ones(embedded: AlfworldTasks) -> None:
    episode, first = start(embedded, "alfworld_1600003")
    room, task, actions = first.text.split("\n")
    assert room.startswith(
        "You are in the middle of a room. Looking quickly around you, you see a cabinet "
    )
    assert task.startswith("Your task is to: ")
    assert actions.startswith("AVAILABLE ACTIONS: go to cabinet 1,")
    assert actions.endswith(",inventory,look")
    assert episode.step("go to fridge 1").text == "The fridge 1 is closed."
    assert episode.step("open fridge 1").text.startswith(
        "You open the fridge 1. The fridge 1 is open. In it, you see "
    )
    assert episode.step("look").text == "You are facing the fridge 1. Next to it, you see nothing."
    assert episode.step("close fridge 1").text == "You close the fridge 1."
