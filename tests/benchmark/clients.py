"""Clients that misbehave, for the tests of the frame; the client process imports them by name."""

import asyncio
import sys

from benchmark.drive import Target


class Client:
    def __init__(self, target: Target) -> None:
        self.target = target

    async def open(self, episodes: int) -> None:
        print("a library may print what it likes")

    async def step(self, episode: int, action: str) -> str:
        await asyncio.sleep(0.001)
        return action

    async def close(self) -> None: ...


class Forgetful(Client):
    async def step(self, episode: int, action: str) -> str:
        await asyncio.sleep(0)
        return "something else" if episode else action


class NeverOpens(Client):
    async def open(self, episodes: int) -> None:
        await asyncio.Event().wait()


class NeverAnswers(Client):
    async def step(self, episode: int, action: str) -> str:
        if episode:
            await asyncio.Event().wait()
        return await super().step(episode, action)


class AnswersOnce(Client):
    """One answer per episode within any window: the start-up, not a rate."""

    async def step(self, episode: int, action: str) -> str:
        if not action.startswith("move 0 "):
            await asyncio.Event().wait()
        return await super().step(episode, action)


class Dies(Client):
    async def step(self, episode: int, action: str) -> str:
        sys.exit("the client gave up")
