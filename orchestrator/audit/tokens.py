"""Whether the tokens of an episode are those that were read and sampled.

Three proofs, each a pure function to sentences about what is wrong. `ledger_problems` needs
the record alone: every call's prompt is exactly what the ledger held before it, and its reply
follows there. `rendering_problems` needs the tokenizer: playing the conversation through the chat
template again gives every id and every mask. `scoring_problems` needs the engine: it gives the
sampled tokens the logprobs that were recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent_runtime.conversation import Message, Role, normalize_reply
from agent_runtime.dialogue import TokenDialogue
from agent_runtime.errors import AgentRuntimeError
from agent_runtime.ledger import Origin, Segment, TokenLedger
from agent_runtime.rendering import ChatRenderer
from agentgym.episode.v1 import episode_pb2

__all__ = ["ledger_problems", "rendering_problems", "scored_tokens", "scoring_problems"]


def ledger_problems(episode: episode_pb2.Episode) -> Iterator[str]:
    """Each call's prompt is all that came before it; its tokens follow in one piece, all of them,
    and the last one carries the version that the call reported.
    """
    if not episode.token_segments:
        return
    places = _places(episode)
    for index, call in enumerate(episode.generations, start=1):
        place = places.get(index)
        if place is None:
            continue
        segment, ats = place
        if ats[-1] - ats[0] + 1 != len(ats):
            yield f"turn {call.turn}: its tokens do not lie in one piece"
        if len(ats) != call.completion_tokens:
            yield f"turn {call.turn}: {len(ats)} of {call.completion_tokens} sampled tokens"
        if ats[0] != call.prompt_tokens:
            yield f"turn {call.turn}: prompt of {call.prompt_tokens} tokens, {ats[0]} before it"
        version = _version_at(segment, ats[-1])
        if call.policy_version and version != call.policy_version:
            yield f"turn {call.turn}: version {call.policy_version!r}, its last token's {version!r}"


def rendering_problems(
    episode: episode_pb2.Episode, renderer: ChatRenderer, stop: Sequence[str] = ()
) -> Iterator[str]:
    """Every id and every mask is what the chat template gives for the conversation.

    `stop` are the strings that cut replies' texts.
    """
    if not episode.token_segments:
        return
    try:
        recorded = TokenLedger.from_protos(episode.token_segments)
        replayed = TokenDialogue(renderer)
        yield from _replay(episode, recorded, replayed, stop)
    except (AgentRuntimeError, ValueError) as error:
        yield f"it cannot be rendered again: {error}"
        return
    yield from _differences(recorded, replayed.ledger)


def scored_tokens(segment: Segment, version: str) -> list[int]:
    """Positions of the sampled tokens that an engine of this version can score."""
    return [
        at
        for start, end, name in segment.version_spans
        if name == version
        for at in range(start, end)
    ]


def scoring_problems(
    segment: Segment, scores: Sequence[float | None], positions: Sequence[int], tolerance: float
) -> Iterator[str]:
    """The engine's scores of these positions are the recorded logprobs, within `tolerance` nats."""
    recorded = segment.logprobs
    for at in positions:
        score = scores[at]
        if score is None or not abs(score - recorded[at]) <= tolerance:
            yield f"sampled token {at} has logprob {recorded[at]:.5f}, the engine says {score}"


def _places(episode: episode_pb2.Episode) -> dict[int, tuple[episode_pb2.TokenSegment, list[int]]]:
    """Where each call's tokens are, by its number from 1."""
    places: dict[int, tuple[episode_pb2.TokenSegment, list[int]]] = {}
    for segment in episode.token_segments:
        for at, generation in enumerate(segment.generations):
            if generation and generation in places and places[generation][0] is segment:
                places[generation][1].append(at)
            elif generation:
                places[generation] = (segment, [at])
    return places


def _version_at(segment: episode_pb2.TokenSegment, at: int) -> str:
    for span in segment.version_spans:
        if span.start <= at < span.end and span.version < len(segment.policy_versions):
            return segment.policy_versions[span.version]
    return ""


def _replay(
    episode: episode_pb2.Episode,
    recorded: TokenLedger,
    dialogue: TokenDialogue,
    stop: Sequence[str],
) -> Iterator[str]:
    """Play the conversation into `dialogue`; say where a reply's text is not that of its ids."""
    said: list[Message] = []
    turn = 0
    for message in episode.messages:
        if not message.sampled:
            said.append(Message(Role(message.role), message.text))
            continue
        dialogue.prompt(said)
        ids, logprobs = _reply(recorded, turn)
        if not ids:
            yield f"turn {turn} has no tokens"
            return
        dialogue.sampled(ids, logprobs, generation=turn)
        text = dialogue.reply_text(ids, stop)
        if normalize_reply(text) != message.text:
            yield f"the tokens of turn {turn} spell another reply"
        said.append(Message(Role.ASSISTANT, text, sampled=True))
        turn += 1
    if said[-1:] and said[-1].role is Role.USER and _size(dialogue.ledger) < _size(recorded):
        dialogue.prompt(said)  # a prompt that got no reply, or one that the context cut short
        ids, logprobs = _reply(recorded, turn)
        if ids:
            dialogue.sampled(ids, logprobs, generation=turn)


def _reply(ledger: TokenLedger, turn: int) -> tuple[list[int], list[float]]:
    for segment in ledger.segments:
        ats = [at for at, mark in enumerate(segment.generations) if mark == turn]
        if ats:
            ids, logprobs = segment.ids, segment.logprobs
            return [ids[at] for at in ats], [logprobs[at] for at in ats]
    return [], []


def _differences(recorded: TokenLedger, replayed: TokenLedger) -> Iterator[str]:
    if recorded.forks != replayed.forks:
        yield f"{recorded.forks} forks are recorded, rendering gives {replayed.forks}"
        return
    for number, (one, two) in enumerate(zip(recorded.segments, replayed.segments, strict=True)):
        if one.fork_reason != two.fork_reason:
            yield f"token segment {number}: forked for {one.fork_reason!r}, not {two.fork_reason!r}"
        if len(one) != len(two):
            yield f"token segment {number}: {len(one)} ids, rendering gives {len(two)}"
        for name, mine, theirs in (
            ("id", one.ids, two.ids),
            ("mask", _masks(one), _masks(two)),
            ("call", one.generations, two.generations),
        ):
            at = next(
                (at for at, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), None
            )
            if at is not None:
                yield f"token {at} of segment {number}: {name} {mine[at]}, rendered {theirs[at]}"


def _masks(segment: Segment) -> tuple[str, ...]:
    return tuple(Origin(origin).name.lower() for origin in segment.origins)


def _size(ledger: TokenLedger) -> int:
    return sum(len(segment) for segment in ledger.segments)
