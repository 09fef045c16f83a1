"""Who calls: clients told apart by token or certificate, and what their tokens are good for.

An episode belongs to the client that opened it. Where nothing tells clients apart (one token for
all, or none) they are one client, whose name is empty.
"""

from __future__ import annotations

import hmac
import secrets
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, cast

import grpc.aio

from env_servers.server.config import Security

__all__ = ["Client", "Clients", "Scope", "TokenFileError", "read_token_file"]

_BEARER: Final = "Bearer "


class Scope(StrEnum):
    """What a token is good for, besides asking what the server hosts."""

    PLAY = "play"
    """Open episodes, and use those that one opened."""
    OPERATE = "operate"
    """See all clients' episodes."""


@dataclass(frozen=True, slots=True)
class Client:
    """A caller that was let in."""

    name: str
    """Tells it from the others; empty = it is not told apart."""
    scopes: frozenset[Scope]


_ALL: Final = frozenset(Scope)


class TokenFileError(ValueError):
    """Raised for a file of tokens that cannot be read or used."""


class Clients:
    """Knows the clients of one server by what they show."""

    def __init__(self, security: Security) -> None:
        """Raises TokenFileError."""
        # Tokens are looked up by a keyed hash: how long that takes tells nothing of them.
        self._key = secrets.token_bytes(32)
        self._tokens: dict[bytes, Client] = {}
        if security.token_file is not None:
            for token, client in read_token_file(security.token_file).items():
                self._tokens[self._hash(token)] = client
        if security.token:
            self._tokens[self._hash(security.token)] = Client("", _ALL)

    @property
    def ask_for_tokens(self) -> bool:
        """Whether callers have to show one."""
        return bool(self._tokens)

    def by_token(self, metadata: Iterable[tuple[str, str | bytes]] | None) -> Client | None:
        """Return whose token a call's metadata carries; None = nobody's."""
        shown = str(dict(metadata or ()).get("authorization", ""))
        if not shown.startswith(_BEARER):
            return None
        return self._tokens.get(self._hash(shown.removeprefix(_BEARER)))

    def of_call(self, context: grpc.aio.ServicerContext[Any, Any]) -> Client:
        """Return who makes a call that was let in.

        A named token says who; else the certificate does; else nobody is told apart.
        """
        client = self.by_token(context.invocation_metadata()) if self._tokens else None
        if client is not None and client.name:
            return client
        subject = _certificate_subject(context.auth_context())
        if subject:
            scopes = frozenset({Scope.PLAY}) if client is None else client.scopes
            return Client(f"certificate {subject}", scopes)
        return client or Client("", _ALL)

    def _hash(self, token: str) -> bytes:
        return hmac.digest(self._key, token.encode(), "sha256")


def read_token_file(path: Path) -> dict[str, Client]:
    """Read who has which token, and for what.

    The file is TOML, with a table for each client:

        [alice]
        token = "..."
        scopes = ["play"]

    Returns:
        The client of each token.

    Raises:
        TokenFileError: It cannot be read, or says what cannot be meant.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TokenFileError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:  # neither UTF-8 nor TOML
        raise TokenFileError(f"{path} is no TOML: {error}") from error
    clients: dict[str, Client] = {}
    for name, table in document.items():
        token, scopes = _read_client(path, name, table)
        if token in clients:
            raise TokenFileError(f"{path}: [{name}] has the token of another client")
        clients[token] = Client(f"token {name}", scopes)
    if not clients:
        raise TokenFileError(f"{path} has no tokens: it needs a [NAME] with token and scopes")
    return clients


def _read_client(path: Path, name: str, table: object) -> tuple[str, frozenset[Scope]]:
    fields = cast("dict[str, Any]", table) if isinstance(table, dict) else {}
    token, scopes = fields.get("token"), fields.get("scopes")
    if set(fields) != {"token", "scopes"} or not isinstance(scopes, list):
        raise TokenFileError(f"{path}: [{name}] needs token and scopes, and nothing else")
    if not (isinstance(token, str) and token.isascii() and token.isprintable() and token.strip()):
        raise TokenFileError(f"{path}: the token of [{name}] must be printable ASCII text")
    names = cast("list[Any]", scopes)
    if not names or any(scope not in list(Scope) for scope in names):
        valid = ", ".join(Scope)
        raise TokenFileError(f"{path}: the scopes of [{name}] must be some of: {valid}")
    return token, frozenset(map(Scope, names))


def _certificate_subject(shown: Mapping[str, Iterable[bytes]]) -> str:
    """Return whom a client's certificate names; empty = it showed none."""
    for field in ("x509_subject", "x509_subject_alternative_name"):
        names = [name.decode("utf-8", "replace") for name in shown.get(field, ())]
        if any(names):
            return ",".join(names)
    return ""
