"""The token ledger: append-only, masked, versioned, and the same after a round trip."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agent_runtime.errors import PolicyMisbehaved
from agent_runtime.ledger import Origin, TokenLedger, VersionSpan
from agentgym.episode.v1 import episode_pb2

token_ids = st.integers(0, 2**32 - 1)
id_lists = st.lists(token_ids, max_size=8)
logprobs = st.floats(-80, 0, width=32)


@st.composite
def samples(draw: st.DrawFn) -> tuple[list[int], list[float], list[VersionSpan]]:
    """A completion: ids, a logprob each, and version spans that tile it (or none)."""
    ids = draw(st.lists(token_ids, min_size=1, max_size=8))
    values = [draw(logprobs) for _ in ids]
    if draw(st.booleans()):
        return ids, values, []
    cuts = sorted(draw(st.sets(st.integers(1, len(ids) - 1), max_size=2)) if len(ids) > 1 else [])
    edges = [0, *cuts, len(ids)]
    names = [draw(st.sampled_from(["v0", "v1", "default"])) for _ in edges[1:]]
    spans = [VersionSpan(a, b, n) for a, b, n in zip(edges, edges[1:], names, strict=False)]
    return ids, values, spans


class LedgerModel(RuleBasedStateMachine):
    """Any order of appends and forks, beside a naive model of what must be stored."""

    @initialize()
    def begin(self) -> None:
        self.ledger = TokenLedger()
        self.rows: list[list[tuple[int, Origin, float, int | None, str]]] = [[]]
        self.last_prompt: list[int] = []
        self.forked = False
        self.generation = 0

    @rule(ids=id_lists)
    def context(self, ids: list[int]) -> None:
        self.ledger.append_context(ids)
        self.rows[-1] += [(i, Origin.CONTEXT, 0.0, None, "") for i in ids]

    @rule(ids=id_lists)
    def forced(self, ids: list[int]) -> None:
        self.ledger.append_forced(ids)
        self.rows[-1] += [(i, Origin.FORCED, 0.0, None, "") for i in ids]

    @rule(sample=samples(), skipped=st.integers(0, 2))
    def sampled(
        self, sample: tuple[list[int], list[float], list[VersionSpan]], skipped: int
    ) -> None:
        ids, values, spans = sample
        generation = self.generation + skipped
        self.ledger.append_sampled(ids, values, generation=generation, versions=spans)
        names = [""] * len(ids)
        for start, end, name in spans:
            names[start:end] = [name] * (end - start)
        self.rows[-1] += [
            (i, Origin.SAMPLED, v, generation, n)
            for i, v, n in zip(ids, values, names, strict=True)
        ]
        self.generation = generation + 1

    @rule(sample=samples(), flaw=st.sampled_from(["nan", "missing", "short", "inf", "positive"]))
    def sampled_badly(
        self, sample: tuple[list[int], list[float], list[VersionSpan]], flaw: str
    ) -> None:
        ids, values, spans = sample
        broken: list[float | None] = list(values)
        if flaw == "short":
            broken = broken[:-1]
        else:
            bad = {"nan": math.nan, "missing": None, "inf": -math.inf, "positive": 0.5}
            broken[-1] = bad[flaw]
        with pytest.raises(PolicyMisbehaved):
            self.ledger.append_sampled(ids, broken, generation=self.generation, versions=spans)

    @rule(ids=id_lists)
    def fork(self, ids: list[int]) -> None:
        self.ledger.fork("template_rewrote_history", ids)
        self.rows.append([(i, Origin.CONTEXT, 0.0, None, "") for i in ids])
        self.forked = True

    @invariant()
    def a_prompt_starts_with_the_one_before_unless_forked(self) -> None:
        prompt = self.ledger.prompt_ids()
        if not self.forked:
            assert prompt[: len(self.last_prompt)] == self.last_prompt
        self.last_prompt, self.forked = prompt, False

    @invariant()
    def every_token_keeps_its_mask_logprob_generation_and_version(self) -> None:
        assert self.ledger.forks == len(self.rows) - 1
        for segment, rows in zip(self.ledger.segments, self.rows, strict=True):
            names = [""] * len(segment)
            for start, end, name in segment.version_spans:
                names[start:end] = [name] * (end - start)
            parts = (segment.ids, segment.origins, segment.logprobs, segment.generations, names)
            assert list(zip(*parts, strict=True)) == rows

    @invariant()
    def storing_and_reading_back_changes_nothing(self) -> None:
        stored = [
            episode_pb2.TokenSegment.FromString(segment.SerializeToString())
            for segment in self.ledger.to_protos()
        ]
        again = TokenLedger.from_protos(stored)
        assert again.to_protos() == stored
        assert again.prompt_ids() == self.ledger.prompt_ids()


TestLedgerModel = LedgerModel.TestCase
TestLedgerModel.settings = settings(max_examples=60, stateful_step_count=12, deadline=None)


def one_turn() -> TokenLedger:
    ledger = TokenLedger()
    ledger.append_context([1, 2])
    ledger.append_sampled([3, 4], [-0.5, -1.0], generation=0, versions=[VersionSpan(0, 2, "v0")])
    return ledger


def test_an_untouched_ledger_stores_nothing() -> None:
    assert TokenLedger().to_protos() == []
    assert TokenLedger.from_protos([]).prompt_ids() == []


def test_neighbouring_spans_of_one_version_are_joined() -> None:
    ledger = one_turn()
    ledger.append_sampled([5], [-0.1], generation=1, versions=[VersionSpan(0, 1, "v0")])
    assert ledger.segments[0].version_spans == (VersionSpan(2, 5, "v0"),)


def test_a_fork_does_not_make_old_samples_trainable_twice() -> None:
    ledger = one_turn()
    ledger.fork("template_rewrote_history", [1, 3, 4])
    old, new = ledger.segments
    assert old.origins.count(Origin.SAMPLED) == 2
    assert set(new.origins) == {Origin.CONTEXT}
    assert new.fork_reason == "template_rewrote_history"


@pytest.mark.parametrize(
    "versions",
    [
        [VersionSpan(0, 1, "v0")],
        [VersionSpan(1, 2, "v0")],
        [VersionSpan(0, 2, "v0"), VersionSpan(1, 2, "v1")],
        [VersionSpan(0, 3, "v0")],
    ],
)
def test_versions_that_do_not_cover_the_sampled_tokens_are_refused(
    versions: list[VersionSpan],
) -> None:
    ledger = TokenLedger()
    with pytest.raises(PolicyMisbehaved):
        ledger.append_sampled([3, 4], [-0.5, -1.0], generation=0, versions=versions)
    assert len(ledger) == 0


@pytest.mark.parametrize("ids", [[-1], [2**32], ["x"], [1.5]])
def test_what_is_no_token_id_is_refused(ids: list[int]) -> None:
    with pytest.raises(ValueError):
        TokenLedger().append_context(ids)
    with pytest.raises(PolicyMisbehaved):
        TokenLedger().append_sampled(ids, [-1.0], generation=0)


def test_a_completion_without_tokens_is_refused() -> None:
    with pytest.raises(PolicyMisbehaved):
        TokenLedger().append_sampled([], [], generation=0)


def test_entropies_lie_beside_the_ids_and_come_back_from_the_store() -> None:
    ledger = TokenLedger()
    ledger.append_context([1, 2])
    ledger.append_sampled([3, 4], [-0.5, -1.0], generation=0, entropies=[0.25, 1.5])
    ledger.append_forced([5])
    (stored,) = ledger.to_protos()
    assert list(stored.entropies) == [0, 0, 0.25, 1.5, 0]
    assert TokenLedger.from_protos([stored]).segments[0].entropies == (0, 0, 0.25, 1.5, 0)
    with pytest.raises(PolicyMisbehaved, match="not of others"):
        ledger.append_sampled([6], [-0.5], generation=1)
    del stored.entropies[0]
    with pytest.raises(ValueError, match="4 entropies for 5 tokens"):
        TokenLedger.from_protos([stored])


@pytest.mark.parametrize("entropies", [[0.5], [0.5, math.nan], [0.5, math.inf], [0.5, -1.0]])
def test_entropies_that_cannot_be_are_refused(entropies: list[float]) -> None:
    with pytest.raises(PolicyMisbehaved):
        TokenLedger().append_sampled([3, 4], [-0.5, -1.0], generation=0, entropies=entropies)
    ledger = one_turn()
    with pytest.raises(PolicyMisbehaved):
        ledger.append_sampled([3], [-0.5], generation=1, entropies=[0.5])
    assert not ledger.segments[0].entropies


def test_a_generation_cannot_be_recorded_twice() -> None:
    ledger = one_turn()
    with pytest.raises(ValueError):
        ledger.append_sampled([5], [-0.1], generation=0)


@given(data=st.data())
def test_a_stored_segment_with_one_array_cut_is_refused(data: st.DataObject) -> None:
    stored = one_turn().to_protos()[0]
    field = data.draw(st.sampled_from(["ids", "origins", "logprobs", "generations"]))
    del getattr(stored, field)[data.draw(st.integers(0, 3))]
    with pytest.raises(ValueError):
        TokenLedger.from_protos([stored])


def test_stored_segments_that_break_the_rules_are_refused() -> None:
    def broken(**fields: object) -> episode_pb2.TokenSegment:
        stored = one_turn().to_protos()[0]
        for name, value in fields.items():
            if isinstance(value, list):
                del getattr(stored, name)[:]
                getattr(stored, name).extend(value)
            else:
                setattr(stored, name, value)
        return stored

    span = episode_pb2.VersionSpan
    for stored in (
        broken(origins=[1, 2, 2, 2]),
        broken(generations=[0, 0, 1, 0]),
        broken(logprobs=[-1.0, 0.0, -0.5, -1.0]),
        broken(logprobs=[0.0, 0.0, math.nan, -1.0]),
        broken(origins=[0, 1, 2, 2]),
        broken(version_spans=[span(start=1, end=3, version=0)]),
        broken(version_spans=[span(start=2, end=4, version=1)]),
        broken(fork_reason="first segments have none"),
    ):
        with pytest.raises(ValueError):
            TokenLedger.from_protos([stored])
