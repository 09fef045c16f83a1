"""Our own server conforms, however it executes; and the suite would notice if it did not."""

import dataclasses
import io
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import grpc
import pytest
from rich.console import Console

from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2
from env_servers.conformance import (
    CHECKS,
    CheckResult,
    ConformanceReport,
    Target,
    as_json,
    as_junit,
    check_server,
    print_report,
    run_conformance,
    select_checks,
)
from env_servers.error_reasons import REASONS
from env_servers.sdk import SdkError
from env_servers.server import errors
from env_servers.server.episode import Episode, StepDecision
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
    "full_servers_refuse_resets_alone",
}
ONLY_WITH_A_DRAIN_COMMAND = {"draining_servers_finish_what_is_open"}
SKIPPED = ONLY_WITH_TOKENS | ONLY_WITH_LOW_LIMITS | ONLY_WITHOUT_VIEWS | ONLY_WITH_A_DRAIN_COMMAND
UNCHECKED = {"R56"}
"""A bound of the server's memory: what would be sent to meet it is nobody's idea of a check."""
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
    assert skipped == SKIPPED
    assert report.exit_status == 0


async def test_a_server_that_executes_inline_conforms():
    report = await conformance_of("inline")
    assert report.passed, failures(report)
    skipped = [r for r in report.results if r.skipped and r.name not in SKIPPED]
    assert all("--execution echo=process" in result.skipped for result in skipped)


async def test_a_server_with_low_limits_conforms():
    limits = {"max_journal_bytes": 1 << 20, "idle_limit": 1.0, "max_episodes": 8}
    checks = [(r, c) for r, c in CHECKS if c.__name__ in ONLY_WITH_LOW_LIMITS]
    async with serving(limits=limits) as server:
        report = await run_conformance(Target(address=server.addresses[0]), checks=checks)
    assert report.passed, failures(report)
    assert all(result.passed for result in report.results)


async def test_a_server_with_a_limit_for_each_client_conforms():
    async with serving("thread", limits={"max_episodes_per_client": 4}) as server:
        checks = select_checks(["R34", "R49"])
        report = await run_conformance(Target(address=server.addresses[0]), checks=checks)
    assert report.passed, failures(report)
    assert [r.check_id for r in report.results if r.skipped] == ["R34.1"]


async def test_a_server_that_refuses_steps_when_it_is_full_is_caught(monkeypatch):
    async with serving("thread", limits={"max_episodes": 4}) as server:
        decide = Episode.decide

        def decide_by_room(episode, *arguments):
            if server.table.admission.live.total() >= 4:
                raise errors.capacity_exhausted("no room for a step")
            return decide(episode, *arguments)

        monkeypatch.setattr(Episode, "decide", decide_by_room)
        target = Target(address=server.addresses[0])
        report = await run_conformance(target, checks=select_checks(["R49"]))
    assert "error instead of an observation" in report.results[0].failure


async def test_draining_is_checked_where_a_command_does_it(server_process):
    server = server_process(drain_seconds=20.0)
    target = Target(address=server.address, drain_command=f"kill -TERM {server.process.pid}")
    report = await run_conformance(target, checks=select_checks(["R48"]))
    assert report.results[0].passed, report.results[0]
    assert server.wait() == 0


async def test_a_server_that_does_not_drain_is_caught():
    async with serving() as server:
        target = Target(address=server.addresses[0], drain_command="true", timeout=0.3)
        report = await run_conformance(target, checks=select_checks(["R48"]))
    assert "still SERVING" in report.results[0].failure


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ({"code": grpc.StatusCode.UNKNOWN}, "code of"),
        ({"fault": types_pb2.FAULT_POLICY}, "metadata fault of"),
        ({"retriable": True}, "metadata retriable of"),
    ],
)
async def test_an_error_that_is_not_as_its_reason_is_caught(monkeypatch, rule, complaint):
    wrong = {
        reason: dataclasses.replace(it, **(rule if reason == pb.ERROR_REASON_SEQ_GAP else {}))
        for reason, it in REASONS.items()
    }
    monkeypatch.setattr(errors, "REASONS", wrong)
    report = await conformance_of("inline", "errors_are_those_of_their_reason")
    assert f"{complaint} SEQ_GAP" in report.results[0].failure


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
    print_report(report, Console(file=out, width=80))
    text = out.getvalue()
    assert "R1.1" in text
    assert "skipped R47.1: the server asks for no token" in text
    assert "1 passed, 0 failed, 1 skipped" in text
    assert max(map(len, text.splitlines())) <= 80


