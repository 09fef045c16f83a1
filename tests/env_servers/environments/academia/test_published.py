"""AgentBoard's pickled graphs are converted without being loaded, and then played on."""

from __future__ import annotations

import contextlib
import io
import pickle
import re
import shutil
import sys
import tracemalloc
import types
from collections import OrderedDict, defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from env_servers.environments.academia import Academia, pickle_reader
from env_servers.environments.academia.pickle_reader import (
    GraphObject,
    UnreadablePickle,
    read_pickle,
)
from env_servers.environments.academia.published import FILE, convert, main, read_published
from env_servers.sdk import EnvironmentConfig, EnvironmentUnavailable, ResetOptions, UnknownItem
from env_servers.toolkit.tool_calls import MalformedFile, ToolTaskSet
from tests.kit.data import read_eval_ids


@pytest.fixture
def networkx(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Graph classes under networkx's names, so that pickles look like the published ones."""
    module = types.ModuleType("networkx.classes.graph")

    class Graph:
        def __init__(self, nodes: dict[Any, Any], adjacency: dict[Any, Any]) -> None:
            self.graph: dict[str, Any] = {}
            self._node = nodes
            self._adj = adjacency

    Graph.__module__, Graph.__qualname__ = module.__name__, "Graph"
    module.Graph = Graph  # type: ignore[attr-defined]
    for name in ("networkx", "networkx.classes"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return Graph


@pytest.fixture
def raw(tmp_path: Path, networkx: Any) -> Path:
    """A tiny copy of the published folder: three papers, two authors."""
    folder = tmp_path / "raw"
    folder.mkdir()
    paper = {"year": 2020, "venue": "V", "n_citation": 3, "keywords": [], "doc_type": "Conference"}
    papers = {10: {"authors": ["A", "B"], **paper}, 11: {"authors": ["A"], **paper}, 12: {}}
    edge = {"collaborative_papers": [10, 11], "weight": 2}
    contents = {
        "paper_net": networkx(papers, {10: {11: {}, 12: {}}, 11: {}, 12: {}}),
        "author_net": networkx(
            {1: {"name": "A", "org": "O"}, 2: {"name": "B", "org": "P"}},
            {1: {2: edge}, 2: {1: edge}},
        ),
        "id2title_dict": {10: "First", 11: "Second", 12: "Third"},
        "id2author_dict": {1: "A", 2: "B"},
    }
    for name, value in contents.items():
        (folder / f"{name}.pkl").write_bytes(pickle.dumps(value, protocol=4))
    return folder


@pytest.mark.parametrize("protocol", range(6))
def test_plain_data_is_read_as_pickle_reads_it(protocol: int) -> None:
    shared = ["x", 1.5]
    data = {
        "texts": ["", "ä", "long " * 100],
        "numbers": [0, -1, 255, 65_536, 2**70, 1e300, True, False, None],
        "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
        "shared": [shared, shared],
        3: {"nested": {(1, "a"): [[]]}},
    }
    assert read_pickle(io.BytesIO(pickle.dumps(data, protocol=protocol))) == data


@pytest.mark.parametrize("protocol", range(2, 6))
def test_a_graph_comes_out_as_its_state(networkx: Any, protocol: int) -> None:
    graph = networkx({1: {"a": 1}}, {1: {2: {}}})
    found = read_pickle(io.BytesIO(pickle.dumps(graph, protocol=protocol)))
    state = {"graph": {}, "_node": {1: {"a": 1}}, "_adj": {1: {2: {}}}}
    assert found == GraphObject("Graph", state)


@pytest.mark.parametrize("protocol", range(2))
def test_a_graph_of_an_old_protocol_comes_out_as_its_state(networkx: Any, protocol: int) -> None:
    # Python 2's names stand in files of these protocols: copy_reg, __builtin__.
    graph = networkx({1: {"a": 1}}, {1: {2: {}}})
    found = read_pickle(io.BytesIO(pickle.dumps(graph, protocol=protocol)))
    assert found == GraphObject(
        "Graph", {"graph": {}, "_node": {1: {"a": 1}}, "_adj": {1: {2: {}}}}
    )


def test_ordered_and_default_dictionaries_come_out_as_dictionaries() -> None:
    for value in (OrderedDict(a=1), defaultdict(list, a=[1]), defaultdict(dict, a={})):
        assert read_pickle(io.BytesIO(pickle.dumps(value))) == dict(value)


class _Trap:
    """A pickle of this would run a command when loaded."""

    def __reduce__(self) -> Any:
        return eval, ("__import__('os').environ.__setitem__('AGENTGYM_TRAP', '1')",)


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps(_Trap()),
        pickle.dumps([_Trap()], protocol=0),
        b"cos\nsystem\n(S'true'\ntR.",
        pickle.dumps(Path("x")),
        pickle.dumps({1, 2})[:-4],
        b"",
        b"\x80\x04",
        b"0.",
        b"not a pickle",
        b"\x80\x04h\x05.",
        b"]e.",
    ],
)
def test_whatever_else_a_pickle_asks_for_is_refused_and_not_run(
    data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AGENTGYM_TRAP", raising=False)
    with pytest.raises(UnreadablePickle):
        read_pickle(io.BytesIO(data))
    import os

    assert "AGENTGYM_TRAP" not in os.environ


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (pickle.dumps(_Trap()), "builtins eval"),
        (b"cos\nsystem\n(S'true'\ntR.", "os system"),
        (b"cposix\nsystem\n.", "posix system"),
        # STACK_GLOBAL takes a dotted path, which could climb out of an allowed module.
        (b"\x80\x04\x8c\x08builtins\x8c\x0elist.__class__\x93.", "builtins list.__class__"),
        (b"\x80\x04\x8c\x0bcollections\x8c\x0cabc.sys.exit\x93.", "collections abc.sys.exit"),
    ],
)
def test_a_name_that_is_not_allowed_is_refused_by_name(data: bytes, named: str) -> None:
    with pytest.raises(UnreadablePickle, match=re.escape(f"names {named!r}")):
        read_pickle(io.BytesIO(data))


