"""Checks of the scripted players: the expert solves, nobody cheats by being asked.

Each check yields one sentence per broken promise; its docstring is the promise.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator, Sequence
from typing import Final

from env_servers.sdk.contract.rehearsal import (
    Script,
    ended,
    first_difference,
    record,
    scrambled_global_rng,
)
from env_servers.sdk.contract.subject import NotApplicable, Subject, final_score
from env_servers.sdk.environment import Environment
from env_servers.sdk.errors import InvalidOption
from env_servers.sdk.types import ActionFormat, Advice

__all__ = [
    "advice_is_pure",
    "doing_nothing_earns_nothing",
    "expert_succeeds",
    "players_speak_every_format",
    "random_player_never_fails",
]

WORDINGS: Final = 4
"""Expert seeds that are tried: they may change the thought, never the action."""


def expert_succeeds(subject: Subject) -> Iterator[str]:
    """The expert reaches `success_score` within `max_rounds`, as often as the terms require."""
    plays = subject.expert_plays
    missed: list[str] = []
    for play in plays:
        score = final_score(play.last)
        if score is None or score < subject.spec.success_score:
            missed.append(f"{play.script.item_id} ({len(play.advices)} steps, score {score})")
    rate = 1 - len(missed) / len(plays)
    if rate < subject.terms.expert_success:
        needed = subject.terms.expert_success
        yield (
            f"solved {rate:.0%} of {len(plays)}, needs {needed:.0%}; missed {missed[:5]}. If the "
            "game cannot always be won, say what can be expected: Terms(expert_success=...), "
            "`check --expert-success`"
        )


def advice_is_pure(subject: Subject) -> Iterator[str]:
    """Asking any player, often or never, changes nothing; the expert's seed words its thought."""
    if not subject.spec.has_expert:
        raise NotApplicable("the environment has no expert")
    for play in subject.expert_plays[:3]:
        expected = subject.rehearse(play.script)
        advised_record = yield from _asked_at_every_step(subject, play.script)
        if difference := first_difference(expected, advised_record):
            yield f"{play.script.item_id}: asking for advice changed the episode: {difference}"
        middle = len(play.advices) // 2
        episode, _ = subject.begin(play.script)
        for action in play.script.actions[:middle]:
            episode.step(action)
        if middle < len(play.advices) and episode.advise_expert(0).action != (
            play.advices[middle].action
        ):
            yield f"{play.script.item_id}, step {middle}: advice depends on having asked before"


def players_speak_every_format(subject: Subject) -> Iterator[str]:
    """What a player writes in any action format is read back as its native action."""
    for action_format in subject.spec.conversation_starts:
        for item_id in subject.items(1):
            episode, _ = subject.begin(subject.script(item_id))
            subject.spec.grammar.write(episode.advise_noop(), action_format)
            advices = [*_drawn(episode, 5)]
            yield from _read_back(subject, advices, action_format)
        if not subject.spec.has_expert:
            continue
        for play in subject.expert_plays:
            yield from _read_back(subject, play.advices, action_format)


def random_player_never_fails(subject: Subject) -> Iterator[str]:
    """The random player plays on to the end, and draws the same from the same generator."""
    for number, item_id in enumerate(subject.items(subject.terms.items_per_split)):
        episode, observation = subject.begin(subject.script(item_id))
        rng, same = random.Random(number), random.Random(number)
        for step in range(subject.terms.steps):
            if ended(observation):
                break
            with scrambled_global_rng(2 * step):
                advice = _draw(episode, rng)
            with scrambled_global_rng(2 * step + 1):
                again = _draw(episode, same)
            if advice != again:
                yield f"{item_id}, step {step}: {advice} and {again} from one seed"
                break
            observation = episode.step(advice.action)
        episode.close()


def doing_nothing_earns_nothing(subject: Subject) -> Iterator[str]:
    """The no-op player scores no more than the terms allow."""
    for item_id in subject.items(1):
        play = subject.play_noop(subject.script(item_id))
        score = final_score(play.last)
        if score is not None and score > subject.terms.noop_score:
            yield f"{item_id}: {len(play.advices)} no-ops score {score}"


def _asked_at_every_step(subject: Subject, script: Script) -> Generator[str, None, list[str]]:
    """Plays the script while asking everybody; yields what is wrong with the answers."""
    episode, observation = subject.begin(script)
    records = [record(episode, observation)]
    for step, action in enumerate(script.actions):
        advices = [episode.advise_expert(seed) for seed in range(WORDINGS)]
        if episode.advise_expert(0) != advices[0]:
            yield f"{script.item_id}, step {step}: asked twice, the expert differs"
        if len({advice.action for advice in advices}) != 1:
            yield f"{script.item_id}, step {step}: the expert's seed changes its action"
        if not all(advice.thought.strip() for advice in advices):
            yield f"{script.item_id}, step {step}: the expert gives no reason"
        _drawn(episode, 1)
        episode.advise_noop()
        observation = episode.step(action)
        records.append(record(episode, observation))
    episode.close()
    return records


def _read_back(
    subject: Subject, advices: Sequence[Advice], action_format: ActionFormat
) -> Iterator[str]:
    grammar = subject.spec.grammar
    for advice in advices:
        reply = grammar.write(advice, action_format)
        action = grammar.read(reply, action_format)
        if action != advice.action:
            yield f"{action_format.name}: {advice.action!r} was read back as {action!r}"


def _draw(episode: Environment, rng: random.Random) -> Advice:
    try:
        return episode.advise_random(rng)
    except InvalidOption as error:
        raise NotApplicable("the environment has no random player") from error


def _drawn(episode: Environment, count: int) -> list[Advice]:
    rng = random.Random(0)
    try:
        return [episode.advise_random(rng) for _ in range(count)]
    except InvalidOption:
        return []
