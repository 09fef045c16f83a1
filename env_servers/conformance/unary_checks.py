"""Rules of the unary side: what a server says of itself, unary commands, the standard services."""

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
from env_servers.conformance.harness import Harness, NotApplicable
from env_servers.conformance.verdicts import (
    Violation,
    expect,
    expect_equal,
    expect_observation,
    expect_well_formed,
)

__all__ = ["CHECKS", "expect_refused", "list_environments"]

_SERVICE: Final = "agentgym.env.v1.EnvironmentService"
_PAGE: Final = 3
_OPTIONAL_LIMITS: Final = ("max_episodes_per_client", "max_journal_bytes", "idle_limit_ms")
"""Bounds that a server need not have."""
_IMAGE_LIMITS: Final = ("max_images", "max_image_bytes", "max_images_bytes")
"""Bounds that say nothing without the capability IMAGES."""


async def list_environments(harness: Harness) -> pb.ListEnvironmentsResponse:
    """What the server hosts."""
    return await _call(harness, harness.stub.ListEnvironments, pb.ListEnvironmentsRequest())


async def environments_describe_themselves(harness: Harness) -> None:
    """ListEnvironments and GetEnvironment tell all that a client has to know."""
    hosted = await list_environments(harness)
    expect(harness.environment in hosted.environments, "the environment is not in the list")
    expect_equal(list(hosted.environments), sorted(hosted.environments), "the list of names")
    described = harness.described
    expect(
        described.contract_revision in hosted.contract_revisions,
        "GetEnvironment has a contract_revision that ListEnvironments lacks",
    )
    for field in ("name", "version", "digest", "description", "functions_json"):
        expect(bool(getattr(described, field)), f"GetEnvironment.{field} is empty")
    again = await _call(
        harness,
        harness.stub.GetEnvironment,
        pb.GetEnvironmentRequest(environment=harness.environment),
    )
    identities = [(it.version, it.digest) for it in (described, again)]
    expect_equal(identities[1], identities[0], "version and digest, asked once more,")
    for field in ("profiles", "splits", "action_formats", "capabilities"):
        expect(len(getattr(described, field)) > 0, f"GetEnvironment.{field} is empty")
    expect(described.metric != pb.METRIC_UNSPECIFIED, "no metric")
    expect(described.max_rounds > 0, "max_rounds is 0")
    starts = {start.action_format for start in described.conversation_starts}
    expect_equal(starts, set(described.action_formats), "formats with a conversation start")
    has_images = pb.CAPABILITY_IMAGES in described.capabilities
    optional = _OPTIONAL_LIMITS if has_images else _OPTIONAL_LIMITS + _IMAGE_LIMITS
    for field in pb.Limits.DESCRIPTOR.fields:
        value = getattr(described.limits, field.name)
        expect(value > 0 or field.name in optional, f"limits.{field.name} is 0")


async def revisions_are_negotiated(harness: Harness) -> None:
    """A client of another contract revision is told which ones the server speaks."""
    mine = harness.described.contract_revision
    request = pb.GetEnvironmentRequest(environment=harness.environment, contract_revision=mine)
    await _call(harness, harness.stub.GetEnvironment, request)
    request.contract_revision = 4_000_000
    metadata = await _refused(
        harness, harness.stub.GetEnvironment, request, "CONTRACT_REVISION_UNSUPPORTED"
    )
    expect_equal(metadata.get("client_revision"), "4000000", "metadata client_revision")
    revisions = metadata.get("server_revisions", "").replace(",", " ").split()
    expect(str(mine) in revisions, f"metadata server_revisions is {revisions}")


async def capabilities_are_negotiated(harness: Harness) -> None:
    """A capability that the environment lacks is refused by name; those it has are not."""
    request = pb.GetEnvironmentRequest(
        environment=harness.environment, required_capabilities=harness.described.capabilities
    )
    await _call(harness, harness.stub.GetEnvironment, request)
    request.required_capabilities.append(99)  # pyright: ignore[reportArgumentType]
    metadata = await _refused(
        harness, harness.stub.GetEnvironment, request, "UNSUPPORTED_CAPABILITY"
    )
    expect_equal(metadata.get("capability"), "99", "metadata capability")


async def unknown_environments_are_refused(harness: Harness) -> None:
    """Questions about an environment that is not there are refused with the valid names."""
    for method, request in (
        (harness.stub.GetEnvironment, pb.GetEnvironmentRequest(environment="nosuch")),
        (harness.stub.ListTasks, pb.ListTasksRequest(environment="nosuch", split="train")),
    ):
        metadata = await _refused(harness, method, request, "UNKNOWN_ENVIRONMENT")
        expect(harness.environment in metadata.get("valid", ""), "metadata valid lacks the name")


