from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from training.config.cli import parse_command
from training.config.recipe import build, load_recipe, recipe_differences, rename_keys
from training.config.start import Start
from training.errors import RecipeError


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    lr: float = 0.1
    kind: Literal["a", "b"] = "a"
    note: str = ""

    def __post_init__(self) -> None:
        if self.lr <= 0:
            raise ValueError("lr is above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    out: Path
    steps: int = 1
    fast: bool = False
    limit: float | None = None
    inner: Inner = field(default_factory=Inner)
    parts: tuple[Inner, ...] = ()


def test_a_recipe_is_a_typed_tree(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text('out = "x"\nsteps = 3\n[inner]\nlr = 1\n[[parts]]\nkind = "b"\n')
    recipe = load_recipe(Recipe, path)
    assert recipe == Recipe(out=Path("x"), steps=3, inner=Inner(lr=1.0), parts=(Inner(kind="b"),))


def test_flags_lie_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text('out = "x"\n[[parts]]\nlr = 0.5\n')
    flags = "--inner.lr 1e-4 --fast=true --parts.0.kind b --resume --inner.note 3 --limit 2"
    call = parse_command([str(path), *flags.split()])
    recipe = load_recipe(Recipe, call.path, call.overrides)
    assert call.start is Start.RESUME
    assert (recipe.inner.lr, recipe.fast, recipe.limit) == (1e-4, True, 2.0)
    assert recipe.parts == (Inner(lr=0.5, kind="b"),) and recipe.inner.note == "3"


@pytest.mark.parametrize(
    ("values", "field_name", "says"),
    [
        ({"out": "x", "inner": {"lrr": 1}}, "inner.lrr", "did you mean inner.lr?"),
        ({"out": "x", "step": 1}, "step", "valid: fast, inner, limit, out, parts, steps"),
        ({"out": "x", "steps": "3"}, "steps", "expected int"),
        ({"out": "x", "steps": True}, "steps", "expected int"),
        ({"out": "x", "fast": 1}, "fast", "expected bool"),
        ({"out": "x", "inner": {"kind": "c"}}, "inner.kind", "valid: a, b"),
        ({"out": "x", "inner": {"lr": -1}}, "inner", "lr is above 0"),
        ({"out": "x", "parts": [{}, {"lr": "x"}]}, "parts.1.lr", "expected float"),
        ({"out": "x", "inner": 3}, "inner", "expected a section"),
        ({}, "out", "is required"),
    ],
)
def test_what_is_wrong_is_named_by_its_field(values: dict, field_name: str, says: str) -> None:
    with pytest.raises(RecipeError) as caught:
        build(Recipe, values)
    assert caught.value.field == field_name
    assert says in str(caught.value)


def test_a_flag_for_an_element_that_is_not_there_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"parts\.2"):
        load_recipe(Recipe, None, {"out": "x", "parts": "[{}]", "parts.2.lr": "1"})


def test_a_file_that_is_no_toml_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text("out = [")
    with pytest.raises(RecipeError, match=r"r\.toml is no TOML"):
        load_recipe(Recipe, path)
    with pytest.raises(RecipeError, match="cannot read"):
        load_recipe(Recipe, tmp_path / "none.toml")


def test_resume_and_overwrite_exclude_each_other() -> None:
    with pytest.raises(RecipeError, match="exclude"):
        parse_command(["r.toml", "--resume", "--overwrite"])


def test_two_recipes_differ_in_named_fields() -> None:
    found = recipe_differences({"a": {"b": 1}, "c": [{"d": 1}]}, {"a": {"b": 2}, "c": [{"d": 1}]})
    assert [str(it) for it in found] == ["a.b: 1 -> 2"]


@pytest.mark.parametrize("off", [None, False, 0, 0.0, "", []])
def test_a_key_that_a_recorded_recipe_did_not_have_may_be_off(off: object) -> None:
    assert recipe_differences({"a": {}}, {"a": {"new": off}}) == []
    assert [it.field for it in recipe_differences({"a": {"new": 1}}, {"a": {"new": off}})] == [
        "a.new"
    ]
    assert [it.field for it in recipe_differences({"a": {}}, {"a": {"new": 1}})] == ["a.new"]


def test_names_that_were_one_text_once_are_read_as_a_list() -> None:
    assert rename_keys({"agent_eval": {"env": "maze, wordle"}}) == {
        "agent_eval": {"environments": ["maze", "wordle"]}
    }
