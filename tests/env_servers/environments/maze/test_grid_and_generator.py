"""Mazes: their geometry, and what the generator promises."""

import pytest

from env_servers.environments.maze.generator import (
    LONGEST_PATH,
    SHORTEST_PATH,
    Family,
    Shape,
    generate,
    layout_family,
)
from env_servers.environments.maze.grid import FREE, WALL, Maze, distances_from, distances_to_goal
from env_servers.environments.maze.tasks import (
    EVAL_BASE,
    EVAL_SIZE,
    OFFICIAL_STARTS,
    TRAIN_SIZE,
    MazeTasks,
)
from env_servers.sdk import EMBEDDED_BASE, UnknownItem, UnknownSplit

TINY = Maze(("#####", "#...#", "#.#.#", "#.###", "#####"), (3, 1), (2, 3))


def _mazes(tasks: MazeTasks, split: str) -> list[Maze]:
    return [tasks.get(item).payload for item in tasks.item_ids(split, 0, 10_000)]


def _turns(rows: tuple[str, ...]) -> set[tuple[str, ...]]:
    """All eight rotations and reflections, by turning a quarter at a time."""
    found = set()
    for _ in range(4):
        rows = tuple("".join(column) for column in zip(*rows[::-1], strict=True))
        found |= {rows, tuple(row[::-1] for row in rows)}
    return found


def test_a_move_into_a_wall_or_off_the_grid_stays():
    assert TINY.neighbour((3, 1), "right") == (3, 1)
    assert TINY.neighbour((3, 1), "up") == (2, 1)
    assert not TINY.is_free((-1, 1))
    assert not TINY.is_free((9, 9))


def test_walls_are_the_blocked_directions():
    assert TINY.walls((1, 1)) == {"up", "left"}


def test_distances_count_moves():
    assert distances_to_goal(TINY) == {
        (2, 3): 0,
        (1, 3): 1,
        (1, 2): 2,
        (1, 1): 3,
        (2, 1): 4,
        (3, 1): 5,
    }


@pytest.mark.parametrize("family", Family)
@pytest.mark.parametrize("braid", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("sides", [(7, 7), (7, 15), (31, 9)])
def test_generated_mazes_are_closed_connected_and_winnable(family, braid, sides):
    for seed in range(5):
        maze = generate(Shape(sides[0], sides[1], braid), family, seed)
        assert (len(maze.rows), len(maze.rows[0])) == sides
        assert set(maze.rows[0] + maze.rows[-1]) == {WALL}
        assert {row[0] + row[-1] for row in maze.rows} == {WALL * 2}
        reached = distances_from(maze.rows, maze.goal)
        assert len(reached) == sum(row.count(FREE) for row in maze.rows)
        assert SHORTEST_PATH <= reached[maze.start] <= LONGEST_PATH
        assert maze.walls(maze.start)


def test_a_perfect_maze_has_no_loop_and_a_braided_one_has():
    def free_cells_and_passages(maze):
        cells = distances_from(maze.rows, maze.goal)
        passages = sum((row + 1, column) in cells for row, column in cells) + sum(
            (row, column + 1) in cells for row, column in cells
        )
        return len(cells), passages

    cells, passages = free_cells_and_passages(generate(Shape(15, 15, 0.0), Family.TRAIN, 1))
    assert passages == cells - 1
    cells, passages = free_cells_and_passages(generate(Shape(15, 15, 1.0), Family.TRAIN, 1))
    assert passages > cells - 1


def test_the_same_seed_gives_the_same_maze_on_every_machine():
    assert generate(Shape(7, 9), Family.EVAL, 5) == generate(Shape(7, 9), Family.EVAL, 5)
    maze = generate(Shape(7, 9), Family.TRAIN, 5)
    assert (maze.rows, maze.start, maze.goal) == GOLDEN


@pytest.mark.parametrize("shape", [(8, 9, 0), (5, 9, 0), (9, 33, 0), (9, 9, 2), (9, 9, -1)])
def test_impossible_shapes_are_refused(shape):
    with pytest.raises(ValueError, match="not"):
        Shape(*shape)


def test_turning_or_mirroring_a_layout_keeps_its_family():
    for seed in range(20):
        rows = generate(Shape(7, 9, 0.5), Family.EVAL, seed).rows
        assert {layout_family(turned) for turned in _turns(rows)} == {Family.EVAL}


def test_train_and_eval_share_no_maze_even_turned_or_mirrored():
    tasks = MazeTasks()
    train = {maze.rows for maze in _mazes(tasks, "train")}
    for maze in _mazes(tasks, "eval"):
        assert train.isdisjoint(_turns(maze.rows))


def test_splits_have_their_sizes_and_no_task_twice():
    tasks = MazeTasks()
    assert tasks.splits() == {"train": TRAIN_SIZE, "eval": EVAL_SIZE, "official_eval": 25}
    assert TRAIN_SIZE >= 1_000
    assert EVAL_SIZE >= 100
    mazes = _mazes(tasks, "train") + _mazes(tasks, "eval")
    assert len(set(mazes)) == len(mazes)


def test_official_items_are_the_twenty_five_starts_in_order():
    tasks = MazeTasks()
    items = list(tasks.item_ids("official_eval", 0, 99))
    assert items == [f"lmrlgym_maze_{index}" for index in range(25)]
    mazes = [tasks.get(item).payload for item in items]
    assert [maze.start for maze in mazes] == list(OFFICIAL_STARTS[:25])
    assert {maze.goal for maze in mazes} == {(8, 6)}
    assert all(maze.start in distances_to_goal(maze) for maze in mazes)
    free = sum(row.count(FREE) for row in mazes[0].rows)
    assert free == 10 + 3 * 2 + 7 + 3


def test_item_25_is_playable_though_not_listed():
    maze = MazeTasks().get("lmrlgym_maze_25").payload
    assert maze.start == maze.goal == (8, 6)


@pytest.mark.parametrize("item", ["lmrlgym_maze_26", "maze_999999", "maze_3000000", "chess_1", ""])
def test_unknown_items_are_refused(item):
    with pytest.raises(UnknownItem):
        MazeTasks().get(item)


def test_unknown_splits_are_refused():
    with pytest.raises(UnknownSplit):
        MazeTasks().item_ids("test", 0, 1)


def test_every_item_is_found_under_its_own_id_and_category():
    tasks = MazeTasks()
    for index in (0, 24, EMBEDDED_BASE, EMBEDDED_BASE + 1_999, EVAL_BASE, EVAL_BASE + 199):
        task = tasks.get(str(index))
        assert tasks.get(task.item_id) == task
        assert tasks.category(task.item_id) == task.category


def test_all_fifty_shapes_occur():
    tasks = MazeTasks()
    for split in ("train", "eval"):
        assert len({tasks.category(item) for item in tasks.item_ids(split, 0, 200)}) == 50


GOLDEN = (
    ("#########", "#...#...#", "#.#.#.#.#", "#.#...#.#", "#.#####.#", "#...#...#", "#########"),
    (3, 5),
    (1, 7),
)


def test_a_maze_is_made_once_however_often_it_is_reset():
    first, second = MazeTasks().get("maze_1000007"), MazeTasks().get("maze_1000007")
    assert first.payload is second.payload
