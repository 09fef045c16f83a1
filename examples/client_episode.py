"""Play one episode by hand, over gRPC, on a server that this program starts and ends."""

import asyncio
import subprocess
import sys
import tempfile

from agent_runtime.connection import Connection
from agent_runtime.episode import RemoteEpisode
from agentgym.env.v1 import environment_pb2 as pb


async def play(address: str) -> None:
    async with Connection(address) as connection:  # waits until the server is there
        episode = RemoteEpisode(connection, "e1", pb.Reset(environment="maze", item_id="maze_0"))
        print((await episode.reset()).text)
        for action in ("move right", "move down", "fly"):
            step = await episode.step(action)
            print(f"> {action}\n{step.text} (reward {step.reward})")
        episode.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        bind = f"unix:{folder}/server.sock"
        serve = (sys.executable, "-m", "env_servers", "serve", "maze", "--bind", bind)
        with subprocess.Popen(serve, stderr=subprocess.DEVNULL) as server:
            asyncio.run(play(bind))
            server.terminate()
