"""What a language model, or somebody who means harm, may send as an action.

All of it is valid UTF-8: the transport refuses anything else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

__all__ = ["REPLIES", "SHORT_TEXTS", "TEXTS", "mutations"]

_MEGABYTE: Final = 1_000_000

TEXTS: Final[Mapping[str, str]] = {
    "empty": "",
    "one space": " ",
    "line breaks": "\n\r\n\x0b\x0c\x1c\u2028\u2029",
    "NUL": "\0",
    "control characters": "".join(map(chr, range(32))) + "\x7f\x80\x9f",
    "unicode": "äß漢字 🙂 e\u0301 \u202etfel\u202c \u200b \ufeff \U0010ffff İı",
    "digits that are no ASCII": "٣ ² ① Ⅷ",
    "huge number": "9" * 5000,
    "numbers beyond floats": "1e999 -1e999 nan inf -0",
    "negative number": "-1",
    "format strings": "{} {0} {0.__class__} {missing} %s %d %(x)s %n ${x}",
    "regular expression": r"(((a+)+)+)$ [ \1 (?P<x> *** \\",
    "markup": "<script>alert(1)</script> [bold]x[/bold] &amp; \x1b[31m",
    "code": "__import__('os').abort()",
    "query": "'; DROP TABLE items; --",
    "path": "../../../../etc/passwd",
    "brackets": "[ ( { ' \" ` ) ] }",
    "several actions": "Action: a\nAction: b\nThought: c\nAction:\nd",
    "JSON": '{"function_name": "f", "arguments": {"a": [1, null, true]}}',
    "huge JSON": json.dumps({f"key {index}": list(range(10)) for index in range(5000)}),
    "deep nesting": "[" * 100_000,
    "deep nesting, closed": "(" * 50_000 + ")" * 50_000,
    "one long word": "a" * _MEGABYTE,
    "one megabyte of words": "go to the " * (_MEGABYTE // 10),
    "one megabyte of spaces": " " * _MEGABYTE,
    "one megabyte of lines": "\n" * _MEGABYTE,
    "one megabyte of actions": "Action: x\n" * (_MEGABYTE // 10),
}
"""Native actions by label."""

SHORT_TEXTS: Final = tuple(text for text in TEXTS.values() if len(text) < 100)

_ARGUMENT: Final = (
    "1e999",
    "9" * 5000,
    '"\\ud800"',
    "[" * 900 + "]" * 900,
    "{}",
    "null",
    "NaN",
    "1" + "0" * 400 + "+1j",
    "__import__('os').abort()",
    "-" * 3000 + "1",
    "*a, **b",
)

REPLIES: Final[Mapping[str, str]] = TEXTS | {
    "thought without action": "Thought: hm",
    "empty action": "Thought: hm\n\nAction:",
    "fence": "```python\n",
    "fences": "```\n" * 1000,
    "JSON with nested keys": '{"function_name":' * 50_000,
    "JSON list": '[{"function_name": "f"}]',
    "JSON name that is no text": '{"function_name": ["f"], "arguments": {}}',
}
"""Whole replies by label; `mutations` of a written reply go further."""


def mutations(text: str) -> Iterator[tuple[str, str]]:
    """What a legal action or reply looks like after small damage, by label."""
    yield "upper case", text.upper()
    yield "twice", text + text
    yield "first half", text[: len(text) // 2]
    yield "without its first word", text.partition(" ")[2]
    yield "with a NUL", text + "\0"
    yield "with many spaces", text.replace(" ", " " * 1000)
    yield "with many words", text + " and" * 10_000
    for label, digits in (("²", "²"), ("-1", "-1"), ("0", "0"), ("5000 digits", "9" * 5000)):
        if re.search(r"[0-9]", text):
            yield f"with {label} for its numbers", re.sub(r"[0-9]+", digits, text)
    for argument in _ARGUMENT:
        changed = re.sub(r"""(["'])[^"']*\1(?=[^"']*$)""", lambda _, a=argument: a, text, count=1)
        if changed != text:
            yield f"with the argument {argument[:20]}", changed
