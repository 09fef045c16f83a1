"""Settings of environments on a command line: `--set NAME.KEY=VALUE`."""

from __future__ import annotations

from env_servers.sdk import SdkError

__all__ = ["read_setting"]


def read_setting(text: str) -> tuple[str, str]:
    """Return the name and the value of a setting; raises SdkError."""
    key, equals, value = text.partition("=")
    if not equals or "." not in key:
        raise SdkError(f"--set {text!r} is not NAME.KEY=VALUE")
    return key, value
