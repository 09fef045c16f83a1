"""Who may connect: TLS, client certificates, bearer tokens, and the refusal to be careless."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from env_servers.server import errors
from env_servers.server.config import Security, ServerConfig
from env_servers.server.errors import abort

__all__ = ["InsecureAddress", "TokenInterceptor", "add_port", "check_address"]


class InsecureAddress(ValueError):
    """Raised when plain text would be served to other machines and nobody asked for that."""


class TokenInterceptor(grpc.aio.ServerInterceptor):
    """Refuses calls without `authorization: Bearer TOKEN`; costs nothing per message."""

    def __init__(self, token: str) -> None:
        self._expected = f"Bearer {token}"

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Pass the call on, or answer it with UNAUTHENTICATED."""
        handler = await continuation(handler_call_details)
        metadata = dict(handler_call_details.invocation_metadata or ())
        authorization = str(metadata.get("authorization", ""))
        # Compared in constant time: the time of a refusal must not tell how much of it was right.
        if handler is None or hmac.compare_digest(authorization.encode(), self._expected.encode()):
            return handler  # None: no such method, which gRPC answers itself
        return _refusing(handler)


def _refusing(handler: grpc.RpcMethodHandler[Any, Any]) -> grpc.RpcMethodHandler[Any, Any]:
    """Return a handler of the same kind that refuses."""
    error = errors.unauthenticated()

    async def refuse(_: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        await abort(context, error.status())

    if handler.response_streaming:
        return grpc.stream_stream_rpc_method_handler(refuse)
    return grpc.unary_unary_rpc_method_handler(refuse)


def check_address(address: str, config: ServerConfig) -> None:
    """Raise InsecureAddress for plain text on an address that other machines reach."""
    if config.security.tls_cert or config.insecure or address.startswith("unix:"):
        return
    host = address.rpartition(":")[0].strip("[]")
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost"
    if not loopback:
        raise InsecureAddress(
            f"{address} is reachable from other machines: give --tls-cert and --tls-key, "
            "or --insecure if you mean it"
        )


def add_port(server: grpc.aio.Server, address: str, security: Security) -> str:
    """Listen on an address; returns it with the port that was picked."""
    if security.tls_cert is None:
        port = server.add_insecure_port(address)
    else:
        if security.tls_key is None:
            raise ValueError("--tls-cert needs --tls-key")
        credentials = grpc.ssl_server_credentials(
            [(_read(security.tls_key), _read(security.tls_cert))],
            root_certificates=_read(security.client_ca) if security.client_ca else None,
            require_client_auth=security.client_ca is not None,
        )
        port = server.add_secure_port(address, credentials)
    if address.startswith("unix:"):
        return address
    return f"{address.rpartition(':')[0]}:{port}"


def _read(path: Path) -> bytes:
    return path.read_bytes()
