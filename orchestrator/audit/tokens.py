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
from agent_runtime.errors import AgentRuntimeError
from agent_runtime.ledger import Origin, Segment, TokenLedger
from agent_runtime.rendering import ChatRenderer
from agent_runtime.tokenized_conversation import TokenizedConversation
from agentgym.episode.v1 import episode_pb2

__all__ = ["ledger_problems", "rendering_problems", "scored_tokens", "scoring_problems"]


def ledger_problems(episode: episode_pb2.Episode) -> Iterator[str]:
    """Check that each call's prompt is all that came before it, and its sample follows there.

    The sampled tokens lie in one piece, and the last one has the version that the call reported.
    """
    if not episode.token_segments:
        return
    positions_by_call = _positions_by_call(episode)
    for number, call in enumerate(episode.generations, start=1):
        if number not in positions_by_call:
            continue
        segment, positions = positions_by_call[number]
        first, last = positions[0], positions[-1]
        if last - first + 1 != len(positions):
            yield f"turn {call.turn}: its tokens do not lie in one piece"
        if len(positions) != call.completion_tokens:
            yield f"turn {call.turn}: {len(positions)} of {call.completion_tokens} sampled tokens"
        if first != call.prompt_tokens:
            yield f"turn {call.turn}: prompt of {call.prompt_tokens} tokens, {first} before it"
        version = _version_at(segment, last)
        if call.policy_version and version != call.policy_version:
            yield f"turn {call.turn}: version {call.policy_version!r}, its last token's {version!r}"


def rendering_problems(
    episode: episode_pb2.Episode, renderer: ChatRenderer, stop: Sequence[str] = ()
) -> Iterator[str]:
    """Check that every id and mask is what the chat template gives for the conversation.

    `stop` are the strings that cut replies' texts.
    """
    if not episode.token_segments:
        return
    try:
        recorded = TokenLedger.from_protos(episode.token_segments)
        replayed = TokenizedConversation(renderer)
        yield from _replay(episode, recorded, replayed, stop)
    except (AgentRuntimeError, ValueError) as error:
        yield f"it cannot be rendered again: {error}"
        return
    yield from _differences(recorded, replayed.ledger)


def scored_tokens(segment: Segment, version: str) -> list[int]:
    """Return the positions of the sampled tokens that an engine of this version can score."""
    return [
        position
        for start, end, name in segment.version_spans
        if name == version
        for position in range(start, end)
    ]


def scoring_problems(
    segment: Segment, scores: Sequence[float | None], positions: Sequence[int], tolerance: float
) -> Iterator[str]:
    """Check that the engine scores these positions as recorded, within `tolerance` nats."""
    recorded = segment.logprobs
    for position in positions:
        score = scores[position]
        if score is None or not abs(score - recorded[position]) <= tolerance:
            yield (
                f"sampled token {position} has logprob {recorded[position]:.5f}, "
                f"the engine says {score}"
            )


def _positions_by_call(
    episode: episode_pb2.Episode,
) -> dict[int, tuple[episode_pb2.TokenSegment, list[int]]]:
    """Return the segment and the positions of each call's tokens, by its number from 1."""
    calls: dict[int, tuple[episode_pb2.TokenSegment, list[int]]] = {}
    for segment in episode.token_segments:
        for position, call in enumerate(segment.generations):
            if call and call in calls and calls[call][0] is segment:
                calls[call][1].append(position)
            elif call:
                calls[call] = (segment, [position])
    return calls


def _version_at(segment: episode_pb2.TokenSegment, position: int) -> str:
    for span in segment.version_spans:
        if span.start <= position < span.end and span.version < len(segment.policy_versions):
            return segment.policy_versions[span.version]
    return ""


def _replay(
    episode: episode_pb2.Episode,
    recorded: TokenLedger,
    tokenized: TokenizedConversation,
    stop: Sequence[str],
) -> Iterator[str]:
    """Play the conversation into `tokenized`; say where a reply's text is not that of its ids."""
    messages: list[Message] = []
    turn = 0
    for message in episode.messages:
        if not message.sampled:
            messages.append(Message(Role(message.role), message.text))
            continue
        tokenized.prompt(messages)
        ids, logprobs = _reply(recorded, turn)
        if not ids:
            yield f"turn {turn} has no tokens"
            return
        tokenized.append_reply(ids, logprobs, generation=turn)
        text = tokenized.reply_text(ids, stop)
        if normalize_reply(text) != message.text:
            yield f"the tokens of turn {turn} spell another reply"
        messages.append(Message(Role.ASSISTANT, text, sampled=True))
        turn += 1
    if (
        messages[-1:]
        and messages[-1].role is Role.USER
        and _size(tokenized.ledger) < _size(recorded)
    ):
        tokenized.prompt(messages)  # a prompt that got no reply, or one that the context cut short
        ids, logprobs = _reply(recorded, turn)
        if ids:
            tokenized.append_reply(ids, logprobs, generation=turn)


def _reply(ledger: TokenLedger, turn: int) -> tuple[list[int], list[float]]:
    """Return ids and logprobs of what was sampled in a turn; empty = nothing was."""
    for segment in ledger.segments:
        sampled = [
            (segment.ids[position], segment.logprobs[position])
            for position, generation in enumerate(segment.generations)
            if generation == turn
        ]
        if sampled:
            return [token for token, _ in sampled], [logprob for _, logprob in sampled]
    return [], []


def _differences(recorded: TokenLedger, replayed: TokenLedger) -> Iterator[str]:
    if recorded.forks != replayed.forks:
        yield f"{recorded.forks} forks are recorded, rendering gives {replayed.forks}"
        return
    for number, (old, new) in enumerate(zip(recorded.segments, replayed.segments, strict=True)):
        if old.fork_reason != new.fork_reason:
            yield f"token segment {number}: forked for {old.fork_reason!r}, not {new.fork_reason!r}"
        if len(old) != len(new):
            yield f"token segment {number}: {len(old)} ids, rendering gives {len(new)}"
        for name, old_values, new_values in (
            ("id", old.ids, new.ids),
            ("mask", _masks(old), _masks(new)),
            ("call", old.generations, new.generations),
        ):
            position = next(
                (
                    position
                    for position, (a, b) in enumerate(zip(old_values, new_values, strict=False))
                    if a != b
                ),
                None,
            )
            if position is not None:
                yield (
                    f"token {position} of segment {number}: {name} {old_values[position]}, "
                    f"rendered {new_values[position]}"
                )


def _masks(segment: Segment) -> tuple[str, ...]:
    return tuple(Origin(origin).name.lower() for origin in segment.origins)


def _size(ledger: TokenLedger) -> int:
    return sum(len(segment) for segment in ledger.segments)
