"""A retrieval server on the network: its answers are shown, its failures are nobody's reward."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agentgym.env.v1 import types_pb2
from env_servers.environments.searchqa import SearchQA
from env_servers.environments.searchqa.embedded import EmbeddedSource
from env_servers.environments.searchqa.passages import Passage, as_contents
from env_servers.environments.searchqa.ranking import RankedCorpus
from env_servers.environments.searchqa.remote import MAX_QUERY_CHARS, RemoteRetriever
from env_servers.sdk import EnvironmentConfig, EnvironmentUnavailable, InvalidOption
from env_servers.server.errors import REASONS, CommandError
from tests.env_servers.environments.searchqa.conftest import start

Reply = Callable[["Handler", dict[str, Any]], object]


class Handler(BaseHTTPRequestHandler):
    """Speaks as Search-R1's retrieval server does, or as the test wants."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert isinstance(self.server, Server)
        self.server.requests.append(body)
        self.server.reply(self, body)

    def send(self, content: bytes, status: int = 200, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content) if length is None else length))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[dict[str, Any]] = []
        self.reply: Reply = echo

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/retrieve"

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # clients that give up are part of the tests


def result(queries: list[str], top_k: int) -> dict[str, Any]:
    """Passages that say what was asked for."""
    return {
        "result": [
            [
                {
                    "document": {"id": f"{n}", "contents": f'"{query}"\ntext {n}'},
                    "score": 1 / (n + 1),
                }
                for n in range(top_k)
            ]
            for query in queries
        ]
    }


def echo(handler: Handler, body: dict[str, Any]) -> None:
    handler.send(json.dumps(result(body["queries"], body["topk"])).encode())


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_batch_is_one_request_in_search_r1s_shape(server: Server) -> None:
    retriever = RemoteRetriever(server.url, 2, timeout=10)
    found = retriever.search(["one", "two"])
    assert found == [
        (Passage("0", '"one"', "text 0"), Passage("1", '"one"', "text 1")),
        (Passage("0", '"two"', "text 0"), Passage("1", '"two"', "text 1")),
    ]
    assert server.requests == [{"queries": ["one", "two"], "topk": 2, "return_scores": True}]


def test_documents_without_scores_or_with_separate_titles_are_read(server: Server) -> None:
    def bare(handler: Handler, body: dict[str, Any]) -> None:
        rows = [[{"id": 4, "title": "T", "text": "x"}, {"id": 5, "contents": "U\ny"}]]
        handler.send(json.dumps({"result": rows}).encode())

    server.reply = bare
    found = RemoteRetriever(server.url, 3, timeout=10).search(["q"])
    assert found == [(Passage("4", "T", "x"), Passage("5", "U", "y"))]


def test_blank_queries_are_not_sent_and_long_ones_are_cut(server: Server) -> None:
    found = RemoteRetriever(server.url, 1, timeout=10).search([" \n", "x" * 1_000_000, ""])
    assert [len(passages) for passages in found] == [0, 1, 0]
    assert [len(query) for query in server.requests[0]["queries"]] == [MAX_QUERY_CHARS]


def test_a_query_that_the_server_cannot_take_spoils_no_others(server: Server) -> None:
    def picky(handler: Handler, body: dict[str, Any]) -> None:
        if "bad" in body["queries"]:
            handler.send(b"no", 500)
        else:
            echo(handler, body)

    server.reply = picky
    retriever = RemoteRetriever(server.url, 1, timeout=10)
    with pytest.raises(EnvironmentUnavailable, match="status 500: no"):
        retriever.search(["bad"])
    with pytest.raises(EnvironmentUnavailable):
        retriever.search(["a", "bad", "c"])
    asked = [request["queries"] for request in server.requests[1:]]
    assert asked == [["a", "bad", "c"], ["a"], ["bad", "c"], ["bad"]]