async def test_the_report_is_for_programs_too():
    results = (
        CheckResult("R1.1", "first", "It holds.", seconds=0.5),
        CheckResult("R1.2", "second", "It breaks.", failure="a \x00 & <b>"),
        CheckResult("R2.1", "third", "It is not made.", skipped="no token"),
    )
    report = ConformanceReport(Target(address="here:1"), "9.9", results)
    data = json.loads(as_json(report))
    assert (data["conforms"], data["passed"], data["failed"], data["skipped"]) == (False, 1, 1, 1)
    assert [(it["id"], it["verdict"]) for it in data["checks"]] == [
        ("R1.1", "passed"),
        ("R1.2", "failed"),
        ("R2.1", "skipped"),
    ]
    (suite,) = ElementTree.fromstring(as_junit(report))
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    passed, failed, skipped = suite
    assert (passed.get("classname"), passed.get("name"), len(passed)) == ("R1", "R1.1 first", 0)
    assert failed.find("failure").get("message") == "a \ufffd & <b>"
    assert skipped.find("skipped").get("message") == "no token"


def test_every_check_tests_a_rule_that_is_written_down():
    written = set(re.findall(r"^\*\*(R\d+)\b", PROTOCOL.read_text(), re.MULTILINE))
    rules = {check_id.partition(".")[0] for check_id, _ in CHECKS}
    assert rules <= written
    assert written - rules == UNCHECKED
    assert all(check.__doc__ for _, check in CHECKS)


def test_the_ids_of_checks_stay():
    """An id that others may have written down means the same check for good."""
    lines = (Path(__file__).parent / "check_ids.txt").read_text().splitlines()
    assert [f"{check_id} {check.__name__}" for check_id, check in CHECKS] == lines
    ids = [check_id for check_id, _ in CHECKS]
    assert len(set(ids)) == len(ids)


def test_checks_are_chosen_by_id_and_by_rule():
    chosen = [check_id for check_id, _ in select_checks(["R3.2", "R41"])]
    assert chosen == ["R3.2", "R41.1", "R41.2"]
    assert select_checks([]) == CHECKS
    with pytest.raises(SdkError, match=r"R99, nonsense"):
        select_checks(["R1", "nonsense", "R99"])


def test_the_table_of_errors_is_that_of_the_server():
    rows = {
        cells[0]: cells[1:5]
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
        code, written_fault, retriable, details = rows[name]
        assert code == rule.code.name
        assert written_fault == fault
        assert retriable == ("yes" if rule.retriable else "no")
        assert all(f"`{key}`" in details for key in rule.metadata), name
        assert ("RetryInfo" in details) == rule.retry_info, name


def test_the_command_checks_a_server_and_says_when_there_is_none(server_process, capsys, tmp_path):
    server = server_process(environments=["echo"], limits={"max_in_flight": 16})
    junit, report = tmp_path / "junit.xml", tmp_path / "report.json"
    assert check_server(server.address, junit=junit, json=report) == 0
    assert "the server conforms" in capsys.readouterr().out
    assert json.loads(report.read_text())["failed"] == 0
    assert ElementTree.parse(junit).getroot()[0].get("failures") == "0"
    with pytest.raises(SdkError, match="cannot be written"):
        check_server(server.address, checks=["R1"], json=tmp_path)
    with pytest.raises(SdkError, match="nosuch"):
        check_server(server.address, "nosuch")
