"""Checks of the views: every state can be drawn, and looking changes nothing.

Each check yields one sentence per broken promise; its docstring is the promise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from env_servers.sdk.contract.rehearsal import Script, record
from env_servers.sdk.contract.subject import NotApplicable, Subject
from env_servers.sdk.environment import Environment
from env_servers.sdk.views import UnfitView, View, content_flaws, require_fit

__all__ = ["every_state_has_views", "hostile_actions_are_shown_as_text", "looking_changes_nothing"]

_HOSTILE: Final = "<script>f()</script><b onclick='f()'>\r\n\x1b[31m\u202e\x00\x85 &amp; \"]]>\r"
"""Markup, what drives terminals and what XML forbids."""


def every_state_has_views(subject: Subject) -> Iterator[str]:
    """Each state, the first and the last too, has views that can be sent and shown alone."""
    for script, _ in _watched(subject):
        episode, _ = subject.begin(script)
        for step in range(len(script.actions) + 1):
            if step:
                episode.step(script.actions[step - 1])
            yield from (f"{script.item_id}, step {step}: {flaw}" for flaw in _flaws(episode))
        episode.close()


def hostile_actions_are_shown_as_text(subject: Subject) -> Iterator[str]:
    """What an agent writes is shown as text, whatever it is."""
    for script, _ in islice(_watched(subject), 2):
        written = [_HOSTILE, *(f"{action}{_HOSTILE}" for action in script.actions[:1])]
        for action in written:
            episode, _ = subject.begin(script)
            episode.step(action)
            yield from (f"{script.item_id}, {action!r:.100}: {flaw}" for flaw in _flaws(episode))
            episode.close()


def looking_changes_nothing(subject: Subject) -> Iterator[str]:
    """An episode that is watched goes on as if nobody looked, and looks the same again."""
    for script, expected in _watched(subject):
        episode, observation = subject.begin(script)
        seen: list[Sequence[View]] = []
        for step in range(len(script.actions) + 1):
            if step:
                observation = episode.step(script.actions[step - 1])
            seen.append(list(episode.render()))
            if seen[-1] != list(episode.render()):
                yield f"{script.item_id}, step {step}: asked twice, the same state looks different"
            if subject.spec.deterministic and record(episode, observation) != expected[step]:
                yield f"{script.item_id}, step {step}: looking changed the episode"
                break
        episode.close()
        if subject.spec.deterministic:
            yield from _seen_afresh(subject, script, seen[-1])


def _seen_afresh(subject: Subject, script: Script, seen: Sequence[View]) -> Iterator[str]:
    episode, _ = subject.begin(script)
    for action in script.actions:
        episode.step(action)
    if list(episode.render()) != seen:
        yield f"{script.item_id}: another episode looks different in the same last state"
    episode.close()


def _flaws(episode: Environment) -> Iterator[str]:
    views = episode.render()
    if not views:
        yield "there is no view"
    try:
        require_fit(views)
    except UnfitView as error:
        yield str(error)
        return
    for view in views:
        yield from (f"the view {view.name}: {flaw}" for flaw in content_flaws(view))


def _watched(subject: Subject) -> Iterator[tuple[Script, Sequence[str]]]:
    """The sample episodes of the first item of every split, with their records."""
    if not subject.spec.has_views:
        raise NotApplicable("the environment draws no views")
    items = subject.items(1)
    for index, script in enumerate(subject.scripts):
        if script.item_id in items:
            yield script, subject.reference(index)
