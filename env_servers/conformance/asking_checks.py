"""Rules of the unary side: what a server tells of itself, the shims, the standard services."""

from __future__ import annotations

from typing import Any, Final

import grpc
import grpc.aio
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs]
    status_pb2,
)
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.conformance.bench import Bench, NotApplicable
from env_servers.conformance.verdicts import (
    Violation,
    expect,
    expect_equal,
    expect_observation,
    expect_well_formed,
)

__all__ = ["CHECKS", "list_environments"]

_SERVICE: Final = "agentgym.env.v1.EnvironmentService"
_PAGE: Final = 3


async def list_environments(bench: Bench) -> pb.ListEnvironmentsResponse:
    """What the server hosts."""
    return await _call(bench, bench.stub.ListEnvironments, pb.ListEnvironmentsRequest())


async def environments_describe_themselves(bench: Bench) -> None:
    """ListEnvironments and GetEnvironment tell all that a client has to know."""
    listed = await list_environments(bench)
    expect(bench.environment in listed.environments, "the environment is not in the list")
    expect_equal(list(listed.environments), sorted(listed.environments), "the list of names")
    described = bench.described
    expect(
        described.contract_revision in listed.contract_revisions,
        "GetEnvironment has a contract_revision that ListEnvironments lacks",
    )
    for field in ("name", "version", "digest", "description", "functions_json"):
        expect(bool(getattr(described, field)), f"GetEnvironment.{field} is empty")
    for field in ("profiles", "splits", "action_formats", "capabilities"):
        expect(len(getattr(described, field)) > 0, f"GetEnvironment.{field} is empty")
    expect(described.metric != pb.METRIC_UNSPECIFIED, "no metric")
    expect(described.max_rounds > 0, "max_rounds is 0")
    starts = {start.action_format for start in described.conversation_starts}
    expect_equal(starts, set(described.action_formats), "formats with a conversation start")
    for field in pb.Limits.DESCRIPTOR.fields:
        value = getattr(described.limits, field.name)
        expect(value > 0 or field.name == "max_episodes_per_client", f"limits.{field.name} is 0")


async def revisions_are_negotiated(bench: Bench) -> None:
    """A client of another contract revision is told which ones the server speaks."""
    mine = bench.described.contract_revision
    request = pb.GetEnvironmentRequest(environment=bench.environment, contract_revision=mine)
    await _call(bench, bench.stub.GetEnvironment, request)
    request.contract_revision = 4_000_000
    metadata = await _refused(
        bench, bench.stub.GetEnvironment, request, "CONTRACT_REVISION_UNSUPPORTED"
    )
    expect_equal(metadata.get("client_revision"), "4000000", "metadata client_revision")
    spoken = metadata.get("server_revisions", "").replace(",", " ").split()
    expect(str(mine) in spoken, f"metadata server_revisions is {spoken}")


async def capabilities_are_negotiated(bench: Bench) -> None:
    """A capability that the environment lacks is refused by name; those it has are not."""
    request = pb.GetEnvironmentRequest(
        environment=bench.environment, required_capabilities=bench.described.capabilities
    )
    await _call(bench, bench.stub.GetEnvironment, request)
    request.required_capabilities.append(99)  # pyright: ignore[reportArgumentType]
    metadata = await _refused(bench, bench.stub.GetEnvironment, request, "UNSUPPORTED_CAPABILITY")
    expect_equal(metadata.get("capability"), "99", "metadata capability")


async def unknown_environments_are_refused(bench: Bench) -> None:
    """Questions about an environment that is not there are refused with the valid names."""
    for method, request in (
        (bench.stub.GetEnvironment, pb.GetEnvironmentRequest(environment="nosuch")),
        (bench.stub.ListTasks, pb.ListTasksRequest(environment="nosuch", split="train")),
    ):
        metadata = await _refused(bench, method, request, "UNKNOWN_ENVIRONMENT")
        expect(bench.environment in metadata.get("valid", ""), "metadata valid lacks the name")


