"""How a conversation begins, beyond what the environment says: system prompt and wording."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import Template
from typing import Final

from agent_runtime.conversation import Message, Role
from agent_runtime.errors import PolicyMisconfigured

__all__ = ["Opening"]

_NAMES: Final = ("instruction", "environment")


@dataclass(frozen=True, slots=True)
class Opening:
    """What is put before and around an environment's instruction."""

    system_prompt: str = ""
    template: str = ""
    """Empty = the instruction as it is."""

    def __post_init__(self) -> None:
        """Raise PolicyMisconfigured for a template that cannot be filled in."""
        template = Template(self.template)
        if not self.template:
            return
        if not template.is_valid():
            raise PolicyMisconfigured("the prompt template has a $ without a name: write $$")
        names = template.get_identifiers()
        unknown = [name for name in names if name not in _NAMES]
        if unknown:
            known = ", ".join(f"${name}" for name in _NAMES)
            raise PolicyMisconfigured(f"the prompt template has ${unknown[0]}; there are: {known}")
        if "instruction" not in names:
            raise PolicyMisconfigured(
                "the prompt template has no $instruction: the model would not know its task"
            )

    def of(self, messages: Sequence[Message], environment: str) -> list[Message]:
        """Return the conversation's start with the system prompt and the wording applied."""
        system = [Message(Role.SYSTEM, self.system_prompt)] if self.system_prompt else []
        if not self.template:
            return [*system, *messages]
        instruction, *rest = messages
        text = Template(self.template).substitute(
            instruction=instruction.text, environment=environment
        )
        return [*system, instruction._replace(text=text), *rest]
