"""How a conversation begins beside what the environment says."""

from __future__ import annotations

import pytest

from agent_runtime.conversation import Message, Role
from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.openai.config import OpenAIOptions

START = [Message(Role.USER, "Find the $5 goal."), Message(Role.ASSISTANT, "OK.")]


def test_nothing_is_changed_unasked() -> None:
    assert OpenAIOptions().opening().of(START, "maze") == START


def test_the_template_puts_the_instruction_and_the_environments_name() -> None:
    options = OpenAIOptions(system_prompt="Win.", prompt_template="[$environment] $instruction $$")
    assert options.opening().of(START, "maze") == [
        Message(Role.SYSTEM, "Win."),
        Message(Role.USER, "[maze] Find the $5 goal. $"),
        START[1],
    ]


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("Play!", r"no \$instruction"),
        ("$instruction $item", r"\$item; there are: \$instruction, \$environment"),
        ("$instruction for 5 $", r"write \$\$"),
    ],
)
def test_a_template_that_cannot_be_filled_in_is_refused(template: str, message: str) -> None:
    with pytest.raises(PolicyMisconfigured, match=message):
        OpenAIOptions(prompt_template=template).resolve()


def test_a_text_that_would_name_a_file_when_it_is_read_again_is_refused(tmp_path) -> None:
    (tmp_path / "prompt").write_text("@you")
    with pytest.raises(PolicyMisconfigured, match="begin it with a space"):
        OpenAIOptions(system_prompt=f"@{tmp_path / 'prompt'}").resolve()
