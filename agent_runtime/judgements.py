"""What judges of an environment said, given back when the same actions are played again.

An environment whose rewards are judged tells in an observation's info, under `judgements`, what its
judge was asked and answered. A reset with the option of that name, and these, asks nobody again:
another opinion would be another state, and no proof.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from google.protobuf import struct_pb2

from agentgym.env.v1 import environment_pb2 as pb

__all__ = ["give_back", "judgements_of"]

_JUDGEMENTS: Final = "judgements"


def judgements_of(info: struct_pb2.Struct) -> Iterable[struct_pb2.Value]:
    """Return the judgements that an observation's info tells; mostly none."""
    if _JUDGEMENTS not in info.fields:
        return ()
    return info.fields[_JUDGEMENTS].list_value.values


def give_back(reset: pb.Reset, judgements: Iterable[struct_pb2.Value]) -> None:
    """Add judgements to those that a reset gives back."""
    for judgement in judgements:
        reset.options.fields[_JUDGEMENTS].list_value.values.append(judgement)
