"""The configuration mechanism: strict conversion, TOML, overrides, flags and comparison."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

import pytest

from orchestrator.configuration import (
    CommaSeparated,
    JsonObject,
    convert,
    differences,
    dump_toml,
    flatten,
    load,
    parse_flags,
    to_plain,
)
from orchestrator.errors import ConfigurationError, UsageError


class Precision(StrEnum):
    FULL = "float32"
    HALF = "bfloat16"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    eps_low: float = 0.2
    name: str = ""

    def __post_init__(self) -> None:
        if self.eps_low < 0:
            raise ValueError("eps_low is at least 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    path: Path
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A tree with everything that recipes and runs use."""

    steps: int = 10
    clip: Clip = field(default_factory=Clip)
    engine: Literal["embedded", "sglang"] = "embedded"
    precision: Precision = Precision.FULL
    out: Path | None = Path("out")
    limit: int | None = None
    sources: tuple[Source, ...] = ()
    clips: Mapping[str, Clip] = field(default_factory=dict[str, Clip])
    options: JsonObject = field(default_factory=dict[str, Any])
    names: CommaSeparated = ()


def test_defaults_fill_in_and_values_get_the_types_of_their_fields() -> None:
    values = {
        "clip": {"eps_low": 1},
        "precision": "bfloat16",
        "sources": [{"path": "/data"}],
        "clips": {"a": {"eps_low": 0.5}},
        "options": {"rows": [1, {"x": None}]},
        "names": ["a", "b"],
        "out": None,
    }
    tree = convert(Tree, values)
    assert tree == Tree(
        clip=Clip(eps_low=1.0),
        precision=Precision.HALF,
        sources=(Source(path=Path("/data")),),
        clips={"a": Clip(eps_low=0.5)},
        options={"rows": [1, {"x": None}]},
        names=("a", "b"),
        out=None,
    )
    assert isinstance(tree.clip.eps_low, float)
    assert convert(Tree, to_plain(tree)) == tree


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"clip": {"eps_low": "x"}}, "clip.eps_low: expected float, got 'x'"),
        ({"steps": True}, "steps: expected int, got True"),
        ({"steps": 1.5}, "steps: expected int, got 1.5"),
        ({"steps": None}, "steps: expected int, got None"),
        ({"clip": 3}, "clip: expected a section, got 3"),
        ({"clip": {"eps_low": -1}}, "clip: eps_low is at least 0"),
        ({"clip": {"name": 3}}, "clip.name: expected a text, got 3"),
        ({"engine": "vllm"}, "engine: cannot be 'vllm' (valid: embedded, sglang)"),
        ({"precision": "int8"}, "precision: cannot be 'int8' (valid: float32, bfloat16)"),
        ({"limit": "x"}, "limit: expected int or none, got 'x'"),
        ({"sources": [{"path": "a"}, {}]}, "sources.1.path: is required"),
        ({"sources": [{"path": "a", "weight": "x"}]}, "sources.0.weight: expected float, got 'x'"),
        ({"clips": {"a": {}, "b": {"eps_low": "x"}}}, "clips.b.eps_low: expected float, got 'x'"),
        ({"clip": {"eps_lo": 1}}, "clip.eps_lo: unknown key; did you mean clip.eps_low? (valid"),
        ({"clips": {"b": {"zz": 1}}}, "clips.b.zz: unknown key (valid: eps_low, name)"),
        ({"sources": [{"path": "a", "q": 1}]}, "sources.0.q: unknown key (valid: path, weight)"),
        ({"out": 3}, "out: expected "),
    ],
)
def test_a_wrong_value_is_refused_with_its_path(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        convert(Tree, values)
    assert str(caught.value).startswith(message)
    assert caught.value.field == message.partition(":")[0]
    assert isinstance(caught.value, UsageError)


def test_a_part_of_a_larger_tree_is_named_by_its_prefix() -> None:
    with pytest.raises(ConfigurationError, match=r"^grpo\.clip\.eps_low: expected float, got 'x'$"):
        convert(Clip, {"eps_low": "x"}, prefix="grpo.clip")


def test_toml_is_read_and_overrides_go_over_it(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text('steps = 3\n[clip]\nname = "x"\n[[sources]]\npath = "a"\n[[sources]]\npath="b"')
    overrides = {
        "clip.eps_low": "0.5",
        "clip.name": "3",
        "out": "none",
        "sources.1.path": "7",
        "names": '["c", "d"]',
        "engine": "sglang",
    }
    assert load(Tree, path, overrides) == Tree(
        steps=3,
        clip=Clip(eps_low=0.5, name="3"),
        sources=(Source(path=Path("a")), Source(path=Path("7"))),
        names=("c", "d"),
        engine="sglang",
        out=None,
    )


@pytest.mark.parametrize(
    ("overrides", "field"),
    [
        ({"clip.eps": "1"}, "clip.eps"),
        ({"clop.eps": "1"}, "clop"),
        ({"sources.5.path": "x"}, "sources.5"),
        ({"steps": "many"}, "steps"),
        ({"steps.x": "1"}, "steps"),
    ],
)
def test_a_wrong_override_is_refused_with_its_path(overrides: dict[str, str], field: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(Tree, None, overrides)
    assert caught.value.field == field


@pytest.mark.parametrize("text", [None, "steps = = 3"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "recipe.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigurationError, match=r"recipe\.toml"):
        load(Tree, path)


def test_written_toml_gives_the_same_tree_again() -> None:
    tree = Tree(
        out=Path("a b"), sources=(Source(path=Path("x")),), options={"a": {"b": [1, "c"]}}, limit=3
    )
    assert convert(Tree, tomllib.loads(dump_toml(tree))) == tree
    assert "limit" not in dump_toml(Tree())


def test_flags_are_made_from_the_tree_and_wrong_ones_end_with_2() -> None:
    flags = ["--clip.eps-low", "0.1", "--names", "a, b,,a", "--options", '{"rows": 3}']
    tree = parse_flags(Tree, flags, program="x", default=Tree(steps=4))
    assert tree == Tree(clip=Clip(eps_low=0.1), names=("a", "b"), options={"rows": 3}, steps=4)
    for wrong in (["--options", "[1]"], ["--options", "{"], ["--steps", "x"], ["--nope", "1"]):
        with pytest.raises(SystemExit) as caught:
            parse_flags(Tree, wrong, program="x")
        assert caught.value.code == 2


def test_differences_name_dotted_fields() -> None:
    old = to_plain(Tree(sources=(Source(path=Path("a")),)))
    new = to_plain(Tree(sources=(Source(path=Path("b")),), clip=Clip(eps_low=0.3)))
    assert [str(it) for it in differences(old, new)] == [
        "clip.eps_low: 0.2 -> 0.3",
        'sources.0.path: "a" -> "b"',
    ]
    assert flatten({"a": {}, "b": {"c": [1]}}) == {"a": "{}", "b.c": "[1]"}


def test_a_number_is_no_other_one_because_it_is_written_otherwise() -> None:
    assert differences({"a": 0, "b": 100}, {"a": 0.0, "b": 1e2}) == []
    assert [it.field for it in differences({"a": 1, "b": "1"}, {"a": True, "b": 1})] == ["a", "b"]


def test_a_field_that_was_unknown_then_and_is_off_now_is_no_difference_where_asked() -> None:
    new = {"a": 1, "b": 0, "c": {}, "d": 2}
    assert [it.field for it in differences({"a": 1}, new)] == ["b", "c", "d"]
    assert [it.field for it in differences({"a": 1}, new, absent_is_off=True)] == ["d"]
    assert [it.field for it in differences({"b": 1}, {"b": 0}, absent_is_off=True)] == ["b"]


def test_importing_it_loads_nothing_heavy() -> None:
    code = (
        "import sys, orchestrator.configuration\n"
        "print(sorted({'torch', 'numpy', 'grpc', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
