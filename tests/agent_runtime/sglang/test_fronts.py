"""Several engines by a list of addresses, as behind a router."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.conversation import Message, Role
from agent_runtime.errors import PolicyMisconfigured, PolicyUnavailable
from agent_runtime.policies import PolicyConfig, RequestRetry, Sampling, SGLangOptions
from agent_runtime.policies.sglang import SGLangPolicy
from agent_runtime.sglang import engines
from agent_runtime.sglang.fronts import prefer
from tests.agent_runtime import tiny_tokenizers as tiny
from tests.agent_runtime.policies.live_episode import episode_context
from tests.kit.fake_sglang import FakeModel, FakeSGLang

MESSAGES = [Message(Role.USER, "You are in a maze.")]
ADDRESSES = st.lists(
    st.integers(1, 99).map("http://10.0.0.{}:30000".format), min_size=2, max_size=8, unique=True
)


@given(ADDRESSES, st.data())
def test_when_an_address_leaves_only_its_own_keys_go_elsewhere(
    addresses: list[str], data: st.DataObject
) -> None:
    gone = data.draw(st.sampled_from(addresses))
    left = [it for it in addresses if it != gone]
    for number in range(50):
        before, after = prefer(addresses, f"{number}"), prefer(left, f"{number}")
        assert after in left
        assert before in (after, gone)


def test_keys_are_shared_out_evenly_whatever_the_order() -> None:
    addresses = [f"http://host-{number}:30000" for number in range(4)]
    counts = Counter(prefer(addresses, f"episode-{number}") for number in range(4000))
    assert set(counts) == set(addresses) and min(counts.values()) > 850
    assert prefer(addresses[::-1], "episode-7") == prefer(addresses, "episode-7")


class Engine:
    """A fake engine on a port of its own, which can go and come back."""

    def __init__(self, model: Path, name: str = "tiny") -> None:
        self.fake = FakeSGLang(
            FakeModel(model_path=str(model), name=name, vocabulary=range(40, 60), reply_tokens=0)
        )
        self.port = 0
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def come(self) -> None:
        self._runner = web.AppRunner(self.fake.app(), access_log=None, shutdown_timeout=0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self._runner.addresses[0][1]

    async def go(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.chatml(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
async def pair(model: Path) -> AsyncIterator[tuple[Engine, Engine]]:
    two = Engine(model), Engine(model)
    for engine in two:
        await engine.come()
    yield two
    for engine in two:
        await engine.go()


@asynccontextmanager
async def playing(*of: Engine) -> AsyncIterator[SGLangPolicy]:
    policy = SGLangPolicy(
        "+".join(it.url for it in of),
        PolicyConfig(
            sampling=Sampling(max_new_tokens=4),
            sglang=SGLangOptions(recovery=20.0),
            request_retry=RequestRetry(seconds=20.0, first_delay=0.001, max_delay=0.02),
        ),
    )
    await policy.start()
    try:
        yield policy
    finally:
        await policy.close()


async def play(policy: SGLangPolicy, episode: str) -> str:
    """Two turns of an episode."""
    session, messages = policy.open(episode_context(episode_id=episode)), [*MESSAGES]
    for turn in range(2):
        reply = await session.reply(messages, turn=turn, seed=turn)
        messages += [
            Message(Role.ASSISTANT, reply.text, sampled=True),
            Message(Role.USER, f"Turn {turn} is over."),
        ]
    return messages[-2].text


EPISODES = [f"episode-{number}" for number in range(16)]


async def test_episodes_are_shared_out_and_each_stays_with_its_engine(
    pair: tuple[Engine, Engine], model: Path
) -> None:
    alone = Engine(model)
    await alone.come()
    async with playing(*pair) as policy, playing(alone) as one:
        assert set(policy.engines.addresses) == {it.url for it in pair}
        replies = [await play(policy, it) for it in EPISODES]
        assert replies == [await play(one, it) for it in EPISODES]
    await alone.go()
    asked = [len(it.fake.requests) for it in pair]
    assert sum(asked) == 2 * len(EPISODES) and min(asked) > 0
    assert all(count % 2 == 0 for count in asked)


async def test_an_engine_that_goes_is_left_out_and_taken_in_again(
    pair: tuple[Engine, Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "_REVISIT_SECONDS", 0.02)
    first, second = pair
    async with playing(*pair) as policy:
        await first.go()
        for it in EPISODES:
            await play(policy, it)
        assert len(second.fake.requests) == 2 * len(EPISODES)
        assert policy.outage() is None
        await first.come()
        while not policy.engines.health[first.url].may_serve:
            await asyncio.sleep(0.01)
        for it in EPISODES:
            await play(policy, it)
        assert first.fake.requests


async def test_new_weights_go_to_all_of_them(pair: tuple[Engine, Engine], model: Path) -> None:
    async with playing(*pair) as policy:
        await policy.update_weights(model, version="v1")
        assert {it.fake.version for it in pair} == {"v1"}


async def test_one_that_is_down_at_the_start_is_waited_for_while_another_plays(
    pair: tuple[Engine, Engine],
) -> None:
    first, second = pair
    await first.go()
    async with playing(*pair) as policy:
        await play(policy, "episode")
        assert second.fake.requests
    await second.go()
    with pytest.raises(PolicyUnavailable):
        async with playing(*pair):
            pass


async def test_engines_of_several_models_are_no_list(
    pair: tuple[Engine, Engine], model: Path
) -> None:
    other = Engine(model, name="other")
    await other.come()
    with pytest.raises(PolicyMisconfigured, match="serve several models, other, tiny"):
        async with playing(pair[0], other):
            pass
    await other.go()
    with pytest.raises(PolicyMisconfigured, match="given twice"):
        async with playing(pair[0], pair[0]):
            pass
    with pytest.raises(PolicyMisconfigured, match="is no address"):
        SGLangPolicy(f"{pair[0].url}+", PolicyConfig())