async def tasks_are_paged(bench: Bench) -> None:
    """ListTasks pages through a split in one order, without gaps, and ends."""
    split = min(bench.described.splits, key=lambda split: split.size)
    request = pb.ListTasksRequest(environment=bench.environment, split=split.name)
    request.page_size = max(1, min(split.size, 10_000) // _PAGE)
    seen: list[str] = []
    for _ in range(4 * _PAGE):
        page = await _call(bench, bench.stub.ListTasks, request)
        expect_equal(page.total_size, split.size, "total_size")
        expect(len(page.tasks) <= request.page_size, "a page is larger than was asked for")
        seen += [task.item_id for task in page.tasks]
        request.page_token = page.next_page_token
        if not request.page_token:
            break
    expect_equal(len(set(seen)), len(seen), "item ids that are all different")
    if not request.page_token:
        expect_equal(len(seen), split.size, "items on all pages")
    whole = await _call(
        bench,
        bench.stub.ListTasks,
        pb.ListTasksRequest(environment=bench.environment, split=split.name, page_size=10_000),
    )
    ids = [task.item_id for task in whole.tasks]
    expect_equal(seen[: len(ids)], ids[: len(seen)], "the same items on one page")


async def bad_pages_are_refused(bench: Bench) -> None:
    """Unknown splits and page tokens that nobody gave are refused."""
    request = pb.ListTasksRequest(environment=bench.environment, split="nosuch")
    metadata = await _refused(bench, bench.stub.ListTasks, request, "UNKNOWN_SPLIT")
    expect(bench.split in metadata.get("valid", ""), "metadata valid lacks the splits")
    for token in ("nonsense", "-1", "9" * 5_000, "\u0663"):
        request = pb.ListTasksRequest(
            environment=bench.environment, split=bench.split, page_token=token
        )
        await _refused(bench, bench.stub.ListTasks, request, "INVALID_ARGUMENT")
        episodes = pb.ListEpisodesRequest(page_token=token)
        await _refused(bench, bench.stub.ListEpisodes, episodes, "INVALID_ARGUMENT")


async def episodes_are_listed(bench: Bench) -> None:
    """ListEpisodes pages through the live episodes and tells where each is."""
    pipe = await bench.pipe()
    plays = [await bench.play(pipe) for _ in range(4)]
    await plays[0].step()
    request = pb.ListEpisodesRequest(environment=bench.environment, page_size=1)
    found: dict[str, pb.EpisodeSummary] = {}
    while True:
        page = await _call(bench, bench.stub.ListEpisodes, request)
        expect(len(page.episodes) <= 1, "a page is larger than was asked for")
        expect(page.total_size >= len(plays), f"total_size is {page.total_size}")
        found |= {episode.episode_id: episode for episode in page.episodes}
        request.page_token = page.next_page_token
        if not request.page_token:
            break
    for play in plays:
        summary = found.get(play.episode_id)
        expect(summary is not None, f"{play.episode_id} is not listed")
        assert summary is not None
        expect_equal(summary.seq, play.seq, "seq of a listed episode")
        expect_equal(summary.item_id, bench.items[0], "item_id of a listed episode")
        expect_equal(summary.environment, bench.environment, "environment of a listed episode")
        expect(summary.attached, "an episode with a live stream is not attached")
        expect_equal(summary.ended, play.ended, "ended of a listed episode")
    nobody = pb.ListEpisodesRequest(environment="nosuch")
    expect_equal((await _call(bench, bench.stub.ListEpisodes, nobody)).total_size, 0, "of nosuch")


async def unary_calls_obey_the_same_rules(bench: Bench) -> None:
    """Reset, Step and Close as unary calls are the same commands as on a stream."""
    reset = bench.reset()
    first = (await _call(bench, bench.stub.Reset, pb.ResetRequest(command=reset))).event
    expect_observation(first, replayed=False)
    again = (await _call(bench, bench.stub.Reset, pb.ResetRequest(command=reset))).event
    expect_observation(again, replayed=True)
    action = "say 1" if bench.is_echo else "look"
    step = pb.Command(episode_id=reset.episode_id, seq=1, action=action)
    event = (await _call(bench, bench.stub.Step, pb.StepRequest(command=step))).event
    expect_observation(event, replayed=False)
    pipe = await bench.pipe()
    expect_observation(await pipe.ask(step), replayed=True)
    close = pb.CloseRequest(command=pb.Command(episode_id=reset.episode_id))
    expect((await _call(bench, bench.stub.Close, close)).event.closed.found, "close found nothing")
    expect(not (await _call(bench, bench.stub.Close, close)).event.closed.found, "found again")


async def unary_errors_are_rich(bench: Bench) -> None:
    """An error of a unary call is its status, with the same details as in-band."""
    step = pb.Command(episode_id=bench.fresh_id(), seq=1, action="hello?")
    request = pb.StepRequest(command=step)
    metadata = await _refused(bench, bench.stub.Step, request, "EPISODE_NOT_FOUND")
    expect(bool(metadata.get("journal_replayable")), "metadata journal_replayable is missing")


async def health_is_told(bench: Bench) -> None:
    """grpc.health.v1 knows the server, the service and every environment."""
    stub: Any = health_pb2_grpc.HealthStub(bench.channel)
    for name in ("", _SERVICE, bench.environment):
        request = health_pb2.HealthCheckRequest(service=name)
        answer = await _call(bench, stub.Check, request)
        expect_equal(
            answer.status, health_pb2.HealthCheckResponse.SERVING, f"health of {name or 'all'!r}"
        )
    try:
        await _call(bench, stub.Check, health_pb2.HealthCheckRequest(service="nosuch"))
    except grpc.aio.AioRpcError as error:
        expect_equal(error.code(), grpc.StatusCode.NOT_FOUND, "health of an unknown service")
    else:
        raise Violation("an unknown service has a health")


async def reflection_tells_the_contract(bench: Bench) -> None:
    """Server reflection lists the service and gives its file."""
    channel: Any = bench.channel
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
    requests = [
        reflection_pb2.ServerReflectionRequest(list_services=""),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol=_SERVICE),
    ]
    try:
        call = stub.ServerReflectionInfo(iter(requests), metadata=bench.target.metadata())
        answers = [answer async for answer in call]
    except grpc.aio.AioRpcError as error:
        raise Violation(f"reflection failed with {error.code().name}") from error
    names = [service.name for service in answers[0].list_services_response.service]
    expect(_SERVICE in names, f"reflection lists {names}")
    expect(
        len(answers[1].file_descriptor_response.file_descriptor_proto) > 0,
        "reflection has no file for the service",
    )


