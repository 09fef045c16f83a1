"""From a typed command back to the names in it.

Contains the form of an action's commands, where that can be read backwards: at most two names with
a text before and between them. It knows no game; which objects have a name is the game's matter.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from env_servers.environments.alfworld.pddl import Atom, Parameter
from env_servers.environments.alfworld.textgen import Condition, Slot

__all__ = ["Wording", "wording_of"]

_MOST_NAMES: Final = 2


@dataclass(frozen=True, slots=True)
class Wording:
    """`prefix NAME between NAME`, where both names or the second may be missing."""

    prefix: str
    variables: tuple[str, ...]
    """Whose objects are named, in order; with question mark."""
    between: str

    def read(self, command: str) -> Mapping[str, str] | None:
        """Return the name of each variable's object; None where the command is another action's.

        Empty where the command does not tell: it names nothing, or it can be read in two ways.
        """
        if not command.startswith(self.prefix):
            return None
        rest = command[len(self.prefix) :]
        if not self.variables:
            return None if rest else {}
        if len(self.variables) == 1:
            return {self.variables[0]: rest}
        first = rest.find(self.between)
        if first < 0:
            return None
        if first != rest.rfind(self.between):
            return {}
        names = rest[:first], rest[first + len(self.between) :]
        return dict(zip(self.variables, names, strict=True))


def wording_of(
    pattern: Sequence[str | Slot], parameters: Sequence[Parameter], demanded: Collection[Atom]
) -> Wording | None:
    """Return how commands of such a pattern are read back; None where that cannot be told.

    `demanded` holds whenever the action is possible. A name that stands under any other condition
    may be missing from a command.
    """
    types = {parameter.name: parameter.type for parameter in parameters}
    names: list[str] = []
    literals = [""]
    for part in pattern:
        if isinstance(part, str):
            literals[-1] += part
            continue
        variable = f"?{part.variable}"
        if variable not in types or not all(_is_met(c, types, demanded) for c in part.query):
            return None
        names.append(variable)
        literals.append("")
    prefix, *between = literals
    ends = between.pop() if between else ""
    if ends or len(set(names)) != len(names) or len(names) > _MOST_NAMES or "" in between:
        return None
    return Wording(prefix, tuple(names), between[0] if between else "")


def _is_met(condition: Condition, types: Mapping[str, str], demanded: Collection[Atom]) -> bool:
    """Whether the parameters answer a condition whenever the action is possible, and only they."""
    variables = tuple(f"?{placeholder.name}" for placeholder in condition.placeholders)
    return Atom(condition.predicate, variables) in demanded and all(
        types.get(variable) == placeholder.type
        for variable, placeholder in zip(variables, condition.placeholders, strict=True)
    )
