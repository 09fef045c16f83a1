"""Who may ask a gateway: checked before a request reaches it."""

import base64

import httpx
import pytest

from env_servers.gateways.access import Access, reply

TOKEN = "a token that nobody guesses"


class Echo:
    """An application that tells how long the body was; /crash fails."""

    def __init__(self):
        self.asked = 0

    async def __call__(self, scope, receive, send):
        self.asked += 1
        if scope["path"] == "/crash":
            raise RuntimeError("a secret of the inside")
        length, more = 0, True
        while more:
            message = await receive()
            length += len(message.get("body", b""))
            more = message.get("more_body", False)
        await reply(send, 200, b"text/plain", str(length).encode())


def client(application, **access):
    transport = httpx.ASGITransport(Access(application, **access), raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080")


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8080", "localhost", "[::1]:80", "Mine.test", "10.0.0.7"]
)
async def test_this_server_is_asked_by_address_or_by_its_names(host):
    async with client(Echo(), hosts=["mine.test"]) as asking:
        assert (await asking.get("/", headers={"host": host})).status_code == 200


@pytest.mark.parametrize("host", ["evil.test", "localhost.evil.test", "", "[::zz]"])
async def test_another_host_is_refused(host):
    application = Echo()
    async with client(application) as asking:
        assert (await asking.get("/", headers={"host": host})).status_code == 403
    assert application.asked == 0


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.test"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"},
    ],
)
async def test_the_pages_of_others_are_refused(headers):
    application = Echo()
    async with client(application) as asking:
        assert (await asking.post("/", headers=headers)).status_code == 403
    assert application.asked == 0


async def test_pages_of_named_origins_are_answered_with_what_browsers_want():
    async with client(Echo(), origins=["http://ui.test"], token=TOKEN) as asking:
        headers = {"origin": "http://ui.test", "authorization": f"Bearer {TOKEN}"}
        answer = await asking.post("/", headers=headers)
        assert answer.headers["access-control-allow-origin"] == "http://ui.test"
        asked = {"origin": "http://ui.test", "access-control-request-method": "POST"}
        assert (await asking.options("/", headers=asked)).status_code == 200


def basic(password):
    return "Basic " + base64.b64encode(f"any:{password}".encode()).decode()


@pytest.mark.parametrize("given", [f"Bearer {TOKEN}", f"bearer {TOKEN}", basic(TOKEN)])
async def test_a_token_opens_the_gateway(given):
    async with client(Echo(), token=TOKEN) as asking:
        assert (await asking.get("/", headers={"authorization": given})).status_code == 200


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer wrong", TOKEN, basic("wrong"), "Basic ???", f"Digest {TOKEN}"]
)
async def test_without_the_token_nothing_is_answered(given):
    application = Echo()
    async with client(application, token=TOKEN) as asking:
        answer = await asking.get("/", headers={"authorization": given})
    assert answer.status_code == 401
    assert "www-authenticate" in answer.headers
    assert application.asked == 0


@pytest.mark.parametrize("length", ["101", "1" * 400, "-1", "1e3", "x"])
async def test_a_body_that_says_it_is_too_long_is_not_read(length):
    application = Echo()
    async with client(application, body_limit=100) as asking:
        answer = await asking.post("/", content=b"x", headers={"content-length": length})
    assert answer.status_code == 413
    assert application.asked == 0


async def test_a_body_that_does_not_say_how_long_it_is_is_cut_off():
    async def pieces():
        for _ in range(5):
            yield b"x" * 30

    async with client(Echo(), body_limit=100) as asking:
        assert (await asking.post("/", content=pieces())).status_code == 413
        assert (await asking.post("/", content=b"x" * 100)).text == "100"


async def test_no_traceback_leaves():
    async with client(Echo()) as asking:
        answer = await asking.get("/crash")
    assert answer.status_code == 500
    assert "secret" not in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.test", "authorization": f"Bearer {TOKEN}"},
        {"host": "localhost", "authorization": f"Bearer {TOKEN}", "origin": "http://evil.test"},
        {"host": "localhost"},
    ],
)
async def test_a_websocket_is_not_opened_for_those_who_may_not_ask(headers):
    application, sent = Echo(), []
    scope = {
        "type": "websocket",
        "path": "/",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }

    async def send(message):
        sent.append(message)

    await Access(application, token=TOKEN)(scope, None, send)
    assert [it["type"] for it in sent] == ["websocket.close"]
    assert application.asked == 0
