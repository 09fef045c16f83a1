"""The state of an episode as the pages show it; views and images as a browser may load them.

Views and images are a stranger's bytes. Text is data of the page, which shows it as text. What a
browser draws (bitmaps, SVG, HTML) has an address of its own, whose policy allows no script, no
form, nothing from elsewhere, and no origin: whatever it holds, and wherever it is opened. Images of
observations are bitmaps and nothing else.
"""

from __future__ import annotations

import json
from typing import Any, Final

from starlette.responses import Response

from agent_runtime.images import IMAGE_TYPES
from agentgym.env.v1 import environment_pb2 as pb
from agentgym.episode.v1 import episode_pb2
from orchestrator.errors import UsageError
from orchestrator.viewer.travel import State

__all__ = ["image_response", "state_data", "view_response"]

_SHOWN: Final = 20_000
"""Characters of a text that a page gets."""
_TEXTS: Final = ("text/plain", "application/json")
_DRAWN: Final = ("image/png", "image/svg+xml", "text/html")
_VIEW_POLICY: Final = (
    "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'self'"
)


def state_data(episode: episode_pb2.Episode, state: State) -> dict[str, Any]:
    """Return a state as JSON data, beside what the record says of its environment."""
    recorded = {"version": episode.environment_version, "digest": episode.environment_digest}
    server = {"version": state.server.version, "digest": state.server.digest}
    return {
        "turn": state.turn,
        "state_hash": state.state_hash,
        "info": _text(json.dumps(state.info, indent=1, ensure_ascii=False)) if state.info else None,
        "recorded": recorded,
        "server": server,
        "same_environment": recorded == server,
        "draws": state.draws,
        "views": [_view(view) for view in state.views],
    }


def view_response(state: State, name: str) -> Response:
    """Return a view that a browser draws. Raises UsageError where the state has no such one."""
    views = {view.name: view for view in state.views if view.media_type in _DRAWN}
    if name not in views:
        raise UsageError(f"the state has no picture {name[:100]!r}", valid=views)
    view = views[name]
    charset = "" if view.media_type == "image/png" else "; charset=utf-8"
    return _drawn(view.content, view.media_type + charset)


def image_response(episode: episode_pb2.Episode, place: int) -> Response:
    """Return an image that an agent was shown. Raises UsageError where there is no such bitmap."""
    if not place < len(episode.images):
        raise UsageError(f"the episode has {len(episode.images)} images, none is {place}")
    image = episode.images[place]
    if image.media_type not in IMAGE_TYPES:
        raise UsageError(f"image {place} is {image.media_type[:100]!r}", valid=sorted(IMAGE_TYPES))
    return _drawn(image.content, image.media_type)


def _drawn(content: bytes, content_type: str) -> Response:
    headers = {"Content-Type": content_type, "Content-Security-Policy": _VIEW_POLICY}
    return Response(content, headers=headers)


def _view(view: pb.View) -> dict[str, Any]:
    data = {"name": view.name, "title": view.title, "media_type": view.media_type}
    if view.media_type in _TEXTS:
        return {**data, "kind": "text", **_text(view.content.decode("utf-8", "replace"))}
    if view.media_type == "text/html":
        return {**data, "kind": "page"}
    return {**data, "kind": "image" if view.media_type in _DRAWN else "unknown"}


def _text(text: str) -> dict[str, Any]:
    return {"text": text[:_SHOWN], "length": len(text)}
