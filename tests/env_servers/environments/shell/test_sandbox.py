"""What a command in the sandbox cannot reach, and what it cannot take without end."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from pathlib import Path

import pytest

from env_servers.environments.shell import sandbox as sandbox_module
from env_servers.environments.shell.sandbox import Ending, Sandbox
from env_servers.environments.shell.tree import MAX_ENTRIES, Link, Tree
from env_servers.sdk import EnvironmentUnavailable

FOLDER = Tree.of_texts({"notes.txt": "one\ntwo\n", "below/deep.txt": "three\n"})


def output(sandbox: Sandbox, command: str, tree: Tree = FOLDER) -> str:
    return sandbox.run(tree, command).output.decode()


def test_a_command_sees_the_folder_and_leaves_another_one(sandbox):
    outcome = sandbox.run(FOLDER, "cat below/deep.txt; rm notes.txt; echo new > made.txt; exit 3")
    assert (outcome.ending, outcome.status, outcome.output) == (Ending.EXITED, 3, b"three\n")
    assert outcome.tree.files == ["below/deep.txt", "made.txt"]
    assert outcome.tree.text("made.txt") == "new\n"


def test_a_command_that_changes_nothing_leaves_an_equal_tree(sandbox):
    odd = FOLDER.with_texts({"a name with 'quotes' and \n": "x", "b" * 150: "long name"})
    links = Tree({**odd.entries, "link": Link("nowhere"), "out": Link("/etc/passwd")})
    assert sandbox.run(links, "ls -lR").tree == links


def test_two_runs_are_alike(sandbox):
    command = "ls -lR; echo $$ $PPID; env; id; hostname; sleep 0.01 & wait; echo x > y; ls"
    first, second = sandbox.run(FOLDER, command), sandbox.run(FOLDER, command)
    assert (first.output, first.tree) == (second.output, second.tree)


def test_there_is_no_network(sandbox):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        said = output(sandbox, f"echo hello > /dev/tcp/127.0.0.1/{port} && echo got out")
        assert "refused" in said or "unreachable" in said
        server.settimeout(0.05)
        with pytest.raises(TimeoutError):
            server.accept()
    assert output(sandbox, "tail -n +3 /proc/net/dev | cut -d: -f1").split() == ["lo"]


def test_nothing_outside_of_the_folder_can_be_written(sandbox):
    places = "/usr/x /bin/x /etc/x /x /proc/sys/kernel/core_pattern /dev/x"
    said = output(
        sandbox, f"for p in {places}; do (echo 1 > $p) 2> /dev/null && echo wrote $p; done"
    )
    assert said.strip() in ("", "wrote /dev/x")
    assert not Path("/dev/x").exists()


def test_files_and_variables_of_this_machine_are_not_there(sandbox, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "s3cr3t-in-environment")
    secret = tmp_path / "secret.txt"
    secret.write_text("s3cr3t-in-file")
    tmp_path.chmod(0o755)
    said = output(
        sandbox,
        f"env; cat /proc/*/environ; cat {secret}; cat /etc/passwd /etc/shadow /root/.ssh/*; "
        "ls / /home /root /run /var",
    )
    assert "s3cr3t" not in said
    assert "root:" not in said
    assert said.count("No such file or directory") == 8


def test_other_processes_cannot_be_seen(sandbox):
    said = output(sandbox, "for p in /proc/[0-9]*; do echo ${p#/proc/}; done")
    assert all(int(number) < 10 for number in said.split())
    assert f"{os.getpid()}" not in said.split()


def test_links_out_of_the_folder_lead_nowhere(sandbox, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("kept apart")
    outcome = sandbox.run(FOLDER, f"ln -s {secret} file; ln -s / root; ln -s ../../.. up; cat file")
    assert b"No such file" in outcome.output
    assert outcome.tree.entries["file"] == Link(str(secret))
    assert outcome.tree.text("file") is None
    again = sandbox.run(outcome.tree, "echo overwritten > file; ls up root")
    assert secret.read_text() == "kept apart"
    assert "home" not in again.output.decode().split()


def test_there_are_no_privileges_to_get(sandbox):
    said = output(sandbox, "grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status; id -u")
    assert said.split() == ["CapEff:", "0" * 16, "CapBnd:", "0" * 16, "NoNewPrivs:", "1", "1000"]
    assert output(sandbox, "unshare --user true 2>&1 && echo nested").count("nested") == 0


def test_a_fork_bomb_stays_within_its_sandbox(sandbox, monkeypatch):
    monkeypatch.setattr(sandbox_module, "SECONDS", 3.0)
    outcome = sandbox.run(FOLDER, "f() { f | f & }; f; sleep 0.2; echo survived")
    assert outcome.ending in (Ending.EXITED, Ending.TIME, Ending.OUTPUT)
    assert output(sandbox, "echo next") == "next\n"


def test_what_a_command_leaves_running_ends_with_it(sandbox):
    marker = f"7{os.getpid()}"
    outcome = sandbox.run(FOLDER, f"setsid sleep {marker} & nohup sleep {marker} & echo started")
    assert (outcome.ending, outcome.output) == (Ending.EXITED, b"started\n")
    assert not [pid for pid, line in command_lines() if marker in line]


def test_a_command_without_end_is_ended_and_changes_nothing(sandbox, monkeypatch):
    monkeypatch.setattr(sandbox_module, "SECONDS", 0.5)
    outcome = sandbox.run(FOLDER, "rm notes.txt; sleep 1000")
    assert (outcome.ending, outcome.tree) == (Ending.TIME, FOLDER)
    assert not [pid for pid, line in command_lines() if line == "sleep 1000"]


def test_output_without_end_is_cut_off(sandbox):
    outcome = sandbox.run(FOLDER, "rm notes.txt; yes")
    assert (outcome.ending, outcome.tree) == (Ending.OUTPUT, FOLDER)
    assert len(outcome.output) == sandbox_module.MAX_OUTPUT_BYTES


@pytest.mark.parametrize(
    "command",
    [
        "head -c 3000000 /dev/zero > big",
        f"mkdir many; for i in $(seq {MAX_ENTRIES}); do : > many/$i; done",
        "d=.; for i in $(seq 40); do d=$d/d; done; mkdir -p $d",
    ],
)
def test_a_folder_that_does_not_fit_is_as_it_was(sandbox, command):
    outcome = sandbox.run(FOLDER, command)
    assert (outcome.ending, outcome.tree) == (Ending.FOLDER, FOLDER)


def test_memory_and_files_have_limits(sandbox):
    said = output(sandbox, "head -c 20000000 /dev/zero > a; stat -c %s a; rm a; ulimit -v -u -n -f")
    assert "\n8388608\n" in said
    assert [line.split()[-1] for line in said.splitlines()[-4:]] == ["262144", "24", "256", "8192"]
    assert "exhausted" in output(sandbox, "dd if=/dev/zero of=/dev/null bs=1G count=1")


def test_what_cannot_be_kept_is_left_out(sandbox):
    tree = sandbox.run(
        FOLDER, "mkfifo pipe; ln notes.txt twin; chmod 0 notes.txt; chmod +x twin"
    ).tree
    assert tree.files == ["below/deep.txt", "notes.txt", "twin"]
    assert tree.text("twin") == "one\ntwo\n"


@pytest.mark.parametrize("command", ["kill -9 1", "kill -9 -1", "kill -9 $PPID; true"])
def test_a_command_cannot_end_what_packs_the_folder(sandbox, command):
    outcome = sandbox.run(FOLDER, f"rm notes.txt; {command}")
    assert (outcome.ending, outcome.tree.files) == (Ending.EXITED, ["below/deep.txt"])


def test_a_forged_folder_is_read_within_the_same_limits(sandbox):
    forged = "printf '0\\n%0600d' 7 > /proc/1/fd/$(ls /proc/1/fd | sort -n | tail -n 2 | head -n 1)"
    outcome = sandbox.run(FOLDER, f"for fd in $(ls /proc/1/fd); do {forged}; done; echo tried")
    assert outcome.tree == FOLDER
    assert outcome.ending in (Ending.EXITED, Ending.BROKEN)


def test_commands_run_side_by_side(sandbox):
    found: dict[int, str] = {}

    def play(number: int) -> None:
        found[number] = output(sandbox, f"echo {number} > mine; sleep 0.05; cat mine")

    threads = [threading.Thread(target=play, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: f"{number}\n" for number in range(8)}


def test_without_bubblewrap_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EnvironmentUnavailable, match="install the package bubblewrap"):
        Sandbox().require()


def test_where_no_sandbox_can_be_made_nothing_runs():
    # In a folder that other accounts may enter, which those of pytest are not.
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "bwrap")
        program.write_text(
            "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"
        )
        for path in (program, program.parent):
            path.chmod(0o755)
        said = r"No permissions.*user\.max_user_namespaces"
        with pytest.raises(EnvironmentUnavailable, match=said):
            Sandbox(str(program)).require()


def command_lines() -> list[tuple[int, str]]:
    """The processes of this machine, and what they were called with."""
    found: list[tuple[int, str]] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        found.append((int(path.parent.name), line))
    return found
