"""The gRPC service: streams, unary commands, and what can be asked about environments."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

import grpc.aio

from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import environment_pb2_grpc, types_pb2
from env_servers.sdk import EnvironmentUnavailable, SdkError
from env_servers.sdk.images import MAX_IMAGE_BYTES, MAX_IMAGES, MAX_IMAGES_BYTES
from env_servers.server import errors
from env_servers.server.budget import Account
from env_servers.server.clients import Client, Clients, Scope
from env_servers.server.commands import CommandHandler
from env_servers.server.config import CONTRACT_REVISION, ServerLimits
from env_servers.server.errors import CommandError, abort
from env_servers.server.logs import get_logger
from env_servers.server.runners import Host
from env_servers.server.stream import Stream

__all__ = ["SERVER_VERSION", "EnvironmentService"]


def _server_version() -> str:
    try:
        return f"agentgym-grpc {version('agentgym-grpc')}"
    except PackageNotFoundError:  # a checkout on PYTHONPATH that was never installed
        return "agentgym-grpc unknown"


SERVER_VERSION = _server_version()
_MAX_PAGE = 10_000
_DEFAULT_PAGE = 1_000
_MAX_NAMED_ITEMS = 1_000
"""Item ids of one ListTasks: 60,000 in a message of half a megabyte froze a server for minutes."""
_TURN_SECONDS = 0.005
_MAX_TOKEN_DIGITS = 18

log = get_logger("env_servers.service")

Context = grpc.aio.ServicerContext[Any, Any]
T = TypeVar("T")


class EnvironmentService(environment_pb2_grpc.EnvironmentServiceServicer):
    """Serves one command handler."""

    def __init__(
        self,
        handler: CommandHandler,
        clients: Clients,
        unavailable: Mapping[str, EnvironmentUnavailable] | None = None,
    ) -> None:
        self.handler = handler
        self.clients = clients
        self.unavailable = unavailable or {}
        """Environments that were left out, with what to install."""
        self.instance = secrets.token_hex(8)
        """Tells clients of a lost stream whether the server that they come back to is the same."""
        self.streams: set[Stream] = set()
        self._numbers = itertools.count(1)
        self._described: dict[str, pb.GetEnvironmentResponse] = {}

    # ------------------------------------------------------------------ the stream

    async def Interact(  # noqa: N802 # pyright: ignore[reportIncompatibleMethodOverride]
        self, request_iterator: AsyncIterator[pb.InteractRequest], context: Context
    ) -> None:
        """Answer commands until the client ends the stream."""
        limits = self.handler.limits
        owner = self.clients.of_call(context).name
        stream = Stream(
            context.write,
            client=context.peer(),
            owner=owner,
            account=self._account(owner, context, stream=next(self._numbers)),
            max_items=limits.max_items,
            max_in_flight=limits.max_in_flight,
            max_bytes=limits.max_outbox_bytes,
            trace_context=self._trace_context(context),
        )
        self.streams.add(stream)
        log.info("stream attached", client=stream.client, streams=len(self.streams))
        try:
            first = stream.event().credits
            first.max_in_flight, first.instance = limits.max_in_flight, self.instance
            await stream.flush()
            handle_message = self.handler.handle_message
            async for request in request_iterator:
                await handle_message(stream, request)
            await stream.finish()
        finally:
            self.streams.discard(stream)
            self.handler.table.detach(stream)

    # ------------------------------------------------------------------ unary commands

    async def Reset(self, request: pb.ResetRequest, context: Context) -> pb.ResetResponse:  # noqa: N802
        """Execute a reset or fork command."""
        return pb.ResetResponse(event=await self._answer_one(request.command, context))

    async def Step(self, request: pb.StepRequest, context: Context) -> pb.StepResponse:  # noqa: N802
        """Execute a step command, or any other that an episode takes."""
        return pb.StepResponse(event=await self._answer_one(request.command, context))

    async def Close(self, request: pb.CloseRequest, context: Context) -> pb.CloseResponse:  # noqa: N802
        """Close an episode."""
        command = request.command
        command.close.SetInParent()
        return pb.CloseResponse(event=await self._answer_one(command, context))

    async def Render(self, request: pb.RenderRequest, context: Context) -> pb.RenderResponse:  # noqa: N802
        """Draw the state of one of the caller's episodes."""
        owner = self.clients.of_call(context).name
        account = self._account(owner, context)
        while not account.has_room():
            await account.wait_for_room()
        response = await _guarded(context, self.handler.render(request.episode_id, owner))
        size = response.ByteSize()
        account.add_outbox(size)
        context.add_done_callback(lambda _: account.add_outbox(-size))  # pyright: ignore[reportArgumentType]
        return response

    async def _answer_one(self, command: pb.Command, context: Context) -> pb.Event:
        """Handle one command as on a stream of its own; its error becomes the call's status."""
        answers: list[pb.Event] = []

        async def keep(response: pb.InteractResponse) -> None:
            answers.extend(response.events)

        owner = self.clients.of_call(context).name
        stream = Stream(
            keep,
            client=context.peer(),
            owner=owner,
            account=self._account(owner, context),
            max_items=self.handler.limits.max_items,
            max_in_flight=2,
            max_bytes=self.handler.limits.max_outbox_bytes,
            trace_context=self._trace_context(context),
        )
        try:
            self.handler.handle(stream, iter([command]))
            await stream.finish()
        finally:
            self.handler.table.detach(stream, lost=False)
        event = answers[-1]
        if event.HasField("error"):
            await abort(context, event.error)
        return event

    def _account(self, owner: str, context: Context, stream: int = 0) -> Account:
        """Whose share a call counts on: of the client by name, else of the connection.

        Connections to a Unix socket cannot be told apart: there each stream counts by itself.
        """
        client = owner or context.peer()
        if client.startswith("unix:") and stream:
            client = f"{client} stream {stream}"
        return self.handler.table.admission.account(client)

    def _trace_context(self, context: Context) -> Any:
        """The trace that a call belongs to; None where the server does not trace."""
        tracing = self.handler.table.tracing
        return None if tracing is None else tracing.context(context.invocation_metadata())

    # ------------------------------------------------------------------ questions

    async def ListEnvironments(  # noqa: N802
        self, request: pb.ListEnvironmentsRequest, context: Context
    ) -> pb.ListEnvironmentsResponse:
        """List what this server hosts."""
        return pb.ListEnvironmentsResponse(
            environments=sorted(self.handler.hosts),
            contract_revisions=[CONTRACT_REVISION],
            server_version=SERVER_VERSION,
        )

    async def GetEnvironment(  # noqa: N802
        self, request: pb.GetEnvironmentRequest, context: Context
    ) -> pb.GetEnvironmentResponse:
        """Describe an environment; checks the client's revision and the capabilities it needs."""
        return await _guarded(context, self._get(request))

    async def ListTasks(  # noqa: N802
        self, request: pb.ListTasksRequest, context: Context
    ) -> pb.ListTasksResponse:
        """List a page of a split."""
        return await _guarded(context, self._list_tasks(request))

    async def ListEpisodes(  # noqa: N802
        self, request: pb.ListEpisodesRequest, context: Context
    ) -> pb.ListEpisodesResponse:
        """List a page of the caller's live episodes, or of all where it operates the server."""
        return await _guarded(context, self._list_episodes(request, self.clients.of_call(context)))

    async def _get(self, request: pb.GetEnvironmentRequest) -> pb.GetEnvironmentResponse:
        if request.contract_revision not in (0, CONTRACT_REVISION):
            raise errors.revision_unsupported(request.contract_revision, CONTRACT_REVISION)
        host = self._host(request.environment)
        name = host.spec.name
        if name not in self._described:
            await host.prepare()
            self._described[name] = describe(
                host, self.handler.limits, self.handler.table.admission.capacities
            )
        described = self._described[name]
        for capability in request.required_capabilities:
            if capability not in described.capabilities:
                lacking = _capability_name(capability)
                raise errors.lacks_capability(
                    f"environment {name} lacks the capability {lacking}", lacking
                )
        return described

    async def _list_tasks(self, request: pb.ListTasksRequest) -> pb.ListTasksResponse:
        host = self._host(request.environment)
        tasks = host.loaded.tasks
        if len(request.item_ids) > _MAX_NAMED_ITEMS:
            raise errors.invalid_argument(
                "item_ids", f"at most {_MAX_NAMED_ITEMS:,} items can be asked for at once"
            )
        await host.prepare()
        if request.item_ids:
            response = pb.ListTasksResponse(total_size=len(request.item_ids))
            async for item_id in _in_turns(request.item_ids):
                task = tasks.get(item_id)
                response.tasks.add(item_id=task.item_id, category=task.category)
            return response
        size = tasks.splits().get(request.split)
        start, stop = _page(request.page_token, request.page_size)
        response = pb.ListTasksResponse(total_size=size or 0)
        async for item_id in _in_turns(tasks.item_ids(request.split, start, stop)):
            response.tasks.add(item_id=item_id, category=tasks.category(item_id))
        if size is not None and stop < size:
            response.next_page_token = str(stop)
        return response

    async def _list_episodes(
        self, request: pb.ListEpisodesRequest, client: Client
    ) -> pb.ListEpisodesResponse:
        start, stop = _page(request.page_token, request.page_size)
        episodes = [
            episode
            for episode in self.handler.table.episodes.values()
            if request.environment in ("", episode.reset.environment)
            and (episode.owner == client.name or Scope.OPERATE in client.scopes)
        ]
        now = time.monotonic()
        response = pb.ListEpisodesResponse(total_size=len(episodes))
        for episode in episodes[start:stop]:
            response.episodes.add(
                episode_id=episode.episode_id,
                environment=episode.reset.environment,
                item_id=episode.reset.item_id,
                seq=episode.seq,
                ended=episode.ended,
                in_flight=episode.in_flight is not None,
                idle_ms=int((now - episode.last_used) * 1000),
                attached=episode.stream is not None,
            )
        if stop < len(episodes):
            response.next_page_token = str(stop)
        return response

    def _host(self, name: str) -> Host:
        hosts = self.handler.hosts
        if not name and len(hosts) == 1:
            return next(iter(hosts.values()))
        if name in self.unavailable:
            raise self.unavailable[name]
        if name not in hosts:
            raise errors.unknown_environment(name, sorted(hosts))
        return hosts[name]


