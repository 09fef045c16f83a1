import io

from rich.console import Console

from orchestrator.rendering import as_plain_text, as_renderable
from orchestrator.terminal import visible
from tests.orchestrator.records import RED_SQUARE, build_episode, build_failed, build_seeing

ESCAPE = "\x1b"


def coloured(episode) -> str:
    console = Console(file=io.StringIO(), force_terminal=True, color_system="truecolor", width=100)
    with console.capture() as captured:
        console.print(as_renderable(episode))
    return captured.get()


def test_an_episode_reads_from_the_instruction_to_the_outcome():
    text = as_plain_text(build_episode())
    places = [
        text.index(part)
        for part in (
            "maze maze_1",
            "policy scripted",
            "Find the goal.",
            "You see a wall.",
            "assistant - turn 1",
            "Thought: up it is.",
            "parsed: move up, reward 0, 3 + 3 tokens, 1.00 s",
            "You moved (1).",
            "assistant - turn 2",
            "GOAL_REACHED, reward 1, score 1, success yes",
            "2.50 s in all, 0.50 s waiting for the environment, 2.00 s for the policy",
        )
    ]
    assert places == sorted(places)


def test_images_are_named_with_type_and_size():
    text = as_plain_text(build_seeing())
    assert text.count(f"[image 0 (image/png, {len(RED_SQUARE):,} bytes)]") == 2
    assert "[image 1 (image/png" in text


def test_a_failed_episode_says_who_is_to_blame():
    text = as_plain_text(build_failed())
    assert "failed: policy, POLICY_UNAVAILABLE, after 3 steps (retriable)" in text
    assert "the model's server went away" in text
    assert "success" not in text


def test_plain_text_has_no_colour_codes_and_the_coloured_one_has():
    assert ESCAPE not in as_plain_text(build_episode())
    assert ESCAPE in coloured(build_episode())


def test_thought_and_action_look_different():
    text = coloured(build_episode())
    thought, action = text.index("Thought:"), text.index("Action:")
    assert text[:thought].rpartition(ESCAPE)[2] != text[:action].rpartition(ESCAPE)[2]


def test_what_a_model_writes_cannot_style_or_control_the_terminal():
    hostile = f"[bold red]not markup[/] {ESCAPE}]0;title\x07{ESCAPE}[2J \x9b31m \u202e\u061c\u200f"
    text = as_plain_text(build_episode(replies=(hostile,)))
    assert "[bold red]not markup[/]" in text
    assert not any(bad in text for bad in (ESCAPE, "\x07", "\x9b", "\u202e", "\u061c", "\u200f"))
    assert "\\x1b]0;title\\x07" in text
    assert hostile not in coloured(build_episode(replies=(hostile,)))
    assert visible("a\tb\nc") == "a\tb\nc"


def test_long_messages_are_cut_on_request_and_say_so():
    episode = build_episode(replies=("x" * 50 + "y" * 50,))
    assert "y" not in as_plain_text(episode, limit=50).partition("turn 1")[2].partition("parsed")[0]
    assert "50 more characters" in as_plain_text(episode, limit=50)
    assert "y" * 50 in as_plain_text(episode).replace("\n", "")
