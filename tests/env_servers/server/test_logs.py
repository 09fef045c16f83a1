"""Logs of servers: lines that a program reads, levels, and events that do not flood."""

import json
import logging

import pytest

from env_servers.server.logs import LogConfig, LogThrottle, configure_logs, get_logger


@pytest.fixture(autouse=True)
def restore_logging():
    """Give the server's loggers back as they were."""
    root = logging.getLogger("env_servers")
    handlers, level, propagate = root.handlers[:], root.level, root.propagate
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    root.propagate = propagate


def test_a_line_is_an_object_with_time_level_and_fields(capsys):
    configure_logs(LogConfig("info", json=True))
    log = get_logger("env_servers.test")
    log.debug("too quiet")
    log.warning("worker died", worker=7, exit_status=-9)
    (line,) = capsys.readouterr().err.splitlines()
    entry = json.loads(line)
    assert entry.pop("timestamp").endswith("Z")
    assert entry == {
        "event": "worker died",
        "worker": 7,
        "exit_status": -9,
        "level": "warning",
        "logger": "env_servers.test",
    }


def test_a_traceback_is_a_field(capsys):
    configure_logs(LogConfig("info", json=True))
    try:
        raise RuntimeError("broken")
    except RuntimeError:
        get_logger("env_servers.test").exception("it failed")
    assert "RuntimeError: broken" in json.loads(capsys.readouterr().err)["exception"]


def test_levels_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="loud"):
        configure_logs(LogConfig("loud"))


def test_a_program_that_configures_nothing_sees_no_info(capsys):
    get_logger("env_servers.quiet").info("serving")
    assert capsys.readouterr().err == ""


def test_an_event_that_repeats_is_let_through_once_per_interval_and_counted():
    now = 0.0
    throttle = LogThrottle(10.0, clock=lambda: now)
    assert throttle.suppressed("full") == 0
    assert [throttle.suppressed("full") for _ in range(3)] == [None] * 3
    assert throttle.suppressed("other") == 0
    now = 10.0
    assert throttle.suppressed("full") == 3
    now = 20.0
    assert throttle.suppressed("full") == 0
