"""Weights sent to engines through process groups: NCCL between GPUs, gloo between CPUs.

Owns this side of what SGLang calls a weights update group: for each engine a group of its own, in
which this process is rank 0 and the engine's tensor-parallel ranks follow, so that an engine that
goes away takes no other's group with it. A group is made when it is first needed, and anew where
the engine was restarted or a push failed. Knows no engine's health; needs torch.

Source of the protocol: `init_weights_update_group` and `update_weights_from_distributed` of SGLang
0.5.23; the members meet in a TCPStore under the keys that `init_process_group` would use.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from agent_runtime.endpoint import Endpoint, is_loopback
from agent_runtime.errors import PolicyError, PolicyLost, PolicyMisconfigured, PolicyRejected
from agent_runtime.logs import get_logger
from agent_runtime.sglang.tensors import WeightTensors
from agent_runtime.weights import GroupBackend

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Ask", "GroupSender", "GroupSettings", "WeightGroup", "tensor_parallel_size"]

_LEAVE_TIMEOUT: Final = 30.0
_JOIN_TIMEOUT: Final = timedelta(minutes=2)
"""For an engine to come."""

log = get_logger(__name__)

Ask = Callable[[str, Mapping[str, Any]], Awaitable[None]]
"""Asks the engine under a path; raises PolicyError where it fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """How a process group with an engine is made."""

    backend: GroupBackend = "auto"
    """auto = nccl where both sides have GPUs of their own, else gloo."""
    address: str = ""
    """This machine, as the engines see it; empty = the address that leads to each of them."""


class WeightGroup:
    """A process group of this process, rank 0, and the ranks of one engine.

    `join` and `broadcast` block; they end when the members leave, or their time is over.
    """

    def __init__(self, address: str, ranks: int, backend: str, timeout: float) -> None:
        """Open the place where the members meet; nobody is there yet.

        Args:
            address: Of this machine; only who comes by it finds the place.
            ranks: Of the engine.
            backend: nccl or gloo.
            timeout: Seconds for each tensor.
        """
        from torch._C._distributed_c10d import TCPStore  # re-exported undeclared

        self.name = f"agentgym-{secrets.token_hex(8)}"
        self._backend = backend
        self._size = ranks + 1
        self._timeout = timedelta(seconds=timeout)
        self._group: Any = None
        self._address = address
        # torch itself would listen on all of the machine's addresses.
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = socket.create_server((address, 0), family=family)
        self._port = int(listener.getsockname()[1])
        self._store = TCPStore(
            address,
            self._port,
            self._size,
            is_master=True,
            timeout=_JOIN_TIMEOUT,
            wait_for_workers=False,
            master_listen_fd=listener.detach(),
        )

    def invitation(self) -> dict[str, Any]:
        """Return what the engine is asked to join."""
        return {
            "master_address": self._address,
            "master_port": self._port,
            "rank_offset": 1,
            "world_size": self._size,
            "group_name": self.name,
            "backend": self._backend,
        }

    def join(self) -> None:
        """Wait until the members are there; NCCL's meet at the first tensor. Raises RuntimeError.

        The backend is made directly: `init_process_group`'s helper would split a training's own
        NCCL communicator, in which no engine is.
        """
        import torch.distributed as dist
        from torch._C._distributed_c10d import PrefixStore

        store: Any = self._store
        device = "cuda" if self._backend == "nccl" else "cpu"
        for prefix in (self.name, f"{self.name}/", f"{device}/"):
            store = PrefixStore(prefix, store)
        if self._backend == "nccl":
            options = dist.ProcessGroupNCCL.Options()
            options._timeout = self._timeout
            self._group = dist.ProcessGroupNCCL(store, 0, self._size, options)
        else:
            self._group = dist.ProcessGroupGloo(store, 0, self._size, timeout=_JOIN_TIMEOUT)
            self._group._set_default_timeout(self._timeout)

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        """Send tensors to the engine's ranks, in order. Raises RuntimeError: a member is gone."""
        import torch

        device = torch.device("cuda" if self._backend == "nccl" else "cpu")
        placed = [tensor.to(device) for tensor in tensors]
        for work in [self._group.broadcast(tensor, 0) for tensor in placed]:
            work.wait()
        if device.type == "cuda":
            # Of NCCL's work only the stream has waited, and what is sent must stay until it is.
            torch.cuda.current_stream().synchronize()

    def leave(self) -> None:
        """Give the group up; what still waits in it ends with its time."""
        group, self._group = self._group, None
        if group is not None and self._backend == "nccl":
            group.abort()  # gloo's would wait for what waits


