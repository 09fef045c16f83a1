"""The addresses of the viewer: pages, their assets, and the JSON that they are made of.

    /                    the runs                         /api/runs
    /training?training=  one training                     /api/training
    /run?run=&other=     one run                          /api/run, /api/differences, /api/export
    /episodes?run=&...   its episodes, filtered           /api/episodes
    /compare?run=&other= runs, paired by item             /api/compare
    /episode?run=&id=    one episode                      /api/episode, /api/tokens, /api/text,
                                                          /api/record, /api/image, /api/view,
                                                          POST /api/state
    /play?run= or ?branch=     what a person plays        /api/branch_view, /api/branch_image,
                                                          POST /api/branch
    /side-by-side?run=&id=&other_run=&other_id=           two episodes, of /api/episode
    /live?run=           what is being played             /api/live
    /watch?run=&id=      one episode while it is played   /api/watch, a stream of lines

A run is named as `orchestrator.viewer.library` names it. What only reads is asked by GET; what asks
an environment, whose server may be started for it, by POST with a JSON object. Expected errors
become a JSON `error` that the page shows; handlers run in threads, because reading a run waits for
a disk and an environment for its server.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, cast

import orjson
from anyio import to_thread
from google.protobuf.json_format import MessageToJson
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from agent_runtime.errors import AgentRuntimeError
from orchestrator.errors import OrchestratorError, RunNotFound, UsageError
from orchestrator.manifest import differences
from orchestrator.records import EpisodeSummary, episode_key, summarise
from orchestrator.run_list import entry_data
from orchestrator.viewer import transcript
from orchestrator.viewer.access import Access
from orchestrator.viewer.branches import Branches
from orchestrator.viewer.compared import Comparisons
from orchestrator.viewer.exports import FORMATS, Exports
from orchestrator.viewer.library import Library
from orchestrator.viewer.live_servers import LiveServers
from orchestrator.viewer.opened_run import OpenedRun
from orchestrator.viewer.run_data import RunPages
from orchestrator.viewer.selection import Selection
from orchestrator.viewer.state_data import image_response, state_data, view_response
from orchestrator.viewer.token_texts import TokenTexts
from orchestrator.viewer.trainings import Trainings
from orchestrator.viewer.travel import Travel
from orchestrator.viewer.watching import Watching
from orchestrator.viewer.word_index import WordIndex

__all__ = ["Viewer", "create_application"]

_PATIENCE: Final = 0.3
"""Seconds for which the list of runs waits for figures; the page asks again for the rest."""
_READING_PATIENCE: Final = 0.2
"""Seconds for which a list waits until all of a run is read; it begins with the first rows."""
_MOST_ROWS: Final = 500
_TYPES: Final[Mapping[str, str]] = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_ADDRESSING: Final = ("run", "offset", "limit", "id", "revision")


class Viewer:
    """What the pages ask for."""

    def __init__(
        self,
        library: Library,
        servers: LiveServers | None = None,
        branches: Branches | None = None,
        *,
        cache: Path | None = None,
        tokenizer: Path | None = None,
    ) -> None:
        """Answer from a library.

        Args:
            library: The runs.
            servers: What asks environments; closed with the viewer. None = as each run says.
            branches: What people play on; closed with the viewer. None = beside scripted players.
            cache: Folder for word indices; None = beside each run.
            tokenizer: Model folder that spells tokens; None = the one that each run names.
        """
        self.watching = Watching(library)
        self._library = library
        self._servers = servers or LiveServers()
        self._travel = Travel(self._servers)
        self._branches = branches or Branches(library, self._servers)
        self._cache = cache
        self._texts = TokenTexts(tokenizer)
        self._comparisons = Comparisons(library)
        self.compare = self._comparisons.compare
        self._run_pages = RunPages(library)
        self.run = self._run_pages.run
        self.export = Exports(library).export
        self._trainings = Trainings(library)
        self.training = self._trainings.training
        self._indices: dict[Path, WordIndex] = {}
        self._indices_lock = threading.Lock()

    def close(self) -> None:
        """Stop what is under way, end all servers, and release all databases."""
        self._branches.close()
        self._travel.close()
        self._servers.close()
        for index in self._indices.values():
            index.close()
        self._comparisons.close()
        self._run_pages.close()
        self._library.close()

    def runs(self, parameters: Mapping[str, str]) -> Any:
        """Return a line for each run, and for each training."""
        lines = self._library.lines(patience=_PATIENCE)
        return {
            "trainings": self._trainings.lines(),
            "runs": [
                {
                    "run": line.run,
                    **(entry_data(line.entry) if line.entry else {"state": "waiting"}),
                }
                for line in lines
            ],
        }

    def differences(self, parameters: Mapping[str, str]) -> Any:
        """Return in which settings, that decide what is played, two runs differ."""
        run, other = (self._library.open(parameters.get(name, "")) for name in ("run", "other"))
        return {"differences": [it._asdict() for it in differences(other.manifest, run.manifest)]}

    def episodes(self, parameters: Mapping[str, str]) -> Any:
        """Return some rows of a list of episodes, and how long it is."""
        name, wanted = parameters.get("run", ""), _selection(parameters)
        offset = _number(parameters, "offset", 0)
        limit = min(_number(parameters, "limit", 100), _MOST_ROWS)
        if wanted == Selection() and offset + limit <= _MOST_ROWS:
            run = self._library.open(name, patience=_READING_PATIENCE)
            if not run.is_read:
                total, rows = run.first(offset, limit)
                return _unread(total, rows)
        run = self._library.open(name)
        found, words = self._words(run, wanted)
        selected = run.selected(wanted, found)
        return {
            "reading": False,
            "revision": run.revision,
            "total": len(selected),
            "all": len(run.records()),
            "rows": [_row(it) for it in selected[offset : offset + limit]],
            "choices": run.choices(),
            "damage": run.damage,
            "words": words,
        }

    def _words(
        self, run: OpenedRun, wanted: Selection
    ) -> tuple[frozenset[str] | None, dict[str, Any] | None]:
        """Return the episodes that have the words, and how far the index has come."""
        if not wanted.words.strip():
            return None, None
        with self._indices_lock:
            index = self._indices.get(run.folder)
            if index is None:
                index = WordIndex(run.folder, run.manifest.run_id, self._cache)
                self._indices[run.folder] = index
        found, indexed = index.find(wanted.words), index.indexed()
        if indexed < len(run.records()):
            index.build()
        return found, {"indexed": indexed, "of": len(run.records()), "problem": index.problem}

    def episode(self, parameters: Mapping[str, str]) -> Any:
        """Return an episode, the attempts at its key, and its neighbours in the list."""
        run = self._library.open(parameters.get("run", ""))
        episode = run.episode(_id(parameters))
        wanted = _selection(parameters)
        listed = [it.episode_id for it in run.selected(wanted, self._words(run, wanted)[0])]
        place = listed.index(episode.episode_id) if episode.episode_id in listed else None
        return {
            "summary": _row(summarise(episode)),
            **transcript.as_data(episode),
            **self._branches.family(run, episode),
            "attempts": [_row(it) for it in run.attempts(episode_key(episode))],
            "formats": FORMATS,
            "place": place,
            "listed": len(listed),
            "previous": listed[place - 1] if place else None,
            "next": listed[place + 1] if place is not None and place + 1 < len(listed) else None,
        }

    def tokens(self, parameters: Mapping[str, str]) -> Any:
        """Return a segment of an episode's token ledger."""
        run = self._library.open(parameters.get("run", ""))
        number = _number(parameters, "segment", 0)
        episode = run.episode(_id(parameters))
        data = transcript.token_data(episode, number)
        return {**data, **self._texts.spell(run.manifest, episode, number)._asdict()}

    def text(self, parameters: Mapping[str, str]) -> Response:
        """Return a long text whole."""
        run = self._library.open(parameters.get("run", ""))
        text = transcript.whole_text(
            run.episode(_id(parameters)),
            parameters.get("part", ""),
            _number(parameters, "index", 0),
        )
        return PlainTextResponse(text)

    def image(self, parameters: Mapping[str, str]) -> Response:
        """Return an image of an episode's observations."""
        run = self._library.open(parameters.get("run", ""))
        return image_response(run.episode(_id(parameters)), _number(parameters, "place", 0))

    def record(self, parameters: Mapping[str, str]) -> Response:
        """Return an episode as it is stored, as JSON."""
        run = self._library.open(parameters.get("run", ""))
        episode = run.episode(_id(parameters))
        text = MessageToJson(episode, preserving_proto_field_name=True)
        return Response(text, media_type="application/json")

    def state(self, given: Mapping[str, Any]) -> Any:
        """Return the state of an episode after a turn, as its environment has it."""
        run = self._library.open(_text(given, "run"))
        episode = run.episode(_text(given, "id"))
        turn = given.get("turn")
        if not isinstance(turn, int) or isinstance(turn, bool):
            raise UsageError("turn is a number from 0")
        return state_data(episode, self._travel.state(run.folder, episode, turn))

    def view(self, parameters: Mapping[str, str]) -> Response:
        """Return a view of a state that was asked for, to be shown in a frame or as an image."""
        run = self._library.open(parameters.get("run", ""))
        turn = _number(parameters, "turn", 0)
        state = self._travel.known(run.folder, run.episode(_id(parameters)).episode_id, turn)
        if state is None:
            raise UsageError("the views of that turn are not kept: ask for its state again")
        return view_response(state, parameters.get("name", ""))

    def branch(self, given: Mapping[str, Any]) -> Any:
        """Do with a branch what its page asks for."""
        return self._branches.act(given)

    def branch_image(self, parameters: Mapping[str, str]) -> Response:
        """Return an image of a branch's observations."""
        episode = self._branches.known_record(parameters.get("branch", ""))
        return image_response(episode, _number(parameters, "place", 0))

    def branch_view(self, parameters: Mapping[str, str]) -> Response:
        """Return a view of where a branch is."""
        key, turn = parameters.get("branch", ""), _number(parameters, "turn", 0)
        return view_response(self._branches.known_state(key, turn), parameters.get("name", ""))


