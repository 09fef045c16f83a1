"""Where workers die and connections break, the interval that is shown holds the clean score."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from env_servers.sdk import Execution
from tests.abuse.test_bad_values import sample
from tests.kit.proxy import Faults, FaultyProxy
from tests.kit.servers import serving

CLEAN_SCORE = 0.5
EPISODES = 60


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_the_interval_holds_the_clean_score_and_the_report_says_what_was_retried(
    seed: int, tmp_path: Path
) -> None:
    items = ",".join(f"echo_{1_000_000 + number}" for number in range(EPISODES))
    faults = Faults(reset_every=0.5, stall_every=0.0, orphan_every=0.0)
    module = "tests.abuse.long_or_short"
    async with (
        serving(environments=(module,), execution={"long_or_short": Execution.PROCESS}) as server,
        FaultyProxy(server.addresses[0], faults, random.Random(seed)) as proxy,
    ):
        status, printed = await sample(
            *("--env", "long_or_short", "--policy", "expert", "--items", items, "--json"),
            *("--servers", proxy.address, "--concurrency", "4", "--seed", str(seed)),
            *("--out", tmp_path / "run", "--retry.first-delay", "0.05"),
            *("--retry.budget", "6", "--retry.refill", "0"),
        )
    assert "\n{\n" in printed, printed
    report = json.loads(printed[printed.index("\n{\n") :])
    failed_attempts = report["retried_attempts"] + report["given_up"]
    assert failed_attempts >= 3, printed
    (row,) = report["results"]
    low, high = row["success_interval"]
    assert low < CLEAN_SCORE < high
    assert (row["planned"], row["judged"] + row["missing"]) == (EPISODES, EPISODES)
    assert report["agentgym_complete"] is (status == 0)
    assert f"{report['retried_attempts']} failed attempts were played again" in printed
    if report["given_up"]:
        low, high = row["success_bounds"]
        assert low <= CLEAN_SCORE <= high
        assert "the retry budget of the run was used up" in printed
