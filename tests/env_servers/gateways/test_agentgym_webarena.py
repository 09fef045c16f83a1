"""WebArena's routes of AgentGym, on the embedded sites."""

import pytest

from tests.env_servers.environments.webarena.chromium import needs_chromium
from tests.kit.gateways import gateway_client, open_agentgym

pytestmark = [pytest.mark.slow, needs_chromium]


async def test_webarena_is_played_as_its_client_plays_it():
    async with (
        open_agentgym("webarena", split="eval") as gateway,
        gateway_client(gateway) as client,
    ):
        assert (await client.post("/create")).json() == {"env_idx": 0}
        assert (await client.get("/observation", params={"env_idx": 0})).status_code == 500
        body = {"env_idx": 0, "seed": 0, "idx": 3}
        first = (await client.post("/reset", json=body)).json()
        assert first["observation"].startswith("Tab 0 (current): ")
        assert first["sites"]
        prompt = (await client.get("/observation", params={"env_idx": 0})).json()
        assert f"\nOBJECTIVE: {first['object']}\nPREVIOUS ACTION: None" in prompt
        assert first["observation"] in prompt

        async def step(reply):
            sent = {"env_idx": 0, "action": reply}
            return (await client.post("/step", json=sent)).json()

        unread = await step("I do not know.")
        assert unread["observation"].startswith("Cannot parse action from response.")
        assert (unread["reward"], unread["terminated"]) == (0.0, False)
        assert (await client.get("/observation", params={"env_idx": 0})).json() == prompt
        moved = await step("So I go on: ```goto [http://nowhere.test/]```")
        assert set(moved) == {"observation", "reward", "terminated", "truncated", "info"}
        assert moved["info"]["fail_error"] or moved["info"]["page"]["url"]
        last = await step("In summary, the next action I will perform is ```stop [nothing]```")
        assert (last["reward"], last["terminated"]) == (0.0, True)
        metadata = await client.get("/observation_metadata", params={"env_idx": 0})
        assert (metadata.status_code, "cannot look" in metadata.text) == (500, True)
        assert (await client.post("/close", json={"env_idx": 0})).json() is True
        assert (await client.post("/close", json={"env_idx": 0})).json() is False
