"""SGLang's native request and reply as data: what is sent, what may be believed of an answer.

The shape of /generate (0.5.x). Nothing that an engine left out is filled in; numbers are checked by
the token ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from agent_runtime.errors import PolicyMisbehaved
from agent_runtime.ledger import VersionSpan
from agent_runtime.sampled_reply import SampledReply
from agent_runtime.sampling import FinishReason, Sampling
from agent_runtime.usage import read_count

__all__ = ["Streamed", "generate_body", "read_reply", "read_scores"]

_SEED_MASK: Final = 2**63 - 1
"""The server takes signed 64-bit seeds."""
_FINISH: Final = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "abort": FinishReason.ABORT,
}


def generate_body(
    prompt: Sequence[int], sampling: Sampling, *, budget: int, seed: int, stop_ids: Sequence[int]
) -> dict[str, Any]:
    """The body of one /generate request for at most `budget` tokens."""
    params: dict[str, Any] = {
        "max_new_tokens": budget,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "stop_token_ids": list(stop_ids),
        "sampling_seed": seed & _SEED_MASK,
    }
    if sampling.stop:
        params["stop"] = list(sampling.stop)
    return {"input_ids": list(prompt), "sampling_params": params, "return_logprob": True}


def read_reply(
    answer: Mapping[str, Any], prompt_tokens: int, sent_under: Collection[str] = ()
) -> SampledReply:
    """Read an answer of /generate.

    Args:
        answer: The JSON object.
        prompt_tokens: Length of the prompt that was sent.
        sent_under: Versions that engines served then, where they are known.

    Raises:
        PolicyMisbehaved: A field is missing that makes a record.
    """
    meta = cast("dict[str, Any]", _field(answer, "meta_info", dict))
    ids = cast("list[int]", _field(answer, "output_ids", list))
    rows = cast("list[Any]", _field(meta, "output_token_logprobs", list))
    finish = cast("dict[str, Any]", _field(meta, "finish_reason", dict))
    seen = meta.get("prompt_tokens", prompt_tokens)
    if seen != prompt_tokens:
        raise PolicyMisbehaved(f"the server read {seen} of {prompt_tokens} prompt tokens")
    logprobs, scored = _columns(rows)
    if scored != ids:
        raise PolicyMisbehaved("logprobs and output ids are of different tokens")
    reason = _FINISH.get(str(finish.get("type")))
    if reason is None:
        raise PolicyMisbehaved(f"unknown finish reason {finish.get('type')!r}")
    return SampledReply(
        ids=ids,
        logprobs=logprobs,
        versions=_versions(meta, len(ids), sent_under),
        finish=reason,
        cached=read_count(meta.get("cached_tokens"), "cached_tokens") or 0,
        entropies=_entropies(meta, len(ids)),
    )


@dataclass(slots=True)
class Streamed:
    """A reply as it arrives; the server's events are cumulative or hold new tokens only."""

    stop_at: Callable[[Sequence[int]], bool] | None = None
    """Whether a reply with these ids ends here."""
    ids: list[int] = field(default_factory=list[int])
    enough: int | None = None
    """Tokens after which the reply ended early; None = it did not."""
    _last: dict[str, Any] = field(default_factory=dict[str, Any])
    _rows: list[Any] = field(default_factory=list[Any])

    def add(self, event: dict[str, Any]) -> None:
        """Take in one event. Raises PolicyMisbehaved for one that is no part of a reply."""
        ids = cast("list[int]", _field(event, "output_ids", list))
        meta = cast("dict[str, Any]", _field(event, "meta_info", dict))
        rows = cast("list[Any]", _field(meta, "output_token_logprobs", list))
        received = len(self.ids)
        count = meta.get("completion_tokens", len(ids))
        if len(ids) == count:
            fresh, self._rows = ids[received:], list(rows)
        else:
            fresh = ids
            self._rows += rows
        self._last = event
        for token_id in fresh:
            self.ids.append(token_id)
            if self.enough is None and self.stop_at is not None and self.stop_at(self.ids):
                self.enough = len(self.ids)

    @property
    def ended(self) -> bool:
        """Whether the server said why the reply ended."""
        meta = self._last.get("meta_info")
        return isinstance(meta, dict) and meta.get("finish_reason") is not None  # pyright: ignore[reportUnknownMemberType]

    def answer(self) -> dict[str, Any]:
        """The whole reply as one that was not streamed. Raises PolicyMisbehaved without its end."""
        if not self._last:
            raise PolicyMisbehaved("the stream ended before the first token")
        meta = {**self._last["meta_info"], "output_token_logprobs": self._rows}
        return {**self._last, "output_ids": list(self.ids), "meta_info": meta}


def read_scores(answer: Mapping[str, Any], ids: Sequence[int]) -> list[float | None]:
    """Logprobs of a prompt's ids; None for the first. Raises PolicyMisbehaved."""
    meta = cast("dict[str, Any]", _field(answer, "meta_info", dict))
    rows = cast("list[Any]", _field(meta, "input_token_logprobs", list))
    logprobs, scored = _columns(rows)
    # 0.5.23 names the last id of the vocabulary 0 in these rows; its logprob is the right one.
    alike = all(scored_id in (sent, 0) for scored_id, sent in zip(scored, ids, strict=False))
    if len(scored) != len(ids) or not alike:
        raise PolicyMisbehaved("the server scored other tokens than it was sent")
    return logprobs


def _field(body: Mapping[str, Any], name: str, kind: type) -> object:
    value: object = body.get(name)
    if not isinstance(value, kind):
        raise PolicyMisbehaved(f"the server's reply has no {name}")
    return value


def _columns(rows: Sequence[Any]) -> tuple[list[float | None], list[int]]:
    """Logprobs and ids of rows [logprob, id, text]; what they are worth is the ledger's to say."""
    try:
        return [row[0] for row in rows], [row[1] for row in rows]
    except (TypeError, IndexError, KeyError):
        raise PolicyMisbehaved("the server's logprobs are not [logprob, id, text]") from None


def _entropies(meta: Mapping[str, Any], count: int) -> list[float]:
    """Entropies of the tokens' distributions, which only the embedded engine tells."""
    values: object = meta.get("output_token_entropies") or []
    listed = cast("list[float]", values) if isinstance(values, list) else []
    if listed and (len(listed) != count or not all(isinstance(it, float) for it in listed)):
        raise PolicyMisbehaved("the server's entropies are not one number per token")
    return listed


def _versions(
    meta: Mapping[str, Any], count: int, sent_under: Collection[str]
) -> list[VersionSpan]:
    """Weight versions by span; older servers report the last one of the reply, or none."""
    spans = meta.get("weight_versions")
    if not isinstance(spans, list):
        version = meta.get("weight_version")
        if not isinstance(version, str) or not count:
            return []
        if sent_under and version not in sent_under:
            raise PolicyMisbehaved(
                f"weights became {version!r} while a reply was sampled, and the server does not "
                "tell which tokens are of which: replace weights when replies have ended "
                "(interrupt finish or abort), or update SGLang"
            )
        return [VersionSpan(0, count, version)]
    try:
        return [
            VersionSpan(int(span["start"]), int(span["end"]), str(span["version"]))
            for span in cast("list[dict[str, Any]]", spans)
        ]
    except (KeyError, TypeError, ValueError):
        raise PolicyMisbehaved("the server's weight versions are not spans") from None
