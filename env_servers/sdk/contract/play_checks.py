"""Checks of episodes: what they show, that they repeat, and that they keep to themselves.

Each check yields one sentence per broken promise; its docstring is the promise.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final, cast

from env_servers.sdk.contract.hostile import REPLIES, TEXTS, mutations
from env_servers.sdk.contract.observations import flaws
from env_servers.sdk.contract.rehearsal import (
    Script,
    ended,
    first_difference,
    record,
    rehearse_elsewhere,
    scrambled_global_rng,
)
from env_servers.sdk.contract.subject import NotApplicable, Subject
from env_servers.sdk.environment import Environment
from env_servers.sdk.grammar import Rejected
from env_servers.sdk.types import ActionFormat, Observation

__all__ = [
    "episodes_are_isolated",
    "equal_fingerprints_have_equal_futures",
    "forks_are_equal_and_independent",
    "hostile_actions_are_observations",
    "hostile_replies_are_answered",
    "observations_are_well_formed",
    "other_processes_agree",
    "replays_are_identical",
]

DOUBLED: Final = 2
"""Sample episodes that are played twice among the interleaved ones."""
FORKED: Final = 4
"""Sample episodes that are forked in their middle."""
FUTURE: Final = 10
"""Steps that two states with one fingerprint are compared over."""


def observations_are_well_formed(subject: Subject) -> Iterator[str]:
    """Observations are UTF-8 text with plain, finite numbers, JSON info and one way to end."""
    for script in subject.scripts:
        episode, observation = subject.begin(script)
        yield from _located(script, 0, flaws(observation, subject.spec, first=True))
        for step, action in enumerate(script.actions, 1):
            observation = episode.step(action)
            yield from _located(script, step, flaws(observation, subject.spec))
            if ended(observation):
                break
        episode.close()


def replays_are_identical(subject: Subject) -> Iterator[str]:
    """The same item, seed and actions give the same episode again, whatever `random` holds."""
    _require_determinism(subject)
    for index, script in enumerate(subject.scripts):
        expected = subject.reference(index)
        with scrambled_global_rng(10_000 + index):
            actual = subject.rehearse(script)
        if actual != expected:
            yield f"{script.item_id} again: {first_difference(expected, actual)}"


def other_processes_agree(subject: Subject) -> Iterator[str]:
    """A fresh process with another PYTHONHASHSEED plays the same episodes on the same tasks."""
    _require_determinism(subject)
    expected = [subject.reference(index) for index in range(len(subject.scripts))]
    own = os.environ.get("PYTHONHASHSEED")
    seeds = [seed for seed in (1, 2, 3) if str(seed) != own][:2]
    for seed, process in zip(
        seeds,
        rehearse_elsewhere(subject.environment, subject.config, subject.scripts, seeds),
        strict=True,
    ):
        if process.digest != subject.tasks.digest().hex():
            yield f"PYTHONHASHSEED={seed}: the task set has another digest"
        for script, one, actual in zip(subject.scripts, expected, process.records, strict=True):
            if one != actual:
                yield f"{script.item_id}, PYTHONHASHSEED={seed}: {first_difference(one, actual)}"


def episodes_are_isolated(subject: Subject) -> Iterator[str]:
    """Episodes that are played in turns are the episodes that are played alone."""
    _require_determinism(subject)
    indexes = range(len(subject.scripts))
    together = [*indexes, *indexes[:DOUBLED]]
    expected = [subject.reference(index) for index in together]
    scripts = [subject.scripts[index] for index in together]
    for script, alone, interleaved in zip(
        scripts, expected, _in_turns(subject, scripts), strict=True
    ):
        if interleaved != alone:
            yield f"{script.item_id} among others: {first_difference(alone, interleaved)}"


def forks_are_equal_and_independent(subject: Subject) -> Iterator[str]:
    """A fork continues as its original would, and neither feels what is done to the other."""
    _require_determinism(subject)
    for index, script in list(enumerate(subject.scripts))[:FORKED]:
        expected = subject.reference(index)
        middle = min(len(script.actions), len(expected) - 1) // 2
        episode, _ = _played(subject, script, middle)
        twin, disturbed = _fork(episode), _fork(episode)
        fingerprints = {copy.fingerprint() for copy in (episode, twin, disturbed)}
        if len(fingerprints) != 1:
            yield f"{script.item_id}: a fork has another fingerprint than its original"
        rest = script.actions[middle:]
        _disturb(disturbed, tuple(reversed(rest)))
        for label, copy in (("original", episode), ("fork", twin)):
            if difference := first_difference(expected[middle + 1 :], _continued(copy, rest)):
                yield f"{script.item_id}, {label} from step {middle}: {difference}"
            copy.close()


def equal_fingerprints_have_equal_futures(subject: Subject) -> Iterator[str]:
    """States of an item with the same fingerprint answer the same actions alike."""
    _require_determinism(subject)
    for script in subject.scripts:
        episode, _ = subject.begin(script)
        if episode.fingerprint() is None:
            raise NotApplicable("the environment has no fingerprints")
        states: dict[bytes, tuple[int, Environment]] = {}
        for step, action in enumerate(script.actions):
            print_now = episode.fingerprint() or b""
            earlier = states.setdefault(print_now, (step, _fork(episode)))
            future = script.actions[step : step + FUTURE]
            if earlier[0] != step:
                expected = _continued(_fork(earlier[1]), future)
                if difference := first_difference(expected, _continued(_fork(episode), future)):
                    yield f"{script.item_id}, steps {earlier[0]} and {step}, then {difference}"
            if ended(episode.step(action)):
                break


def hostile_actions_are_observations(subject: Subject) -> Iterator[str]:
    """Any text is answered with an observation; the scripted players can still go on."""
    for script in _hostile_scripts(subject):
        legal = dict(mutations(script.actions[-1])) if script.actions else {}
        for label, text in {**TEXTS, **legal}.items():
            episode, observation = _played(subject, script, len(script.actions) // 2)
            if ended(observation):
                break
            sentences = _answers(subject, episode, text)
            yield from (f"{label}: {flaw}" for flaw in sentences)
            episode.close()


def hostile_replies_are_answered(subject: Subject) -> Iterator[str]:
    """Any reply in any action format is read or rejected; a rejection changes nothing."""
    for action_format in subject.spec.conversation_starts:
        for script in _hostile_scripts(subject):
            replies = dict(REPLIES)
            if subject.spec.has_expert:
                episode, _ = subject.begin(script)
                advice = episode.advise_expert(0)
                replies.update(mutations(subject.spec.grammar.write(advice, action_format)))
            for label, reply in replies.items():
                sentences = _answers_reply(subject, script, reply, action_format)
                yield from (f"{action_format.name}, {label}: {flaw}" for flaw in sentences)


def _answers_reply(
    subject: Subject, script: Script, reply: str, action_format: ActionFormat
) -> Iterator[str]:
    episode, observation = subject.begin(script)
    try:
        action = cast("object", subject.spec.grammar.read(reply, action_format))
    except Exception as error:  # noqa: BLE001 - that it raises is the finding
        yield f"the grammar raised {error!r:.200}"
        return
    if isinstance(action, Rejected):
        before = episode.fingerprint()
        yield from flaws(episode.render_error(action.message, observation), subject.spec)
        if episode.fingerprint() != before:
            yield "render_error changed the state"
    elif isinstance(action, str):
        yield from _answers(subject, episode, action)
    else:
        yield f"the grammar read {type(action).__name__}"
    episode.close()


def _answers(subject: Subject, episode: Environment, action: str) -> Iterator[str]:
    """Flaws of the answer to one hostile step, and of what can be asked after it."""
    try:
        observation = episode.step(action)
        yield from flaws(observation, subject.spec)
        episode.fingerprint()
        if subject.spec.has_expert and not ended(observation):
            episode.advise_expert(0)
    except Exception as error:  # noqa: BLE001 - that it raises is the finding
        yield f"raised {error!r:.200}"


def _hostile_scripts(subject: Subject) -> tuple[Script, ...]:
    """One episode of each kind: the first random one and, where there is one, the expert's."""
    return subject.scripts[:2] if subject.spec.has_expert else subject.scripts[:1]


