"""Clients with tokens of their own reach only their own episodes, and do what they may."""

import pytest

from env_servers.conformance import CHECKS, Target, run_conformance
from env_servers.conformance.harness import Harness
from env_servers.conformance.verdicts import expect_error
from env_servers.server import Security
from env_servers.server.table import EpisodeTable
from tests.kit.secure_server import write_certificates
from tests.kit.servers import serving

TOKENS = """
[alice]
token = "alices"
scopes = ["play"]

[bob]
token = "bobs"
scopes = ["play"]

[monitor]
token = "monitors"
scopes = ["operate"]
"""
OF_CLIENTS = {
    "strangers_are_refused",
    "episodes_are_their_clients",
    "listings_are_their_clients",
    "scopes_are_kept",
    "pictures_are_their_clients",
}


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "tokens.toml"
    path.write_text(TOKENS)
    return path


async def check(token_file, how="inline", token="alices"):
    security = Security(token="everything", token_file=token_file)
    async with serving(how, security=security) as server:
        target = Target(
            address=server.addresses[0],
            token=token,
            other_token="bobs",
            operator_token="monitors",
        )
        checks = [(rule, check) for rule, check in CHECKS if check.__name__ in OF_CLIENTS]
        return await run_conformance(target, checks=checks)


@pytest.mark.parametrize("how", ["inline", "thread"])
async def test_clients_are_kept_apart(token_file, how):
    report = await check(token_file, how)
    assert {result.name for result in report.results if result.passed} == OF_CLIENTS, report


async def test_the_token_for_everything_has_episodes_of_its_own(token_file):
    report = await check(token_file, token="everything")
    assert report.passed


async def test_certificates_tell_clients_apart(tmp_path):
    folder = write_certificates(tmp_path, "another")
    security = Security(
        tls_cert=folder / "server.pem", tls_key=folder / "server.key", client_ca=folder / "ca.pem"
    )
    async with serving(security=security, bind=("localhost:0",)) as server:
        targets = [
            Target(
                address=server.addresses[0],
                ca=folder / "ca.pem",
                cert=folder / f"{name}.pem",
                key=folder / f"{name}.key",
            )
            for name in ("client", "another")
        ]
        async with Harness(targets[0]) as one, Harness(targets[1]) as other, one.cleanup():
            play = await one.play()
            assert await one.summary(play.episode_id) is not None
            assert await other.summary(play.episode_id) is None
            async with other.cleanup():
                stranger = await other.open_stream()
                event = await stranger.ask(play.command(1, action="mine now"))
                expect_error(event, "EPISODE_NOT_FOUND")


async def test_a_server_that_asks_nobody_who_he_is_is_caught(token_file, monkeypatch):
    monkeypatch.setattr(
        EpisodeTable, "own", lambda self, episode_id, _owner: self.episodes.get(episode_id)
    )
    report = await check(token_file)
    failed = {result.name for result in report.results if result.failure}
    assert failed == {"episodes_are_their_clients", "pictures_are_their_clients"}