async def tasks_are_paged(harness: Harness) -> None:
    """ListTasks pages through a split in one order, without gaps, and ends."""
    split = min(harness.described.splits, key=lambda split: split.size)
    request = pb.ListTasksRequest(environment=harness.environment, split=split.name)
    request.page_size = max(1, min(split.size, 10_000) // _PAGE)
    item_ids: list[str] = []
    for _ in range(4 * _PAGE):
        page = await _call(harness, harness.stub.ListTasks, request)
        expect_equal(page.total_size, split.size, "total_size")
        expect(len(page.tasks) <= request.page_size, "a page is larger than was asked for")
        expect(bool(page.tasks) or not page.next_page_token, "an empty page before the last one")
        item_ids += [task.item_id for task in page.tasks]
        request.page_token = page.next_page_token
        if not request.page_token:
            break
    expect_equal(len(set(item_ids)), len(item_ids), "item ids that are all different")
    if not request.page_token:
        expect_equal(len(item_ids), split.size, "items on all pages")
    whole = await _call(
        harness,
        harness.stub.ListTasks,
        pb.ListTasksRequest(environment=harness.environment, split=split.name, page_size=10_000),
    )
    ids = [task.item_id for task in whole.tasks]
    expect_equal(item_ids[: len(ids)], ids[: len(item_ids)], "the same items on one page")


async def bad_pages_are_refused(harness: Harness) -> None:
    """Unknown splits and page tokens that nobody gave are refused."""
    request = pb.ListTasksRequest(environment=harness.environment, split="nosuch")
    metadata = await _refused(harness, harness.stub.ListTasks, request, "UNKNOWN_SPLIT")
    expect(harness.split in metadata.get("valid", ""), "metadata valid lacks the splits")
    for token in ("nonsense", "-1", "9" * 5_000, "\u0663"):
        request = pb.ListTasksRequest(
            environment=harness.environment, split=harness.split, page_token=token
        )
        await _refused(harness, harness.stub.ListTasks, request, "INVALID_ARGUMENT")
        episodes = pb.ListEpisodesRequest(page_token=token)
        await _refused(harness, harness.stub.ListEpisodes, episodes, "INVALID_ARGUMENT")


async def named_tasks_are_bounded(harness: Harness) -> None:
    """Named items are listed in the order of the request; more than 1,000 are refused."""
    named = [harness.items[0]] * 3
    request = pb.ListTasksRequest(environment=harness.environment, item_ids=named)
    page = await _call(harness, harness.stub.ListTasks, request)
    expect_equal([task.item_id for task in page.tasks], named, "the items that were named")
    request = pb.ListTasksRequest(environment=harness.environment, item_ids=named[:1] * 1_001)
    metadata = await _refused(harness, harness.stub.ListTasks, request, "INVALID_ARGUMENT")
    expect_equal(metadata.get("field"), "item_ids", "the field that is named")


async def episodes_are_listed(harness: Harness) -> None:
    """ListEpisodes pages through the live episodes and tells where each is."""
    stream = await harness.open_stream()
    plays = [await harness.play(stream) for _ in range(4)]
    await plays[0].step()
    request = pb.ListEpisodesRequest(environment=harness.environment, page_size=1)
    summaries: dict[str, pb.EpisodeSummary] = {}
    while True:
        page = await _call(harness, harness.stub.ListEpisodes, request)
        expect(len(page.episodes) <= 1, "a page is larger than was asked for")
        expect(page.total_size >= len(plays), f"total_size is {page.total_size}")
        summaries |= {episode.episode_id: episode for episode in page.episodes}
        request.page_token = page.next_page_token
        if not request.page_token:
            break
    for play in plays:
        summary = summaries.get(play.episode_id)
        expect(summary is not None, f"{play.episode_id} is not listed")
        assert summary is not None
        expect_equal(summary.seq, play.seq, "seq of a listed episode")
        expect_equal(summary.item_id, harness.items[0], "item_id of a listed episode")
        expect_equal(summary.environment, harness.environment, "environment of a listed episode")
        expect(summary.attached, "an episode with a live stream is not attached")
        expect_equal(summary.ended, play.ended, "ended of a listed episode")
    nobody = pb.ListEpisodesRequest(environment="nosuch")
    expect_equal(
        (await _call(harness, harness.stub.ListEpisodes, nobody)).total_size, 0, "of nosuch"
    )


async def unary_calls_obey_the_same_rules(harness: Harness) -> None:
    """Reset, Step and Close as unary calls are the same commands as on a stream."""
    reset = harness.reset()
    first = (await _call(harness, harness.stub.Reset, pb.ResetRequest(command=reset))).event
    expect_observation(first, replayed=False)
    again = (await _call(harness, harness.stub.Reset, pb.ResetRequest(command=reset))).event
    expect_observation(again, replayed=True)
    action = "say 1" if harness.is_echo else "look"
    step = pb.Command(episode_id=reset.episode_id, seq=1, action=action)
    event = (await _call(harness, harness.stub.Step, pb.StepRequest(command=step))).event
    expect_observation(event, replayed=False)
    stream = await harness.open_stream()
    expect_observation(await stream.ask(step), replayed=True)
    close = pb.CloseRequest(command=pb.Command(episode_id=reset.episode_id))
    expect(
        (await _call(harness, harness.stub.Close, close)).event.closed.found, "close found nothing"
    )
    expect(not (await _call(harness, harness.stub.Close, close)).event.closed.found, "found again")


async def unary_errors_are_rich(harness: Harness) -> None:
    """An error of a unary call is its status, with the same details as in-band."""
    step = pb.Command(episode_id=harness.fresh_id(), seq=1, action="hello?")
    request = pb.StepRequest(command=step)
    metadata = await _refused(harness, harness.stub.Step, request, "EPISODE_NOT_FOUND")
    expect(bool(metadata.get("journal_replayable")), "metadata journal_replayable is missing")


async def health_is_told(harness: Harness) -> None:
    """grpc.health.v1 knows the server, the service and every environment."""
    stub: Any = health_pb2_grpc.HealthStub(harness.channel)
    for name in ("", _SERVICE, harness.environment):
        request = health_pb2.HealthCheckRequest(service=name)
        answer = await _call(harness, stub.Check, request)
        expect_equal(
            answer.status, health_pb2.HealthCheckResponse.SERVING, f"health of {name or 'all'!r}"
        )
    try:
        await _call(harness, stub.Check, health_pb2.HealthCheckRequest(service="nosuch"))
    except grpc.aio.AioRpcError as error:
        expect_equal(error.code(), grpc.StatusCode.NOT_FOUND, "health of an unknown service")
    else:
        raise Violation("an unknown service has a health")


async def reflection_tells_the_contract(harness: Harness) -> None:
    """Server reflection lists the service and gives its file."""
    channel: Any = harness.channel
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
    requests = [
        reflection_pb2.ServerReflectionRequest(list_services=""),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol=_SERVICE),
    ]
    try:
        call = stub.ServerReflectionInfo(iter(requests), metadata=harness.target.metadata())
        answers = [answer async for answer in call]
    except grpc.aio.AioRpcError as error:
        raise Violation(f"reflection failed with {error.code().name}") from error
    names = [service.name for service in answers[0].list_services_response.service]
    expect(_SERVICE in names, f"reflection lists {names}")
    expect(
        len(answers[1].file_descriptor_response.file_descriptor_proto) > 0,
        "reflection has no file for the service",
    )