def create_application(viewer: Viewer, *, token: str, hosts: list[str]) -> Starlette:
    """Return the ASGI application; `hosts` are names, beside IP addresses, that are this server."""
    answers = (
        *(viewer.runs, viewer.run, viewer.episodes, viewer.episode),
        *(viewer.tokens, viewer.text, viewer.record, viewer.differences),
        *(viewer.compare, viewer.training, viewer.view, viewer.branch_view),
        *(viewer.image, viewer.branch_image),
        viewer.export,
        viewer.watching.live,
    )
    routes = [Route(f"/api/{answer.__name__}", _endpoint(answer)) for answer in answers]
    routes.append(Route("/api/watch", viewer.watching.watch))
    acts = {f"/api/{act.__name__}": act for act in (viewer.state, viewer.branch)}
    routes += [Route(path, _act_endpoint(act), methods=["POST"]) for path, act in acts.items()]
    assets = _read_assets()
    routes += [Route(f"/assets/{name}", _asset(*asset)) for name, asset in assets.items()]
    pages = (
        *("/", "/run", "/episodes", "/episode", "/compare", "/training"),
        *("/play", "/side-by-side", "/live", "/watch"),
    )
    routes += [Route(path, _asset(*assets["index.html"])) for path in pages]
    guard = Middleware(Access, token=token, hosts=hosts, posts=acts.keys())
    return Starlette(routes=routes, middleware=[guard])


