"""The folder as a tree, the last command with what it printed, and what is not yet as asked for."""

from __future__ import annotations

from typing import Final

from env_servers.environments.shell.puzzle import Puzzle
from env_servers.environments.shell.tree import File, Link, Tree
from env_servers.sdk import View
from env_servers.toolkit.drawing import document, element, section, text_view

__all__ = ["draw"]

_MAX_LINES: Final = 200
_MAX_CHARS: Final = 120
_COMMAND_CHARS: Final = 4_000


def draw(puzzle: Puzzle, tree: Tree, command: str, shown: str) -> list[View]:
    """Draw a state; `shown` is what the agent saw of the last command."""
    files = "\n".join(_lines(tree))
    flaws = puzzle.flaws(tree)
    checks = "\n".join(flaws) or "all files are as they were asked for"
    if puzzle.trials:
        checks += f"\n{len(puzzle.trials)} trials are run when it is handed in"
    if puzzle.opinion:
        checks += "\na judge reads it when it is handed in"
    last = f"$ {command[:_COMMAND_CHARS]}\n{shown}" if command else "no command yet"
    parts = [
        ("Task", puzzle.request),
        ("Folder", files),
        ("Last command", last),
        ("Checks", checks),
    ]
    sections = [section(heading, element("pre", text)) for heading, text in parts]
    text = "\n\n".join(f"# {heading}\n{text}" for heading, text in parts)
    return [
        document("folder", "Folder and last command", *sections),
        text_view("text", "Folder as text", text),
    ]


def _lines(tree: Tree) -> list[str]:
    lines: list[str] = []
    for path, entry in tree.entries.items():
        if len(lines) == _MAX_LINES:
            lines.append(f"... and {len(tree.entries) - _MAX_LINES} more")
            break
        parts = path.encode(errors="replace").decode().split("/")
        line = "  " * (len(parts) - 1) + parts[-1][:_MAX_CHARS]
        if isinstance(entry, File):
            line += f"{'*' if entry.executable else ''}  {len(entry.content):,} B"
        elif isinstance(entry, Link):
            line += f" -> {entry.target.encode(errors='replace').decode()[:_MAX_CHARS]}"
        else:
            line += "/"
        lines.append(line)
    return lines or ["(empty)"]
