"""A judge without a model: it looks for words.

For tests, and to try an environment where no model is at hand. It reads the question as a model
would: points that the author lists as lines `- point: WORDS`, and the text between the marks of
`answer`. Each grade is the share of points all of whose words the text has.
"""

from __future__ import annotations

import json
import re
from typing import Final

from env_servers.sdk.judging import Answer, Judge

__all__ = ["ScriptedJudge"]

_POINT: Final = re.compile(r"^- point: (.+)$", re.MULTILINE)
_ANSWER: Final = re.compile(r"^<answer (\w+)>\n(.*)\n</answer \1>$", re.MULTILINE | re.DOTALL)
_GRADE: Final = re.compile(
    r"^- (\w+): a number from (-?[\d.e+-]+) to (-?[\d.e+-]+?)(?:;.*)?$", re.MULTILINE
)
_WORD: Final = re.compile(r"\w+")


class ScriptedJudge(Judge):
    """Grades by the words of a text."""

    @property
    def identity(self) -> str:
        return "scripted"

    async def ask(self, prompt: str, seed: int) -> Answer:
        quoted = _ANSWER.search(prompt)
        said = set(_words(quoted[2])) if quoted else set[str]()
        before = prompt[: quoted.start()] if quoted else prompt
        points = [set(_words(point)) for point in _POINT.findall(before)]
        share = sum(point <= said for point in points) / len(points) if points else 0.0
        after = prompt[quoted.end() :] if quoted else prompt
        grades = {
            name: float(low) + share * (float(high) - float(low))
            for name, low, high in _GRADE.findall(after)
        }
        text = f"{share:.0%} of the points are there.\n{json.dumps(grades)}"
        return Answer(text=text, model="scripted")


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
