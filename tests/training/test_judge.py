from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")
pytest.importorskip("transformers", reason="the extra `train` is not installed")
pytest.importorskip("accelerate", reason="the extra `train` is not installed")

from orchestrator.configuration import dump_toml
from orchestrator.store import RunReader
from orchestrator.viewer.library import Library
from orchestrator.viewer.trainings import Trainings
from tests.kit.server_process import ServerProcess
from tests.training.test_agentevol import quiet, values
from training.agentevol import AgentEvolRecipe, evolve, plan
from training.config.recipe import build
from training.config.start import Start
from training.data.contents import record_content
from training.data.dataset import TokenDataset
from training.errors import Contaminated, RecipeError, TrainingError
from training.judge import JudgeRun, judge

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("one_thread")]

WORDLE: Mapping[str, Any] = {
    "train": "train",
    "evaluation": "eval",
    "base_tasks": 3,
    "large_tasks": 4,
    "explore": 4,
    "evaluate": 0,
    "validate": 2,
    "judge_tasks": 3,
    "judge_eval_tasks": 2,
}


def judged_recipe(
    out: Path,
    *,
    wordle: Mapping[str, Any] | None = None,
    servers: Sequence[str] = (),
    **changes: Any,
):
    wanted = values(out, wordle={**WORDLE, **(wordle or {})}, judge={"seed": 0}, **changes)
    wanted["cloning"] |= {"max_steps": 2, "shares": {"wordle": 1.0}}
    wanted["rollout"] |= {"max_new_tokens": 8, "together": True}
    if servers:
        wanted["rollout"]["fleet"] = {"servers": servers}
    return build(AgentEvolRecipe, wanted)


def commit(folder: Path, recipe: AgentEvolRecipe, *, seed: int = 5) -> Path:
    """The recipe with a seed for judging, in a repository."""
    path = folder / "recipe.toml"
    path.write_text(dump_toml(replace(recipe, judge=replace(recipe.judge, seed=seed))))
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", path.name], ["commit", "-q", "-m", f"seed {seed}"]):
        subprocess.run([*git, *words], check=True)
    return path


# What is refused ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wordle", "changes", "message"),
    [
        ({"validate": 0}, {}, "validate and judge_tasks are at least 1"),
        ({"evaluate": 3}, {}, "evaluate is of recipes without"),
        ({"evaluation": "train"}, {}, "evaluation is another split than train"),
        ({}, {"controls": ["dpo", "dpo"]}, "named once each"),
    ],
)
def test_a_recipe_with_judge_names_all_parts(tmp_path, wordle, changes, message):
    with pytest.raises(RecipeError, match=message):
        judged_recipe(tmp_path, wordle=wordle, **changes)


def test_a_recipe_with_judge_has_equal_updates_and_equal_shares(tmp_path):
    wanted = values(tmp_path, wordle=WORDLE, judge={})
    with pytest.raises(RecipeError, match=r"cloning\.shares each of wordle"):
        build(AgentEvolRecipe, wanted)
    with pytest.raises(RecipeError, match="redraw and judge_tasks are of recipes with"):
        build(AgentEvolRecipe, values(tmp_path, redraw=True))


def test_more_judges_than_contents_are_refused_before_anything_is_played(tmp_path):
    many = {"train": "official_train", "evaluation": "eval"}
    with pytest.raises(
        RecipeError, match=r"wordle\.judge_pool: asks for 8 tasks, and there are 1 "
    ):
        plan(judged_recipe(tmp_path / "run", wordle=many), console=quiet())


