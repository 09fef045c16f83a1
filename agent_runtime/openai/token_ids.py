"""vLLM's completions API as data: token ids in, token ids and their logprobs out.

Since 0.10.2 vLLM answers `return_token_ids` with `prompt_token_ids` and `token_ids`. Every sampling
field is sent: what a request leaves out, the server takes from the model's generation_config.json,
and the logprobs would be of another distribution than the one that was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from agent_runtime.errors import PolicyMisbehaved, Trouble
from agent_runtime.ledger import VersionSpan
from agent_runtime.openai.answer import Usage, reported_version, required_list, required_object
from agent_runtime.sampled_reply import SampledReply
from agent_runtime.sampling import FinishReason, Sampling

__all__ = ["TOKEN_IDS_PATH", "SampledAnswer", "read_completion", "token_request"]

TOKEN_IDS_PATH: Final = "/completions"
_SEED_MASK: Final = 2**63 - 1
"""The server takes signed 64-bit seeds."""
_FINISH: Final = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "abort": FinishReason.ABORT,
}
_NEUTRAL: Final = {
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}


@dataclass(frozen=True, slots=True)
class SampledAnswer:
    """One reply in tokens, and what it cost."""

    reply: SampledReply
    usage: Usage


def token_request(
    model: str,
    prompt: Sequence[int],
    sampling: Sampling,
    *,
    budget: int,
    seed: int,
    stop_ids: Sequence[int],
) -> dict[str, Any]:
    """Return the body that asks for at most `budget` tokens."""
    body: dict[str, Any] = {
        "model": model,
        "prompt": list(prompt),
        "max_tokens": budget,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        **_NEUTRAL,
        "seed": seed & _SEED_MASK,
        "stop_token_ids": list(stop_ids),
        "logprobs": 0,  # of the sampled token alone
        "return_token_ids": True,
    }
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    return body


def read_completion(body: Mapping[str, Any], prompt: Sequence[int]) -> SampledAnswer:
    """Read the answer to a prompt; numbers are checked by the token ledger.

    Raises:
        PolicyMisbehaved: A field is missing that makes a record, or the server read another prompt.
    """
    choice = required_list(body, "choices")[0]
    ids = _ids(choice, "token_ids")
    if _ids(choice, "prompt_token_ids") != list(prompt):
        raise PolicyMisbehaved("the server read another prompt than it was sent")
    finish = _FINISH.get(str(choice.get("finish_reason")))
    if finish is None:
        raise PolicyMisbehaved(f"unknown finish reason {choice.get('finish_reason')!r}")
    if not ids and finish is FinishReason.ABORT:
        raise PolicyMisbehaved(
            "the server gave the request back before the first token", trouble=Trouble.INVALID
        )
    logprobs: object = required_object(choice, "logprobs", None).get("token_logprobs")
    if not isinstance(logprobs, list):
        raise PolicyMisbehaved("the reply has no token_logprobs")
    usage = Usage.read(body.get("usage"), "prompt_tokens", "completion_tokens")
    version = reported_version(body)
    reply = SampledReply(
        ids=ids,
        logprobs=cast("list[float | None]", logprobs),
        versions=[VersionSpan(0, len(ids), version)] if version else [],
        finish=finish,
        cached=usage.cached or 0,
    )
    return SampledAnswer(reply, usage)


def _ids(choice: Mapping[str, Any], name: str) -> list[int]:
    ids: object = choice.get(name)
    if not isinstance(ids, list):
        raise PolicyMisbehaved(
            f"the reply has no {name}: vLLM gives them from 0.10.2 on; of servers that do not, "
            "ask for text (--openai.api chat)"
        )
    return cast("list[int]", ids)
