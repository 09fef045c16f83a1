"""Engine health: what was restarted or half-updated may not serve until it has its weights."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.sglang.health import EngineHealth, EngineInfo, EngineState, GroupHealth

READY = EngineHealth().answered(EngineInfo("boot-1", "default"))
UPDATED = READY.update_begun().update_done(EngineInfo("boot-1", "v1"))


def test_the_first_sighting_says_what_an_engine_should_serve() -> None:
    assert READY.state is EngineState.READY
    assert READY.version == "default"


def test_an_engine_that_was_never_seen_is_down() -> None:
    assert EngineHealth().state is EngineState.DOWN


def test_a_restarted_engine_with_its_first_weights_is_stale_until_it_is_refitted() -> None:
    restarted = UPDATED.unreachable().answered(EngineInfo("boot-2", "default"))
    assert restarted.state is EngineState.STALE
    assert restarted.answered(EngineInfo("boot-2", "default")).state is EngineState.STALE
    assert (
        restarted.unreachable().answered(EngineInfo("boot-2", "default")).state is EngineState.STALE
    )
    reloaded = restarted.update_begun().update_done(EngineInfo("boot-2", "v1"))
    assert reloaded.state is EngineState.READY


def test_an_engine_restarted_with_the_weights_that_it_had_serves() -> None:
    assert UPDATED.unreachable().answered(EngineInfo("boot-2", "v1")).state is EngineState.READY
    assert READY.answered(EngineInfo("boot-2", "default")).state is EngineState.READY


def test_somebody_elses_refit_is_noticed_by_the_new_version() -> None:
    restarted = UPDATED.answered(EngineInfo("boot-2", "default"))
    assert restarted.answered(EngineInfo("boot-2", "v7")).state is EngineState.READY


def test_somebody_elses_update_of_a_running_engine_is_followed() -> None:
    followed = READY.answered(EngineInfo("boot-1", "v5"))
    assert (followed.state, followed.version) == (EngineState.READY, "v5")


def test_an_engine_is_measured_by_what_its_keeper_says() -> None:
    assert READY.expected("v1").state is EngineState.STALE
    assert READY.expected("v1").answered(EngineInfo("boot-1", "default")).state is EngineState.STALE
    assert READY.expected("v1").answered(EngineInfo("boot-1", "v1")).state is EngineState.READY
    # It was given the next weights before the keeper has said so.
    ahead = EngineHealth().answered(EngineInfo("boot-1", "v2")).expected("v1")
    assert ahead.state is EngineState.STALE
    assert ahead.updated_elsewhere("v2").state is EngineState.READY
    absent = EngineHealth().expected("v1")
    assert absent.state is EngineState.DOWN
    assert absent.answered(EngineInfo("boot-1", "v1")).state is EngineState.READY
    assert absent.answered(EngineInfo("boot-1", "default")).state is EngineState.STALE


def test_weights_that_others_replaced_are_known_before_the_first_token_of_them() -> None:
    told = UPDATED.updated_elsewhere("v2")
    assert (told.state, told.version) == (EngineState.READY, "v2")
    # It was restarted meanwhile: what it serves is not what it was given.
    assert told.answered(EngineInfo("boot-2", "default")).state is EngineState.STALE
    down = UPDATED.unreachable().updated_elsewhere("v2")
    assert down.answered(EngineInfo("boot-2", "v1")).state is EngineState.STALE
    assert down.answered(EngineInfo("boot-2", "v2")).state is EngineState.READY


def test_an_engine_that_was_only_out_of_reach_serves_again() -> None:
    assert UPDATED.unreachable().answered(EngineInfo("boot-1", "v1")).state is EngineState.READY


def test_a_failed_update_leaves_nothing_to_be_trusted() -> None:
    failed = READY.update_begun().update_failed()
    assert failed.state is EngineState.STALE
    assert failed.answered(EngineInfo("boot-1", "default")).state is EngineState.STALE


def test_one_stale_engine_closes_the_fleet_and_one_that_is_down_does_not() -> None:
    group = GroupHealth(["a", "b"])
    assert not group.may_serve
    group["a"], group["b"] = UPDATED, UPDATED.unreachable()
    assert group.may_serve
    assert group.versions == {"v1"}
    group["b"] = group["b"].answered(EngineInfo("boot-2", "default"))
    assert not group.may_serve
    assert group.stale == ("b",)
    assert "b is stale" in group.describe()


events = st.one_of(
    st.tuples(st.just("probed"), st.integers(1, 3), st.sampled_from(["default", "v1", "v2"])),
    st.tuples(st.just("unreachable"), st.just(0), st.just("")),
    st.tuples(st.just("begun"), st.just(0), st.just("")),
    st.tuples(st.just("failed"), st.just(0), st.just("")),
    st.tuples(st.just("done"), st.integers(1, 3), st.sampled_from(["default", "v1", "v2"])),
    st.tuples(st.just("told"), st.just(0), st.sampled_from(["default", "v1", "v2"])),
)


@given(st.lists(events, max_size=30))
def test_what_is_served_was_always_vouched_for(history: list[tuple[str, int, str]]) -> None:
    """READY means: the version was seen at first, set by an update, told by whoever made one, or
    changed within one boot."""
    engine = EngineHealth()
    vouched: str | None = None
    boot = 0
    seen: str | None = None
    for kind, number, version in history:
        if kind == "probed":
            info = EngineInfo(f"boot-{number}", version)
            if vouched is None or (number == boot and version != seen and not engine.updating):
                vouched = version
            engine, boot, seen = engine.answered(info), number, version
        elif kind == "unreachable":
            engine = engine.unreachable()
        elif kind == "begun":
            engine = engine.update_begun()
        elif kind == "failed":
            engine = engine.update_failed()
        elif kind == "told":
            seen = version if engine.state is EngineState.READY else seen
            engine, vouched = engine.updated_elsewhere(version), version
        else:
            engine = engine.update_done(EngineInfo(f"boot-{number}", version))
            boot, seen, vouched = number, version, version
        if engine.state is EngineState.READY:
            assert seen == vouched == engine.version