def _endpoint(answer: Callable[[Mapping[str, str]], Any]) -> Callable[[Request], Response]:
    """Return what answers a GET, in a thread."""
    return lambda request: _answered(answer, request.query_params)


def _act_endpoint(
    act: Callable[[Mapping[str, Any]], Any],
) -> Callable[[Request], Awaitable[Response]]:
    """Return what answers a POST, in a thread."""

    async def endpoint(request: Request) -> Response:
        try:
            given: Any = orjson.loads(await request.body())
        except orjson.JSONDecodeError as error:
            return _json({"error": f"what was posted is no JSON: {error}"}, 400)
        if not isinstance(given, dict):
            return _json({"error": "what is posted is a JSON object"}, 400)
        # The viewer's end waits for no environment: `Viewer.close` ends these threads.
        named = cast("dict[str, Any]", given)
        return await to_thread.run_sync(_answered, act, named, abandon_on_cancel=True)

    return endpoint


def _answered(answer: Callable[[Any], Any], given: Mapping[str, Any]) -> Response:
    try:
        content = answer(given)
    except (OrchestratorError, AgentRuntimeError, OSError) as error:
        status = 404 if isinstance(error, RunNotFound) else 400
        return _json({"error": str(error)}, status)
    return content if isinstance(content, Response) else _json(content)


def _json(content: Any, status: int = 200) -> Response:
    body = orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS)
    return Response(body, status, media_type="application/json")


def _read_assets() -> dict[str, tuple[bytes, str]]:
    """Return the files that a browser gets, with their types; there are no others."""
    folder = files("orchestrator.viewer") / "assets"
    return {
        file.name: (file.read_bytes(), _TYPES[Path(file.name).suffix]) for file in folder.iterdir()
    }


def _asset(content: bytes, media_type: str) -> Callable[[Request], Response]:
    def endpoint(request: Request) -> Response:
        return Response(content, headers={"Content-Type": media_type})

    return endpoint


def _unread(total: int, rows: list[EpisodeSummary]) -> dict[str, Any]:
    """Return the first rows of a run that is being read; by what it is narrowed follows."""
    return {
        "reading": True,
        "revision": 0,
        "total": total,
        "all": total,
        "rows": [_row(it) for it in rows],
        "choices": {},
        "damage": [],
        "words": None,
    }


def _selection(parameters: Mapping[str, str]) -> Selection:
    return Selection.parse({k: v for k, v in parameters.items() if k not in _ADDRESSING})


def _id(parameters: Mapping[str, str]) -> str:
    if not parameters.get("id"):
        raise UsageError("the address has no episode id")
    return parameters["id"]


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value:
        raise UsageError(f"what was posted has no text {name!r}")
    return value


def _number(parameters: Mapping[str, str], name: str, default: int) -> int:
    text = parameters.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        raise UsageError(f"{name} is a number from 0, not {text[:40]!r}")
    return int(text)


def _row(summary: EpisodeSummary) -> dict[str, Any]:
    return {**summary._asdict(), "outcome": summary.outcome, "ending": summary.ending}
