"""What a client may ask of an echo episode: its size, its length, and how it misbehaves.

Contains the reset options and their bounds. Numbers arrive from JSON and protobuf as floats.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Final

from env_servers.sdk import InvalidOption, ResetOptions

__all__ = ["OPTION_NAMES", "EchoOptions"]

_HIGHEST: Final = {
    "observation_bytes": 16 * 1024 * 1024,
    "view_bytes": 16 * 1024 * 1024,
    "images": 20,
    "image_bytes": 5 * 1024 * 1024,
    "length": 10**9,
}
"""Bounds of options that would otherwise cost unbounded memory; others take up to 1e9."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoOptions:
    """The options of one episode; 0 and None switch a behaviour off.

    Steps are numbered from 1; the reset is step 0.
    """

    observation_bytes: int = 600
    """UTF-8 length of every observation."""
    length: int = 10
    """Steps until the episode terminates; 0 = it never does."""
    sleep_ms: float = 0.0
    """Each step waits so long, without the GIL."""
    spin_ms: float = 0.0
    """Each step computes so long, holding the GIL."""
    hang_at: int | None = None
    """This step computes for ever."""
    hang_sleep_at: int | None = None
    """This step waits for an hour."""
    crash_at: int | None = None
    """This step raises RuntimeError."""
    exit_at: int | None = None
    """This step ends the process that runs it."""
    diverge: bool = False
    """Observations carry a counter of the process, so that a replay differs."""
    view_bytes: int = field(default=0, repr=False)
    """The view of a state is at least so long. Not in `repr`, of which state hashes are made."""
    images: int = field(default=0, repr=False)
    """Every observation has so many images; true = 1. Not in `repr`, as they count by
    themselves."""
    image_bytes: int = field(default=0, repr=False)
    """Each of them is at least so long."""

    @property
    def behaves(self) -> bool:
        """No fault and no delay was asked for."""
        faults = (self.hang_at, self.hang_sleep_at, self.crash_at, self.exit_at)
        return not (self.sleep_ms or self.spin_ms or self.diverge) and faults == (None,) * 4

    @classmethod
    def read(cls, options: ResetOptions) -> EchoOptions:
        """Return the typed options; raises InvalidOption for impossible values."""
        return cls(**{name: _checked(name, value) for name, value in options.options.items()})


OPTION_NAMES: Final = tuple(option.name for option in fields(EchoOptions))


def _checked(name: str, value: Any) -> Any:
    if name == "diverge":
        if not isinstance(value, bool):
            raise InvalidOption(f"option {name} is {value!r:.100}", valid=("true", "false"))
        return value
    if name == "images" and isinstance(value, bool):
        return int(value)
    highest = _HIGHEST.get(name, 10**9)
    valid = f"a number from 0 to {highest}"
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= highest:
        raise InvalidOption(f"option {name} is {value!r:.100}", valid=valid)
    if name in ("sleep_ms", "spin_ms"):
        return float(value)
    if value != int(value):
        raise InvalidOption(f"option {name} is {value!r:.100}", valid=f"{valid}, whole")
    return int(value)