GRAPH = b"cnetworkx.classes.graph\nGraph\n"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"cbuiltins\nlist\n)R.", "calls builtins list"),
        (b"cbuiltins\nobject\n)\x81.", "calls builtins object"),
        (b"ccopyreg\n_reconstructor\n(cbuiltins\nobject\nNNtR.", "something else than a graph"),
        (b"]N\x85R.", "damaged"),
        (GRAPH + b"(}S'a'\nI1\nstb.", "damaged"),
        (GRAPH + b"N}S'build'\nI1\ns\x86b.", "damaged"),
        (GRAPH + b")R(lb.", "no attributes"),
        (GRAPH + b".", "class or function"),
        (b"\x82\x01.", "uses EXT1"),
        (b"Pos\n.", "uses PERSID"),
        (b"(S'x'\nios\nsystem\n.", "uses INST"),
    ],
)
def test_stand_ins_give_a_pickle_nothing_to_call_or_change(data: bytes, said: str) -> None:
    before = {name: dict(vars(stand_in)) for name, stand_in in pickle_reader.ALLOWED.items()}
    with pytest.raises(UnreadablePickle, match=said):
        read_pickle(io.BytesIO(data))
    assert {name: dict(vars(each)) for name, each in pickle_reader.ALLOWED.items()} == before


def _laughs(levels: int) -> bytes:
    """Lists of ten times the list before, in a few bytes a level."""
    data: Any = []
    for _ in range(levels):
        data = [data] * 10
    return pickle.dumps(data)


def _doubled(levels: int) -> bytes:
    """A tuple of the tuple before, twice, in four bytes a level."""
    return b"".join(b"\x94h" + bytes([level]) + b"\x86" for level in range(levels))


def _circle() -> bytes:
    data: list[Any] = []
    data.append(data)
    return pickle.dumps(data)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        # Lengths and memo places that are claimed, not filled.
        (b"\x80\x04\x8e" + (2**40).to_bytes(8, "little") + b"x.", "damaged"),
        (b"\x80\x04\x8d" + (2**62).to_bytes(8, "little") + b"x.", "damaged"),
        (b"\x80\x04\x95" + (2**62).to_bytes(8, "little") + b"N.", "damaged"),
        (b"Nr" + (2**31).to_bytes(4, "little") + b".", "remembers"),
        (b"Np4000000000\n.", "remembers"),
        (b"I" + b"9" * 10_000 + b"\n.", "damaged"),
        # Small files that are large or endless once they are written out.
        (_laughs(30), "more than 50000000 values"),
        (_circle(), "levels deep"),
        (b"]" * 200_000 + b"a" * 199_999 + b".", "levels deep"),
        # A key of nested tuples is hashed on the C stack, and a shared part as often as it is met.
        (b"}" + b")" + b"\x85" * 1_000_000 + b"Ns.", "tuple of more than 100 values"),
        (b"}" + b")" + _doubled(40) + b"Ns.", "tuple of more than 100 values"),
    ],
)
@pytest.mark.timeout(60)
def test_a_bomb_is_refused_before_it_takes_memory_or_stack(data: bytes, said: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(UnreadablePickle, match=said):
            read_pickle(io.BytesIO(data))
        assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    finally:
        tracemalloc.stop()


def test_a_file_above_the_limit_is_not_read_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickle_reader, "MAX_FILE", 10)
    with pytest.raises(UnreadablePickle, match="larger than 10 bytes"):
        read_pickle(io.BytesIO(pickle.dumps("a" * 100)))


