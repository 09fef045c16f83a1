"""A run of which every recorded text and name is hostile to whoever shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from orchestrator.run_plan import RunPlan, SessionEnd
from orchestrator.store import RunStore
from tests.orchestrator.records import (
    build_episode,
    build_failed,
    build_manifest,
    build_session,
)

OWNED = "window.owned = (window.owned ?? 0) + 1"
HOSTILE = (
    f"<script>{OWNED}</script><img src=x onerror='{OWNED}'><svg/onload='{OWNED}'>"
    f"<a href=\"javascript:{OWNED}\">a</a></pre></li><iframe srcdoc='<script>{OWNED}</script>'>"
    "<link rel=stylesheet href=//127.0.0.2/x.css><img src=//127.0.0.2/x.png>"
    f"'\"><b onclick='{OWNED}'>"
    "{{7*7}} \x1b[31m\x1b]0;owned\x07\x9b2J \u202egnp.exe\u2066\u061c\u200f\x00\x7f\x85"
)
LONG = "x" * 1_000_000 + "THE END"


def record_hostile_run(folder: Path, text: str = HOSTILE, long: str = LONG) -> None:
    """Record two episodes, one of which failed, that say `text` wherever a record has text.

    Args:
        folder: Of the run.
        text: What everything is called and everybody says.
        long: The action, and a line of an observation.
    """
    manifest = build_manifest(policy=text, config={text: text})
    with RunStore.create(folder, manifest, build_session(command=(text,))) as store:
        plan = RunPlan(items={text: (text, "b")}, samples=1, policies=(text,), gaps={text: text})
        store.begin_playing(plan)
        named: dict[str, Any] = {"environment": text, "policy": text}
        episode = build_episode(text, replies=(f"Thought: {text}\nAction: {long}", text), **named)
        episode.category = episode.environment_version = episode.split = episode.profile = text
        episode.environment_digest = text
        episode.options.update({text: text})
        episode.messages[0].text = text
        episode.steps[1].observation = text
        episode.steps[2].observation = f"{text}\n{long}"
        episode.steps[-1].info.update({text: text})
        episode.generations[0].reasoning = episode.generations[0].policy_version = text
        episode.generations[0].finish_reason = text
        episode.generations[0].repeats[text] = 2
        episode.token_segments[0].policy_versions[0] = text
        episode.token_segments[0].fork_reason = text
        failed = build_failed("b", **named)
        failed.error.reason = failed.error.message = text
        store.append_all([episode, failed])
        store.end_playing(SessionEnd(interrupted=False))
