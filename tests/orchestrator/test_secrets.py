"""What is secret stays out of manifests, records, logs and messages; a resume asks for it again."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from agent_runtime.endpoint import Endpoint
from agent_runtime.errors import ConnectionMisconfigured, PolicyMisconfigured
from agent_runtime.redaction import REDACTED, redact, redact_arguments, redact_text, remember
from orchestrator import sample
from orchestrator.client import ClientConfig, connection_options
from orchestrator.fleet import Fleet, FleetConfig
from orchestrator.store import RunReader

SECRET = "hunter2-is-secret"


@pytest.fixture
def failing_model() -> Iterator[int]:
    """The port of a model server that refuses everybody and repeats what it was shown."""
    loop = asyncio.new_event_loop()

    async def refuse(request: web.Request) -> web.Response:
        shown = request.headers.get("Authorization", "")
        return web.json_response({"error": {"message": f"not {shown} {SECRET}"}}, status=401)

    async def start() -> int:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", refuse)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return runner.addresses[0][1]

    port = loop.run_until_complete(start())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield port
    loop.call_soon_threadsafe(loop.stop)
    thread.join()


def everything_in(run: Path) -> bytes:
    """All bytes of a run's files, its records decompressed."""
    files = [path.read_bytes() for path in run.rglob("*") if path.is_file()]
    with RunReader.open(run) as reader:
        records = [episode.SerializeToString() for episode in reader.episodes(superseded=True)]
        records += [episode.SerializeToString() for episode in reader.episodes()]
    assert records
    return b"".join([*files, *records])


def test_secrets_given_to_servers_are_not_written_and_asked_for_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    flags = ["--env", "maze", "--policy", "expert", "--episodes", "1", "--spawn", "1"]
    secret = ["--server-options=--set", f"maze.api_key={SECRET}"]
    assert sample.main([*flags, "--out", str(run), *secret]) == 0
    assert SECRET.encode() not in everything_in(run)
    assert f"maze.api_key={REDACTED}".encode() in everything_in(run)
    capsys.readouterr()
    assert sample.main(["--resume", str(run)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "--server-options held a secret" in said and "give it again" in said
    assert sample.main(["--resume", str(run), *secret]) == 0
    assert SECRET.encode() not in everything_in(run)


def test_the_password_of_an_address_is_in_no_manifest_record_or_log(
    tmp_path: Path, failing_model: int, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    flags = ["--env", "echo", "--policy", "openai:m", "--episodes", "1", "--spawn", "1"]
    flags += ["--openai.base-url", f"http://user:{SECRET}@127.0.0.1:{failing_model}/v1"]
    assert sample.main([*flags, "--out", str(run), "--log-level", "info"]) == 1
    assert SECRET.encode() not in everything_in(run)
    encoded = base64.b64encode(f"user:{SECRET}".encode())
    assert encoded not in everything_in(run)
    assert b"not Basic" in everything_in(run), "the server was not shown the password"
    shown = capsys.readouterr()
    assert SECRET not in shown.out + shown.err
    assert sample.main(["--resume", str(run)]) == 2
    assert "--openai.base-url held a secret" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--policy", f"sglang:http://u:{SECRET}@127.0.0.1:1"], "--sglang.api-key-env"),
        (["--policy", "expert", "--options", f'{{"api_key": "{SECRET}"}}'], "--options"),
    ],
)
def test_a_secret_in_what_every_record_holds_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], problem: str
) -> None:
    run = tmp_path / "run"
    assert sample.main(["--env", "echo", "--out", str(run), *flags]) == 2
    said = capsys.readouterr().err
    assert problem in " ".join(said.split()) and SECRET not in said
    assert not run.exists()


def test_a_token_does_not_travel_in_plain_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AGENTGYM_TOKEN", SECRET)
    flags = ["--env", "echo", "--policy", "expert", "--out", str(tmp_path / "run")]
    flags += ["--servers", "192.0.2.1:50051", "--client.connect-deadline", "0.2"]
    assert sample.main(flags) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "plain text" in said and "--client.ca" in said and "--client.insecure" in said
    assert sample.main([*flags, "--client.insecure"]) == 1  # nobody answers there
    assert "192.0.2.1:50051" in capsys.readouterr().err


@pytest.mark.parametrize("given", ["missing.pem", "garbage.pem"])
def test_unfit_tls_files_of_a_client_are_a_sentence(tmp_path: Path, given: str) -> None:
    (tmp_path / "garbage.pem").write_text("no certificate")
    options = connection_options(ClientConfig(ca=tmp_path / given, connect_deadline=0.2))

    async def connect() -> None:
        async with Fleet(["echo"], FleetConfig(servers=("localhost:1",)), options):
            pass

    with pytest.raises(ConnectionMisconfigured, match=r"PEM|missing"):
        asyncio.run(connect())


def test_half_of_a_client_certificate_is_refused(tmp_path: Path) -> None:
    for config in (ClientConfig(cert=tmp_path / "c"), ClientConfig(key=tmp_path / "k")):
        options = connection_options(config)
        with pytest.raises(ConnectionMisconfigured, match=r"--client\.ca"):
            asyncio.run(Fleet(["echo"], FleetConfig(servers=("h:1",)), options).start())


def test_command_lines_are_hidden_however_a_secret_is_given() -> None:
    given = ["--api-key", "one-secret", "--set", "a.token=two-secret", "--set=b.password=three"]
    given += ["--options", '{"api_key": "four"}', "--client.key", "path.pem", "--max-tokens", "5"]
    given += ["http://u:five-secret@h/", "--late", "one-secret"]
    hidden = redact_arguments(given)
    assert hidden == (
        *("--api-key", REDACTED, "--set", f"a.token={REDACTED}"),
        f"--set=b.password={REDACTED}",
        *("--options", f'{{"api_key": "{REDACTED}"}}'),
        *("--client.key", "path.pem", "--max-tokens", "5"),
        *(f"http://u:{REDACTED}@h/", "--late", REDACTED),
    )


def test_a_secret_that_is_known_is_hidden_wherever_it_turns_up() -> None:
    remember("known-secret")
    remember("abc")  # too short to be told from a part of a word
    assert redact_text("was known-secret, abcdef") == f"was {REDACTED}, abcdef"
    assert redact({"a": ["known-secret"], "eos_token": "</s>"}) == {
        "a": [REDACTED],
        "eos_token": "</s>",
    }


def test_an_address_without_its_password_is_what_an_endpoint_shows() -> None:
    endpoint = Endpoint("http://u:p%40ss-word@h:1/v1/", timeout=1)
    assert endpoint.base_url == "http://h:1/v1"
    with pytest.raises(PolicyMisconfigured) as caught:
        Endpoint("ftp://u:another-secret@h", timeout=1)
    assert "another-secret" not in str(caught.value)
