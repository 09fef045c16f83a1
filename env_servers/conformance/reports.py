"""A conformance report for programs: JSON, and JUnit's XML, which every CI service reads."""

from __future__ import annotations

import re
from typing import Final
from xml.etree import ElementTree

import orjson

from env_servers.conformance.suite import CheckResult, ConformanceReport

__all__ = ["as_json", "as_junit"]

_NO_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, which a server's messages may."""


def as_json(report: ConformanceReport) -> str:
    """Return the report as JSON: address, environment, counts, and each check by its id."""
    data = {
        "address": report.target.address,
        "environment": report.target.environment,
        "server_version": report.server_version,
        "conforms": report.passed,
        **{verdict: report.count(verdict) for verdict in ("passed", "failed", "skipped")},
        "checks": [
            {
                "id": result.check_id,
                "rule": result.rule,
                "name": result.name,
                "description": result.description,
                "verdict": result.verdict,
                "message": result.failure or result.skipped,
                "seconds": round(result.seconds, 3),
            }
            for result in report.results
        ],
    }
    return orjson.dumps(data, option=orjson.OPT_INDENT_2).decode() + "\n"


def as_junit(report: ConformanceReport) -> str:
    """Return the report as one JUnit test suite, with a test case for each check."""
    suite = ElementTree.Element(
        "testsuite",
        name=_clean(f"conformance of {report.target.environment}"),
        tests=str(len(report.results)),
        failures=str(report.count("failed")),
        errors="0",
        skipped=str(report.count("skipped")),
        time=f"{sum(result.seconds for result in report.results):.3f}",
    )
    for result in report.results:
        _add_case(suite, result)
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return ElementTree.tostring(root, "unicode", xml_declaration=True) + "\n"


def _add_case(suite: ElementTree.Element, result: CheckResult) -> None:
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=result.rule,
        name=f"{result.check_id} {result.name}",
        time=f"{result.seconds:.3f}",
    )
    if result.failure:
        failure = ElementTree.SubElement(case, "failure", message=_clean(result.failure))
        failure.text = _clean(f"{result.description}\n{result.failure}")
    if result.skipped:
        ElementTree.SubElement(case, "skipped", message=_clean(result.skipped))


def _clean(text: str) -> str:
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)
