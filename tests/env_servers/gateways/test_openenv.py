"""OpenEnv's protocol: whose answer it is, errors, sessions, tasks and tools."""

import base64
import json

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.kit.gateways import gateway_client, open_openenv


async def ask(socket, kind, data=None):
    await socket.send(json.dumps({"type": kind} if data is None else {"type": kind, "data": data}))
    return json.loads(await socket.recv())


async def test_an_answer_that_was_given_up_is_not_taken_for_the_next_one():
    async with open_openenv("echo") as (gateway, address), connect(f"ws://{address}/ws") as socket:
        await ask(socket, "reset", {})
        (lease,) = gateway.leases[0]
        async with lease:  # the environment takes its time
            await socket.send(json.dumps({"type": "step", "data": {"action": "first"}}))
            await socket.send(json.dumps({"type": "step", "data": {"action": "second"}}))
            await socket.ping()  # what was sent before has arrived
            await socket.send(json.dumps({"type": "state"}))
            await (await socket.ping())
        shown = json.loads(await socket.recv())
        assert (shown["type"], shown["data"]["step_count"]) == ("state", 2)
        last = await ask(socket, "step", {"action": "third"})
        assert "third" in last["data"]["observation"]["text"]
        assert last["data"]["observation"]["seq"] == 3


async def test_an_answer_that_is_late_ends_the_connection():
    async with open_openenv("echo", answer_seconds=0.05) as (gateway, address):
        async with connect(f"ws://{address}/ws") as socket:
            # The reset may be late as well, on a busy machine: it is the same to the client.
            (lease,) = await _leases(gateway, socket)
            async with lease:
                await socket.send(json.dumps({"type": "reset", "data": {}}))
                late = json.loads(await socket.recv())
                with pytest.raises(ConnectionClosed):
                    await socket.recv()
    assert late["type"] == "error"
    assert "no answer within 0.05 s" in late["data"]["message"]
    assert len(gateway.leases[0]) == 0


async def _leases(gateway, socket):
    await (await socket.ping())
    while not len(gateway.leases[0]):
        await (await socket.ping())
    return gateway.leases[0]


@pytest.mark.parametrize(
    ("sent", "code", "said"),
    [
        ("{", "INVALID_JSON", "Invalid JSON"),
        ("[" * 5000, "INVALID_JSON", "Invalid JSON"),
        ("[]", "VALIDATION_ERROR", "a JSON object is wanted"),
        ('{"type": "dance"}', "UNKNOWN_TYPE", "Unknown message type: dance"),
        ('{"type": "step"}', "VALIDATION_ERROR", "data"),
        ('{"type": "step", "data": {"value": 1}}', "VALIDATION_ERROR", "data.value"),
        ('{"type": "step", "data": {}}', "VALIDATION_ERROR", "name one of"),
        ('{"type": "step", "data": {"action": "x"}}', "EXECUTION_ERROR", "reset first"),
        ('{"type": "reset", "data": {"seed": -1}}', "VALIDATION_ERROR", "data.seed"),
        ('{"type": "reset", "data": {"seed": 1e400}}', "INVALID_JSON", "Invalid JSON"),
        ('{"type": "reset", "data": {"item_id": "none"}}', "EXECUTION_ERROR", "none"),
        ('{"type": "reset", "data": {"split": "none"}}', "EXECUTION_ERROR", "none"),
        ('{"type": "reset", "data": {"surplus": 1}}', "VALIDATION_ERROR", "surplus"),
    ],
)
async def test_what_is_wrong_is_an_error_with_a_code_and_the_connection_stays(sent, code, said):
    async with open_openenv("maze") as (_, address), connect(f"ws://{address}/ws") as socket:
        await socket.send(sent)
        answer = json.loads(await socket.recv())
        assert answer["type"] == "error"
        assert answer["data"]["code"] == code
        assert said in answer["data"]["message"]
        assert (await ask(socket, "reset", {}))["type"] == "observation"


async def test_seeds_and_places_choose_tasks_and_an_ended_episode_says_so():
    async with open_openenv("maze") as (_, address), connect(f"ws://{address}/ws") as socket:
        by_seed = (await ask(socket, "reset", {"seed": 3}))["data"]["observation"]
        by_place = (await ask(socket, "reset", {"index": 3, "split": "train"}))["data"]
        assert by_seed["item_id"] == by_place["observation"]["item_id"]
        assert by_seed["instruction"]
        assert by_place["done"] is False
        item = {"item_id": by_seed["item_id"], "episode_id": "mine"}
        told = (await ask(socket, "reset", item))["data"]["observation"]
        assert (told["episode_id"], told["seq"]) == ("mine", 0)
        done = False
        while not done:
            step = await ask(socket, "step", {"reply": "Thought: x\nAction: move up"})
            done = step["data"]["done"]
        over = await ask(socket, "step", {"action": "move up"})
        assert over["data"]["code"] == "EXECUTION_ERROR"
        assert over["data"]["reason"] == "EPISODE_ENDED"
        last = (await ask(socket, "state"))["data"]["last"]
        assert last == step["data"]


