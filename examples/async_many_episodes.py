"""Play a hundred episodes at once over one connection; the environment's expert says the moves.

One stream carries all of them: commands that are sent in the same turn of the event loop travel in
one message.
"""

import asyncio
import subprocess
import sys
import tempfile

from agent_runtime.connection import Connection
from agent_runtime.episode import RemoteEpisode
from agentgym.env.v1 import environment_pb2 as pb


async def play(connection: Connection, item_id: str) -> float:
    """Play one task to its end; return its reward."""
    reset = pb.Reset(environment="textcraft", item_id=item_id)
    episode = RemoteEpisode(connection, f"many-{item_id}", reset)
    state = await episode.reset()
    while not state.ended:
        advice = await episode.consult(pb.ADVISOR_EXPERT, seed=0)
        state = await episode.step(advice.action)
    episode.close()
    return state.reward or 0.0


async def main(address: str) -> None:
    async with Connection(address) as connection:
        page = await connection.list_tasks("textcraft", "eval", page_size=100)
        rewards = await asyncio.gather(*(play(connection, task.item_id) for task in page.tasks))
    print(f"{len(rewards)} episodes, mean reward {sum(rewards) / len(rewards):.2f}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        bind = f"unix:{folder}/server.sock"
        serve = (sys.executable, "-m", "env_servers", "serve", "textcraft", "--bind", bind)
        with subprocess.Popen(serve, stderr=subprocess.DEVNULL) as server:
            asyncio.run(main(bind))
            server.terminate()
