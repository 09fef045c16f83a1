"""Where SGLang is installed: an interpreter of its own, found or made.

    python -m agent_runtime.serving.installation [FOLDER]

SGLang pins torch, transformers and some ninety others; in an
environment of its own those pins bind nobody else.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Final

import tyro

from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.serving.machine import detect

__all__ = ["VARIABLE", "default_folder", "find_python", "install"]

VARIABLE: Final = "AGENTGYM_SGLANG_PYTHON"
"""Environment variable that names the interpreter."""
_INSTALL: Final = "python -m agent_runtime.serving.installation"
_SGLANG: Final = "sglang==0.5.23"
_ROUTER: Final = "smg==1.13.0"
_REQUIREMENTS: Final = Path(__file__).with_name("cpu_requirements.txt")
_TORCH_CPU: Final = "torch==2.13.0+cpu"
_TORCH_CPU_INDEX: Final = "https://download.pytorch.org/whl/cpu"

Runner = Callable[[list[str]], int]


def default_folder() -> Path:
    """Where `install` puts SGLang unless told otherwise."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache, "agentgym", "sglang")


def find_python(python: Path | None = None, environment: Mapping[str, str] | None = None) -> Path:
    """Return the interpreter that has SGLang.

    The given one, else the one that the variable names, the isolated installation, or this one.
    Raises PolicyMisconfigured where none is there; it says how to make one.
    """
    variables = os.environ if environment is None else environment
    named = python or (Path(variables[VARIABLE]) if variables.get(VARIABLE) else None)
    candidates = [named] if named else [_python_in(default_folder()), Path(sys.executable)]
    for candidate in candidates:
        if candidate.is_file() and _has_sglang(candidate):
            # Not resolved: an environment's interpreter is a link, and where that lies matters.
            return candidate.absolute()
    where = f"{named} has no SGLang" if named else "SGLang is not installed"
    raise PolicyMisconfigured(
        f"{where}: run `{_INSTALL}`, or name an interpreter that has it with --serve.python "
        f"or {VARIABLE}"
    )


def install(folder: Path, *, cuda: bool, run: Runner | None = None) -> Path:
    """Make an environment with SGLang and its router in `folder`; returns its interpreter.

    Needs a package index; about 90 s and 2.7 GiB without CUDA. Raises PolicyMisconfigured with the
    step that failed.
    """
    execute = run or _run
    python = _python_in(folder)
    pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check"]
    # One alternative after the other; the first that works counts.
    steps = [[[sys.executable, "-m", "venv", str(folder)]]]
    if cuda:
        steps.append([[*pip, _SGLANG, _ROUTER]])
    else:
        # PyPI's torch is the CUDA build: the local version with +cpu is asked for by name, first
        # where this machine's pip looks anyway.
        torch = [_TORCH_CPU, "wheel"]
        steps.append([[*pip, *torch], [*pip, "--extra-index-url", _TORCH_CPU_INDEX, *torch]])
        steps.append([[*pip, "-r", str(_REQUIREMENTS), _TORCH_CPU]])
        steps.append([[*pip, "--no-deps", _SGLANG, _ROUTER]])
    for alternatives in steps:
        statuses: list[int] = []
        for step in alternatives:
            statuses.append(execute(step))
            if not statuses[-1]:
                break
        else:
            raise PolicyMisconfigured(f"status {statuses[-1]} of: {' '.join(alternatives[-1])}")
    return python


def main(
    folder: Annotated[Path | None, tyro.conf.Positional] = None, cuda: bool | None = None
) -> int:
    """Install SGLang and its router into an environment of their own.

    Args:
        folder: Where; default: a folder in the user's cache.
        cuda: The CUDA build; default: where this machine has a CUDA device.
    """
    wants_cuda = detect().accelerators > 0 if cuda is None else cuda
    try:
        python = install(folder or default_folder(), cuda=wants_cuda)
    except PolicyMisconfigured as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(f"{python}\n")
    return 0


def _python_in(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _has_sglang(python: Path) -> bool:
    """Whether the interpreter finds the package; nothing is imported."""
    code = "import importlib.util as u; raise SystemExit(u.find_spec('sglang') is None)"
    return _run([str(python), "-c", code], quiet=True) == 0


def _run(command: list[str], *, quiet: bool = False) -> int:
    output = subprocess.DEVNULL if quiet else sys.stderr
    return subprocess.run(command, stdout=output, stderr=output).returncode


if __name__ == "__main__":
    sys.exit(tyro.cli(main))