class GroupSender:
    """Sends weights to one engine."""

    def __init__(self, client: Endpoint, settings: GroupSettings) -> None:
        """Name the engine and how its group is made; nothing is asked yet."""
        self._client = client
        self._settings = settings
        self._group: WeightGroup | None = None
        self._boot_id = ""
        """The start of the engine that joined the group."""

    async def join(
        self, server: Mapping[str, Any], boot_id: str, ask: Ask, *, timeout: float
    ) -> None:
        """Make the group, unless it is there.

        Args:
            server: What the engine says of itself.
            boot_id: Its start; another one is another engine.
            ask: Asks it.
            timeout: Seconds for each tensor that will be sent.

        Raises:
            PolicyMisconfigured: It takes no weights through a group, or did not come to it.
            PolicyError: It cannot be asked.
        """
        if self._group is not None and self._boot_id == boot_id:
            return
        await self.close()
        await self._check(server)
        url = self._client.base_url
        group = WeightGroup(
            self._settings.address or _own_address(url),
            tensor_parallel_size(server),
            _backend(self._settings.backend, server, url),
            timeout,
        )
        invitation = group.invitation()
        joining = ask("/init_weights_update_group", invitation)
        try:
            await _both(joining, group.join)
        except RuntimeError as error:
            raise PolicyMisconfigured(
                f"{url} did not come to {invitation['master_address']}:"
                f"{invitation['master_port']} ({invitation['backend']}): restart it, and name an "
                "address of this machine that it reaches (in recipes rollout.push_address) "
                f"({error})"
            ) from error
        self._group, self._boot_id = group, boot_id
        log.info("engine joined a weight group", engine=url, **invitation)

    async def send(self, tensors: WeightTensors, options: Mapping[str, Any], ask: Ask) -> None:
        """Send all tensors, bucket by bucket; the engine has been told that an update begins.

        Args:
            tensors: The weights.
            options: Further fields of each request: the version, for one.
            ask: Asks the engine.

        Raises:
            PolicyError: It refused the weights, or went away meanwhile.
        """
        group = self._group
        assert group is not None, "join comes first"
        try:
            for bucket in tensors.buckets():
                await self._send_bucket(group, bucket, options, ask)
        except BaseException:
            # Nobody knows which tensor the others wait for.
            await self.close()
            raise

    async def close(self) -> None:
        """End the group on both sides; the next push makes another one."""
        group, self._group = self._group, None
        if group is None:
            return
        with contextlib.suppress(PolicyError):  # an engine that is gone has left
            await self._ask_to_leave(group.name)
        group.leave()

    async def _ask_to_leave(self, name: str) -> None:
        body = {"group_name": name}
        await self._client.control("/destroy_weights_update_group", body, timeout=_LEAVE_TIMEOUT)

    async def _check(self, server: Mapping[str, Any]) -> None:
        """Raise PolicyMisconfigured where an engine has no groups, or not of this form."""
        url = self._client.base_url
        for name in ("dp_size", "pp_size"):
            if int(server.get(name) or 1) > 1:
                raise PolicyMisconfigured(
                    f"{url} has {name} {server[name]}, and weights are sent to tensor-parallel "
                    "ranks only: start it without, or give it a checkpoint"
                )
        try:
            # Of a group that nobody has: what can be asked for is known before anybody waits.
            await self._ask_to_leave("agentgym")
        except PolicyRejected as error:
            if error.status in (404, 405):
                raise PolicyMisconfigured(
                    f"{url} takes no weights through a process group, as SGLang does: give it a "
                    'checkpoint (in recipes rollout.push = "disk")'
                ) from error

    async def _send_bucket(
        self,
        group: WeightGroup,
        bucket: Sequence[tuple[str, Tensor]],
        options: Mapping[str, Any],
        ask: Ask,
    ) -> None:
        body = {
            "names": [name for name, _ in bucket],
            "dtypes": [str(tensor.dtype).removeprefix("torch.") for _, tensor in bucket],
            "shapes": [list(tensor.shape) for _, tensor in bucket],
            "group_name": group.name,
            **options,
        }
        tensors = [tensor for _, tensor in bucket]
        try:
            await _both(
                ask("/update_weights_from_distributed", body), lambda: group.broadcast(tensors)
            )
        except RuntimeError as error:
            raise PolicyLost(f"{self._client.base_url} left its weight group: {error}") from error


def tensor_parallel_size(server: Mapping[str, Any]) -> int:
    """Return how many ranks an engine's weights are divided among, by what it says of itself."""
    ranks = server.get("tp_size")
    return ranks if isinstance(ranks, int) else 1


async def _both(asked: Awaitable[None], work: Callable[[], None]) -> None:
    """Wait for an engine's answer and for this side's part, until either fails.

    What the engine answered goes before what this side saw of it.
    """
    answer, own = asyncio.ensure_future(asked), _in_thread(work)
    try:
        await asyncio.wait({answer, own}, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        if not answer.done():
            answer.cancel()
    for task in (answer, own):
        if task.done():
            task.result()


def _in_thread(work: Callable[[], None]) -> asyncio.Future[None]:
    """Do work in a thread of its own, which may be left behind: the process does not wait for it.

    An executor's thread would keep the process until the last tensor's time is over.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    future.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

    def tell(error: Exception | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    def run() -> None:
        error: Exception | None = None
        try:
            work()
        except RuntimeError as caught:  # torch's own are of this kind
            error = caught
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(tell, error)

    threading.Thread(target=run, name="weight group", daemon=True).start()
    return future


def _backend(wanted: GroupBackend, server: Mapping[str, Any], url: str) -> str:
    """Return nccl where engine and learner have GPUs of their own: it joins no GPU to itself."""
    import torch

    if wanted != "auto":
        return wanted
    cuda = torch.cuda.is_available() and server.get("device") != "cpu"
    shared = is_loopback(url) and torch.cuda.device_count() == 1
    return "nccl" if cuda and not shared else "gloo"


def _own_address(url: str) -> str:
    """Return the address of this machine from which an engine is reached."""
    if is_loopback(url):
        return "127.0.0.1"
    parts = urlsplit(url)
    found = socket.getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_DGRAM)
    family, _, _, _, target = found[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(target)  # sends nothing: the system chooses the way
        return str(probe.getsockname()[0])
