"""A fake engine whose replies say how long their episodes shall be; see `varied_echo`.

python -m benchmark.training.spread_engine --model FOLDER --port 30000
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import Final

from aiohttp import web
from tokenizers import Tokenizer

from tests.kit.fake_sglang import FakeModel, FakeSGLang

__all__ = ["LONGEST", "SHORTEST", "main", "reply_text"]

SHORTEST: Final = 2
LONGEST: Final = 30
"""Turns of an episode; all numbers between are equally likely."""
_WORDS: Final = (4, 20)
"""Least and most of a thought, which decides how many tokens a reply has."""


def reply_text(rng: random.Random, silent_share: float = 0.0) -> str:
    """Return a reply of some length, whose action is a number of turns, or by chance empty."""
    thought = "talk " * rng.randint(*_WORDS)
    action = "" if rng.random() < silent_share else str(rng.randint(SHORTEST, LONGEST))
    return f"Thought:\n{thought}\n\nAction:\n{action}"


def main() -> None:
    """Serve the engine until the process is ended."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--model", required=True, help="folder with tokenizer.json")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--step-ms", type=float, default=50.0)
    parser.add_argument("--weights-ms", type=float, default=0.0)
    parser.add_argument("--silent-share", type=float, default=0.0, help="of empty actions")
    parser.add_argument("--stop", default="<|im_end|>", help="the token that ends a reply")
    options = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(Path(options.model, "tokenizer.json")))
    stop, rng = tokenizer.token_to_id(options.stop), random.Random(0)
    if stop is None:
        parser.error(f"the tokenizer has no token {options.stop!r}")
    engine = FakeSGLang(
        FakeModel(
            model_path=options.model,
            step_seconds=options.step_ms / 1000,
            weights_seconds=options.weights_ms / 1000,
            keep_requests=False,
        )
    )

    def write() -> list[int]:
        text = reply_text(rng, options.silent_share)
        return [*tokenizer.encode(text, add_special_tokens=False).ids, stop]

    engine.write = write
    web.run_app(engine.app(), host="127.0.0.1", port=options.port, access_log=None, print=None)


if __name__ == "__main__":
    main()
