"""Whether a model server fits the checkpoint whose weights it is to serve.

A server is started with some model, and gets the trainer's weights later. Where its tokenizer is
another one, ids mean other texts there, and everything that is sampled teaches nonsense. So it does
where the policy makes prompts by another one, which is what is left to ask of a server that cannot
tell.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from agent_runtime.conversation import Message, Role
from agent_runtime.huggingface import ModelTokenizer
from agent_runtime.logs import get_logger
from agent_runtime.policies.sglang import SGLangPolicy
from training.errors import TokenizerMismatch

__all__ = ["require_same_tokenizer"]

log = get_logger(__name__)

_PROBES: Final = (
    "Thought: I go north, then I'd look at 3 of the 1,024 doors.\nAction: move(up)",
    'def f(x):\n\treturn {"a": [x, 0.125]}  # 100 %',
    "naïve Übermut - 東京へ行く - привет - 🙂",
    "   two  or   more spaces\n\n\nand lines",
)
_SHOWN: Final = 60
"""Characters of a text in a message."""


async def require_same_tokenizer(policy: SGLangPolicy, checkpoint: Path, url: str) -> None:
    """Compare a checkpoint's tokenizer on texts with the server's and with the one for prompts.

    Control tokens are among them.

    Args:
        policy: Of the server; started.
        checkpoint: Whose weights the server is to get.
        url: How the recipe names the server.

    Raises:
        TokenizerMismatch: They cut a text into other ids.
        PolicyMisconfigured: The checkpoint has no tokenizer that can be read.
    """
    tokenizer = await asyncio.to_thread(ModelTokenizer, checkpoint)
    for text in (*_PROBES, "".join(tokenizer.special_tokens())):
        theirs = await policy.engines.tokenize(text)
        if theirs is None:
            log.warning("the server cannot tell its tokenizer's ids", server=url)
            break
        ours = tokenizer.encode(text)
        if theirs != ours:
            raise TokenizerMismatch(
                f"the server at {url} makes {_some(theirs)} of {text[:_SHOWN]!r}, the tokenizer of "
                f"{checkpoint} {_some(ours)}: serve {checkpoint}, or train the model that is "
                "served there",
                field="rollout.url",
            )
    for text in _PROBES:
        prompt = policy.renderer.begin([Message(Role.USER, text)])
        ours = tokenizer.encode(prompt.text)
        if prompt.ids != ours:
            raise TokenizerMismatch(
                f"prompts for the server at {url} would be {_some(prompt.ids)}, of which the "
                f"tokenizer of {checkpoint} makes {_some(ours)}: serve {checkpoint}, and leave "
                "out rollout.sglang.tokenizer",
                field="rollout.sglang.tokenizer",
            )


def _some(ids: list[int]) -> str:
    shown = ", ".join(map(str, ids[:8]))
    return f"[{shown}, ...]" if len(ids) > 8 else f"[{shown}]"
