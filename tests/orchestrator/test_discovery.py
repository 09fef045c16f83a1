"""Where servers are listed: addresses, a name, a file; and what is said of lists that are none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from orchestrator.discovery import DnsSource, FileSource, Member, open_source
from orchestrator.errors import FleetError, UsageError
from orchestrator.servers import FleetConfig


async def test_a_file_has_an_address_a_line_or_a_json_list_with_capacities(tmp_path: Path) -> None:
    path = tmp_path / "servers"
    path.write_text("a:1  # the first\n\n# none\nunix:/run/b.sock\n[::1]:3\na:1\n")
    expected = [Member("a:1"), Member("unix:/run/b.sock"), Member("[::1]:3")]
    assert await FileSource(path).read() == expected
    path.write_text(json.dumps(["a:1", {"address": "b:2", "capacity": 7}, {"address": "c:3"}]))
    assert await FileSource(path).read() == [Member("a:1"), Member("b:2", 7), Member("c:3")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "is no JSON"),
        ("host", "'host' is neither HOST:PORT nor unix:PATH"),
        ("host:http", "neither"),
        ("[1]", "1 is neither"),
        ('[{"capacity": 1}]', "None is neither"),
        ('[{"address": "a:1", "weight": 2}]', "no 'weight' .valid: address, capacity"),
        ('[{"address": "a:1", "capacity": true}]', "capacity True is no number"),
        ("\0" * (5 << 20), "more than 4,194,304 bytes"),
    ],
)
async def test_what_is_no_list_of_servers_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "servers"
    path.write_text(text)
    with pytest.raises(UsageError, match=said):
        await FileSource(path).read()


async def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read the servers in .*nowhere"):
        await FileSource(tmp_path / "nowhere").read()


async def test_a_name_stands_for_all_its_addresses_and_their_certificates_for_the_name() -> None:
    async def lookup(host: str, port: int) -> Sequence[str]:
        assert (host, port) == ("environments.example", 50051)
        return ["10.0.0.2", "fd00::2", "10.0.0.1", "10.0.0.2"]

    members = await DnsSource("environments.example:50051", lookup).read()
    assert [it.address for it in members] == ["10.0.0.1:50051", "10.0.0.2:50051", "[fd00::2]:50051"]
    assert {it.tls_name for it in members} == {"environments.example"}


async def test_the_systems_own_names_are_looked_up_and_unknown_ones_are_said() -> None:
    assert "127.0.0.1:9" in [it.address for it in await DnsSource("localhost:9").read()]
    with pytest.raises(FleetError, match=r"cannot look up nowhere\.invalid"):
        await DnsSource("nowhere.invalid:9").read()


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (FleetConfig(servers_dns="name"), "'name' is not NAME:PORT"),
        (FleetConfig(servers_dns=":50051"), "is not NAME:PORT"),
        (FleetConfig(servers=("a:1",), servers_file=Path("f")), "--servers and --servers-file"),
    ],
)
def test_flags_that_name_no_list_or_two_are_refused(config: FleetConfig, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        open_source(config)
