"""Rules, dashboard and autoscaling name only what a real server's exposition has."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.deploy.manifests import DEPLOY, KUBERNETES, read, yaml
from tests.kit.servers import serving

MONITORING = DEPLOY / "monitoring"
NAME = re.compile(r"(?<![:\w])agentgym_\w+")
RECORDED = re.compile(r"\bfleet:\w+:\w+")
SELECTED = re.compile(r"(agentgym_\w+)\{([^}]*)\}")
GIVEN = {"fleet", "namespace", "pod"}
"""Labels that come with the scrape."""


def rules() -> dict[str, Any]:
    return read(MONITORING / "rules.yaml")[0]["spec"]


def rule_list() -> list[dict[str, Any]]:
    return [rule for group in rules()["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    return json.loads((MONITORING / "dashboard.json").read_text())


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in rule_list())
    for panel in dashboard()["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    yield from (it.get("query", "") for it in dashboard()["templating"]["list"])
    (adapted,) = read(MONITORING / "adapter.yaml")[0]["rules"]["custom"]
    yield from (adapted["seriesQuery"], adapted["metricsQuery"], adapted["name"]["as"])
    (scaler,) = read(KUBERNETES / "base" / "horizontalpodautoscaler.yaml")
    yield from (it["pods"]["metric"]["name"] for it in scaler["spec"]["metrics"])


async def exposition() -> dict[str, set[str]]:
    """Labels of each series of a real server, by its name."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    async with serving() as server:
        server.metrics.latency.labels("echo").observe(0.1)
        text = generate_latest(server.metrics.registry).decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] |= sample.labels.keys()
    return found


async def test_every_metric_and_label_that_is_asked_for_is_in_a_servers_exposition() -> None:
    told = await exposition()
    asked = {name for text in expressions() for name in NAME.findall(text)}
    assert len(asked) > 10
    assert asked - told.keys() == set()
    for text in expressions():
        for name, selector in SELECTED.findall(text):
            labels = set(re.findall(r"(\w+)\s*[!=]~?\s*\"", selector))
            assert labels <= told[name] | GIVEN, text


def test_every_recorded_series_that_is_used_is_recorded() -> None:
    recorded = {rule["record"] for rule in rule_list() if "record" in rule}
    used = {name for text in expressions() for name in RECORDED.findall(text)}
    assert used == recorded


def test_every_alert_has_a_severity_and_a_sentence() -> None:
    alerts = [rule for rule in rule_list() if "alert" in rule]
    assert all(it["labels"]["severity"] in ("critical", "warning", "info") for it in alerts)
    assert all(it["annotations"]["summary"].endswith(".") for it in alerts)
    assert len({it["alert"] for it in alerts}) == len(alerts)


def test_the_dashboards_panels_have_numbers_of_their_own_and_do_not_overlap() -> None:
    panels = dashboard()["panels"]
    assert len({it["id"] for it in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (place["x"] + across, place["y"] + down)
            for across in range(place["w"])
            for down in range(place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken
        taken |= cells


def test_prometheus_own_tool_takes_the_rules_and_they_fire_when_they_should(
    tmp_path: Path,
) -> None:
    if not shutil.which("promtool"):
        pytest.skip("promtool is not installed")
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(rules()))
    shutil.copy(MONITORING / "rules_test.yaml", tmp_path)
    for command in (["check", "rules", "rules.yml"], ["test", "rules", "rules_test.yaml"]):
        done = subprocess.run(["promtool", *command], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
