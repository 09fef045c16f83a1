"""The commands that people type, with --ray: what they play, and their exit statuses."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from orchestrator import evaluate, sample
from orchestrator.ray_cluster import cluster
from tests.orchestrator.ray_cluster.small_runs import records, shard_counts

ON_CLUSTER = ["--ray", "local", "--ray-workers", "1"]


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTGYM_TOKEN", "of-a-test")


def test_evaluate_judges_on_a_cluster_what_it_judges_alone(host, tmp_path, capsys) -> None:
    host()
    flags = ["--env", "maze", "--policy", "expert,random", "--episodes", "3", "--json"]
    figures = []
    for name, more in (("shared", ON_CLUSTER), ("alone", [])):
        folder = tmp_path / name
        assert evaluate.main([*flags, *more, "--out", str(folder)]) == 0
        told = json.loads(capsys.readouterr().out)
        judged = ("environment", "policy", "planned", "finished", "success_rate", "mean_score")
        figures.append([[row[name] for name in judged] for row in told["results"]])
    assert records(tmp_path / "shared") == records(tmp_path / "alone")
    assert sum(shard_counts(tmp_path / "shared")) == 6
    assert figures[0] == figures[1]


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("127.0.0.1:1", "no Ray cluster answers at '127.0.0.1:1'"),
        ("ray://head:10001", "is neither auto, local nor HOST:PORT of a head"),
    ],
)
def test_an_address_without_a_cluster_ends_the_command_with_2(
    tmp_path, monkeypatch, capsys, address, told
) -> None:
    module = SimpleNamespace(is_initialized=lambda: False)
    monkeypatch.setattr(cluster, "import_ray", lambda: module)
    flags = ["--env", "maze", "--policy", "expert", "--out", str(tmp_path / "run")]
    assert sample.main([*flags, "--ray", address]) == 2
    assert told in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run").exists()
