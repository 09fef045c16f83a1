"""AgentGym's HTTP routes: fields, errors, leases, and servers that are lost."""

import pytest

from tests.kit.gateways import gateway_client, open_agentgym


async def test_an_expert_wins_textcraft_over_its_routes():
    async with open_agentgym("textcraft") as gateway, gateway_client(gateway) as client:
        created = (await client.post("/create", json={})).json()
        assert created.keys() == {"id", "observation", "done", "reward"}
        number = created["id"]
        reset = (await client.post("/reset", json={"id": number, "data_idx": 3})).json()
        assert reset.keys() == {"id", "observation", "done", "reward"}
        lease = gateway.environments["textcraft"].slots.get(number)
        step = {"done": False}
        while not step["done"]:
            advice = await lease.held.episode.consult(1)
            answer = await client.post("/step", json={"id": number, "action": advice.action})
            step = answer.json()
            assert step.keys() == {"observation", "reward", "done"}
        assert step["reward"] == 1
        detail = (await client.get("/detail", params={"id": number})).json()
        assert detail["done"]
        assert detail["reward"] == 1
        again = await client.post("/step", json={"id": number, "action": "inventory"})
        assert again.json()["reward"] == 0, "the original plays on"
        assert not again.json()["done"]
        assert (await client.post("/close", json={"id": number})).json() is True
        assert (await client.post("/close", json={"id": number})).json() is False


async def test_several_environments_are_served_below_their_names():
    async with open_agentgym("maze", "textcraft", "wordle") as gateway:
        async with gateway_client(gateway) as client:
            for name in ("maze", "textcraft", "wordle"):
                assert (await client.post(f"/{name}/create", json={})).json()["id"] == 0
            assert (await client.post("/create", json={})).status_code == 404
            words = (await client.get("/wordle/filtered_vocab?id=0")).json()
            assert len(words) == len(set(words)) > 30
            moves = (await client.get("/maze/available_actions")).json()
            assert moves == ["move left", "move right", "move up", "move down"]
            await client.post("/maze/reset", json={"id": 0, "game": 0})
            step = (await client.post("/maze/step", json={"id": 0, "action": "fly"})).json()
            assert step["reward"] == 0
            assert not step["done"]


async def test_numbers_count_a_named_split_and_begin_anew_after_its_end():
    async with open_agentgym("textcraft", split="eval") as gateway:
        environment = gateway.environments["textcraft"]
        assert await environment.item(0) == "textcraft_1500001"
        assert await environment.item(118) == "textcraft_1500001"
        assert await environment.item(-1) == await environment.item(117)


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"id": 0}, ["body", "action"]),
        ({"id": "x", "action": "a"}, ["body", "id"]),
        ({"id": 0, "action": 5}, ["body", "action"]),
        ([], ["body"]),
    ],
)
async def test_what_cannot_be_read_is_refused_as_fastapi_does(body, where):
    async with open_agentgym("maze") as gateway, gateway_client(gateway) as client:
        answer = await client.post("/maze/step", json=body)
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == where


async def test_deep_or_damaged_json_is_refused():
    async with open_agentgym("maze") as gateway, gateway_client(gateway) as client:
        for content in (b"[" * 100_000, b'{"id": \xff}', b"{"):
            headers = {"content-type": "application/json"}
            answer = await client.post("/maze/step", content=content, headers=headers)
            assert answer.status_code in (400, 422)


async def test_an_unused_episode_is_closed_and_its_client_told():
    async with open_agentgym("maze", idle_limit=1800.0) as gateway:
        async with gateway_client(gateway) as client:
            await client.post("/maze/create")
            await client.post("/maze/reset", json={"id": 0, "game": 0})
            slots = gateway.environments["maze"].slots
            slots.get(0).used -= 1801
            slots.sweep()
            assert slots.get(0).held.episode is None
            step = (await client.post("/maze/step", json={"id": 0, "action": "move up"})).json()
            assert "closed after 30 minutes" in step["error"]
            reset = (await client.post("/maze/reset", json={"id": 0, "game": 1})).json()
            assert "observation" in reset


async def test_a_lost_server_is_an_error_and_no_reward(server_process):
    server = server_process(environments=["maze"])
    async with open_agentgym("maze", addresses=(server.address,), patience=1) as gateway:
        async with gateway_client(gateway) as client:
            await client.post("/maze/create")
            first = (await client.post("/maze/reset", json={"id": 0, "game": 0})).json()
            await client.post("/maze/step", json={"id": 0, "action": "fly"})
            server.kill()
            server.start()
            step = await client.post("/maze/step", json={"id": 0, "action": "fly"})
            assert step.json() == {**first, "reward": 0, "done": False}, "it was rebuilt"
            server.kill()
            step = await client.post("/maze/step", json={"id": 0, "action": "fly"})
            assert step.json().keys() == {"error"}
            assert "the environment server is gone: no server of maze" in step.json()["error"]


async def test_a_step_without_a_reward_is_an_error_and_no_zero():
    async with open_agentgym("maze") as gateway, gateway_client(gateway) as client:
        await client.post("/maze/create")
        await client.post("/maze/reset", json={"id": 0, "game": 0})
        episode = gateway.environments["maze"].slots.get(0).held.episode
        step = episode.step

        async def unscored(action):
            return (await step(action))._replace(reward=None)

        episode.step = unscored
        answer = (await client.post("/maze/step", json={"id": 0, "action": "fly"})).json()
    assert answer == {"error": "step 1 was played, and its environment tells no reward for it"}
