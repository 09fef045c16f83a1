"""Suites: named choices of environments with settings, each a TOML file.

    suite.py    what a suite file may say, and how one is found and read
    *.toml      the suites of this package

A user's own suite is a file like these, named by its path.
"""

from orchestrator.suites.suite import (
    DEMO_SUITE,
    Suite,
    SuiteEnvironment,
    SuiteMetric,
    load_suite,
    suite_names,
)

__all__ = [
    "DEMO_SUITE",
    "Suite",
    "SuiteEnvironment",
    "SuiteMetric",
    "load_suite",
    "suite_names",
]
