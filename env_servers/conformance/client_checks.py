"""Rules of several clients: what belongs to one is out of the others' reach.

They need tokens of several clients: see `Target`.
"""

from __future__ import annotations

from typing import Any, Final

import grpc.aio

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.conformance.harness import Harness, NotApplicable
from env_servers.conformance.target import Target
from env_servers.conformance.unary_checks import expect_refused
from env_servers.conformance.verdicts import expect, expect_error

__all__ = ["CHECKS"]


async def episodes_are_their_clients(harness: Harness) -> None:
    """To another client an episode is not there, and stays unharmed."""
    play = await harness.play()
    await play.step()
    stranger = await harness.open_stream(token=_other_token(harness.target))
    for body in _verbs(await play.advised()):
        seq = 2 if "action" in body else 1
        expect_error(await stranger.ask(play.command(seq, **body)), "EPISODE_NOT_FOUND")
    fork = pb.Command(episode_id=harness.fresh_id(), seq=1)
    fork.fork.from_episode_id = play.episode_id
    expect_error(await stranger.ask(fork), "EPISODE_NOT_FOUND")
    expect_error(await stranger.ask(play.open_command), "SEQ_CONFLICT")
    event = await stranger.ask(play.command(close=pb.Close()))
    expect(event.HasField("closed") and not event.closed.found, "a stranger closed the episode")
    await play.must_be_at(1)


async def listings_are_their_clients(harness: Harness) -> None:
    """ListEpisodes shows a client its own episodes, and all to one that operates the server."""
    play = await harness.play()
    expect(await harness.summary(play.episode_id) is not None, "its own episode is not listed")
    other = await harness.summary(play.episode_id, token=_other_token(harness.target))
    expect(other is None, "a stranger sees the episode in its list")
    if harness.target.operator_token:
        operated = await harness.summary(play.episode_id, token=harness.target.operator_token)
        expect(operated is not None, "who operates the server does not see the episode")


async def scopes_are_kept(harness: Harness) -> None:
    """A token without the scope play asks, and plays nothing: UNAUTHENTICATED."""
    token = harness.target.operator_token
    if not token:
        raise NotApplicable("needs AGENTGYM_OPERATOR_TOKEN, a token with the scope operate alone")
    metadata = harness.target.metadata(token)
    request = pb.ListEnvironmentsRequest()
    await harness.stub.ListEnvironments(request, metadata=metadata, timeout=harness.target.timeout)
    reset = pb.ResetRequest(command=harness.reset())
    try:
        await harness.stub.Reset(reset, metadata=metadata, timeout=harness.target.timeout)
    except grpc.aio.AioRpcError as error:
        expect_refused(error, "UNAUTHENTICATED")
    else:
        expect(False, "a token without the scope play opened an episode")
    stream = await harness.open_stream(credits_first=False, token=token)
    await stream.wait_end()
    assert stream.error is not None
    expect_refused(stream.error, "UNAUTHENTICATED")


def _verbs(action: str) -> list[dict[str, Any]]:
    return [
        {"action": action},
        {"attach": pb.Attach(last_seq_seen=0)},
        {"consult": pb.Consult(advisor=pb.ADVISOR_RANDOM)},
        {"cancel": pb.Cancel()},
        {"heartbeat": pb.Heartbeat()},
    ]


def _other_token(target: Target) -> str:
    if not target.other_token:
        raise NotApplicable(
            "needs AGENTGYM_TOKEN and AGENTGYM_OTHER_TOKEN, the tokens of two clients"
        )
    return target.other_token


CHECKS: Final = (
    ("R60.1", episodes_are_their_clients),
    ("R61.1", listings_are_their_clients),
    ("R62.1", scopes_are_kept),
)
