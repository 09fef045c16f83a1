"""The contract as JSON: episodes as addresses, problems, calls by name, the description."""

import asyncio
import base64
import gzip
import json

import pytest
from google.protobuf import json_format

from agentgym.env.v1 import environment_pb2 as pb
from tests.kit.gateways import gateway_client, open_rest

SERVICE = "/agentgym.env.v1.EnvironmentService"


async def opened(client, item="maze_1000000", **reset):
    answer = await client.post(
        "/v1/episodes", json={"environment": "maze", "itemId": item, **reset}
    )
    assert answer.status_code == 201, answer.text
    return answer.headers["location"], answer.json()


async def test_an_expert_wins_an_episode_by_its_address():
    async with open_rest("maze") as gateway, gateway_client(gateway) as client:
        address, first = await opened(client)
        assert first["event"]["observation"].endswith("\n")
        step = first["event"]
        while not step.get("terminated"):
            advice = (await client.post(f"{address}/advice", json={})).json()
            step = (await client.post(f"{address}/steps", json={"action": advice["action"]})).json()
        assert step["reward"] == 1.0
        assert step["stopReason"] == "STOP_REASON_GOAL_REACHED"
        shown = (await client.get(address)).json()
        assert shown["event"] == step
        over = await client.post(f"{address}/steps", json={"action": "move up"})
        assert over.status_code == 409
        assert over.json()["reason"] == "EPISODE_ENDED"
        assert (await client.delete(address)).status_code == 204
        assert (await client.delete(address)).status_code == 204
        gone = await client.get(address)
        assert gone.status_code == 404
        assert gone.headers["content-type"] == "application/problem+json"


async def test_replies_and_both_spellings_of_names_are_read():
    async with open_rest("maze") as gateway, gateway_client(gateway) as client:
        address, _ = await opened(client)
        body = {"reply": "Thought: x\nAction: move up", "action_format": "ACTION_FORMAT_REACT"}
        step = (await client.post(f"{address}/steps", json=body)).json()
        assert step["parsedAction"] == "move up"
        call = {"toolCall": {"name": "move", "argumentsJson": '{"direction": "up"}'}}
        step = (await client.post(f"{address}/steps", json=call)).json()
        assert step["parsedAction"] == "move up"


async def test_a_journal_opens_the_same_state_elsewhere():
    async with open_rest("maze") as gateway, gateway_client(gateway) as client:
        address, _ = await opened(client)
        for action in ("move up", "move left", "move down"):
            step = (await client.post(f"{address}/steps", json={"action": action})).json()
        copy = (await client.post(f"{address}/fork")).json()
        assert copy["event"]["stateHash"] == step["stateHash"]
        reset = json_format.ParseDict((await client.get(f"{address}/journal")).json(), pb.Reset())
        command = pb.Command(episode_id="elsewhere", seq=len(reset.journal), reset=reset)
        request = json_format.MessageToDict(pb.ResetRequest(command=command))
        answer = (await client.post(f"{SERVICE}/Reset", json=request)).json()
        assert answer["event"]["stateHash"] == step["stateHash"]


async def test_pictures_are_shown_in_a_sandbox():
    async with open_rest("maze") as gateway, gateway_client(gateway) as client:
        address, _ = await opened(client)
        drawn = (await client.get(f"{address}/views")).json()["views"][0]
        shown = await client.get(f"{address}/views/{drawn['name']}")
        assert shown.content == base64.b64decode(drawn["content"])
        assert shown.headers["content-type"].startswith(drawn["mediaType"])
        assert "sandbox" in shown.headers["content-security-policy"]
        assert (await client.get(f"{address}/views/none")).status_code == 404


async def test_images_come_to_who_asks_for_them():
    async with open_rest("echo") as gateway, gateway_client(gateway) as client:
        for asks in (True, False):
            body = {"itemId": "echo_1000000", "options": {"images": 1}, "images": asks}
            event = (await client.post("/v1/episodes", json=body)).json()["event"]
            images = event.get("images", [])
            assert [it["mediaType"] for it in images] == ["image/png"] * asks
            assert all(base64.b64decode(it["content"]).startswith(b"\x89PNG") for it in images)


async def test_answers_are_told_as_they_come():
    async with open_rest("maze") as gateway, gateway_client(gateway) as client:
        address, _ = await opened(client)
        told = gateway.leases[0].get(0).held
        listening = asyncio.ensure_future(client.get(f"{address}/events"))
        while not told.listeners:
            await asyncio.sleep(0)
        await client.post(f"{address}/steps", json={"action": "move up"})
        await client.delete(address)
        answer = await listening
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(it.partition("data: ")[2]) for it in answer.text.split("\n\n") if it]
    assert [it.get("seq", "0") for it in events] == ["0", "1"]
    assert not told.listeners


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "reason"),
    [
        ("POST", "/v1/episodes", {"environment": "none"}, 404, "UNKNOWN_ENVIRONMENT"),
        ("POST", "/v1/episodes", {"itemId": "maze_x"}, 404, "UNKNOWN_ITEM"),
        ("POST", "/v1/episodes", {"itemId": "maze_1000000", "seed": []}, 400, "BAD_REQUEST"),
        ("POST", "/v1/episodes", {"surplus": 1}, 400, "BAD_REQUEST"),
        ("POST", "/v1/episodes/0/steps", {}, 404, "EPISODE_NOT_FOUND"),
        ("GET", "/v1/episodes/x", None, 404, "EPISODE_NOT_FOUND"),
        ("GET", f"/v1/episodes/{'9' * 5000}", None, 404, "EPISODE_NOT_FOUND"),
        ("GET", "/v1/environments/none", None, 404, "UNKNOWN_ENVIRONMENT"),
        ("GET", "/v1/environments/maze/tasks?split=x", None, 404, "UNKNOWN_SPLIT"),
        ("GET", "/v1/environments/maze/tasks?page_size=-1", None, 400, "BAD_REQUEST"),
        ("GET", "/nothing", None, 404, "NO_SUCH_ADDRESS"),
        ("PUT", "/v1/episodes", {}, 405, "NO_SUCH_METHOD"),
    ],
)
async def test_what_is_wrong_is_a_problem_with_a_reason(method, path, body, status, reason):
    async with open_rest("maze") as gateway, gateway_client(gateway) as client:
        answer = await client.request(method, path, json=body)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["reason"] == reason
    assert problem["status"] == status
    assert problem["detail"]


