"""`serve --config`: a file has the keys of the flags, flags go before it; mistakes are named."""

import subprocess
import sys

import pytest
import tyro

from env_servers.__main__ import main
from env_servers.cli.config_file import lay_file
from env_servers.cli.serve import Serve
from env_servers.sdk import Execution

FILE = """\
environments = ["echo", "maze"]
bind = ["127.0.0.1:0"]
max_episodes = 7
lease = 5
log-json = true
token-file = "tokens.toml"

[execution]
echo = "thread"

[set.maze]
size = 9
"""


def test_a_file_is_the_flags(tmp_path, monkeypatch):
    monkeypatch.delenv("AGENTGYM_TOKEN", raising=False)
    path = tmp_path / "serve.toml"
    path.write_text(FILE)
    by_file = lay_file(Serve(environments=()), path).config()
    flags = ("--bind", "127.0.0.1:0", "--max-episodes", "7", "--lease", "5", "--log-json")
    more = ("--token-file", "tokens.toml", "--execution", "echo=thread", "--set", "maze.size=9")
    assert by_file == tyro.cli(Serve, args=("echo", "maze", *flags, *more)).config()
    assert by_file.execution == {"echo": Execution.THREAD}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max-episode = 3", "max-episode: unknown key; did you mean max-episodes?"),
        ("config = 'x.toml'", "config: unknown key"),
        ("lease = 'long'", "lease: Expected `float`, got `str`, for 'long'"),
        ("log-level = 'loud'", "log-level: Invalid enum value 'loud'"),
        ("bind = [", "is no TOML"),
        (None, "cannot read"),
    ],
)
def test_a_wrong_file_is_named_with_its_key(tmp_path, text, said, capsys):
    path = tmp_path / "serve.toml"
    if text is not None:
        path.write_text(text)
    assert main(["serve", "echo", "--config", str(path)]) == 2
    assert said in capsys.readouterr().err


def test_a_server_is_started_from_a_file_and_flags_go_before_it(tmp_path):
    """In a process of its own: a server ends its process itself."""
    path = tmp_path / "serve.toml"
    path.write_text("environments = ['echo']\nbind = ['nosuch:1']\nlog-json = true\n")
    command = [sys.executable, "-m", "env_servers", "serve", "--config", str(path)]
    with subprocess.Popen(
        [*command, "--bind", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as server:
        said = server.stdout.readline()
        server.terminate()
    assert b'"serving"' in said and b'["echo"]' in said
