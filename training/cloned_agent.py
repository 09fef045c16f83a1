"""From a finished run of `training.bc` to an agent's files: what `training.ship` does with one.

Such an agent has no settings of its own: it is judged, and played, under each environment's own
prompts, options and rounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from agent_runtime.agents import AgentManifest, PlaySettings
from agent_runtime.engine.checkpoint import weights_digest
from orchestrator.training_folder import TrainingFolder
from training.agent_files import (
    agent_metric,
    describe_model,
    require_small,
    write_model,
)
from training.data.dataset import TokenDataset
from training.errors import TrainingError
from training.rollouts.own_settings import (
    EXPERT,
    RANDOM,
    JudgedAgent,
    OwnSettings,
    judge_in_own_settings,
)
from training.rollouts.results import Row, as_markdown

if TYPE_CHECKING:  # it needs NumPy
    from agent_runtime.engine.tensor_file import StoredAs

__all__ = ["ClonedAgent", "ClonedRun"]


@dataclass(frozen=True, slots=True)
class ClonedAgent:
    """What was written of a cloned agent."""

    manifest: AgentManifest
    judged: JudgedAgent
    readme: str


class ClonedRun:
    """A finished run of behavioural cloning."""

    def __init__(self, training: TrainingFolder) -> None:
        """Read what it learned from.

        Raises:
            TrainingError: It is not finished, or does not tell what it learned from.
        """
        if training.report is None:
            raise TrainingError(f"{training.folder} is not finished: --resume it", field="run")
        self.checkpoint = training.folder / "final"
        self._report: Mapping[str, Any] = training.report
        self._recipe = training.recipe
        self.episodes: Counter[str] = Counter()
        """Environment -> expert episodes, each once, however often it is learned from."""
        self.contents: dict[str, set[str]] = {}
        """Environment -> contents that it learned from."""
        met: set[tuple[str, str]] = set()
        for origin in TokenDataset(training.folder / "data" / "train").origins():
            if not origin.content:
                raise TrainingError(
                    f"{origin.name} does not tell in which state it began, so nobody knows whether "
                    "a task is new: learn from run folders",
                    field="data.sources",
                )
            if (origin.environment, origin.name) not in met:
                met.add((origin.environment, origin.name))
                self.episodes[origin.environment] += 1
            self.contents.setdefault(origin.environment, set()).add(origin.content)

    def write(
        self,
        folder: Path,
        *,
        name: str,
        stored_as: StoredAs,
        settings: OwnSettings,
        console: Console,
    ) -> ClonedAgent:
        """Write weights and tokenizer, play them, and return what is to be said of them.

        Args:
            folder: Gets the files; its parent gets the run that is played.
            name: Of the agent.
            stored_as: How weights are stored.
            settings: What is played; the environments are those that were learned.
            console: Gets progress.

        Raises:
            TrainingError: The numbers do not fit, or an episode was lost.
            OrchestratorError: The agent could not be played.
        """
        if not write_model(self.checkpoint, folder, stored_as):
            raise TrainingError("the weights hold numbers beyond the precision", field="stored_as")
        require_small(folder)
        work = folder.parent / "played"
        judged = judge_in_own_settings(settings, folder, work, self.contents, console=console)
        manifest = AgentManifest(
            name=name,
            temperature=0.0,
            max_new_tokens=settings.max_new_tokens,
            environments={it: PlaySettings(items=judged.items(it)) for it in settings.environments},
            metrics={it: agent_metric(metric) for it, metric in judged.metrics.items()},
            random={it: agent_metric(metric) for it, metric in judged.beside[RANDOM].items()},
            provenance={
                "algorithm": "BC",
                "updates": self._report["steps"],
                "stored_as": stored_as,
                "weights": weights_digest(folder),
            },
        )
        return ClonedAgent(manifest, judged, self._readme(folder, manifest, judged, settings))

    def _readme(
        self, folder: Path, manifest: AgentManifest, judged: JudgedAgent, settings: OwnSettings
    ) -> str:
        names = list(settings.environments)
        learned = f"{self.episodes.total():,} expert episodes"
        rows = [
            Row(RANDOM, judged.beside[RANDOM]),
            Row("**this agent**", judged.metrics, learned),
            Row(EXPERT, judged.beside[EXPERT], "it writes what the agent learns from"),
        ]
        shown = manifest.demonstrated
        hidden = [it for it in names if it not in shown]
        counts = (
            f"- {it}: {self.episodes[it]:,} expert episodes of {len(self.contents[it]):,} "
            f"contents; judged on {len(judged.items(it))} tasks of the split `{settings.split}`, "
            f"{judged.left_out[it]} left out because it had learned their content."
            for it in names
        )
        return _README.format(
            name=manifest.name,
            model=describe_model(folder, str(manifest.provenance["stored_as"])),
            counts="\n".join(counts),
            updates=f"{self._report['steps']:,}",
            batch=self._recipe["batch"]["sequences"],
            table=as_markdown(rows, names),
            shown=", ".join(shown) or "nowhere",
            hidden=_HIDDEN.format(names=", ".join(hidden)) if hidden else "",
            words=_WORDS if "wordle" in names else "",
        )


_HIDDEN: Final = """ Not so in {names}: the
demonstration leaves these out, and `--policy agent --env NAME` plays them all the same."""
_WORDS: Final = " Wordle's words are those of the environment (see its COPYRIGHT file)."
_README: Final = """# The agent {name}

What `python -m orchestrator.sample` plays beside expert and random. {model}

Made by `python -m training.bc`, then `python -m training.ship`, from the scripted experts' episodes
under the environments' own prompts, options and rounds. No published weights, conversations or
texts went into it. It learned for {updates} updates of {batch} episodes each, of every environment
alike.

{counts}

## Figures

Percent under each environment's own prompts, options and rounds, greedy, 95 % intervals; played
with the files of this folder. No task counts whose first state is one that it learned from.

{table}
Its interval lies above the random player's in: {shown}.{hidden}

It knows these prompts word by word and no others: reworded ones, other options or environments are
new to it.

## Licence

Apache-2.0, like the project.{words}
"""
