"""Who may post to the viewer: its own pages and programs with the token, and no other page."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator

import pytest

pytest.importorskip("starlette", reason="needs the extra viewer")
pytest.importorskip("uvicorn", reason="needs the extra viewer")

from orchestrator.viewer.access import MAX_BODY_BYTES
from tests.kit.viewer import TOKEN, RunningViewer, run_viewer

QUESTION = json.dumps({"run": "runs/none", "id": "x", "turn": 0}).encode()


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningViewer]:
    with run_viewer(tmp_path_factory.mktemp("access")) as running:
        yield running


@pytest.fixture(scope="module")
def cookie(viewer: RunningViewer) -> str:
    """What a browser that has shown the token sends with every request, to any port."""
    return viewer.request(f"/?token={TOKEN}", token="")[1]["set-cookie"].partition(";")[0]


def post(
    viewer: RunningViewer, *, token: str = "", body: bytes = QUESTION, **headers: str
) -> tuple[int, bytes]:
    sent = {"Content_Type": "application/json"} | headers
    status, _, answer = viewer.request("/api/state", method="POST", token=token, body=body, **sent)
    return status, answer


def test_its_own_pages_and_programs_with_the_token_post(viewer: RunningViewer, cookie: str) -> None:
    own = {"Origin": viewer.origin, "Sec_Fetch_Site": "same-origin"}
    # 404: it passed, and the run does not exist.
    assert post(viewer, Cookie=cookie, **own)[0] == 404
    # Browsers tell the site to loopback and over TLS alone.
    assert post(viewer, Cookie=cookie, Origin=viewer.origin)[0] == 404
    assert post(viewer, token=TOKEN)[0] == 404
    status, answer = post(viewer, Cookie=cookie, Content_Type="application/json; x=1", **own)
    assert (status, "no such run" in json.loads(answer)["error"]) == (404, True)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://evil.example", "Sec_Fetch_Site": "cross-site"},
        {"Origin": "OWN", "Sec_Fetch_Site": "none"},
        {"Origin": "OWN", "Sec_Fetch_Site": "same-site"},
        {"Origin": "OWN", "Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"},
        {"Sec_Fetch_Site": "same-origin"},
        {"Origin": "OWN", "Host": "evil.example"},
    ],
)
def test_a_cookie_alone_is_no_proof_of_who_posts(
    viewer: RunningViewer, cookie: str, headers: dict[str, str]
) -> None:
    sent = {name: viewer.origin if value == "OWN" else value for name, value in headers.items()}
    assert post(viewer, Cookie=cookie, **sent)[0] == 403


def test_without_cookie_and_token_nothing_is_posted(viewer: RunningViewer) -> None:
    own = {"Origin": viewer.origin, "Sec_Fetch_Site": "same-origin"}
    assert post(viewer, **own)[0] == 403
    assert post(viewer, Cookie="agentgym-viewer-0=wrong", **own)[0] == 403
    status, headers, _ = viewer.request(
        f"/api/state?token={TOKEN}", method="POST", token="", body=QUESTION, **own
    )
    assert status == 403
    assert "set-cookie" not in headers


@pytest.mark.parametrize(
    "media_type", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def test_what_a_form_can_send_is_refused(viewer: RunningViewer, media_type: str) -> None:
    assert post(viewer, token=TOKEN, Content_Type=media_type)[0] == 415


def test_what_is_posted_has_a_bounded_length_that_is_told_before(viewer: RunningViewer) -> None:
    assert post(viewer, token=TOKEN, body=b" " * MAX_BODY_BYTES)[0] == 400
    assert post(viewer, token=TOKEN, body=b" " * (MAX_BODY_BYTES + 1))[0] == 413
    connection = http.client.HTTPConnection("127.0.0.1", viewer.port, timeout=30)
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    connection.request("POST", "/api/state", body=iter([QUESTION]), headers=headers)
    assert connection.getresponse().status == 411
    connection.close()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "no JSON"),
        (b"[1]", "a JSON object"),
        (b"{}", "no text 'run'"),
        (b'{"run": 3}', "no text 'run'"),
    ],
)
def test_what_cannot_be_meant_is_told_what_would_be_right(
    viewer: RunningViewer, body: bytes, said: str
) -> None:
    status, answer = post(viewer, token=TOKEN, body=body)
    assert status == 400
    assert said in json.loads(answer)["error"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
def test_what_starts_something_is_not_read(viewer: RunningViewer, method: str) -> None:
    assert viewer.request("/api/state", method=method)[0] == 405