def describe(
    host: Host, limits: ServerLimits, capacities: dict[str, int]
) -> pb.GetEnvironmentResponse:
    """Return the answer to GetEnvironment."""
    spec, tasks = host.spec, host.loaded.tasks
    formats: Sequence[types_pb2.ActionFormat] = [int(f) for f in spec.conversation_starts]  # pyright: ignore[reportAssignmentType]
    digest = hashlib.blake2b(tasks.digest(), digest_size=8)
    digest.update(f"{spec.name} {spec.version}".encode())
    return pb.GetEnvironmentResponse(
        name=spec.name,
        version=spec.version,
        digest=digest.hexdigest(),
        contract_revision=CONTRACT_REVISION,
        description=spec.description,
        capabilities=_capabilities(host),
        action_formats=formats,
        profiles=spec.profiles,
        splits=[pb.Split(name=name, size=size) for name, size in tasks.splits().items()],
        metric=int(spec.metric),  # pyright: ignore[reportArgumentType]
        success_score=spec.success_score,
        max_rounds=spec.max_rounds,
        conversation_starts=[
            pb.ConversationStart(
                action_format=int(action_format),  # pyright: ignore[reportArgumentType]
                instruction=start.instruction,
                acknowledgement=start.acknowledgement,
            )
            for action_format, start in spec.conversation_starts.items()
        ],
        functions_json=spec.grammar.functions_json(),
        limits=pb.Limits(
            max_text_bytes=limits.max_text_bytes,
            max_message_bytes=limits.max_message_bytes,
            max_episodes=capacities[spec.name],
            max_episodes_per_client=limits.max_episodes_per_client,
            max_in_flight=limits.max_in_flight,
            default_lease_ms=int(limits.default_lease * 1000),
            max_lease_ms=int(limits.max_lease * 1000),
            step_limit_ms=int(limits.step_limit * 1000),
            response_cache_events=limits.cache_events,
            max_items_per_message=limits.max_items,
            max_journal_bytes=limits.max_journal_bytes,
            idle_limit_ms=int(limits.idle_limit * 1000),
            max_images=MAX_IMAGES,
            max_image_bytes=MAX_IMAGE_BYTES,
            max_images_bytes=MAX_IMAGES_BYTES,
        ),
    )


