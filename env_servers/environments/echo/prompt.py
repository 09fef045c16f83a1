"""How a conversation with echo opens, and its one verb."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from env_servers.sdk import ActionFormat, ConversationStart, Grammar, Parameter, Verb

__all__ = ["CONVERSATION_STARTS", "GRAMMAR"]

_RULES: Final = (
    "You talk to an echo. After each of your messages it tells you how many messages it has heard "
    "and repeats the beginning of the last one. Keep talking until it has heard enough; your last "
    "message must not be empty.\n"
)

CONVERSATION_STARTS: Final[Mapping[ActionFormat, ConversationStart]] = {
    ActionFormat.REACT: ConversationStart(
        _RULES + "Write your reply as\n\nThought:\nwhy you say it\n\nAction:\nwhat you say"
    ),
    ActionFormat.FUNCTION_CALLING: ConversationStart(
        _RULES + 'Reply with one JSON object: {"thought": why, "function_name": "say", '
        '"arguments": {"text": what you say}}'
    ),
    ActionFormat.CODE_AS_ACTION: ConversationStart(
        _RULES + 'Reply with one python block that calls say(text="what you say"); '
        "put your thoughts in its comments."
    ),
}


def _express(action: str) -> tuple[str, Mapping[str, Any]]:
    return "say", {"text": action}


GRAMMAR: Final = Grammar(
    verbs=(
        Verb(
            "say",
            "Say something to the echo.",
            "{text}",
            (Parameter("text", description="What to say."),),
        ),
    ),
    express=_express,
)
