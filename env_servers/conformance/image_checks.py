"""Rules of images: who gets them, that states cover them, and how large they may be."""

from __future__ import annotations

from typing import Any, Final

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.conformance.harness import Harness, Play
from env_servers.conformance.verdicts import Violation, expect, expect_equal, expect_error
from env_servers.sdk import Image, ImageType, UnfitImage
from env_servers.sdk.images import require_fit

__all__ = ["CHECKS"]

_STEPS: Final = 2
_MOST_PROBED: Final = 20
"""Images of an echo observation."""


async def observations_have_images(harness: Harness) -> None:
    """Who asks for images gets them, of their types and within their limits."""
    play = await _play(harness, images=2)
    await play.steps(_STEPS)
    for event in play.events:
        expect_equal(len(event.images), 2, f"images at seq {event.seq}")
        _expect_fit(event, harness.described.limits)


async def images_go_to_who_takes_them(harness: Harness) -> None:
    """Without `images` in the reset none are sent, and the state hashes are the same."""
    taking = await _play(harness, images=1)
    other = await _play(harness, takes=False, images=1)
    await taking.steps(_STEPS)
    await other.steps(_STEPS)
    for one, event in zip(taking.events, other.events, strict=True):
        expect_equal(len(event.images), 0, f"images at seq {event.seq} that nobody takes")
        expect_equal(event.state_hash, one.state_hash, f"state_hash at seq {event.seq}")


async def states_cover_images(harness: Harness) -> None:
    """Observations that differ in their images alone lead to other state hashes."""
    small = await _play(harness, images=1)
    large = await _play(harness, images=1, image_bytes=1000)
    expect_equal(large.events[0].observation, small.events[0].observation, "the observation")
    differ = large.events[0].state_hash != small.events[0].state_hash
    expect(differ, "other images, and the same state hash")


async def images_are_repeated(harness: Harness) -> None:
    """A repeated step, an attach, a rebuild and a fork show the same images again."""
    play = await _play(harness, images=1)
    await play.steps(_STEPS)
    shown = list(play.events[-1].images)
    again = await play.ask(play.seq, action=play.actions[-1])
    expect(list(again.images) == shown, "a repeated step has other images")
    await play.stream.send(play.command(9, attach=pb.Attach(last_seq_seen=play.seq - 1)))
    missed = await play.stream.take(lambda event: event.seq == play.seq, "the missed observation")
    expect(list(missed.images) == shown, "an attach has other images")
    fork = pb.Fork(from_episode_id=play.episode_id)
    forked = await play.stream.ask(
        pb.Command(episode_id=harness.fresh_id(), seq=play.seq, fork=fork)
    )
    expect(list(forked.images) == shown, "a fork has other images")
    if not harness.deterministic:
        return
    rebuilt = harness.reset(images=1)
    rebuilt.reset.images, rebuilt.seq = True, play.seq
    for action, event in zip(play.actions, play.events[1:], strict=True):
        rebuilt.reset.journal.add(input={"action": action}, state_hash=event.state_hash)
    expect(list((await play.stream.ask(rebuilt)).images) == shown, "a rebuild has other images")


async def images_have_limits(harness: Harness) -> None:
    """Too many images, or too long ones, are ENVIRONMENT_CRASHED; others go on."""
    harness.require(pb.CAPABILITY_IMAGES)
    harness.require_echo()
    limits = harness.described.limits
    expect(0 < limits.max_images < _MOST_PROBED, "limits.max_images is unknown to echo")
    stream = await harness.open_stream()
    beyond: tuple[dict[str, Any], ...] = (
        {"images": limits.max_images + 1},
        {"images": 1, "image_bytes": limits.max_image_bytes + 1},
        {"images": 3, "image_bytes": limits.max_images_bytes // 3 + 1},
    )
    for options in beyond:
        command = harness.reset(**options)
        command.reset.images = True
        expect_error(await stream.ask(command), "ENVIRONMENT_CRASHED", fault="ENVIRONMENT")
    await _play(harness, images=1)


async def _play(harness: Harness, *, takes: bool = True, **options: Any) -> Play:
    """A fresh echo episode with images, at seq 0."""
    harness.require(pb.CAPABILITY_IMAGES)
    harness.require_echo()
    play = Play(harness, await harness.open_stream(), harness.fresh_id())
    command = harness.reset(play.episode_id, **options)
    command.reset.images = takes
    await play.open(command)
    return play


def _expect_fit(event: pb.Event, limits: pb.Limits) -> None:
    kinds = {image.media_type for image in event.images}
    unknown = sorted(kinds - set(ImageType))
    expect(not unknown, f"images have the media types {unknown}")
    sizes = [len(image.content) for image in event.images]
    expect(max(sizes) <= limits.max_image_bytes, f"an image of {max(sizes)} bytes")
    expect(sum(sizes) <= limits.max_images_bytes, f"images of {sum(sizes)} bytes")
    try:
        require_fit([Image(ImageType(it.media_type), it.content) for it in event.images])
    except UnfitImage as error:
        raise Violation(str(error)) from error


CHECKS: Final = (
    ("R67.1", observations_have_images),
    ("R67.2", images_go_to_who_takes_them),
    ("R67.3", states_cover_images),
    ("R67.4", images_are_repeated),
    ("R68.1", images_have_limits),
)
