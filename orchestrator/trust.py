"""Whose run a folder holds: manifests are signed with a key of their user.

A resume takes its settings from the manifest: addresses, arguments for servers, checkpoints. In a
folder that somebody else made they are that person's wishes, and must not be followed unasked. What
Jupyter does for notebooks: a key in the user's state folder signs what this user's programs write.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from agent_runtime.private_files import make_private_folder, private_opener
from orchestrator.errors import UsageError

__all__ = ["SIGNATURE", "check_environments", "is_signed", "sign"]

SIGNATURE: Final = "signature"
"""Name of the manifest's entry."""
_KEY_BYTES: Final = 32


def sign(document: Mapping[str, Any]) -> str:
    """Return the signature of a manifest; empty where this user cannot keep a key."""
    key = _read_key() or _make_key()
    return _digest(key, document) if key else ""


def is_signed(document: Mapping[str, Any]) -> bool:
    """Tell whether a manifest was written by this user's programs, and by nobody since."""
    key, signature = _read_key(), document.get(SIGNATURE)
    if not key or not isinstance(signature, str) or not signature.isascii():
        return False
    return hmac.compare_digest(signature, _digest(key, document))


def check_environments(names: Iterable[str]) -> None:
    """Raise UsageError for an environment of a stranger's run that is a package of this folder.

    A server imports what is named like an environment: the run's own folder, for example.
    """
    for name in names:
        if name.startswith("-"):
            raise UsageError(f"somebody else began this run, and {name!r} is no environment's name")
        package = Path(name.partition(".")[0])
        if package.is_dir() or package.with_suffix(".py").is_file():
            raise UsageError(
                f"somebody else began this run, and its environment {name!r} would be imported "
                f"from {package.absolute()}: look at it, then add --trust-run"
            )


def _digest(key: bytes, document: Mapping[str, Any]) -> str:
    signed = {name: value for name, value in document.items() if name != SIGNATURE}
    text = json.dumps(signed, sort_keys=True, separators=(",", ":"))
    return hmac.digest(key, text.encode(), "sha256").hex()


def _key_file() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "agentgym" / "run.key"


def _read_key() -> bytes:
    try:
        key = _key_file().read_bytes()
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return b""
    return key if len(key) == _KEY_BYTES else b""


def _make_key() -> bytes:
    """Make the key, or return the one that another process made first; empty = it cannot be."""
    try:
        path = _key_file()
        make_private_folder(path.parent)
        partial = path.with_name(f".{secrets.token_hex(4)}.key")
        with open(partial, "xb", opener=private_opener) as stream:
            stream.write(secrets.token_bytes(_KEY_BYTES))
        try:
            path.hardlink_to(partial)
        except FileExistsError:
            pass
        finally:
            partial.unlink()
    except (OSError, RuntimeError):
        return b""
    return _read_key()
