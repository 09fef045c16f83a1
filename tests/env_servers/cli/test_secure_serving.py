"""`serve` refuses settings that protect less than they seem to: one sentence, exit status 2."""

import asyncio
import socket
import stat
import subprocess
import sys

import pytest

from env_servers.server.clients import TokenFileError, read_token_file
from env_servers.server.security import AddressUnavailable
from tests.env_servers.server.conftest import harness_for
from tests.kit.servers import serving


def serve(*arguments, bind="127.0.0.1:0"):
    """Run `serve echo` until it ends by itself."""
    command = [sys.executable, "-m", "env_servers", "serve", "echo", "--bind", bind]
    return subprocess.run(
        [*command, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def refusal(done):
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, done.stderr
    return lines[0]


@pytest.mark.parametrize("flag", ["--tls-key", "--client-ca"])
def test_parts_of_tls_without_a_certificate_are_refused(tmp_path, flag):
    """It once served plain text to everybody, without a word."""
    path = tmp_path / "part.pem"
    path.write_text("anything")
    assert "needs --tls-cert" in refusal(serve(flag, path))


def test_files_that_are_no_certificates_are_named(tmp_path):
    path = tmp_path / "part.pem"
    path.write_text("anything")
    assert "PEM" in refusal(serve("--tls-cert", path, "--tls-key", path))
    missing = tmp_path / "missing.pem"
    assert "missing.pem" in refusal(serve("--tls-cert", missing, "--tls-key", path))


def test_a_bad_token_file_says_which_client_is_wrong(tmp_path):
    path = tmp_path / "tokens.toml"
    assert "tokens.toml" in refusal(serve("--token-file", path))
    path.write_text('[alice]\ntoken = "x"\nscopes = ["fly"]\n')
    assert "[alice]" in (said := refusal(serve("--token-file", path)))
    assert "play, operate" in said


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no tokens"),
        ("[a", "no TOML"),
        ('a = "b"', "needs token and scopes"),
        ('[a]\ntoken = ""\nscopes = ["play"]', "printable"),
        ('[a]\ntoken = "x"\nscopes = "play"', "needs token and scopes"),
        ('[a]\ntoken = "x"\nscopes = []', "some of"),
        ('[a]\ntoken = "x"\nscopes = ["play"]\nfrom = 1', "nothing else"),
        ('[a]\ntoken="x"\nscopes=["play"]\n[b]\ntoken="x"\nscopes=["play"]', "another client"),
    ],
)
def test_what_a_token_file_cannot_mean_is_refused(tmp_path, text, problem):
    path = tmp_path / "tokens.toml"
    path.write_text(text)
    with pytest.raises(TokenFileError, match=problem):
        read_token_file(path)


def test_a_taken_port_is_a_sentence():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert address in refusal(serve(bind=address))


def test_a_taken_port_of_metrics_is_a_sentence():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "metrics" in refusal(serve("--metrics-port", taken.getsockname()[1]))


async def test_a_live_servers_socket_is_not_taken_over(tmp_path):
    address = f"unix:{tmp_path / 'server.sock'}"
    async with serving(bind=(address,)) as server, harness_for(server.addresses[0]) as harness:
        play = await harness.play()
        done = await asyncio.to_thread(serve, bind=address)
        assert "another server" in refusal(done)
        await play.step()


async def test_a_socket_whose_path_is_too_long_is_named_with_what_to_do(tmp_path):
    address = f"unix:{tmp_path}/{'deep' * 30}/socket"
    with pytest.raises(AddressUnavailable, match=r"a socket's at most .* TMPDIR"):
        async with serving(bind=(address,)):
            pass


async def test_a_socket_is_its_owners_alone(tmp_path):
    path = tmp_path / "server.sock"
    async with serving(bind=(f"unix:{path}",)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_killed_servers_socket_is_taken_over(server_process):
    server = server_process()
    server.kill()
    server.start()
    assert server.process.poll() is None
