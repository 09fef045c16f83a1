"""Sheet on (fake) Google Sheets: safe, and as good as the workbook in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("gspread")
pytest.importorskip("cryptography")

from env_servers.environments.sheet import SheetWork
from env_servers.environments.sheet.generator import KINDS
from env_servers.sdk import (
    EnvironmentConfig,
    EnvironmentUnavailable,
    Execution,
    Observation,
    ResetOptions,
)
from env_servers.toolkit.tool_calls import ServiceUnavailable
from tests.env_servers.environments.sheet.fake_google import FakeGoogle, serving

Make = Callable[..., SheetWork]


@pytest.fixture(scope="module")
def private_key() -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


@pytest.fixture
def fake() -> FakeGoogle:
    return FakeGoogle()


@pytest.fixture
def live(
    fake: FakeGoogle, private_key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Make]:
    """Makes environments on the fake, with further settings."""
    made: list[SheetWork] = []
    with serving(fake) as url:
        key = {
            "type": "service_account",
            "client_email": "agent@example.org",
            "private_key": private_key,
            "token_uri": f"{url}/token",
        }
        (tmp_path / "key.json").write_text(json.dumps(key))
        monkeypatch.setenv("SHEET_CREDENTIALS", str(tmp_path / "key.json"))

        def make(**settings: str) -> SheetWork:
            named = {"backend": "live", "base_url": url, "calls_per_minute": "600000", **settings}
            config = EnvironmentConfig(settings={f"sheet.{k}": v for k, v in named.items()})
            found = SheetWork.configured(config)
            assert issubclass(found, SheetWork)
            made.append(found(found.load_tasks(config)))
            return made[-1]

        yield make
        for environment in made:
            environment.close()
            environment.tasks.close()


def begin(environment: SheetWork, index: int) -> Observation:
    item = environment.tasks.item_ids("train", index, index + 1)[0]
    return environment.reset(environment.tasks.get(item), ResetOptions())


@pytest.mark.parametrize("index", range(0, len(KINDS), 3))
def test_the_expert_does_on_live_sheets_what_it_does_in_memory(live: Make, index: int) -> None:
    environment = live()
    begin(environment, index)
    memory = SheetWork.load_tasks(EnvironmentConfig())
    other = SheetWork(memory)
    other.reset(memory.get(memory.item_ids("train", index, index + 1)[0]), ResetOptions())
    for _ in range(environment.spec.max_rounds):
        action = environment.advise_expert(0).action
        seen = environment.step(action)
        assert seen == other.step(action)
        if seen.terminated:
            break
    assert (seen.reward, seen.terminated) == (1.0, True)


def test_an_episode_makes_one_spreadsheet_and_deletes_no_other(
    live: Make, fake: FakeGoogle
) -> None:
    environment = live()
    begin(environment, 0)
    assert set(fake.files) == {"precious", "file-1"}
    begin(environment, 1)
    assert set(fake.files) == {"precious", "file-2"}
    environment.close()
    assert set(fake.files) == {"precious"}
    assert fake.tokens == 1
    assert fake.keys == {"Bearer t"}


def test_a_missing_or_wrong_key_is_named(
    live: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SHEET_CREDENTIALS")
    with pytest.raises(EnvironmentUnavailable, match="SHEET_CREDENTIALS"):
        live()
    for name, text in (("none.json", None), ("empty.json", "{}"), ("text.json", "hello")):
        if text is not None:
            (tmp_path / name).write_text(text)
        monkeypatch.setenv("SHEET_CREDENTIALS", str(tmp_path / name))
        with pytest.raises(EnvironmentUnavailable, match=f"SHEET_CREDENTIALS names .*{name}"):
            live()


@pytest.mark.parametrize("status", [403, 404, 429, 500, 503])
def test_a_service_that_refuses_is_a_fault_of_infrastructure_and_changes_nothing(
    live: Make, fake: FakeGoogle, status: int
) -> None:
    environment = live()
    begin(environment, 1)
    action = environment.advise_expert(0).action
    fake.failing = [status]
    with pytest.raises(ServiceUnavailable, match=f"Google Sheets answers with {status}"):
        environment.step(action)
    assert "successfully" in environment.step(action).text


def test_a_request_that_google_finds_wrong_is_shown_to_the_agent(
    live: Make, fake: FakeGoogle
) -> None:
    environment = live()
    begin(environment, 1)
    environment.step(environment.advise_expert(0).action)
    before = environment.step("Action: get_all_values with Action Input: {}").text
    fake.failing = [400]
    seen = environment.step("Action: update_cell with Action Input: {'position': 'A1', 'value': 1}")
    assert seen.text.startswith("Observation: CellError('APIError: [400]")
    assert environment.step("Action: get_all_values with Action Input: {}").text == before


def test_a_failed_reset_leaves_nothing_behind(
    live: Make, fake: FakeGoogle, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = fake.answer_drive

    def create_and_fail_next(method: str, path: str) -> object:
        if method == "POST":
            # The spreadsheet is looked at once it exists; then it is filled.
            fake.failing_later = [200, 503]
        return original(method, path)

    monkeypatch.setattr(fake, "answer_drive", create_and_fail_next)
    with pytest.raises(ServiceUnavailable):
        begin(live(), 1)
    assert set(fake.files) == {"precious"}


def test_live_episodes_run_in_threads_and_promise_no_determinism(live: Make) -> None:
    spec = live().spec
    assert spec.execution is Execution.THREAD
    assert not spec.deterministic
    assert SheetWork.spec.execution is Execution.INLINE