def _capabilities(host: Host) -> list[pb.Capability]:
    spec = host.spec
    capabilities = [
        (spec.deterministic, pb.CAPABILITY_DETERMINISTIC),
        (True, pb.CAPABILITY_FORK),
        (spec.has_expert, pb.CAPABILITY_EXPERT),
        (spec.has_score, pb.CAPABILITY_SCORE),
        (spec.has_views, pb.CAPABILITY_RENDER),
        (spec.has_images, pb.CAPABILITY_IMAGES),
    ]
    return [capability for has, capability in capabilities if has]


def _capability_name(capability: int) -> str:
    try:
        return pb.Capability.Name(capability).removeprefix("CAPABILITY_")  # pyright: ignore[reportArgumentType]
    except ValueError:
        return str(capability)


def _page(token: str, size: int) -> tuple[int, int]:
    if token and not (token.isascii() and token.isdecimal() and len(token) <= _MAX_TOKEN_DIGITS):
        raise errors.invalid_argument(
            "page_token", f"page_token {token[:100]!r} is not one that this server gave"
        )
    start = int(token or 0)
    return start, start + min(size or _DEFAULT_PAGE, _MAX_PAGE)


async def _in_turns(items: Sequence[T]) -> AsyncIterator[T]:
    """Iterate over items, letting the loop do other work every few milliseconds.

    Some task sets make a task to tell its category (0.4 to 3 ms): a page of 10,000 kept every
    stream of the server waiting for seconds.
    """
    turn_ends = time.monotonic() + _TURN_SECONDS
    for item in items:
        yield item
        if time.monotonic() > turn_ends:
            await asyncio.sleep(0)
            turn_ends = time.monotonic() + _TURN_SECONDS


async def _guarded(context: Context, work: Awaitable[T]) -> T:
    """Answer a question; its error becomes the call's status."""
    try:
        return await work
    except CommandError as error:
        refusal = error
    except SdkError as error:
        refusal = CommandError.from_sdk(error)
    return await abort(context, refusal.status())
