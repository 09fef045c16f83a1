"""A server that passes everything on to an honest one, and changes what it answers.

A test gives the functions that change answers; what they leave alone is the real server's.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import grpc.aio
from google.rpc import error_details_pb2, status_pb2

from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import environment_pb2_grpc

__all__ = ["error_event", "lying_server"]

Question = Callable[[Any], Any]
"""From a question to the one that the honest server is asked."""
Answer = Callable[[Any, Any], Any]
"""From a question and its honest answer to the one that is given."""
Lie = Callable[[pb.Event], pb.Event | None]
"""From an honest event to the one that is sent; None = it is never sent."""


def error_event(
    event: pb.Event, reason: str, *, fault: str, retry_after: int = 0, **metadata: str
) -> pb.Event:
    """An error in place of an event, with a reason, a fault and a wish to wait."""
    lie = pb.Event(episode_id=event.episode_id, seq=event.seq)
    info = error_details_pb2.ErrorInfo(
        reason=reason, domain="agentgym.env", metadata={"fault": fault, **metadata}
    )
    lie.error.CopyFrom(status_pb2.Status(code=14, message=f"{reason} for the test"))
    lie.error.details.add().Pack(info)
    if retry_after:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromSeconds(retry_after)
        lie.error.details.add().Pack(retry)
    return lie


class _Liar(environment_pb2_grpc.EnvironmentServiceServicer):
    def __init__(self, target: str, question: Question, answer: Answer, lie: Lie) -> None:
        self._channel = grpc.aio.insecure_channel(target)
        self._honest = environment_pb2_grpc.EnvironmentServiceStub(self._channel)
        self._question = question
        self._answer = answer
        self._lie = lie

    async def close(self) -> None:
        await self._channel.close()

    async def ListEnvironments(self, request: Any, context: Any) -> Any:  # noqa: N802
        honest = await self._honest.ListEnvironments(self._question(request))
        return self._answer(request, honest)

    async def GetEnvironment(self, request: Any, context: Any) -> Any:  # noqa: N802
        honest = await self._honest.GetEnvironment(self._question(request))
        return self._answer(request, honest)

    async def ListTasks(self, request: Any, context: Any) -> Any:  # noqa: N802
        honest = await self._honest.ListTasks(self._question(request))
        return self._answer(request, honest)

    async def Interact(  # noqa: N802
        self, requests: AsyncIterator[pb.InteractRequest], context: Any
    ) -> AsyncIterator[pb.InteractResponse]:
        honest = self._honest.Interact()

        async def pass_on() -> None:
            async for request in requests:
                await honest.write(request)
            await honest.done_writing()

        passing = asyncio.create_task(pass_on())
        try:
            async for response in honest:
                told = pb.InteractResponse()
                for event in response.events:
                    lie = self._lie(event)
                    if lie is not None:
                        told.events.append(lie)
                if told.events:
                    yield told
        finally:
            passing.cancel()
            honest.cancel()


@contextlib.asynccontextmanager
async def lying_server(
    target: str,
    *,
    question: Question = lambda question: question,
    answer: Answer = lambda _question, honest: honest,
    lie: Lie = lambda event: event,
) -> AsyncIterator[str]:
    """Serve on a loopback port in front of the server at `target`; gives its address."""
    server = grpc.aio.server()
    liar = _Liar(target, question, answer, lie)
    environment_pb2_grpc.add_EnvironmentServiceServicer_to_server(liar, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)
        await liar.close()
