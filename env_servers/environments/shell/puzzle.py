"""What a task is: what is asked for, the files at its start, and what must be there at its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agentgym.rubric import Rubric
from env_servers.environments.shell.tree import File, Tree

__all__ = ["Move", "Opinion", "Puzzle", "Trial", "trimmed"]


@dataclass(frozen=True, slots=True)
class Move:
    """A command of the scripted solution, and why it helps."""

    command: str
    reason: str


@dataclass(frozen=True, slots=True)
class Trial:
    """A command that is run on what was handed in, with files that nobody saw before."""

    command: str
    files: Mapping[str, str]
    prints: str
    """What its output has to be, but for white space at the ends of lines and of the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """A file whose text a judge grades."""

    path: str
    most_words: int
    """Of the text; a longer one is not read."""
    rubric: Rubric
    """With places for {{points}}, {{notes}} and {{answer}}."""
    points: tuple[str, ...]
    """What the text has to say."""

    def flaws(self, tree: Tree) -> list[str]:
        """Return why there is nothing to judge; empty = there is."""
        text = tree.text(self.path)
        if text is None or not text.strip():
            return [f"{self.path} is missing, or no text"]
        count = len(text.split())
        # Words without end would make a short text long.
        if count > self.most_words or len(text) > 20 * self.most_words:
            return [f"{self.path} has {count} words and {len(text)} characters, which is too long"]
        return []

    def prompt(self, start: Tree, tree: Tree) -> str:
        """Return what the judge is asked of a tree without flaws."""
        notes = "\n".join(start.text(path) or "" for path in start.files)
        quoted = {"notes": notes, "answer": (tree.text(self.path) or "").strip()}
        points = "\n".join(f"- point: {point}" for point in self.points)
        return self.rubric.prompt(quoted, {"points": points})


@dataclass(frozen=True, slots=True, kw_only=True)
class Puzzle:
    """A task and its solution."""

    kind: str
    request: str
    """What the agent is asked for."""
    start: Tree
    wanted: Mapping[str, str]
    """Texts of files at the end; white space at ends does not count."""
    gone: frozenset[str] = frozenset()
    """Files that must not be there at the end. All other files must be as they were."""
    trials: tuple[Trial, ...] = ()
    opinion: Opinion | None = None
    """What a judge has to say of a text, where checks cannot."""
    solution: tuple[Move, ...] = field(default=())

    def flaws(self, tree: Tree) -> list[str]:
        """Return what is not as it was asked for, without trials."""
        flaws: list[str] = []
        for path, wanted in self.wanted.items():
            text = tree.text(path)
            if text is None:
                flaws.append(f"{path} is missing, or no text")
            elif trimmed(text) != trimmed(wanted):
                flaws.append(f"{path} has other content")
        flaws += self.opinion.flaws(tree) if self.opinion else []
        flaws += [f"{path} is still there" for path in sorted(self.gone) if path in tree.entries]
        for path, entry in self.start.entries.items():
            kept = path not in self.wanted and path not in self.gone
            if kept and isinstance(entry, File) and tree.entries.get(path) != entry:
                flaws.append(f"{path} was changed")
        return flaws


def trimmed(text: str) -> str:
    """Return a text without white space at the ends of its lines and at its own ends."""
    return "\n".join(line.rstrip() for line in text.strip().splitlines())
