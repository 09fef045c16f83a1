"""SGLang's native request and reply, as the engine's HTTP server reads and writes them.

The other side of `agent_runtime.sglang.wire`. Invariant: whatever a request says that would change
the reply is either done or refused, never ignored. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from agent_runtime.engine.generation import GenerationRequest, GenerationResult
from agent_runtime.errors import ContextOverflow, PolicyRejected
from agent_runtime.sampling import FinishReason, Sampling

__all__ = ["GenerateCall", "read_request", "write_reply"]

_SUPPORTED: Final = frozenset(
    {"ignore_eos", "max_new_tokens", "sampling_seed", "stop", "stop_token_ids", "temperature"}
    | {"top_k", "top_p"}
)
_DEFAULTS: Final[Mapping[str, Any]] = {
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "repetition_penalty": 1,
    "min_p": 0,
    "min_new_tokens": 0,
    "n": 1,
}
"""Parameters that are not supported here, with the one value that changes nothing."""
_COSMETIC: Final = frozenset(
    {"no_stop_trim", "skip_special_tokens", "spaces_between_special_tokens"}
)
"""Parameters of the reply's text; clients that work with ids do not read it."""
_FIELDS: Final = frozenset(
    {"extra_key", "input_ids", "logprob_start_len", "return_logprob", "rid", "sampling_params"}
    | {"stream", "log_metrics", "priority", "return_text_in_logprobs", "routing_key", "session_id"}
)
_TOP_K_ALL: Final = 1 << 30
"""From here on SGLang takes top_k as "all"."""


@dataclass(frozen=True, slots=True)
class GenerateCall:
    """One /generate request."""

    request: GenerationRequest
    logprobs: bool
    prompt_logprobs_from: int | None
    """First token of the prompt whose logprob is requested, too; None = of no token."""
    stream: bool


def read_request(
    body: Mapping[str, Any],
    *,
    request_id: str,
    episode_id: str,
    end_ids: Sequence[int],
    context_length: int,
) -> GenerateCall:
    """Parse the body of a /generate request.

    Args:
        body: The JSON object.
        request_id: Its id; the body's own, or a new one.
        episode_id: From the routing key; may be empty.
        end_ids: The tokenizer's end tokens.
        context_length: Most tokens of prompt and reply together.

    Raises:
        ContextOverflow: Prompt and reply do not fit into the context.
        PolicyRejected: A malformed request, or one for what the engine cannot do.
    """
    unknown = [field for field in body.keys() - _FIELDS if body[field]]
    if unknown:
        raise PolicyRejected(f"the embedded engine does not know {', '.join(sorted(unknown))}")
    sampling_params: object = body.get("sampling_params") or {}
    if not isinstance(sampling_params, dict):
        raise PolicyRejected("sampling_params has to be an object")
    params = cast("dict[str, Any]", sampling_params)
    prompt = _ids(body.get("input_ids"), "input_ids")
    if not prompt:
        raise PolicyRejected("input_ids cannot be empty.")
    sampling = _sampling(params)
    _check_length(len(prompt), sampling.max_new_tokens, context_length)
    stop_ids = {*_ids(params.get("stop_token_ids") or [], "stop_token_ids")}
    if not params.get("ignore_eos"):
        stop_ids.update(end_ids)
    logprobs = bool(body.get("return_logprob"))
    start = body.get("logprob_start_len")
    prompt_logprobs = logprobs and isinstance(start, int) and 0 <= start < len(prompt)
    return GenerateCall(
        request=GenerationRequest(
            prompt=prompt,
            sampling=sampling,
            seed=_integer(params.get("sampling_seed") or 0, "sampling_seed"),
            stop_ids=frozenset(stop_ids),
            episode_id=episode_id,
            cache_salt=str(body.get("extra_key") or ""),
            request_id=request_id,
        ),
        logprobs=logprobs,
        prompt_logprobs_from=start if prompt_logprobs else None,
        stream=bool(body.get("stream")),
    )


