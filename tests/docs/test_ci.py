"""What continuous integration installs, so that no suite is skipped there for what it lacks."""

from __future__ import annotations

import re

import pytest

from tests.kit.data import REPOSITORY

WORKFLOW = (REPOSITORY / ".github" / "workflows" / "ci.yml").read_text()
SCRIPT = (REPOSITORY / ".ci" / "run").read_text()


def installed(text: str) -> set[str]:
    """Extras that pip is asked for."""
    asked = re.findall(r"pip install[^\n]*-e '\.\[([\w,-]+)\]'", text)
    return {extra for extras in asked for extra in extras.split(",")}


def of_session(name: str) -> str:
    """What the workflow does for one session of the job `checks`, before it."""
    steps = re.split(r"\n      - ", WORKFLOW)
    return "\n".join(it for it in steps if it.startswith(f"if: matrix.session == '{name}'"))


@pytest.mark.parametrize(
    ("session", "extras", "programs"),
    [("slow", {"ray"}, ["moto_server", "bubblewrap"]), ("deploy", {"deploy"}, ["promtool"])],
)
def test_what_suites_skip_without_is_installed_for_them(session, extras, programs) -> None:
    for text in (of_session(session), SCRIPT):
        assert extras <= installed(text)
        assert all(program in text for program in programs)
