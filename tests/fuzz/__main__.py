"""`python -m tests.fuzz`: see the package."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal

import tyro

from tests.fuzz.driver import fuzz

_FUZZED = ["agent_runtime", "env_servers", "orchestrator", "training"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fuzz:
    """Fuzz targets one after the other; the first input that one does not bear ends it."""

    targets: tyro.conf.Positional[tuple[str, ...]] = ()
    """Their names; none = all of them."""
    seconds: float = 60.0
    """For each target."""
    seed: int = 0
    """Of the random engine."""
    engine: Literal["random", "atheris"] = "random"
    """atheris is guided by coverage (`pip install atheris`); it takes one target."""


def main() -> int:
    """Run the command; returns its exit status."""
    config = tyro.cli(Fuzz, prog="python -m tests.fuzz")
    if config.engine == "atheris":
        return _guided(config)
    from tests.fuzz.targets import TARGETS

    names = config.targets or tuple(TARGETS)
    for name in names:
        if name not in TARGETS:
            return _refuse(f"no target {name!r} (valid: {', '.join(TARGETS)})")
    for name in names:
        taken = fuzz(TARGETS[name], config.seconds, seed=config.seed)
        print(f"{name:20}{taken:10,} inputs", flush=True)
    return 0


def _guided(config: Fuzz) -> int:
    try:
        import atheris  # pyright: ignore[reportMissingImports]
    except ImportError:
        return _refuse("atheris is not installed: pip install atheris")
    with atheris.instrument_imports(include=_FUZZED):  # only what is imported within is guided
        from tests.fuzz.targets import TARGETS
    if len(config.targets) != 1 or config.targets[0] not in TARGETS:
        return _refuse(f"atheris takes one target (valid: {', '.join(TARGETS)})")
    target = TARGETS[config.targets[0]]
    arguments = [sys.argv[0], f"-max_total_time={config.seconds:.0f}", f"-seed={config.seed + 1}"]
    atheris.Setup(arguments, target.hypothesis.fuzz_one_input)
    atheris.Fuzz()  # ends the process
    return 0


def _refuse(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
