"""`python -m env_servers gateway`: what is refused, and one that starts, answers and ends."""

import signal
import subprocess
import sys
import time
import urllib.request

import pytest

from env_servers.__main__ import main


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("agentgym",), "name at least one environment"),
        (("agentgym", "maze", "--host", "0.0.0.0"), "choose a token"),
        (("rest", "maze", "--host", "0.0.0.0", "--token", "short"), "at least 16 characters"),
        (("rest", "maze", "--host", "no.such.host.invalid"), "no address of this machine"),
        (("rest", "maze", "--port", "70000"), "--port 70000"),
        (("rest", "maze", "--idle-minutes", "0"), "--idle-minutes"),
    ],
)
def test_what_cannot_be_served_safely_is_refused(argv, said, capsys, monkeypatch):
    monkeypatch.delenv("AGENTGYM_GATEWAY_TOKEN", raising=False)
    assert main(["gateway", *argv]) == 2
    assert said in capsys.readouterr().err


def test_a_gateway_starts_its_servers_answers_and_ends_with_them(tmp_path):
    address = tmp_path / "address"
    command = [sys.executable, "-m", "env_servers", "gateway", "rest", "maze"]
    command += ["--port", "0", "--address-file", str(address)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            deadline = time.monotonic() + 60
            while not address.exists():
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.02)
            base = address.read_text().strip()
            with urllib.request.urlopen(f"{base}/v1/environments/maze") as answer:
                assert b'"name":"maze"' in answer.read()
        finally:
            process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=30)
    assert process.returncode == 143
    assert "Traceback" not in said.decode()


def test_every_setting_reaches_the_servers(capsys):
    settings = ("weather.nonsense=1", "weather.timeout=9")
    assert main(["gateway", "rest", "weather", "--port", "0", "--set", *settings]) == 2
    assert "unknown setting 'nonsense'" in capsys.readouterr().err


def test_agentgym_has_no_echo(capsys, server_process):
    server = server_process(environments=["echo"])
    assert main(["gateway", "agentgym", "--target", server.address, "--port", "0"]) == 2
    assert "AgentGym has no environment 'echo'" in capsys.readouterr().err
