"""The live backend, against a local server that answers as the film database does."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

import pytest

from env_servers.environments.movie import Movie
from env_servers.environments.movie.backends import KEY_VARIABLE, embedded_service
from env_servers.sdk import EnvironmentConfig, EnvironmentUnavailable, Execution, ResetOptions
from env_servers.toolkit.tool_calls import ServiceUnavailable, ToolTaskSet


class FilmDatabase(ThreadingHTTPServer):
    """Answers from the invented catalogue; can be told to fail."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 200
        self.delay = 0.0
        self.body: str | None = None
        self.asked: list[tuple[str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/3"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, FilmDatabase)
        server.asked.append((self.path, self.headers.get("Authorization")))
        time.sleep(server.delay)
        parts = urlsplit(self.path)
        reply = embedded_service().get(parts.path.removeprefix("/3"), dict(parse_qsl(parts.query)))
        status = reply.status if server.status == 200 else server.status
        text = reply.body if isinstance(reply.body, str) else json.dumps(reply.body)
        data = (text if server.body is None else server.body).encode()
        self.send_response(status)
        self.send_header("Retry-After", "7")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Quiet."""


@pytest.fixture
def database() -> Iterator[FilmDatabase]:
    server = FilmDatabase()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def live(database: FilmDatabase, monkeypatch: pytest.MonkeyPatch) -> Iterator[ToolTaskSet]:
    monkeypatch.setenv(KEY_VARIABLE, "token")
    settings = {"movie.backend": "live", "movie.base_url": database.url, "movie.timeout": "0.5"}
    tasks = Movie.load_tasks(EnvironmentConfig(settings=settings))
    yield tasks
    tasks.close()


def begin(tasks: ToolTaskSet, number: int = 30) -> Movie:
    episode = Movie(tasks)
    episode.reset(tasks.get(tasks.item_ids("eval", number, number + 1)[0]), ResetOptions())
    return episode


def test_without_a_key_the_missing_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    with pytest.raises(EnvironmentUnavailable, match="set the environment variable MOVIE_KEY"):
        Movie.load_tasks(EnvironmentConfig(settings={"movie.backend": "live"}))


def test_a_live_environment_waits_in_threads_and_promises_no_determinism() -> None:
    spec = Movie.configured(EnvironmentConfig(settings={"movie.backend": "live"})).spec
    assert (spec.execution, spec.deterministic) == (Execution.THREAD, False)
    assert Movie.configured(EnvironmentConfig()) is Movie


def test_the_expert_solves_tasks_through_the_service_and_shows_its_key(
    database: FilmDatabase, live: ToolTaskSet
) -> None:
    for number in (0, 15, 17, 18, 26, 35):
        episode = begin(live, number)
        seen = episode.step(episode.advise_expert(0).action)
        while not seen.terminated:
            seen = episode.step(episode.advise_expert(0).action)
        assert seen.reward == 1.0
    assert {key for _, key in database.asked} == {"Bearer token"}
    assert len(database.asked) >= 12


def test_live_and_embedded_show_the_same(database: FilmDatabase, live: ToolTaskSet) -> None:
    embedded = Movie.load_tasks(EnvironmentConfig())
    film = str(embedded_service().catalogue.film_id(77))
    for action in (
        f'Action: get_movie_crew with Action Input: {{"movie_id": "{film}"}}',
        f'Action: get_movie_translation with Action Input: {{"movie_id": {film}}}',
        'Action: get_movie_details with Action Input: {"movie_id": "1/../../account"}',
        'Action: get_search_movie with Action Input: {"movie_name": "& ?/#=% ü"}',
        'Action: get_search_person with Action Input: {"person_name": "qqq"}',
    ):
        assert begin(live).step(action).text == begin(embedded).step(action).text
    assert not any("account" in urlsplit(path).path.split("/") for path, _ in database.asked)


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (401, r"refuses the key \(401\)"),
        (429, "refuses more calls for now .*wait 7 s"),
        (500, "answers with 500"),
        (503, "answers with 503"),
    ],
)
def test_a_service_that_fails_is_no_observation_and_changes_nothing(
    database: FilmDatabase, live: ToolTaskSet, status: int, told: str
) -> None:
    episode = begin(live)
    action = episode.advise_expert(0).action
    database.status = status
    with pytest.raises(ServiceUnavailable, match=told):
        episode.step(action)
    assert episode.advise_expert(0).action == action
    database.status = 200
    assert episode.step(action).text.startswith("Observation: [{'id':")


def test_a_slow_service_a_dead_one_and_one_that_talks_nonsense_are_unavailable(
    database: FilmDatabase, live: ToolTaskSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    episode = begin(live)
    action = episode.advise_expert(0).action
    database.delay = 0.8
    with pytest.raises(ServiceUnavailable, match=r"did not answer within 0\.5 s"):
        episode.step(action)
    database.delay, database.body = 0.0, "<html>"
    with pytest.raises(ServiceUnavailable, match="something else than JSON"):
        episode.step(action)
    settings = {"movie.backend": "live", "movie.base_url": "http://127.0.0.1:9/3"}
    dead = Movie.load_tasks(EnvironmentConfig(settings=settings))
    with pytest.raises(ServiceUnavailable, match="cannot be reached"):
        begin(dead).step(action)
    dead.close()


def test_a_rate_limit_spaces_calls(database: FilmDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "token")
    settings = {
        "movie.backend": "live",
        "movie.base_url": database.url,
        "movie.rate": "2",
        "movie.timeout": "0.3",
    }
    tasks = Movie.load_tasks(EnvironmentConfig(settings=settings))
    episode = begin(tasks)
    for name in ("a", "b"):
        episode.step(f'Action: get_search_person with Action Input: {{"person_name": "{name}"}}')
    with pytest.raises(ServiceUnavailable, match="did not answer within"):
        episode.step('Action: get_search_person with Action Input: {"person_name": "c"}')
    assert len(database.asked) == 2
    tasks.close()


def test_a_waiting_call_can_be_cancelled(database: FilmDatabase, live: ToolTaskSet) -> None:
    episode = begin(live)
    action = episode.advise_expert(0).action
    database.delay = 0.4
    timer = threading.Timer(0.1, episode.cancel)
    timer.start()
    with pytest.raises(ServiceUnavailable, match="cancelled"):
        episode.step(action)
    timer.join()
