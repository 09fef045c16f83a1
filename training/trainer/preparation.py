"""What comes before the first step: the base model, and the data as sequences of its tokens.

Tokenizer, base and dataset are made in this order, each once: a resumed training finds them
finished, or makes them again from the start. The first process makes them, the others wait.
"""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn

from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.huggingface import HuggingFaceRenderer
from training.data.dataset import DataConfig, DatasetSummary, TokenDataset, build_datasets
from training.data.sources import SourceConfig, read_texts
from training.data.tokenizer_training import train_tokenizer
from training.errors import ModelUnusable, RecipeError
from training.runs.run_dir import RunDir
from training.trainer.distributed import DistributedContext
from training.trainer.models import InitConfig, ModelConfig, create_base, hf_config

__all__ = [
    "create_from_scratch",
    "describe_dataset",
    "load_renderer",
    "prepare_base",
    "prepare_datasets",
]


def load_renderer(path: str | Path, *, template_date: str = "") -> HuggingFaceRenderer:
    """Return the chat template and tokenizer of a model; raises ModelUnusable, RecipeError."""
    try:
        today = datetime.date.fromisoformat(template_date) if template_date else None
    except ValueError as error:
        raise RecipeError(str(error), field="data.template_date") from error
    try:
        return HuggingFaceRenderer(path, today=today)
    except PolicyMisconfigured as error:
        raise ModelUnusable(str(error), field="model.path") from error


def prepare_base(
    config: ModelConfig,
    sources: Sequence[SourceConfig],
    run_dir: RunDir,
    dist: DistributedContext,
    *,
    runs: Path,
    seed: int,
) -> str:
    """Return the folder or hub name of the model to start from.

    Where the recipe has `model.init`, the first process creates it while the others wait.
    """
    if config.init is None:
        return config.source
    if dist.is_main and not (run_dir.base / "config.json").is_file():
        create_from_scratch(config.init, sources, run_dir.base, runs=runs, seed=seed)
    dist.wait_for_main()
    return str(run_dir.base)


def create_from_scratch(
    init: InitConfig,
    sources: Sequence[SourceConfig],
    folder: Path,
    *,
    runs: Path = Path("runs"),
    seed: int,
) -> None:
    """Write a model with random weights to a folder, which appears complete.

    Its tokenizer is trained on the texts of the sources, unless the recipe names one.
    """
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    tokenizer = Path(init.tokenizer_path)
    if not init.tokenizer_path:
        tokenizer = partial / "tokenizer"
        texts = (text for source in sources for text in read_texts(source, runs=runs))
        train_tokenizer(texts, tokenizer, init.tokenizer)
    create_base(init, tokenizer, partial / "model", seed=seed)
    (partial / "model").rename(folder)
    shutil.rmtree(partial)


def prepare_datasets(
    data: DataConfig, model: str, run_dir: RunDir, dist: DistributedContext, console: Console
) -> tuple[TokenDataset, TokenDataset | None]:
    """Return the training and the held-out sequences.

    The first process writes them unless they are there; None = nothing is held out.

    Raises:
        DataError: A source cannot be trained on.
        RecipeError: The context is beyond the model's.
        ModelUnusable: The model's tokenizer cannot be loaded.
    """
    settings = hf_config(model)
    limit = getattr(settings, "max_position_embeddings", None)
    if limit and data.context > limit:
        raise RecipeError(
            f"is {data.context}, the model reads {limit} tokens: lower it", field="data.context"
        )
    has_held_out = bool(data.held_out or data.held_out_sources)
    finished = run_dir.data / "complete"
    if dist.is_main and not finished.is_file():
        shutil.rmtree(run_dir.data, ignore_errors=True)
        with _progress(console) as advance:
            build_datasets(
                data,
                load_renderer(model, template_date=data.template_date),
                run_dir.data,
                vocabulary=settings.vocab_size,
                on_record=advance,
            )
        finished.touch()
    dist.wait_for_main()
    train = TokenDataset(run_dir.data / "train")
    if dist.is_main:
        for line in describe_dataset(train.summary):
            console.print(line, highlight=False, markup=False, soft_wrap=True)
    return train, TokenDataset(run_dir.data / "held_out") if has_held_out else None


class _progress:  # noqa: N801 (used like a function)
    """A count of records read, where there is a terminal."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("preparing data: {task.completed} records"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> Callable[[int], None]:
        self._progress.start()
        task = self._progress.add_task("", total=None)
        return lambda done: self._progress.update(task, completed=done)

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


def describe_dataset(summary: DatasetSummary) -> list[str]:
    """Say in lines what was taken and what was left out."""
    lines = [
        f"{summary.sequences} sequences of {summary.records} records: {summary.tokens:,} tokens, "
        f"{summary.targets:,} targets"
    ]
    lines += [f"left out: {count} {reason}" for reason, count in summary.left_out.items()]
    if summary.left_out:
        lines.append("their names are in data/train/left_out.jsonl")
    return lines
