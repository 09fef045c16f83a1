"""Images of observations on their way from a server to a policy and into the record."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from agent_runtime import images
from agent_runtime.agent import EpisodePlan, EpisodeRun, play
from agent_runtime.connection import Connection
from agent_runtime.conversation import Message, Role
from agent_runtime.episode import RemoteEpisode
from agent_runtime.errors import ImageUnusable
from agent_runtime.images import Image, RecordedImages, shown_images
from agent_runtime.live_record import LiveRecord, Seen
from agent_runtime.policies import Completion, EpisodeContext, Policy, PolicyConfig, PolicySession
from agent_runtime.policies.registry import make_policy
from agentgym.episode.v1 import episode_pb2
from env_servers.server import EnvironmentServer, ServerConfig


class Looker(Policy, PolicySession):
    """Replies and notes what it was shown."""

    name = "looker"

    def __init__(self, *, sees: bool) -> None:
        self.sees = sees
        self.seen: list[tuple[Image, ...]] = []

    @property
    def takes_images(self) -> bool:
        return self.sees

    def open(self, context: EpisodeContext) -> PolicySession:
        return self

    async def reply(self, messages: Sequence[Message], *, turn: int, seed: int) -> Completion:
        self.seen.append(messages[-1].images)
        return Completion(text="Action: look")


@asynccontextmanager
async def a_server() -> AsyncIterator[Connection]:
    """A connection to a server of echo."""
    server = EnvironmentServer(ServerConfig(environments=("echo",), bind=("127.0.0.1:0",)))
    await server.start()
    try:
        async with Connection(server.addresses[0]) as connection:
            yield connection
    finally:
        await server.stop()


async def plan_on(connection: Connection, **options: float) -> EpisodePlan:
    """Three turns of echo."""
    plan = EpisodePlan(
        run_id="r",
        episode_id="e",
        environment=await connection.get_environment("echo"),
        item_id="echo_1000000",
        max_rounds=3,
    )
    plan.options.update(options)
    return plan


async def played(
    policy: Policy, *, shown: LiveRecord | None = None, **options: float
) -> episode_pb2.Episode:
    """The record of an echo episode of three turns."""
    async with a_server() as connection:
        plan = await plan_on(connection, **options)
        live = RemoteEpisode(connection, plan.episode_id, plan.reset())
        return await play(plan, live, policy, shown=shown)


async def test_a_policy_sees_them_and_the_record_has_each_once() -> None:
    policy = Looker(sees=True)
    record = await played(policy, images=2)
    assert not record.HasField("error"), record.error.message
    assert [len(seen) for seen in policy.seen] == [2, 2, 2]
    # Echo draws the same squares for a state of the same number.
    assert len(record.images) == 8
    assert [list(step.images) for step in record.steps] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    observed = [message for message in record.messages if message.images]
    assert [shown_images(it, record.images) for it in observed[:3]] == policy.seen


async def test_who_watches_is_told_of_them() -> None:
    shown = LiveRecord()
    record = await played(Looker(sees=True), shown=shown, images=1)
    news = shown.news(Seen())
    assert news is not None
    assert [it.media_type for it in news.images] == ["image/png"] * len(record.images)
    assert not any(it.content for it in news.images)
    assert [list(it.images) for it in news.messages] == [list(it.images) for it in record.messages]


async def test_a_policy_of_texts_fails_the_episode_and_says_what_to_do() -> None:
    record = await played(Looker(sees=False), images=1)
    assert record.error.reason == "IMAGES_NOT_TAKEN"
    assert "leave out the option" in record.error.message
    assert not record.error.retriable
    assert not (await played(Looker(sees=False))).HasField("error")


async def test_scripted_players_need_not_see() -> None:
    record = await played(make_policy("expert", PolicyConfig()), images=1)
    assert not record.HasField("error")
    assert len(record.images) == len(record.steps)


async def test_a_record_keeps_no_more_than_it_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "MAX_RECORDED_BYTES", 3000)
    record = await played(Looker(sees=True), images=1, image_bytes=1000)
    assert record.error.reason == "IMAGE_UNUSABLE"
    assert "3,000 bytes" in record.error.message
    assert len(record.steps) == 2


async def test_a_branch_has_its_parents_images_and_forgets_those_taken_back() -> None:
    record = await played(Looker(sees=True), images=1)
    told = [
        Message(Role(it.role), it.text, images=shown_images(it, record.images))
        for it in record.messages[:5]
    ]
    async with a_server() as connection:
        plan = await plan_on(connection, images=1)
        live = RemoteEpisode(connection, "branch", plan.reset())
        await live.reset()
        reached = await live.step("look")
        run = EpisodeRun(plan, live, "looker")
        run.take_over(told, record.steps[:2], reached)
        assert run.so_far().images == record.images[:2]
        await run.take_turn(Looker(sees=True), 0)
        assert [list(it.images) for it in run.so_far().steps] == [[0], [1], [2]]
        run.rewind(1, live, reached)
        assert run.so_far().images == record.images[:2]


def test_equal_images_are_kept_once_and_only_bitmaps() -> None:
    record = episode_pb2.Episode()
    kept = RecordedImages(record)
    red, blue = Image("image/png", b"red"), Image("image/png", b"blue")
    assert kept.places([red, blue, red]) == [0, 1, 0]
    assert RecordedImages(record).places([blue]) == [1]
    with pytest.raises(ImageUnusable, match="image/svg"):
        kept.places([Image("image/svg+xml", b"<svg/>")])
