"""AgentGym's evaluation: one client, one episode after the other, an HTTP request a step.

The server is the baseline of that shape (`benchmark.baselines.agentgym_http`, its original
settings), a process of its own; the client reads the action in a reply, calls by `requests.post`
without a session, and keeps each conversation with its reward as a line of JSON.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from typing import Any, Final

import requests

from benchmark.whole_path.loops.script import NAME, Outcome, Script, read_arguments, write

_START_SECONDS: Final = 60.0


def main() -> None:
    """Play, and end the server."""
    arguments = read_arguments()
    script = Script(arguments.replies)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = str(listener.getsockname()[1])
    module = "benchmark.baselines.agentgym_http"
    server = subprocess.Popen([sys.executable, "-m", module, "--port", port, "--environment", NAME])
    try:
        client = _Client(f"http://127.0.0.1:{port}")
        outcome = Outcome()
        with (arguments.folder / "conversations.jsonl").open("w") as file:
            for _ in range(arguments.samples):
                for index, item_id in enumerate(script.replies):
                    file.write(_play(client, script, item_id, index, outcome))
    finally:
        server.terminate()
        server.wait()
    write(arguments, outcome)


def _play(client: _Client, script: Script, item_id: str, index: int, outcome: Outcome) -> str:
    seen = client.post("reset", id=client.number, data_idx=index)
    said = [script.instruction, script.acknowledgement, seen["observation"]]
    steps = 0
    while not seen["done"]:
        reply = script.next_reply(item_id, steps)
        seen = client.post("step", id=client.number, action=script.read(reply))
        said += [reply, seen["observation"]]
        steps += 1
    outcome.add(item_id, seen["reward"], steps)
    return json.dumps({"item_id": item_id, "reward": seen["reward"], "conversation": said}) + "\n"


class _Client:
    def __init__(self, base: str) -> None:
        """Wait for the server and create the one environment."""
        self._base = base
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                self.number: int = self.post("create")["id"]
            except requests.ConnectionError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                break

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        response = requests.post(f"{self._base}/{path}", json=body, timeout=300)
        response.raise_for_status()
        answer = response.json()
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer


if __name__ == "__main__":
    main()
