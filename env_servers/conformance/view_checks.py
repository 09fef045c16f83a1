"""Rules of pictures: what a view is, that looking disturbs nothing, and whose episodes show."""

from __future__ import annotations

from typing import Final

import grpc
import grpc.aio

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.conformance.harness import Harness, NotApplicable, Play
from env_servers.conformance.unary_checks import expect_refused
from env_servers.conformance.verdicts import Violation, expect, expect_equal, expect_observation
from env_servers.sdk import MediaType, UnfitView, View
from env_servers.sdk.views import content_flaws, require_fit

__all__ = ["CHECKS"]

_STEPS: Final = 3
_TOO_LONG: Final = 4 * 1024 * 1024 + 1


async def states_have_views(harness: Harness) -> None:
    """Every state has at least one view, bounded, whole by itself, without script."""
    harness.require(pb.CAPABILITY_RENDER)
    play = await harness.play(**harness.length(_STEPS))
    for _ in range(_STEPS):
        _expect_views(await _render(play))
        await play.steps(1)
    _expect_views(await _render(play))


async def looking_disturbs_nothing(harness: Harness) -> None:
    """A picture says of which state it is, and changes neither that nor who holds the episode."""
    harness.require(pb.CAPABILITY_RENDER)
    watched, left_alone = await harness.play(), await harness.play()
    for _ in range(_STEPS):
        first, second = await _render(watched), await _render(watched)
        expect_equal(first.seq, watched.seq, "seq of a picture")
        expect_equal(first.state_hash, watched.events[-1].state_hash, "state_hash of a picture")
        expect(first == second, "the same state, asked for again, looks different")
        if watched.ended:
            break
        event = await watched.step()
        stepped = await left_alone.step(watched.actions[-1])
        if harness.deterministic:
            expect_equal(event.state_hash, stepped.state_hash, "state_hash after a look")
    summary = await harness.summary(watched.episode_id)
    expect(summary is not None and summary.attached, "a picture took the episode off its stream")


async def ended_episodes_can_be_seen(harness: Harness) -> None:
    """An ended episode shows its last state; one that is closed is EPISODE_NOT_FOUND."""
    harness.require(pb.CAPABILITY_RENDER)
    harness.require_echo()
    play = await harness.play(length=1)
    await play.step()
    expect_equal((await _render(play)).seq, 1, "seq of an ended episode's picture")
    await play.ask(close=pb.Close())
    await _refused(play, "EPISODE_NOT_FOUND")


async def pictures_wait_for_steps(harness: Harness) -> None:
    """A picture that is asked for while a step executes shows where the step leads."""
    harness.require(pb.CAPABILITY_RENDER)
    await harness.require_observable_steps()
    play = await harness.play(sleep_ms=300)
    step = play.command(1, action="slowly")
    await play.stream.send(step)
    await play.ask(attach=pb.Attach(last_seq_seen=0))  # answered while the step executes
    picture = await _render(play)
    event = expect_observation(await play.stream.answer(step))
    expect_equal(picture.seq, 1, "seq of the picture")
    expect_equal(picture.state_hash, event.state_hash, "state_hash of the picture")


async def long_views_are_refused(harness: Harness) -> None:
    """Views beyond the limits are ENVIRONMENT_CRASHED, and the episode goes on."""
    harness.require(pb.CAPABILITY_RENDER)
    harness.require_echo()
    play = await harness.play(view_bytes=_TOO_LONG)
    await _refused(play, "ENVIRONMENT_CRASHED")
    await play.step()
    await play.must_be_at(1)


async def lacking_views_are_said(harness: Harness) -> None:
    """Without the capability RENDER a picture is UNIMPLEMENTED."""
    if pb.CAPABILITY_RENDER in harness.described.capabilities:
        raise NotApplicable("the environment has the capability RENDER")
    play = await harness.play()
    try:
        await _render(play)
    except grpc.aio.AioRpcError as error:
        expect_equal(error.code(), grpc.StatusCode.UNIMPLEMENTED, "the code")
    else:
        raise Violation("a picture without the capability")


async def pictures_are_their_clients(harness: Harness) -> None:
    """To another client an episode cannot be seen."""
    harness.require(pb.CAPABILITY_RENDER)
    if not harness.target.other_token:
        raise NotApplicable(
            "needs AGENTGYM_TOKEN and AGENTGYM_OTHER_TOKEN, the tokens of two clients"
        )
    await _refused(await harness.play(), "EPISODE_NOT_FOUND", harness.target.other_token)


async def _render(play: Play, token: str = "") -> pb.RenderResponse:
    target = play.harness.target
    return await play.harness.stub.Render(
        pb.RenderRequest(episode_id=play.episode_id),
        timeout=target.timeout,
        metadata=target.metadata(token),
    )


async def _refused(play: Play, reason: str, token: str = "") -> dict[str, str]:
    """The metadata of the error that a picture must be refused with."""
    try:
        await _render(play, token)
    except grpc.aio.AioRpcError as error:
        return expect_refused(error, reason)
    raise Violation(f"a picture was given instead of refused with {reason}")


def _expect_views(response: pb.RenderResponse) -> None:
    expect(len(response.views) > 0, "a state without views")
    kinds = [view.media_type for view in response.views]
    unknown = sorted(set(kinds) - set(MediaType))
    expect(not unknown, f"views have the media types {unknown}")
    views = [View(it.name, it.title, MediaType(it.media_type), it.content) for it in response.views]
    try:
        require_fit(views)
    except UnfitView as error:
        raise Violation(str(error)) from error
    for view in views:
        for flaw in content_flaws(view):
            raise Violation(f"the view {view.name}: {flaw}")


CHECKS: Final = (
    ("R64.1", states_have_views),
    ("R64.2", lacking_views_are_said),
    ("R65.1", looking_disturbs_nothing),
    ("R65.2", pictures_wait_for_steps),
    ("R65.3", ended_episodes_can_be_seen),
    ("R65.4", pictures_are_their_clients),
    ("R66.1", long_views_are_refused),
)