async def test_damaged_and_deep_json_is_a_problem():
    async with open_rest("maze") as gateway, gateway_client(gateway) as client:
        for content in (b"{", b"\xff", b"[" * 100_000, b'{"options": ' + b'{"a": ' * 5000):
            answer = await client.post("/v1/episodes", content=content)
            assert answer.status_code == 400
            assert answer.json()["reason"] == "BAD_REQUEST"


async def test_calls_by_name_keep_the_rules_of_the_contract():
    async with open_rest("maze") as gateway, gateway_client(gateway) as client:

        async def call(name, **message):
            return await client.post(f"{SERVICE}/{name}", json=message)

        assert (await call("ListEnvironments")).json()["environments"] == ["maze"]
        about = (await call("GetEnvironment", environment="maze")).json()
        assert about["name"] == "maze"
        command = {"episodeId": "e1", "reset": {"environment": "maze", "itemId": "maze_1000000"}}
        first = (await call("Reset", command=command)).json()["event"]
        step = {"episodeId": "e1", "seq": 1, "action": "move up"}
        once, again = [(await call("Step", command=step)).json()["event"] for _ in range(2)]
        assert again == {**once, "replayed": True}
        assert "observation" in first
        gap = {"episodeId": "e1", "seq": 5, "action": "move up"}
        assert "SEQ_GAP" in (await call("Step", command=gap)).text
        assert (await call("Render", episodeId="e1")).json()["views"]
        assert (await call("Close", command={"episodeId": "e1"})).json()["event"]["closed"]["found"]
        gone = await call("Step", command=step)
        assert (gone.status_code, gone.json()["code"]) == (404, "not_found")
        assert (await call("Interact")).status_code == 404
        assert len(gateway.leases[1]) == 0


async def test_an_episode_that_was_not_opened_holds_no_place():
    async with open_rest("maze") as gateway, gateway_client(gateway) as client:
        reset = {"environment": "maze", "itemId": "maze_x"}
        command = {"episodeId": "e1", "reset": reset}
        answer = await client.post(f"{SERVICE}/Reset", json={"command": command})
    assert "UNKNOWN_ITEM" in answer.text
    assert len(gateway.leases[1]) == 0


async def test_calls_take_binary_messages():
    async with open_rest("maze") as gateway, gateway_client(gateway) as client:
        content = pb.GetEnvironmentRequest(environment="maze").SerializeToString()
        headers = {"content-type": "application/proto"}
        answer = await client.post(f"{SERVICE}/GetEnvironment", content=content, headers=headers)
        assert pb.GetEnvironmentResponse.FromString(answer.content).name == "maze"
        damaged = await client.post(f"{SERVICE}/Step", content=b"\xff\xff", headers=headers)
        assert damaged.json()["code"] == "invalid_argument"


async def test_the_description_has_every_address_and_every_schema():
    async with open_rest("maze") as gateway, gateway_client(gateway) as client:
        described = (await client.get("/openapi.json")).json()
        shown = await client.get("/")
    text = json.dumps(described)
    named = [part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]]
    for reference in named:
        assert reference in described["components"]["schemas"]
    paths = {route.path for route in gateway.application.routes if route.path.startswith("/v1")}
    assert paths == set(described["paths"])
    assert "<script" not in shown.text
    assert shown.headers["content-security-policy"] == "default-src 'none'"


async def test_an_unused_episode_is_closed_and_its_client_told():
    async with open_rest("maze", idle_limit=60.0) as gateway, gateway_client(gateway) as client:
        address, _ = await opened(client)
        leases = gateway.leases[0]
        leases.get(0).used -= 61
        leases.sweep()
        answer = await client.post(f"{address}/steps", json={"action": "move up"})
        assert (answer.status_code, answer.json()["reason"]) == (410, "EPISODE_LAPSED")


async def test_an_oversized_body_is_a_problem():
    async with open_rest("maze") as gateway:
        async with gateway_client(gateway, body_limit=100) as client:
            answer = await client.post("/v1/episodes", content=b"x" * 101)
    assert answer.status_code == 413
    assert answer.json()["status"] == 413


async def test_packed_bodies_are_unpacked_within_the_limit():
    async with open_rest("maze") as gateway, gateway_client(gateway) as client:

        async def send(content, encoding="gzip"):
            headers = {"content-encoding": encoding}
            path = f"{SERVICE}/GetEnvironment"
            return (await client.post(path, content=content, headers=headers)).json()

        packed = gzip.compress(b'{"environment": "maze"}')
        assert (await send(packed))["name"] == "maze"
        bomb = gzip.compress(b" " * (64 << 20))
        sent = ((bomb, "gzip"), (packed[:-9], "gzip"), (b"x", "gzip"), (b"x", "br"))
        for content, encoding in sent:
            assert (await send(content, encoding))["code"] == "invalid_argument"
