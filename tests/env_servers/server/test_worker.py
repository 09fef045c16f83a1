"""A worker process by itself, on the socket that a server would hold."""

import json
import select
import socket
import subprocess
import sys
import tempfile

from env_servers.sdk import ActionFormat
from env_servers.server.frames import MARKER, Op, encode_reset, pack
from env_servers.server.instance import ResetSpec


def test_a_worker_ends_with_a_server_that_has_not_read_its_answer():
    ours, theirs = socket.socketpair()
    config = {"data_dir": "", "settings": {}, "memory_limit": 2**31, "log_level": "error"}
    with tempfile.TemporaryFile() as marker, theirs:
        marker.truncate(MARKER.size)
        passed = [theirs.fileno(), marker.fileno()]
        command = [sys.executable, "-m", "env_servers.server.worker", "--fd", str(passed[0])]
        command += ["--marker-fd", str(passed[1])]
        command += ["--config", json.dumps(config | {"log_json": None})]
        worker = subprocess.Popen(command, pass_fds=passed)
    try:
        reset = ResetSpec("echo", "echo_1000000", 0, "agentgym", ActionFormat.REACT, {})
        ours.sendall(pack([[Op.OPEN, 1, 1, encode_reset("echo", reset), [], []]]))
        assert select.select([ours], [], [], 60)[0], "the worker did not answer"
        ours.close()  # with the answer in it: the worker's end is reset, not just closed
        assert worker.wait(60) is not None
    finally:
        worker.kill()