def test_shared_parts_deeper_down_count_as_deep_as_they_are() -> None:
    data: list[Any] = [[]]
    for _ in range(5):  # each part is shallow where it is met first
        part: Any = data[-1]
        for _ in range(30):
            part = [part]
        data.append(part)
    with pytest.raises(UnreadablePickle, match="levels deep"):
        read_pickle(io.BytesIO(pickle.dumps(data)))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_damaged_pickle_is_data_or_refused(data: st.DataObject) -> None:
    protocol = data.draw(st.integers(0, 5))
    content = {"a": [1, 2.5, None, ("x", b"y")], 2: {"b": {3}}, "c": OrderedDict(a=1)}
    damaged = bytearray(pickle.dumps(content, protocol=protocol))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(damaged) - 1))
        damaged[place] = data.draw(st.integers(0, 255))
    with contextlib.suppress(UnreadablePickle):
        read_pickle(io.BytesIO(bytes(damaged)))


def test_converted_graphs_answer_as_the_published_ones(raw: Path, tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    assert convert(raw, tmp_path / "tools" / FILE) == (3, 2)
    graphs = read_published(tmp_path)
    assert graphs is not None
    assert graphs.cited_titles("First") == ["Second", "Third"]
    assert graphs.paper_attributes("Second")["year"] == 2020
    assert graphs.collaborator_names("A") == ["B"]
    assert graphs.author_attributes("B") == {"name": "B", "org": "P"}
    assert graphs.collaboration("A", "B") == {
        "collaborative_papers": ["First", "Second"],
        "weight": 2,
    }
    assert graphs.collaboration("A", "A") is None
    assert graphs.citation("First", "Third") == {}
    assert graphs.citation("Third", "First") is None
    assert (graphs.paper("Fourth"), graphs.author("First")) == (None, None)


def test_official_tasks_are_there_only_with_their_graphs(
    raw: Path, tmp_path: Path, data_dir: Path
) -> None:
    folder = tmp_path / "tools"
    folder.mkdir()
    shutil.copy(data_dir / "tools" / "academia.jsonl", folder)
    config = EnvironmentConfig(data_dir=tmp_path)
    assert "official_eval" not in Academia.load_tasks(config).splits()
    with pytest.raises(UnknownItem):
        Academia.load_tasks(config).get("tool_academia_3")
    convert(raw, folder / FILE)
    tasks: ToolTaskSet = Academia.load_tasks(config)
    assert set(read_eval_ids("tool_academia")) == set(tasks.item_ids("official_eval", 0, 99))
    for item in ("tool_academia_3", "academia_3"):
        assert tasks.get(item).item_id == "tool_academia_3"
    episode = Academia(tasks)
    episode.reset(tasks.get("tool_academia_8"), ResetOptions())
    episode.step("Action: loadPaperNet with Action Input: {}")
    seen = episode.step('Action: paperNodeCheck with Action Input: {"node": "First"}')
    assert "'authors': ['A', 'B'], 'year': 2020" in seen.text
    answer = ["Yang Song_2", "Stefano Ermon", "Chenlin Meng"]
    seen = episode.step(f"Action: finish with Action Input: {{'answer': {answer}}}")
    assert (seen.reward, seen.terminated) == (1.0, True)


def test_embedded_tasks_play_on_the_invented_graphs_beside_them(raw: Path, tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    convert(raw, tmp_path / "tools" / FILE)
    tasks = Academia.load_tasks(EnvironmentConfig(data_dir=tmp_path))
    episode = Academia(tasks)
    episode.reset(tasks.get(tasks.item_ids("eval", 0, 1)[0]), ResetOptions())
    seen = episode.step(episode.advise_expert(0).action)
    while not seen.terminated:
        seen = episode.step(episode.advise_expert(0).action)
    assert seen.reward == 1.0


def test_the_command_says_what_is_wrong(
    raw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([]) == 2
    assert main([str(raw), str(tmp_path / FILE)]) == 0
    assert "3 papers and 2 authors" in capsys.readouterr().err
    (raw / "author_net.pkl").write_bytes(pickle.dumps(_Trap()))
    assert main([str(raw), str(tmp_path / FILE)]) == 1
    assert "author_net.pkl: the pickle names" in capsys.readouterr().err
    with pytest.raises(EnvironmentUnavailable, match="id2title_dict"):
        convert(tmp_path, tmp_path / FILE)


def test_a_damaged_converted_file_is_reported_with_line_and_field(tmp_path: Path) -> None:
    import gzip

    folder = tmp_path / "tools"
    folder.mkdir()
    for line, field in (
        ('{"paper": "x", "attributes": [], "cites": []}', "attributes"),
        ('{"paper": "x", "attributes": {}, "cites": [1]}', "cites"),
        ('{"attributes": {}}', "author"),
    ):
        with gzip.open(folder / FILE, "wt") as out:
            out.write(line)
        with pytest.raises(MalformedFile, match=f"line 1, field {field}"):
            read_published(tmp_path)
    (folder / FILE).write_bytes(b"no gzip")
    with pytest.raises(EnvironmentUnavailable, match="cannot read"):
        read_published(tmp_path)