async def strangers_are_refused(bench: Bench) -> None:
    """Without the token every call is UNAUTHENTICATED, with details."""
    if not bench.target.token:
        raise NotApplicable("the server asks for no token")
    for metadata in ((), (("authorization", "Bearer wrong"),)):
        try:
            await bench.stub.ListEnvironments(pb.ListEnvironmentsRequest(), metadata=metadata)
        except grpc.aio.AioRpcError as error:
            expect_equal(error.code(), grpc.StatusCode.UNAUTHENTICATED, "code without a token")
            expect_equal(expect_well_formed(_status(error)).reason, "UNAUTHENTICATED", "reason")
        else:
            raise Violation("a call without the token was answered")


async def _call(bench: Bench, method: Any, request: Any) -> Any:
    return await method(request, timeout=bench.target.timeout, metadata=bench.target.metadata())


async def _refused(bench: Bench, method: Any, request: Any, reason: str) -> dict[str, str]:
    """The metadata of a call's error, which must have this reason."""
    try:
        await _call(bench, method, request)
    except grpc.aio.AioRpcError as error:
        status = _status(error)
        number: int = error.code().value[0]
        expect_equal(status.code, number, "code in the details, compared with the call's")
        info = expect_well_formed(status)
        expect_equal(info.reason, reason, "the reason")
        return dict(info.metadata)
    raise Violation(f"the call was answered instead of refused with {reason}")


def _status(error: grpc.aio.AioRpcError) -> status_pb2.Status:
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin" and isinstance(value, bytes):
            return status_pb2.Status.FromString(value)
    raise Violation(f"{error.code().name} has no grpc-status-details-bin: {error.details()}")


CHECKS: Final = (
    ("R40", environments_describe_themselves),
    ("R41", revisions_are_negotiated),
    ("R41", capabilities_are_negotiated),
    ("R42", unknown_environments_are_refused),
    ("R43", tasks_are_paged),
    ("R43", bad_pages_are_refused),
    ("R44", episodes_are_listed),
    ("R45", unary_calls_obey_the_same_rules),
    ("R45", unary_errors_are_rich),
    ("R46", health_is_told),
    ("R46", reflection_tells_the_contract),
    ("R47", strangers_are_refused),
)