FAULTS: dict[str, tuple[Reply, str]] = {
    "overloaded": (lambda handler, body: handler.send(b"later", 503), "status 503"),
    "elsewhere": (lambda handler, body: handler.send(b"", 302), "status 302"),
    "no JSON": (lambda handler, body: handler.send(b"<html>"), "unreadable reply"),
    "no result": (lambda handler, body: handler.send(b'{"error": 1}'), "unreadable reply"),
    "too few": (lambda handler, body: handler.send(b'{"result": []}'), "no list of 1 results"),
    "no passage": (lambda handler, body: handler.send(b'{"result": [[{}]]}'), "unreadable reply"),
    "odd": (lambda handler, body: handler.send(b'{"result": [3]}'), "unreadable reply"),
    "deep": (lambda handler, body: handler.send(b"[" * 200_000), "unreadable reply"),
    "cut off": (lambda handler, body: handler.send(b'{"res', length=5000), "IncompleteRead"),
    "empty": (lambda handler, body: handler.connection.close(), "failed"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_failing_server_is_said_to_be_unavailable(server: Server, fault: str) -> None:
    server.reply, message = FAULTS[fault]
    with pytest.raises(EnvironmentUnavailable, match=message) as raised:
        RemoteRetriever(server.url, 3, timeout=10).search(["q"])
    assert server.url in str(raised.value)


def test_nobody_listening_is_unavailable() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/retrieve"
        with pytest.raises(EnvironmentUnavailable, match="refused"):
            RemoteRetriever(url, 3, timeout=5).search(["q"])


def test_a_server_that_does_not_answer_in_time_is_given_up(server: Server) -> None:
    release = threading.Event()
    server.reply = lambda handler, body: release.wait(20)
    with pytest.raises(EnvironmentUnavailable, match="timed out"):
        RemoteRetriever(server.url, 3, timeout=0.2).search(["q"])
    release.set()


def test_a_server_that_answers_by_drops_is_given_up_as_well(server: Server) -> None:
    stopped = threading.Event()

    def drip(handler: Handler, body: dict[str, Any]) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        while not stopped.is_set():
            handler.wfile.write(b" ")
            time.sleep(0.02)

    server.reply = drip
    with pytest.raises(EnvironmentUnavailable, match="timed out"):
        RemoteRetriever(server.url, 3, timeout=0.4).search(["q"])
    stopped.set()


@pytest.mark.parametrize("url", ["", "bm26", "ftp://host/x", "http:///retrieve", "//host"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidOption):
        RemoteRetriever(url, 3, timeout=1)


def test_a_failing_search_is_an_infrastructure_fault_and_leaves_the_episode_as_it_was(
    server: Server,
) -> None:
    settings = {"searchqa.embedded_retriever": server.url, "searchqa.timeout": "5"}
    tasks = SearchQA.load_tasks(EnvironmentConfig(settings=settings))
    episode = start(tasks, "searchqa_1000000")
    before = episode.advise_expert(0)
    server.reply = FAULTS["overloaded"][0]
    with pytest.raises(EnvironmentUnavailable) as raised:
        episode.step(before.action)
    rule = REASONS[CommandError.from_sdk(raised.value).reason]
    assert rule.fault == types_pb2.FAULT_INFRASTRUCTURE
    assert episode.advise_expert(0) == before
    server.reply = echo
    assert episode.step(before.action).text.startswith('<information>Doc 1(Title: "')


def test_a_remote_retriever_serves_the_embedded_questions(
    server: Server, source: EmbeddedSource
) -> None:
    corpus = RankedCorpus(source.passages, 3)

    def ranked(handler: Handler, body: dict[str, Any]) -> None:
        rows = [
            [{"document": {"id": p.id, "contents": as_contents(p)}, "score": 0.0} for p in found]
            for found in corpus.search(body["queries"])
        ]
        handler.send(json.dumps({"result": rows}).encode())

    server.reply = ranked
    settings = {"searchqa.embedded_retriever": server.url}
    tasks = SearchQA.load_tasks(EnvironmentConfig(settings=settings))

    def play(item: str) -> float | None:
        episode = start(tasks, item)
        for _ in range(SearchQA.spec.max_rounds):
            seen = episode.step(episode.advise_expert(0).action)
            if seen.terminated:
                return seen.reward
        return None

    with ThreadPoolExecutor(20) as pool:
        rewards = list(pool.map(play, tasks.item_ids("eval", 0, 40)))
    assert rewards == [1.0] * 40
    traffic = tasks.queue("embedded").traffic
    assert len(server.requests) == traffic.batches < traffic.searches


def test_official_questions_can_use_a_server_instead_of_a_corpus(
    server: Server, official: Path
) -> None:
    (official / "searchqa" / "corpus.jsonl").unlink()
    config = EnvironmentConfig(official, {"searchqa.retriever": server.url, "searchqa.top_k": 2})
    tasks = SearchQA.load_tasks(config)
    episode = start(tasks, "bamboogle_51588")
    assert episode.step("<search>Book 0</search>").text == (
        '<information>Doc 1(Title: "Book 0") text 0\nDoc 2(Title: "Book 0") text 1</information>'
    )
    with pytest.raises(InvalidOption, match="embedded_retriever"):
        SearchQA.load_tasks(EnvironmentConfig(None, {"searchqa.retriever": server.url}))
