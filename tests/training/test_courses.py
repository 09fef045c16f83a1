from __future__ import annotations

import pytest

from training.courses import Course, Matrix, expand

MAIN = Course(iterations=4, merge="initial", samples=2)


def test_a_matrix_varies_one_setting_at_a_time_and_leaves_out_what_the_recipe_has():
    matrix = Matrix(merge=("initial", "previous"), iterations=(1, 2, 4), samples=(1, 2, 4))
    courses = expand(MAIN, matrix, ["one-iteration", "dpo"])
    assert [it.name for it in courses] == [
        *("merge=previous", "iterations=1", "iterations=2", "samples=1", "samples=4"),
        "one iteration",
    ]
    assert courses[0] == Course(iterations=4, merge="previous", samples=2, name="merge=previous")
    assert (courses[-1].iterations, courses[-1].factor) == (1, 4)


@pytest.mark.parametrize(
    ("course", "prefixes"),
    [
        (MAIN, ["", "", ""]),
        (Course(iterations=2, merge="initial", samples=2), ["", "", ""]),
        (
            Course(iterations=4, merge="previous", samples=2),
            ["", "merge=previous/", "merge=previous/"],
        ),
        (
            Course(iterations=4, merge="initial", samples=4),
            ["samples=4/", "samples=4/", "samples=4/"],
        ),
        (Course(iterations=1, merge="initial", samples=2, factor=4), ["samples-x4/"] * 3),
    ],
)
def test_iterations_that_depend_on_the_same_are_the_same(course, prefixes):
    assert [course.prefix(number, MAIN) for number in (1, 2, 3)] == prefixes


def test_a_matrix_without_an_iteration_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        Matrix(iterations=(0,))
