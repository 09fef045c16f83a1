"""Runs inside the interpreter that has SGLang: `engine_main.py engine|router ARGUMENTS`.

It does two things. On a machine without CUDA it makes SGLang importable: two of its compiled
dependencies (torchvision, its kernels) exist for CUDA only, and the CPU path merely imports names
from them; mock modules give those names, and fail when one is called. And it ends the whole process
group when the process that started it is gone.

Imports nothing of this project; `agent_runtime.serve` imports it, to end with its parent by the
same code. Spawned children import this file again as `__mp_main__`, so everything above the guard
at the end must happen at import.
"""

from __future__ import annotations

import enum
import importlib.abc
import importlib.machinery
import os
import signal
import sys
import threading
import time
import types

_MOCKED = ("torchvision", "sgl_kernel")
_WATCH_SECONDS = 1.0
PARENT_VARIABLE = "AGENTGYM_PARENT_PID"
"""Environment variable by which a server is told whom to end with."""


class _Absent:
    """A name of an absent module: importing it works, using it does not."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> _Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Absent(f"{self._name}.{name}")

    def __call__(self, *_: object, **__: object) -> None:
        raise NotImplementedError(f"{self._name} does not exist on a machine without CUDA")


class _AbsentModule(types.ModuleType):
    """A module of which every name is absent."""

    __path__: list[str] = []  # pyright: ignore[reportIncompatibleVariableOverride]

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "InterpolationMode":  # its members are used as default values at import
            modes = "NEAREST BILINEAR BICUBIC LANCZOS BOX HAMMING NEAREST_EXACT"
            return enum.Enum("InterpolationMode", modes)
        return _Absent(f"{self.__name__}.{name}")


class _AbsentFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules that have no build for this machine."""

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] in _MOCKED:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _AbsentModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        if module.__name__ == "sgl_kernel":
            module.__dict__["__version__"] = "0.0.0"


def _install_mocks() -> None:
    """Let SGLang be imported without its CUDA dependencies."""
    from transformers.utils import is_torchvision_available  # pyright: ignore

    is_torchvision_available()  # remembers "no" before the mock would say "yes"
    sys.meta_path.append(_AbsentFinder())


def _die_with(parent: int) -> None:
    """Kill this process group once `parent` is no longer the parent."""
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os.killpg(os.getpgid(0), signal.SIGKILL)


def end_with_parent() -> None:
    """From now on end this process group when the process is gone that started it for itself."""
    # Not inherited: what this process starts has another parent.
    parent = int(os.environ.pop(PARENT_VARIABLE, "0"))
    if parent:
        threading.Thread(target=_die_with, args=(parent,), daemon=True).start()


if __name__ in ("__main__", "__mp_main__") and os.environ.get("SGLANG_USE_CPU_ENGINE") == "1":
    _install_mocks()

if __name__ == "__main__":
    end_with_parent()
    kind, *arguments = sys.argv[1:]
    if kind == "router":
        from smg.cli import main  # pyright: ignore

        sys.argv = ["smg", "launch", *arguments]
        main()
    else:
        # Installed beside SGLang only, where no checker runs.
        from sglang.launch_server import run_server  # pyright: ignore
        from sglang.srt.server_args import prepare_server_args  # pyright: ignore

        run_server(prepare_server_args(arguments))
