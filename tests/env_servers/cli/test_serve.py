"""The command line of servers: flags become a configuration, or say what is wrong with them."""

import sys

import pytest
import tyro

from env_servers.__main__ import main
from env_servers.cli.serve import Serve
from env_servers.sdk import Execution, SdkError


def config(*argv):
    return tyro.cli(Serve, args=argv).config()


def test_flags_become_the_servers_configuration(monkeypatch):
    monkeypatch.setenv("AGENTGYM_TOKEN", "sesame")
    served = config(
        *("echo", "maze", "echo"),
        *("--bind", "127.0.0.1:0", "unix:/tmp/x"),
        *("--execution", "echo=thread"),
        *("--set", "maze.size=9"),
        *("--max-episodes", "7", "--lease", "5", "--step-limit", "2"),
        *("--log-level", "warning", "--log-json", "--trace"),
    )
    assert served.environments == ("echo", "maze")
    assert served.bind == ("127.0.0.1:0", "unix:/tmp/x")
    assert served.execution == {"echo": Execution.THREAD}
    assert served.settings == {"maze.size": "9"}
    assert (served.limits.max_episodes, served.limits.default_lease) == (7, 5.0)
    assert served.limits.step_limit == 2.0
    assert served.security.token == "sesame"
    assert (served.log.level, served.log.json, served.trace) == ("warning", True, True)


@pytest.mark.parametrize(
    "argv",
    [
        (),
        ("echo", "--execution", "echo"),
        ("echo", "--execution", "echo=sideways"),
        ("echo", "--set", "size=9"),
    ],
)
def test_flags_that_cannot_be_read_are_refused(argv):
    with pytest.raises(SdkError):
        config(*argv)


def test_a_setting_may_have_a_flag_of_its_own(monkeypatch):
    found = []
    monkeypatch.setattr(Serve, "run", lambda self: found.append(self.config()) or 0)
    arguments = "serve --set a.x=1 --execution echo=thread --set=a.y=2 --lease 5 --set a.z=3 b.x=4"
    assert main([*arguments.split(), "--execution", "maze=inline", "--bind", "unix:/a"]) == 2
    assert main(["serve", "echo", "maze", *arguments.split()[1:], "--execution=maze=inline"]) == 0
    assert found[-1].settings == {"a.x": "1", "a.y": "2", "a.z": "3", "b.x": "4"}
    assert found[-1].execution == {"echo": Execution.THREAD, "maze": Execution.INLINE}
    assert found[-1].limits.default_lease == 5.0


def test_a_log_level_that_does_not_exist_is_a_usage_error(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["serve", "echo", "--log-level", "loud"])
    assert caught.value.code == 2
    assert "loud" in capsys.readouterr().err


def test_a_command_that_fails_says_why_and_what_would_be_right(capsys):
    assert main(["list", "nosuch"]) == 2
    assert "nosuch" in capsys.readouterr().err
    assert main(["check"]) == 2
    assert "--target" in capsys.readouterr().err


def test_the_program_only_assembles_its_commands():
    module = sys.modules["env_servers.__main__"]
    own = [value for value in vars(module).values() if isinstance(value, type)]
    assert all(value.__module__ != module.__name__ for value in own)
