"""A data set's folder as the Hugging Face Hub has them: Parquet by environment, and a card.

    README.md                       the card: configurations, features, what is in it
    data/ENVIRONMENT/SPLIT.parquet  columns as of `--format parquet`

`datasets.load_dataset(FOLDER)` gives everything, `load_dataset(FOLDER, ENVIRONMENT)` one
environment. A split is that of the tasks, `train` where they have none. One Parquet file is open
for each environment and split.
Source: https://huggingface.co/docs/hub/datasets-manual-configuration
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from agentgym.episode.v1 import episode_pb2
from orchestrator.formats.base import EpisodeWriter, dump_json
from orchestrator.formats.parquet import ROW, ParquetWriter

__all__ = ["CARD_FILE", "HuggingFaceWriter", "features"]

CARD_FILE: Final = "README.md"
_WHOLE: Final = "default"
_NOT_OF_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")


class HuggingFaceWriter(EpisodeWriter):
    """Writes a folder, which it makes."""

    is_folder = True
    keeps_images = True

    def __init__(self, path: Path) -> None:
        self._folder = path
        self._files: dict[tuple[str, str], ParquetWriter] = {}
        self._rows: Counter[tuple[str, str]] = Counter()
        (path / "data").mkdir()

    def write(self, episode: episode_pb2.Episode) -> None:
        environment = _NOT_OF_NAMES.sub("-", episode.environment)
        environment += "-environment" if environment == _WHOLE else ""
        place = environment, _NOT_OF_NAMES.sub("_", episode.split).replace("-", "_") or "train"
        if place not in self._files:
            (self._folder / "data" / place[0]).mkdir(exist_ok=True)
            self._files[place] = ParquetWriter(self._folder / _path(place))
        self._files[place].write(episode)
        self._rows[place] += 1

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        (self._folder / CARD_FILE).write_text(_card(self._rows), encoding="utf-8")


def _path(place: tuple[str, str]) -> str:
    environment, split = place
    return f"data/{environment}/{split}.parquet"


def _card(rows: Mapping[tuple[str, str], int]) -> str:
    """Return the card of a data set with so many rows in each place; JSON is YAML, too."""
    configs = {_WHOLE: sorted(rows)}
    for place in sorted(rows):
        configs.setdefault(place[0], []).append(place)
    if not rows:
        configs = {}
    columns = features(ROW)
    lines = ["---", "configs:"]
    lines += [f"- {dump_json(_config(name, places))}" for name, places in configs.items()]
    lines += ["dataset_info:"]
    lines += [f"- {dump_json({'config_name': it, 'features': columns})}" for it in configs]
    lines += ["tags: [agents, trajectories]", "---", "", "# Episodes of language-model agents", ""]
    lines += ["| environment | split | episodes |", "|---|---|---|"]
    lines += [f"| {name} | {split} | {count} |" for (name, split), count in sorted(rows.items())]
    lines += [
        "",
        "One row per episode. `messages` is the conversation, `sampled` marks what the policy",
        "wrote; `steps` are the environment's transitions, the reset first; `token_segments` the",
        "token ids with their logprobs, where they were recorded. `images` has the images of the",
        "observations, those of messages and steps are places in it. Null is absent, never 0.",
    ]
    return "\n".join(lines) + "\n"


def _config(name: str, places: list[tuple[str, str]]) -> dict[str, Any]:
    files: dict[str, list[str]] = {}
    for place in places:
        files.setdefault(place[1], []).append(_path(place))
    listed = [{"split": split, "path": paths} for split, paths in files.items()]
    config: dict[str, Any] = {"config_name": name, "data_files": listed}
    return config | ({"default": True} if name == _WHOLE else {})


def features(fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the columns of `orchestrator.formats.parquet.ROW` as a card says them."""
    return [{"name": name, **_feature(shape)} for name, shape in fields.items()]


def _feature(shape: Any) -> dict[str, Any]:
    if isinstance(shape, str):
        return {"dtype": shape.rstrip("_")}
    if isinstance(shape, Mapping):
        return {"struct": features(cast("Mapping[str, Any]", shape))}
    [entry] = shape
    if isinstance(entry, Mapping):
        return {"list": features(cast("Mapping[str, Any]", entry))}
    return {"list": entry.rstrip("_")}