# A run, from the division to the judgement -----------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """One for all plays: starting one for each takes most of the time."""
    with ServerProcess(tmp_path, environments=["wordle"]) as process:
        yield process.address


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_is_judged_once_on_contents_that_nobody_met(tmp_path, server):
    """One run for all of it: it trains twenty models."""
    out = tmp_path / "run"
    recipe = judged_recipe(
        out,
        servers=[server],
        seeds=[0, 1],
        redraw=True,
        choose="validation",
        pretraining={"epochs": 1},
        controls=["random-wins", "expert-explored", "one-iteration", "dpo"],
        matrix={"merge": ["previous"], "iterations": [1]},
    )
    report = evolve(recipe, console=quiet())
    names = ["AgentEvol", "merge=previous", "iterations=1", "one iteration"]
    names = ["BC_base", "BC_large", *names, "random wins", "expert explored", "BC_base + DPO"]
    assert [row.name for row in report.rows] == ["random", *names]
    assert _told_by_the_viewer(out) == ("4 of 4 iterations", ["BC_base", "BC_large"])
    stages = json.loads((out / "state.json").read_text())["finished"]
    assert {
        f"seed-{seed}/{it}" for seed in (0, 1) for it in ("tasks", "expert", "pretraining")
    } <= (stages.keys())
    # Equal stages are done once: M = 1 is the first iteration, merging differs from the second on.
    assert sum(name.startswith("seed-0/learn-") for name in stages) == 9
    assert not any(
        "/judge-" in name or ("baseline" in name and "seed" not in name) for name in stages
    )

    # Nothing is judged before the recipe is committed with a seed.
    path = tmp_path / "recipe.toml"
    path.write_text(dump_toml(recipe))
    with pytest.raises(RecipeError, match=r"judge\.seed: write down a seed"):
        judge(JudgeRun(run=out, recipe=path), console=quiet())
    path.write_text(dump_toml(replace(recipe, judge=replace(recipe.judge, seed=5))))
    with pytest.raises(RecipeError, match="is not committed as it is"):
        judge(JudgeRun(run=out, recipe=path), console=quiet())
    assert not (out / "judgements.json").exists()

    fewer = commit(tmp_path, replace(recipe, seeds=(0,)))
    with pytest.raises(RecipeError, match="seeds: lacks seed-1"):
        judge(JudgeRun(run=out, recipe=fewer), console=quiet())
    assert not (out / "judgements.json").exists()

    parallel = commit(tmp_path, replace(recipe, max_workers=2))
    result = judge(JudgeRun(run=out, recipe=parallel), console=quiet())
    assert (result["judged"], len(result["judgements"])) == ("once", 1)
    assert len(result["judgements"][0]["commit"]) == 40
    for part, count in (("same generator", 3), ("evaluation split", 2)):
        assert [row["name"] for row in result["rows"][part]] == ["random", *names]
        assert len(result["tasks"][part]["wordle"]) == count
        assert len(result["differences"][part]) == 2 * len(names) - 1
        values_of = result["rows"][part][1]["values"]
        assert {len(it["wordle"]) for it in values_of.values()} == {count}
    _assert_judged_on_what_nobody_learned(out)

    # Told again, it plays nothing; another time has to be asked for, and is said.
    assert judge(JudgeRun(run=out, recipe=path), console=quiet()) == result
    changed = commit(tmp_path, recipe, seed=6)
    with pytest.raises(TrainingError, match=r"was judged at .* --again judges once more"):
        judge(JudgeRun(run=out, recipe=changed), console=quiet())
    again = judge(JudgeRun(run=out, recipe=changed, again=True), console=quiet())
    assert again["judged"].startswith("2 times")
    assert "Judged 2 times" in (out / "judgement.md").read_text()

    # A division that was changed by hand is refused by whoever goes on with it.
    state = json.loads((out / "state.json").read_text())
    split = state["finished"]["seed-1/tasks"]["result"]["wordle"]
    split["base"].append(split["judge_pool"][0])
    (out / "state.json").write_text(json.dumps(state))
    with pytest.raises(Contaminated, match=rf"{split['judge_pool'][0]} \(learn\)"):
        evolve(recipe, start=Start.RESUME, console=quiet())


def _told_by_the_viewer(out: Path) -> tuple[str, list[str]]:
    library = Library([out])
    trainings = Trainings(library)
    try:
        (line,) = trainings.lines()
        pooled = trainings.training({"training": out.name})["pooled"]
        return line["progress"], [it["agent"] for it in pooled if "BC" in it["agent"]]
    finally:
        library.close()


def _assert_judged_on_what_nobody_learned(out: Path) -> None:
    learned = {
        origin.content
        for folder in out.glob("seed-*/**/data/train")
        for origin in TokenDataset(folder).origins()
    }
    judged = set()
    for folder in out.glob("judgement-1/**/wordle"):
        with RunReader.open(folder) as run:
            judged |= {record_content(episode) for episode in run.episodes()}
    assert len(judged) == 5
    assert "" not in learned | judged
    assert not judged & learned
