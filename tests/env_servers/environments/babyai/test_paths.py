from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from env_servers.environments.babyai.paths import FORWARD, LEFT, RIGHT, Ways

VECTORS = ((1, 0), (0, 1), (-1, 0), (0, -1))
cells = st.tuples(st.integers(0, 6), st.integers(-3, 3)).filter(lambda cell: cell != (0, 0))
blocks = st.frozensets(cells, max_size=12)


def walk(moves: tuple[int, ...]) -> list[tuple[int, int, int]]:
    forward = right = heading = 0
    poses = [(0, 0, 0)]
    for move in moves:
        if move == FORWARD:
            forward += VECTORS[heading][0]
            right += VECTORS[heading][1]
        else:
            assert move in (LEFT, RIGHT)
            heading = (heading + (1 if move == RIGHT else -1)) % 4
        poses.append((forward, right, heading))
    return poses


@given(blocks, cells, st.integers(0, 3), st.booleans())
def test_a_way_ends_before_the_thing_and_looks_at_it(blocked, goal, direction, original):
    moves = Ways(blocked | {goal}, direction, original=original).to_face(*goal)
    if moves is not None:
        forward, right, heading = walk(moves)[-1]
        assert (forward + VECTORS[heading][0], right + VECTORS[heading][1]) == goal


@given(blocks, cells, st.integers(0, 3), st.booleans())
def test_a_way_never_enters_a_blocked_cell(blocked, goal, direction, original):
    moves = Ways(blocked - {goal}, direction, original=original).to_enter(*goal)
    if moves is not None:
        poses = walk(moves)
        assert poses[-1][:2] == goal
        assert not {pose[:2] for pose in poses} & (blocked - {goal})


@settings(max_examples=50)
@given(blocks, cells)
def test_the_originals_way_is_never_shorter_than_the_shortest(blocked, goal):
    # Looking up, the original's window is the exact one, so the two differ only in their search.
    shortest = Ways(blocked, 3, original=False).to_face(*goal)
    original = Ways(blocked, 3, original=True).to_face(*goal)
    assert (shortest is None) == (original is None)
    if shortest is not None and original is not None:
        assert len(shortest) <= len(original)


def test_a_thing_right_ahead_needs_no_move():
    assert Ways([(1, 0)], 0, original=True).to_face(1, 0) == ()


def test_the_original_may_step_back_out_of_the_window_when_looking_right_or_down():
    walls = [(0, -1), (0, 1), (1, 0)]
    assert Ways(walls, 3, original=True).to_enter(2, 0) is None
    assert Ways(walls, 0, original=True).to_enter(2, 0) is not None
    assert Ways(walls, 0, original=False).to_enter(2, 0) is None