def _located(script: Script, step: int, sentences: Iterator[str]) -> Iterator[str]:
    return (f"{script.item_id}, step {step}: {flaw}" for flaw in sentences)


def _played(subject: Subject, script: Script, steps: int) -> tuple[Environment, Observation]:
    episode, observation = subject.begin(script)
    for action in script.actions[:steps]:
        observation = episode.step(action)
    return episode, observation


def _continued(episode: Environment, actions: Sequence[str]) -> list[str]:
    records: list[str] = []
    for action in actions:
        observation = episode.step(action)
        records.append(record(episode, observation))
        if ended(observation):
            break
    return records


def _disturb(episode: Environment, actions: Sequence[str]) -> None:
    _continued(episode, actions)
    episode.close()


def _in_turns(subject: Subject, scripts: Sequence[Script]) -> list[tuple[str, ...]]:
    """Records of the scripts, one step of each in turn, each closed as soon as it ends."""
    opened = [subject.begin(script) for script in scripts]
    records = [[record(episode, observation)] for episode, observation in opened]
    live = {index for index, script in enumerate(scripts) if script.actions}
    for step in range(max(len(script.actions) for script in scripts)):
        for index in sorted(live):
            episode = opened[index][0]
            observation = episode.step(scripts[index].actions[step])
            records[index].append(record(episode, observation))
            if ended(observation) or step + 1 == len(scripts[index].actions):
                live.discard(index)
                episode.close()
    return [tuple(lines) for lines in records]


def _fork(episode: Environment) -> Environment:
    try:
        return episode.fork()
    except NotImplementedError as error:
        raise NotApplicable("the environment has no forks of its own") from error


def _require_determinism(subject: Subject) -> None:
    if not subject.spec.deterministic:
        raise NotApplicable("the environment does not call itself deterministic")
