"""A chat completion that arrives in pieces, put together to what it would be whole.

Pieces are read leniently: what is wrong with them is found when the whole is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

__all__ = ["StreamedChat"]

_TEXTS: Final = ("content", "refusal", "reasoning_content", "reasoning")
"""Fields of a message whose pieces follow each other."""


class StreamedChat:
    """One streamed answer; of several choices the first, as `ChatApi` reads."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._answer: dict[str, Any] = {}
        self._message: dict[str, Any] = {"role": "assistant", "content": None}
        self._calls: dict[int, dict[str, Any]] = {}
        self._finish: object = None

    @property
    def ended(self) -> bool:
        """Whether the server said why the reply ended."""
        return self._finish is not None

    def add(self, event: Mapping[str, Any]) -> None:
        """Take in one event."""
        for name, value in event.items():
            # The counts come with the last event; the others have none.
            if name not in ("choices", "object") and value is not None:
                self._answer[name] = value
        choices: object = event.get("choices")
        for choice in _objects(choices):
            if choice.get("index", 0) == 0:
                self._add_choice(choice)

    def _add_choice(self, choice: Mapping[str, Any]) -> None:
        self._finish = choice.get("finish_reason") or self._finish
        delta = choice.get("delta")
        pieces = cast("dict[str, Any]", delta) if isinstance(delta, dict) else {}
        for name in _TEXTS:
            _append(self._message, name, pieces.get(name))
        for place, call in enumerate(_objects(pieces.get("tool_calls"))):
            index = call.get("index")
            self._add_call(index if isinstance(index, int) else place, call)

    def _add_call(self, index: int, call: Mapping[str, Any]) -> None:
        known = self._calls.setdefault(index, {"type": "function", "function": {}})
        if call.get("id"):
            known["id"] = call["id"]
        for function in _objects([call.get("function")]):
            for name in ("name", "arguments"):
                _append(known["function"], name, function.get(name))

    def text(self) -> str:
        """Return what there is of the reply, for who watches; before it begins, of the thoughts."""
        functions = (call["function"] for call in self._calls.values())
        calls = [f"{it.get('name', '')} {it.get('arguments', '')}" for it in functions]
        content, _, *thoughts = (self._message.get(name) for name in _TEXTS)
        reply = [str(it) for it in (content, *calls) if it]
        return "\n".join(reply or [str(it) for it in thoughts if it])

    def answer(self) -> dict[str, Any]:
        """Return the whole, as a server answers that does not stream."""
        message = dict(self._message)
        if self._calls:
            message["tool_calls"] = [self._calls[index] for index in sorted(self._calls)]
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        return {**self._answer, "object": "chat.completion", "choices": [choice]}


def _append(fields: dict[str, Any], name: str, piece: object) -> None:
    """Add to a text; what is no text takes its place, so that reading the whole finds it."""
    if piece is not None:
        known = fields.get(name) or ""
        both = isinstance(piece, str) and isinstance(known, str)
        fields[name] = f"{known}{piece}" if both else piece


def _objects(value: object) -> list[dict[str, Any]]:
    entries = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", entry) for entry in entries if isinstance(entry, dict)]
