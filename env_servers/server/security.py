"""Who may connect: TLS, client certificates, bearer tokens, and the refusal to be careless."""

from __future__ import annotations

import ipaddress
import os
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from env_servers.server import errors
from env_servers.server.clients import Clients, Scope
from env_servers.server.config import Security, ServerConfig
from env_servers.server.errors import CommandError, abort

__all__ = [
    "AddressUnavailable",
    "InsecureAddress",
    "SecurityMisconfigured",
    "TokenInterceptor",
    "add_port",
    "check_address",
    "check_security",
    "load_tls_files",
    "stays_here",
]


class SecurityMisconfigured(ValueError):
    """Raised for settings that would protect less than they seem to, or that cannot be used."""


class InsecureAddress(SecurityMisconfigured):
    """Raised when plain text would be served to other machines and nobody asked for that."""


class AddressUnavailable(ValueError):
    """Raised for an address that this process cannot listen on."""


class TokenInterceptor(grpc.aio.ServerInterceptor):
    """Refuses calls without `authorization: Bearer TOKEN`, or whose token is for other things.

    It costs nothing per message. Nothing that a refused caller sends is read: see `_refusing`.
    """

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Pass the call on, or answer it with UNAUTHENTICATED."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None  # no such method, which gRPC answers itself
        client = self._clients.by_token(handler_call_details.invocation_metadata)
        if client is None:
            return _refusing(errors.unauthenticated())
        method = handler_call_details.method.rpartition("/")[2]
        if method in _PLAYING and Scope.PLAY not in client.scopes:
            return _refusing(errors.lacks_scope(client.name, Scope.PLAY))
        return handler


_LONGEST_SOCKET_PATH: Final = 107 if sys.platform == "linux" else 103
"""Bytes, without the one that ends it: what `sockaddr_un` has room for."""
_PLAYING: Final = frozenset({"Interact", "Reset", "Step", "Close", "Render"})
"""Methods of the scope `play`; the others only ask."""


def _refusing(error: CommandError) -> grpc.RpcMethodHandler[Any, Any]:
    """Return what refuses a call of any kind.

    It is a handler of streams because gRPC reads the request of a unary handler before it runs: 25
    refused requests of 62 MiB took 1.8 GB. A stream's is never asked for, and flow control keeps it
    with the caller. The status is the same on the wire.
    """

    async def refuse(_: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        await abort(context, error.status())

    return grpc.stream_stream_rpc_method_handler(refuse)


def check_security(security: Security) -> None:
    """Raise SecurityMisconfigured unless the files of TLS are complete, readable and fit.

    A key or a CA without a certificate would otherwise serve plain text to everybody, silently.
    """
    for flag, path in (("--tls-key", security.tls_key), ("--client-ca", security.client_ca)):
        if path is not None and security.tls_cert is None:
            raise SecurityMisconfigured(f"{flag} needs --tls-cert: without it nothing is encrypted")
    if security.tls_cert is None:
        return
    if security.tls_key is None:
        raise SecurityMisconfigured("--tls-cert needs --tls-key")
    load_tls_files(
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
        ca=security.client_ca,
        cert=security.tls_cert,
        key=security.tls_key,
        flags="--tls-cert, --tls-key and --client-ca",
    )


def load_tls_files(
    context: ssl.SSLContext, *, ca: Path | None, cert: Path | None, key: Path | None, flags: str
) -> None:
    """Load PEM files, each if it is given; gRPC would only answer with silence to unfit ones.

    Raises SecurityMisconfigured, which names the files or the `flags` that they came by.
    """
    try:
        for path in (cert, key, ca):
            if path is not None:
                path.open("rb").close()  # names the file in its error, which OpenSSL does not
        if cert is not None:
            context.load_cert_chain(cert, key)
        if ca is not None:
            context.load_verify_locations(ca)
    except ssl.SSLError as error:
        raise SecurityMisconfigured(f"{flags} are no PEM files that fit: {error}") from error
    except OSError as error:
        raise SecurityMisconfigured(f"cannot read the files of TLS: {error}") from error


def check_address(address: str, config: ServerConfig) -> None:
    """Raise InsecureAddress for plain text on an address that other machines reach."""
    if config.security.tls_cert or config.insecure or stays_here(address):
        return
    raise InsecureAddress(
        f"{address} is reachable from other machines: give --tls-cert and --tls-key, "
        "or --insecure if you mean it"
    )


def stays_here(address: str) -> bool:
    """Tell whether what is sent to an address stays on this machine."""
    if address.startswith("unix:"):
        return True
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def add_port(server: grpc.aio.Server, address: str, security: Security) -> str:
    """Listen on an address; returns it with the port that was picked.

    Raises:
        AddressUnavailable: Another program listens there, or this process may not, or the path of a
            socket is too long.
    """
    unix = address.startswith("unix:")
    if unix:
        _refuse_long_path(address)
        _refuse_live_socket(address)
    # A Unix socket's file mode is its only lock, and it is the umask at the time of the bind.
    umask = os.umask(0o177) if unix else None
    try:
        if security.tls_cert is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, _credentials(security))
    except RuntimeError as error:
        raise AddressUnavailable(
            f"cannot listen on {address}: another program does, or this one may not"
        ) from error
    finally:
        if umask is not None:
            os.umask(umask)
    return address if unix else f"{address.rpartition(':')[0]}:{port}"


def _refuse_long_path(address: str) -> None:
    """Raise AddressUnavailable for a path that the system has no room for in an address."""
    size = len(os.fsencode(address.removeprefix("unix:")))
    if size > _LONGEST_SOCKET_PATH:
        raise AddressUnavailable(
            f"cannot listen on {address}: the path has {size} bytes, a socket's at most "
            f"{_LONGEST_SOCKET_PATH}; choose a shorter one (for servers that a run starts: TMPDIR)"
        )


def _refuse_live_socket(address: str) -> None:
    """Raise AddressUnavailable where a server answers: gRPC itself would take its place."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(address.removeprefix("unix:"))
        except OSError:
            return  # nothing there, or what a killed server left
    raise AddressUnavailable(f"cannot listen on {address}: another server does")


def _credentials(security: Security) -> grpc.ServerCredentials:
    assert security.tls_cert is not None and security.tls_key is not None
    client_ca = security.client_ca
    return grpc.ssl_server_credentials(
        [(security.tls_key.read_bytes(), security.tls_cert.read_bytes())],
        root_certificates=client_ca.read_bytes() if client_ca else None,
        require_client_auth=client_ca is not None,
    )
