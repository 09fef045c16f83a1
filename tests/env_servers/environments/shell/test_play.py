"""Tasks can be solved, and only by doing what they ask for."""

from __future__ import annotations

import pytest

from env_servers.environments.shell.kinds import KINDS
from env_servers.environments.shell.prompt import GRAMMAR
from env_servers.environments.shell.tasks import EVAL_BASE
from env_servers.sdk import ActionFormat, Rejected, StopReason


@pytest.mark.parametrize("number", range(len(KINDS)), ids=list(KINDS))
def test_the_expert_solves_every_kind(begin, number):
    episode = begin(f"shell_{EVAL_BASE + number}")
    observation = None
    for _ in range(6):
        observation = episode.step(episode.advise_expert(0).action)
        if observation.terminated:
            break
    assert (observation.reward, observation.stop_reason) == (1.0, StopReason.GOAL_REACHED)


def test_handing_in_too_early_earns_nothing(begin):
    last = begin("shell_1500000").step("submit")
    assert (last.text, last.reward, last.stop_reason) == ("Handed in.", 0.0, StopReason.ANSWERED)


def test_who_also_changes_other_files_earns_nothing(begin):
    episode = begin("shell_1500000")
    for _ in range(2):
        episode.step(episode.advise_expert(0).action)
    episode.step("echo more >> access.log")
    assert episode.step("submit").reward == 0.0


def test_a_script_that_only_knows_its_example_earns_nothing(begin, tasks):
    items = tasks.item_ids("eval", 0, len(KINDS))
    episode = begin(next(item for item in items if tasks.get(item).category == "script"))
    episode.step("echo 'echo 5' > count.sh")
    assert episode.step("submit").reward == 0.0


def test_observations_say_what_happened(begin):
    episode = begin("shell_1500000")
    assert episode.step("true").text == "[no output]"
    assert episode.step("echo a; echo b >&2; exit 3").text == "a\nb\n[exit status 3]"
    assert episode.step("false").text == "[exit status 1]"
    assert "characters are left out" in episode.step("seq 5000").text
    assert episode.step("").text.startswith("There is no command")
    assert episode.step("echo " + "a" * 20_000).text.endswith("was not run.")
    assert episode.step("echo \0").text == "The command has a NUL character and was not run."
    assert episode.step("yes").text == (
        "The command printed more than 1024 KiB and was ended. The folder is as it was before."
    )


def test_a_fork_goes_its_own_way_and_equal_folders_are_one_state(begin):
    episode = begin("shell_1500000")
    before = episode.fingerprint()
    twin = episode.fork()
    twin.step("echo 1 > made.txt")
    assert (episode.fingerprint(), twin.fingerprint() == before) == (before, False)
    twin.step("rm made.txt; touch access.log")
    assert twin.fingerprint() == before


def test_the_picture_shows_the_folder_and_the_last_command(begin):
    episode = begin("shell_1500000")
    episode.step("mkdir d; echo hi > d/f; chmod +x d/f; ln -s /etc/x l; cat d/f")
    shown = episode.render()[1].content.decode()
    for part in ("d/\n  f*  3 B\n", "l -> /etc/x", "ln -s /etc/x l; cat d/f\nhi", "answer.txt is"):
        assert part in shown


@pytest.mark.parametrize(
    ("reply", "command"),
    [
        ("Thought: hm\n\nAction:\nls -l", "ls -l"),
        ("Action: ```bash\ncat <<E\nx\nE\n```", "cat <<E\nx\nE"),
        ("Action: a\nAction: submit", "submit"),
        ("ls", ""),
    ],
)
def test_replies_are_read(reply, command):
    assert GRAMMAR.read(reply, ActionFormat.REACT) == command
    assert not isinstance(GRAMMAR.read(reply, ActionFormat.REACT), Rejected)