async def test_an_option_brings_images():
    async with open_openenv("echo") as (_, address), connect(f"ws://{address}/ws") as socket:
        (image,) = (await ask(socket, "reset", {"images": 1}))["data"]["observation"]["images"]
        assert image["media_type"] == "image/png"
        assert base64.b64decode(image["data"]).startswith(b"\x89PNG")
        plain = (await ask(socket, "reset", {}))["data"]["observation"]
        assert "images" not in plain


async def test_http_holds_an_episode_by_its_id_and_plays_a_request_once():
    async with open_openenv("maze", "echo") as (gateway, address):
        async with httpx.AsyncClient(base_url=f"http://{address}/echo") as client:
            opened = (await client.post("/reset")).json()
            name = opened["observation"]["episode_id"]
            assert set(opened) == {"observation", "reward", "done"}
            body = {"action": {"action": "hello"}, "episode_id": name, "request_id": "r1"}
            lease = next(iter(gateway.leases[1]))
            async with lease:
                late = await client.post("/step", json={**body, "timeout_s": 0.01})
            assert (late.status_code, late.json()["reason"]) == (504, "DEADLINE_EXCEEDED")
            once = (await client.post("/step", json=body)).json()
            again = (await client.post("/step", json=body)).json()
            assert again == once
            state = (await client.get("/state", params={"episode_id": name})).json()
            assert (state["step_count"], state["last"]) == (1, once)
            gateway.leases[1].get(lease.id).used -= 3601
            gateway.leases[1].sweep()
            gone = await client.post("/step", json={**body, "request_id": None})
            assert (gone.status_code, gone.json()["reason"]) == (410, "EPISODE_LAPSED")
            anew = (await client.post("/reset", json={"episode_id": name})).json()
            assert anew["observation"]["seq"] == 0
            for wrong in (b"{", b'{"action": 1}', b'{"action": {}, "episode_id": "x"}'):
                refused = await client.post("/step", content=wrong)
                assert (refused.status_code, bool(refused.json()["detail"])) == (422, True)
            unknown = {"action": {"action": "x"}, "episode_id": "none"}
            assert (await client.post("/step", json=unknown)).status_code == 404
            assert (await client.get("/nothing")).json() == {"detail": "Not Found"}
        async with gateway_client(gateway, body_limit=100) as client:
            assert (await client.post("/echo/step", content=b"x" * 101)).status_code == 413


async def test_a_server_describes_itself_its_tasks_and_its_tools():
    async with open_openenv("textcraft") as (_, address):
        async with httpx.AsyncClient(base_url=f"http://{address}") as client:

            async def told(path):
                return (await client.get(path)).json()

            async def asked(path, **body):
                return (await client.post(path, json=body)).json()

            async def called(method, **params):
                request = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
                return await asked("/mcp", **request)

            assert await told("/health") == {"status": "healthy"}
            assert (await told("/metadata"))["name"] == "textcraft"
            assert set(await told("/schema")) == {"action", "observation", "state"}
            assert "/reset" in (await told("/openapi.json"))["paths"]
            assert await told("/list_environments") == ["textcraft"]
            split = (await told("/textcraft/splits"))[0]["name"]
            assert (await asked("/textcraft/num_tasks", split=split))["num_tasks"] > 3
            task = (await asked("/textcraft/task", split=split, index=2))["task"]
            few = await asked("/textcraft/task_range", split=split, start=1, stop=3)
            assert few["tasks"][1] == task
            assert (await asked("/mcp"))["error"]["code"] == -32600
            assert (await called("dance"))["error"]["code"] == -32601
            assert (await called("tools/call", name="x"))["error"]["code"] == -32602
            session = (await called("openenv/session/create"))["result"]["session_id"]
            await asked("/reset", episode_id=session, **task)
            tools = (await called("tools/list"))["result"]["tools"]
            assert "inventory" in [it["name"] for it in tools]
            played = await called("tools/call", name="inventory", session_id=session)
            assert "Inventory" in played["result"]["data"]
            async with connect(f"ws://{address}/ws?session_id={session}") as socket:
                assert (await ask(socket, "state"))["data"]["step_count"] == 1
            closed = await called("openenv/session/close", session_id=session)
            assert closed["result"] == {"session_id": session, "closed": True}
            again = await called("openenv/session/close", session_id=session)
            assert again["error"]["code"] == -32602


async def test_a_lost_server_is_an_error_and_no_reward(server_process):
    server = server_process(environments=["echo"])
    addresses = (server.address,)
    async with open_openenv("echo", addresses=addresses, patience=0.5) as (_, address):
        async with connect(f"ws://{address}/ws") as socket:
            await ask(socket, "reset", {})
            server.kill()
            answer = await ask(socket, "step", {"action": "hello"})
    assert answer["type"] == "error"
    assert answer["data"]["code"] == "EXECUTION_ERROR"
    assert "reward" not in answer["data"]


async def test_a_message_that_is_too_long_ends_the_connection_and_a_token_is_wanted():
    token = "a token that nobody guesses"
    async with open_openenv("echo", token=token) as (_, address):
        with pytest.raises(InvalidStatus):
            await connect(f"ws://{address}/ws")
        headers = {"authorization": f"Bearer {token}"}
        async with connect(f"ws://{address}/ws", additional_headers=headers) as socket:
            with pytest.raises(ConnectionClosed):
                await ask(socket, "step", {"action": "x" * (9 << 20)})