def write_reply(
    call: GenerateCall,
    result: GenerationResult,
    text: str,
    *,
    version: str,
    prompt_logprobs: Sequence[float] = (),
    ended: bool = True,
) -> dict[str, Any]:
    """Return the JSON object that answers a request.

    Args:
        call: The request.
        result: All tokens, or those so far.
        text: Of the tokens.
        version: Of the weights that are served now.
        prompt_logprobs: Of the prompt's ids but the first, where they were requested.
        ended: False = an event of a stream, more will follow.
    """
    prompt, ids = call.request.prompt, result.ids
    spans = [
        {"version": span.version, "start": span.start, "end": span.end} for span in result.versions
    ]
    meta: dict[str, Any] = {
        "id": call.request.request_id,
        "finish_reason": _finish(call.request, result, text) if ended else None,
        "prompt_tokens": result.prompt_tokens,
        "completion_tokens": len(ids),
        "cached_tokens": result.cached_tokens,
        "weight_version": version,
    }
    if ended:
        meta["weight_versions"] = spans or [{"version": version, "start": 0, "end": 0}]
    if call.logprobs:
        rows = list(zip(result.logprobs, ids, [None] * len(ids), strict=True))
        meta |= {"output_token_logprobs": rows, "output_token_logprobs_length": len(rows)}
        # Beyond SGLang's reply, which has none.
        meta["output_token_entropies"] = result.entropies
        start = call.prompt_logprobs_from
        pairs = zip([None, *prompt_logprobs], prompt, strict=False) if start is not None else ()
        meta["input_token_logprobs"] = [(value, id_, None) for value, id_ in pairs][start or 0 :]
    return {"text": text, "output_ids": ids, "meta_info": meta}


def _sampling(params: Mapping[str, Any]) -> Sampling:
    for name in sorted(params.keys() - _SUPPORTED - _COSMETIC):
        if params[name] is not None and params[name] != _DEFAULTS.get(name):
            raise PolicyRejected(f"the embedded engine does not know the parameter {name}")
    temperature = params.get("temperature", 1.0)
    if not isinstance(temperature, int | float) or not math.isfinite(temperature):
        raise PolicyRejected(f"temperature must be a finite number, got {temperature!r}.")
    stop = params.get("stop") or ()
    top_k = _integer(params.get("top_k", -1), "top_k")
    try:
        return Sampling(
            temperature=float(temperature),
            top_p=float(params.get("top_p", 1.0)),
            top_k=-1 if top_k >= _TOP_K_ALL else top_k,
            max_new_tokens=_integer(params.get("max_new_tokens", 128), "max_new_tokens"),
            stop=(stop,) if isinstance(stop, str) else tuple(str(each) for each in stop),
        )
    except (TypeError, ValueError) as error:
        raise PolicyRejected(f"sampling_params: {error}") from error


def _check_length(prompt: int, reply: int, context: int) -> None:
    if prompt >= context:
        raise ContextOverflow(
            f"The input ({prompt} tokens) is longer than the model's context length "
            f"({context} tokens)."
        )
    if prompt + reply > context:
        raise ContextOverflow(
            f"Requested token count exceeds the model's maximum context length of {context} "
            f"tokens. You requested a total of {prompt + reply} tokens."
        )


def _finish(request: GenerationRequest, result: GenerationResult, text: str) -> dict[str, Any]:
    if result.finish is FinishReason.ABORT:
        return {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}
    if result.finish is not FinishReason.STOP:
        return {"type": "length", "length": len(result.ids)}
    last = result.ids[-1]
    stop_string = next((stop for stop in request.sampling.stop if stop in text), last)
    return {"type": "stop", "matched": last if last in request.stop_ids else stop_string}


def _integer(value: object, name: str) -> int:
    if type(value) is not int:
        raise PolicyRejected(f"{name} has to be a whole number")
    return value


def _ids(value: object, name: str) -> list[int]:
    listed = cast("list[object]", value) if isinstance(value, list) else [None]
    # A prompt has thousands, and this is asked of each request: types, not a loop over the ids.
    if not set(map(type, listed)) <= {int}:
        raise PolicyRejected(f"{name} has to be one list of token ids")
    return cast("list[int]", listed)
