"""An MCP server over stdio that does, on request, whatever a server should not do."""

import json
import os
import sys
import time
from pathlib import Path

TOOLS = {
    "count": {},
    "say": {"text": {"type": "string"}},
    "die": {},
    "die_once": {},
    "hang": {},
    "flood": {},
    "mumble": {},
    "refuse": {},
    "own_number": {},
    "variable": {"name": {"type": "string"}},
    "read-file": {"from": {"type": "string"}, "with": {"anyOf": [{"type": "integer"}]}},
    "finish": {},
}


class Refused(Exception):
    """The answer is an error of the protocol."""


class Tools:
    """What each tool does; its name is the method's, as far as it can be."""

    def __init__(self, folder):
        self.counted = 0
        self.died = folder / "died"

    def count(self):
        self.counted += 1
        return str(self.counted)

    def say(self, text):
        return text

    def die(self):
        print("I am dying", file=sys.stderr, flush=True)
        os._exit(7)

    def die_once(self):
        if not self.died.exists():
            self.died.touch()
            os._exit(7)
        return "back"

    def hang(self):
        time.sleep(3600)

    def flood(self):
        return "x" * (1 << 23)

    def mumble(self):
        print("this is no JSON", flush=True)
        return "mumbled"

    def refuse(self):
        raise Refused("I would rather not")

    def own_number(self):
        return str(os.getpid())

    def variable(self, name):
        return os.environ.get(name, "unset")

    def read_file(self, **arguments):
        return json.dumps(arguments, sort_keys=True)

    def finish(self):
        return "well"


def answer(tools, method, params):
    match method:
        case "initialize":
            return {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "odd", "version": "0"},
            }
        case "tools/list":
            schemas = {
                name: {"type": "object", "properties": properties, "required": [*properties]}
                for name, properties in TOOLS.items()
            }
            return {"tools": [{"name": name, "inputSchema": it} for name, it in schemas.items()]}
        case "tools/call":
            method = getattr(tools, params["name"].replace("-", "_"))
            text = method(**params.get("arguments") or {})
            return {"content": [{"type": "text", "text": text}]}
    raise Refused("what?")


def main(mode, folder):
    if mode == "dies":
        sys.exit("no database")
    if mode == "silent":
        time.sleep(3600)
    if mode == "babbles":
        print("x" * (1 << 21), flush=True)
    folder = Path(folder)
    (folder / str(os.getpid())).touch()  # for who asks which processes are there
    tools = Tools(folder)
    for line in sys.stdin:
        request = json.loads(line)
        said = {"jsonrpc": "2.0", "id": request.get("id")}
        try:
            said["result"] = answer(tools, request["method"], request.get("params", {}))
        except Refused as refused:
            said["error"] = {"code": -32602, "message": str(refused)}
        if said["id"] is not None:
            print(json.dumps(said), flush=True)


main(*sys.argv[1:])
