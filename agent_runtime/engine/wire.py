"""SGLang's native request and reply, as the embedded engine's front reads and writes them.

The other side of `agent_runtime.sglang.wire`. Invariant: what is asked for and would
change the reply is either done or refused, never ignored. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from agent_runtime.engine.generation import GenerationRequest, GenerationResult
from agent_runtime.errors import ContextOverflow, PolicyRejected
from agent_runtime.sampling import FinishReason, Sampling

__all__ = ["Asked", "read_request", "write_reply"]

_DONE: Final = frozenset(
    {"ignore_eos", "max_new_tokens", "sampling_seed", "stop", "stop_token_ids", "temperature"}
    | {"top_k", "top_p"}
)
_NEUTRAL: Final[Mapping[str, Any]] = {
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "repetition_penalty": 1,
    "min_p": 0,
    "min_new_tokens": 0,
    "n": 1,
}
"""Parameters that are not done here, by the value that changes nothing."""
_COSMETIC: Final = frozenset(
    {"no_stop_trim", "skip_special_tokens", "spaces_between_special_tokens"}
)
"""Parameters of the reply's text, which clients that speak in ids do not read."""
_FIELDS: Final = frozenset(
    {"extra_key", "input_ids", "logprob_start_len", "return_logprob", "rid", "sampling_params"}
    | {"stream", "log_metrics", "priority", "return_text_in_logprobs", "routing_key", "session_id"}
)
_TOP_K_ALL: Final = 1 << 30
"""The reference engine's own way to write "all"."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One /generate request."""

    request: GenerationRequest
    logprobs: bool
    scores_from: int | None
    """First token of the prompt whose logprob is wanted, too; None = none."""
    stream: bool


def read_request(
    body: Mapping[str, Any],
    *,
    name: str,
    episode: str,
    end_ids: Sequence[int],
    context_length: int,
) -> Asked:
    """What a body asks for.

    Raises ContextOverflow where prompt and reply are longer than the context, PolicyRejected for
    what is no request or cannot be done.
    """
    beyond = [field for field in body.keys() - _FIELDS if body[field]]
    if beyond:
        raise PolicyRejected(f"the embedded engine does not know {', '.join(sorted(beyond))}")
    params: object = body.get("sampling_params") or {}
    if not isinstance(params, dict):
        raise PolicyRejected("sampling_params is to be an object")
    given = cast("dict[str, Any]", params)
    prompt = _ids(body.get("input_ids"), "input_ids")
    if not prompt:
        raise PolicyRejected("input_ids cannot be empty.")
    sampling = _sampling(given)
    _check_length(len(prompt), sampling.max_new_tokens, context_length)
    stops = {*_ids(given.get("stop_token_ids") or [], "stop_token_ids")}
    if not given.get("ignore_eos"):
        stops.update(end_ids)
    wants_logprobs = bool(body.get("return_logprob"))
    start = body.get("logprob_start_len")
    scored = wants_logprobs and isinstance(start, int) and 0 <= start < len(prompt)
    return Asked(
        request=GenerationRequest(
            prompt=prompt,
            sampling=sampling,
            seed=_integer(given.get("sampling_seed") or 0, "sampling_seed"),
            stop_ids=frozenset(stops),
            episode=episode,
            space=str(body.get("extra_key") or ""),
            name=name,
        ),
        logprobs=wants_logprobs,
        scores_from=start if scored else None,
        stream=bool(body.get("stream")),
    )


def write_reply(
    asked: Asked,
    result: GenerationResult,
    text: str,
    *,
    version: str,
    scores: Sequence[float] = (),
    ended: bool = True,
) -> dict[str, Any]:
    """The answer to a request; `version` is of the weights that are served now.

    `scores` are the logprobs of the prompt's ids but the first, where they were asked for. With
    `ended` false it is one event of a stream, which holds all tokens so far.
    """
    prompt, ids = asked.request.prompt, result.ids
    spans = [
        {"version": span.version, "start": span.start, "end": span.end} for span in result.versions
    ]
    meta: dict[str, Any] = {
        "id": asked.request.name,
        "finish_reason": _finish(asked.request, result, text) if ended else None,
        "prompt_tokens": result.prompt_tokens,
        "completion_tokens": len(ids),
        "cached_tokens": result.cached_tokens,
        "weight_version": version,
    }
    if ended:
        meta["weight_versions"] = spans or [{"version": version, "start": 0, "end": 0}]
    if asked.logprobs:
        rows = list(zip(result.logprobs, ids, [None] * len(ids), strict=True))
        meta |= {"output_token_logprobs": rows, "output_token_logprobs_length": len(rows)}
        start = asked.scores_from
        known = zip([None, *scores], prompt, strict=False) if start is not None else ()
        meta["input_token_logprobs"] = [(score, at, None) for score, at in known][start or 0 :]
    return {"text": text, "output_ids": ids, "meta_info": meta}


def _sampling(given: Mapping[str, Any]) -> Sampling:
    for name in sorted(given.keys() - _DONE - _COSMETIC):
        if given[name] is not None and given[name] != _NEUTRAL.get(name):
            raise PolicyRejected(f"the embedded engine does not know the parameter {name}")
    temperature = given.get("temperature", 1.0)
    if not isinstance(temperature, int | float) or not math.isfinite(temperature):
        raise PolicyRejected(f"temperature must be a finite number, got {temperature!r}.")
    stop = given.get("stop") or ()
    top_k = _integer(given.get("top_k", -1), "top_k")
    try:
        return Sampling(
            temperature=float(temperature),
            top_p=float(given.get("top_p", 1.0)),
            top_k=-1 if top_k >= _TOP_K_ALL else top_k,
            max_new_tokens=_integer(given.get("max_new_tokens", 128), "max_new_tokens"),
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
    said = next((stop for stop in request.sampling.stop if stop in text), last)
    return {"type": "stop", "matched": last if last in request.stop_ids else said}


def _integer(value: object, name: str) -> int:
    if type(value) is not int:
        raise PolicyRejected(f"{name} is to be a whole number")
    return value


def _ids(value: object, name: str) -> list[int]:
    listed = cast("list[object]", value) if isinstance(value, list) else [None]
    if any(type(each) is not int for each in listed):
        raise PolicyRejected(f"{name} is to be one list of token ids")
    return cast("list[int]", listed)
