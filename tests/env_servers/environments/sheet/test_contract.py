"""Sheet keeps what the SDK and the tool layer promise."""

from __future__ import annotations

from env_servers.sdk.contract import EnvironmentContract
from env_servers.toolkit.tool_calls.hostile import HostileInputContract


class TestSheet(EnvironmentContract):
    environment_name = "sheet"


class TestHostileInput(HostileInputContract):
    environment_name = "sheet"
    more_values = {
        "path of a sheet": "../Answer1",
        "sheet of another book": "'[other.xlsx]Sheet1'!A1",
        "null sheet": "Sheet1\0",
        "huge address": "ZZZ9999999",
        "row zero": "A0",
        "whole column": "A:A",
        "remote formula": '=IMPORTDATA("http://localhost/")',
        "hyperlink": '=HYPERLINK("http://localhost/?x="&A1,"x")',
        "command with plus": "+cmd|'/C calc'!A0",
        "command with at": "@SUM(1+1)*cmd|'/C calc'!A0",
        "slow expression": "re.compile('(a+)+$')",
        "unclosed expression": "re.compile('(')",
        "no expression": "re.compile(__import__('os'))",
        "deep expression": "re.compile('" + "(" * 400 + "')",
        "wide expression": "re.compile('((a{500}){500}){500}')",
        "text of a list": "[[1, 2], [3, 4]]",
        "text of code": "[__import__('os').abort()]",
        "many rows": list(range(1, 2000)),
        "many cells": [["x" * 100] * 100] * 100,
        "exponent": "1e308",
        "not a number": "nan",
    }
