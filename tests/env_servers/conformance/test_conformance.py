"""Our own server conforms, however it executes; and the suite would notice if it did not."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2
from env_servers.conformance import (
    CHECKS,
    Target,
    check_server,
    print_report,
    run_conformance,
)
from env_servers.sdk import SdkError
from env_servers.server.episode import Episode, StepDecision
from env_servers.server.errors import REASONS
from env_servers.server.stream import Stream
from tests.kit.servers import serving

ONLY_WITH_TOKENS = {
    "strangers_are_refused",
    "episodes_are_their_clients",
    "listings_are_their_clients",
    "scopes_are_kept",
    "pictures_are_their_clients",
}
ONLY_WITHOUT_VIEWS = {"lacking_views_are_said"}
ONLY_WITH_LOW_LIMITS = {
    "long_journals_end_their_episode_alone",
    "unused_episodes_end_and_say_why",
    "others_leave_a_client_its_share",
}
PROTOCOL = Path(__file__).parents[3] / "docs" / "protocol.md"


def failures(report):
    return "\n".join(f"{r.name}: {r.failure}" for r in report.results if r.failure)


async def conformance_of(how, *names, **options):
    async with serving(how, limits={"max_in_flight": 16}, **options) as server:
        checks = [(r, c) for r, c in CHECKS if not names or c.__name__ in names]
        report = await run_conformance(Target(address=server.addresses[0]), checks=checks)
        assert not server.table.episodes, "a check left an episode behind"
        assert server.table.admission.live.total() == 0
        return report


@pytest.mark.parametrize("how", ["thread", "process"])
async def test_a_server_that_executes_elsewhere_conforms(how):
    report = await conformance_of(how)
    assert report.passed, failures(report)
    skipped = {r.name for r in report.results if r.skipped}
    assert skipped == ONLY_WITH_TOKENS | ONLY_WITH_LOW_LIMITS | ONLY_WITHOUT_VIEWS
    assert report.exit_status == 0


async def test_a_server_that_executes_inline_conforms():
    report = await conformance_of("inline")
    assert report.passed, failures(report)
    expected = ONLY_WITH_TOKENS | ONLY_WITH_LOW_LIMITS | ONLY_WITHOUT_VIEWS
    skipped = [r for r in report.results if r.skipped and r.name not in expected]
    assert all("inline" in result.skipped for result in skipped)


async def test_a_server_with_low_limits_conforms():
    limits = {"max_journal_bytes": 1 << 20, "idle_limit": 1.0, "max_episodes": 8}
    checks = [(r, c) for r, c in CHECKS if c.__name__ in ONLY_WITH_LOW_LIMITS]
    async with serving(limits=limits) as server:
        report = await run_conformance(Target(address=server.addresses[0]), checks=checks)
    assert report.passed, failures(report)
    assert all(result.passed for result in report.results)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["maze", "textcraft", "wordle"])
async def test_other_environments_conform(name):
    pytest.importorskip(f"env_servers.environments.{name}")
    async with serving(environments=(name,), execution={}) as server:
        report = await run_conformance(Target(address=server.addresses[0], environment=name))
    assert report.passed, failures(report)
    assert sum(result.passed for result in report.results) > 40


async def test_a_server_that_executes_repeated_steps_is_caught(monkeypatch):
    monkeypatch.setattr(Episode, "decide", lambda *_: StepDecision.EXECUTE)
    names = ("same_command_same_event", "other_body_conflicts", "gaps_are_refused")
    report = await conformance_of("thread", *names)
    assert {r.name for r in report.results if r.failure} == set(names)
    assert report.exit_status == 1


async def test_a_server_that_forgets_answers_is_caught(monkeypatch):
    monkeypatch.setattr(Episode, "missed", lambda *_: [])
    report = await conformance_of("inline", "attach_replays_what_was_missed")
    assert not report.passed


async def test_a_server_that_loses_episodes_with_streams_is_caught(monkeypatch):
    lose = Stream.close

    def close(stream):
        lose(stream)
        for episode in server_episodes():
            episode.touch(-1e9)

    def server_episodes():
        return list(running[0].table.episodes.values())

    async with serving() as server:
        running = [server]
        monkeypatch.setattr(Stream, "close", close)
        checks = [(r, c) for r, c in CHECKS if c.__name__ == "leases_run_out"]
        report = await run_conformance(Target(address=server.addresses[0]), checks=checks)
    assert "long lease" in report.results[0].failure


async def test_the_report_names_every_rule():
    report = await conformance_of("inline", "credits_come_first", "strangers_are_refused")
    out = io.StringIO()
    print_report(report, Console(file=out, width=120))
    assert "R1" in out.getvalue()
    assert "1 passed, 0 failed, 1 skipped" in out.getvalue()


def test_every_check_tests_a_rule_that_is_written_down():
    written = set(re.findall(r"^\*\*(R\d+)\b", PROTOCOL.read_text(), re.MULTILINE))
    assert {rule for rule, _ in CHECKS} <= written
    names = [check.__name__ for _, check in CHECKS]
    assert len(set(names)) == len(names)
    assert all(check.__doc__ for _, check in CHECKS)


def test_the_table_of_errors_is_that_of_the_server():
    rows = {
        cells[0]: cells[1:4]
        for line in PROTOCOL.read_text().splitlines()
        if (cells := [cell.strip() for cell in line.split("|")[1:-1]])
        and f"ERROR_REASON_{cells[0]}" in pb.ErrorReason.keys()  # noqa: SIM118
    }
    for number in pb.ErrorReason.values():
        if number == pb.ERROR_REASON_UNSPECIFIED:
            continue
        rule = REASONS[number]
        fault = types_pb2.Fault.Name(rule.fault).removeprefix("FAULT_")
        name = pb.ErrorReason.Name(number).removeprefix("ERROR_REASON_")
        assert rows[name] == [rule.code.name, fault, "yes" if rule.retriable else "no"]


def test_the_command_checks_a_server_and_says_when_there_is_none(
    server_process,
    capsys,
):
    server = server_process(environments=["echo"], limits={"max_in_flight": 16})
    assert check_server(server.address) == 0
    assert "the server conforms" in capsys.readouterr().out
    with pytest.raises(SdkError, match="nosuch"):
        check_server(server.address, "nosuch")
