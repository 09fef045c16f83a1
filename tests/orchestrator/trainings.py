"""Folders as trainings write them, made by code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from orchestrator.run_plan import RunPlan, SessionEnd
from orchestrator.store import RunStore
from orchestrator.training_folder import LOG_FILE, RECIPE_FILE, STATE_FILE, Metric
from tests.orchestrator.records import build_episode, build_manifest, build_session

ENVIRONMENT = "maze"


def write_training(folder: Path, algorithm: str, recipe: dict[str, Any]) -> Path:
    """Begin a training: its recipe alone."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"algorithm": algorithm, "recipe": recipe})
    (folder / RECIPE_FILE).write_text(text)
    return folder


def finish_stages(folder: Path, stages: dict[str, dict[str, Any]]) -> None:
    """Add finished stages to what is there."""
    file = folder / STATE_FILE
    finished = json.loads(file.read_text())["finished"] if file.exists() else {}
    finished |= {name: {"result": result, "seconds": 1.5} for name, result in stages.items()}
    file.write_text(json.dumps({"layout": 2, "finished": finished}))


def append_log(folder: Path, *rows: dict[str, Any]) -> None:
    with (folder / LOG_FILE).open("a") as log:
        log.writelines(json.dumps(row) + "\n" for row in rows)


def judged(*values: float, environment: str = ENVIRONMENT) -> dict[str, Any]:
    """Return what a stage says that judged an agent."""
    pairs = tuple((f"maze_{number}", value) for number, value in enumerate(values))
    return {environment: Metric(environment, by_score=False, values=pairs).to_plain()}


def write_run(folder: Path) -> Path:
    """Record a run of two episodes, one of which won."""
    with RunStore.create(folder, build_manifest(), build_session()) as store:
        plan = RunPlan(items={ENVIRONMENT: ("a", "b")}, samples=1, policies=("scripted",))
        store.begin_playing(plan)
        store.append_all([build_episode("a"), build_episode("b", success=False, reward=0.0)])
        store.end_playing(SessionEnd(interrupted=False))
    return folder


def write_agentevol(
    folder: Path,
    *,
    iterations: int = 2,
    seeds: tuple[int, ...] = (0, 1),
    environment: str = ENVIRONMENT,
) -> Path:
    """Write AgentEvol after its first iteration; the exploration of the second goes on."""
    recipe = {
        "iterations": iterations,
        "seeds": list(seeds),
        "environments": [{"name": environment}],
    }
    write_training(folder, "agentevol", recipe)
    finish_stages(folder, {"baseline-random": judged(0, 0, 0, 1, environment=environment)})
    for seed in seeds:
        learned = {"steps": 4, "loss": 0.5, "sequences": 10, "tokens": 2000}
        finish_stages(
            folder,
            {
                f"seed-{seed}/learn-bc-base": learned,
                f"seed-{seed}/judge-bc-base": judged(1, 0, 0, 0, environment=environment),
                f"seed-{seed}/explore-1": {"played": []},
                f"seed-{seed}/select-1": {
                    environment: {"kept": 3, "confirmed": 5, "episodes": 8 + seed}
                },
                f"seed-{seed}/learn-iteration-1": learned | {"loss": 0.25},
                f"seed-{seed}/judge-iteration-1": judged(1, 1, seed, 0, environment=environment),
            },
        )
        nested = write_training(folder / f"seed-{seed}" / "iteration-1", "bc", {})
        append_log(nested, {"step": 1, "loss": 2.0}, {"step": 2, "loss": 0.25})
    for name in ("explore-1", "explore-2", "evaluation/iteration-1"):
        write_run(folder / "seed-0" / name / ENVIRONMENT)
    return folder


def write_grpo(folder: Path, *, steps: int = 4) -> Path:
    """Write GRPO after its second step."""
    recipe = {"steps": steps, "evaluate": True, "environments": [{"name": ENVIRONMENT}]}
    write_training(folder, "grpo", recipe)
    finish_stages(folder, {"judge-first": judged(0, 1)})
    for step in (1, 2):
        append_log(folder, {"step": step, "reward": step / 4, "kl": 0.01 * step, "entropy": 1.5})
    write_run(folder / "rollouts" / "step-000001")
    return folder