async def strangers_are_refused(harness: Harness) -> None:
    """Without the token every call is UNAUTHENTICATED, with details."""
    if not harness.target.token:
        raise NotApplicable("the server asks for no token, or AGENTGYM_TOKEN does not hold it")
    for metadata in ((), (("authorization", "Bearer wrong"),)):
        try:
            await harness.stub.ListEnvironments(pb.ListEnvironmentsRequest(), metadata=metadata)
        except grpc.aio.AioRpcError as error:
            expect_equal(error.code(), grpc.StatusCode.UNAUTHENTICATED, "code without a token")
            expect_equal(expect_well_formed(_status(error)).reason, "UNAUTHENTICATED", "reason")
        else:
            raise Violation("a call without the token was answered")


async def _call(harness: Harness, method: Any, request: Any) -> Any:
    return await method(request, timeout=harness.target.timeout, metadata=harness.target.metadata())


async def _refused(harness: Harness, method: Any, request: Any, reason: str) -> dict[str, str]:
    """The metadata of a call's error, which must have this reason."""
    try:
        await _call(harness, method, request)
    except grpc.aio.AioRpcError as error:
        return expect_refused(error, reason)
    raise Violation(f"the call was answered instead of refused with {reason}")


def expect_refused(error: grpc.aio.AioRpcError, reason: str) -> dict[str, str]:
    """The metadata of a call's error, which must have this reason."""
    status = _status(error)
    number: int = error.code().value[0]
    expect_equal(status.code, number, "code in the details, compared with the call's")
    info = expect_well_formed(status)
    expect_equal(info.reason, reason, "the reason")
    return dict(info.metadata)


def _status(error: grpc.aio.AioRpcError) -> status_pb2.Status:
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin" and isinstance(value, bytes):
            return status_pb2.Status.FromString(value)
    raise Violation(f"{error.code().name} has no grpc-status-details-bin: {error.details()}")


CHECKS: Final = (
    ("R40.1", environments_describe_themselves),
    ("R41.1", revisions_are_negotiated),
    ("R41.2", capabilities_are_negotiated),
    ("R42.1", unknown_environments_are_refused),
    ("R43.1", tasks_are_paged),
    ("R43.2", bad_pages_are_refused),
    ("R43.3", named_tasks_are_bounded),
    ("R44.1", episodes_are_listed),
    ("R45.1", unary_calls_obey_the_same_rules),
    ("R45.2", unary_errors_are_rich),
    ("R46.1", health_is_told),
    ("R46.2", reflection_tells_the_contract),
    ("R47.1", strangers_are_refused),
)
