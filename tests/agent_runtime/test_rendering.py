"""Chat rendering: whole first prompts, token deltas afterwards, forks where history changes."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from agent_runtime.conversation import Message, Role
from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.huggingface import HuggingFaceRenderer, ModelTokenizer, compile_template
from agent_runtime.ledger import Origin
from agent_runtime.tokenized_conversation import TokenizedConversation
from tests.agent_runtime import tiny_tokenizers as tiny

START = [
    Message(Role.USER, "You are in a maze."),
    Message(Role.ASSISTANT, "Ok, I'll follow your instructions."),
    Message(Role.USER, "Your current position is at 3, 4."),
]
REPLY = "Thought: I should go right.\n\nAction:\nmove right"
NEXT = "The goal is at position 8, 6.\nmove"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {
        "chatml": tiny.chatml(root / "chatml"),
        "llama3": tiny.llama3(root / "llama3"),
        "llama2": tiny.llama2(root / "llama2"),
        "plain": tiny.plain(root / "plain"),
        "thinking": tiny.chatml(root / "thinking", tiny.THINKING),
        "moving": tiny.chatml(root / "moving", tiny.MOVING_SYSTEM),
    }


@pytest.fixture(scope="module")
def renderers(folders: dict[str, Path]) -> dict[str, HuggingFaceRenderer]:
    return {name: HuggingFaceRenderer(folder) for name, folder in folders.items()}


def tokenizer_of(folders: dict[str, Path], name: str) -> Tokenizer:
    return Tokenizer.from_file(str(folders[name] / "tokenizer.json"))


def encode(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False).ids


def play(
    renderer: HuggingFaceRenderer, sampled: list[int], reply: str, *more: Message
) -> TokenizedConversation:
    """One reply of the given ids, and the prompt after it."""
    tokenized = TokenizedConversation(renderer)
    tokenized.prompt(START)
    tokenized.append_reply(sampled, [-1.0] * len(sampled), generation=0)
    tokenized.prompt([*START, Message(Role.ASSISTANT, reply, sampled=True), *more])
    return tokenized


WHOLE = {
    "chatml": (
        "<|im_start|>system\nBe helpful.<|im_end|>\n"
        f"<|im_start|>user\n{START[0].text}<|im_end|>\n"
        f"<|im_start|>assistant\n{START[1].text}<|im_end|>\n"
        f"<|im_start|>user\n{START[2].text}<|im_end|>\n"
        f"<|im_start|>assistant\n{REPLY}<|im_end|>\n"
        f"<|im_start|>user\n{NEXT}<|im_end|>\n"
        "<|im_start|>assistant\n"
    ),
    "llama3": (
        f"<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n{START[0].text}<|eot_id|>"
        f"<|start_header_id|>assistant<|end_header_id|>\n\n{START[1].text}<|eot_id|>"
        f"<|start_header_id|>user<|end_header_id|>\n\n{START[2].text}<|eot_id|>"
        f"<|start_header_id|>assistant<|end_header_id|>\n\n{REPLY}<|eot_id|>"
        f"<|start_header_id|>user<|end_header_id|>\n\n{NEXT}<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    ),
    "llama2": (
        f"<s>[INST] {START[0].text} [/INST] {START[1].text} </s>"
        f"<s>[INST] {START[2].text} [/INST] {REPLY}</s><s>[INST] {NEXT} [/INST]"
    ),
}
END = {"chatml": "<|im_end|>", "llama3": "<|eot_id|>", "llama2": "</s>"}


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_appended_ids_equal_those_of_the_whole_text_when_the_reply_is_tokenised_canonically(
    name: str, folders: dict[str, Path], renderers: dict[str, HuggingFaceRenderer]
) -> None:
    tokenizer = tokenizer_of(folders, name)
    expected = encode(tokenizer, WHOLE[name])
    # The reply's canonical ids are those which it has inside the whole text.
    prompt = TokenizedConversation(renderers[name]).prompt(START)
    assert expected[: len(prompt)] == prompt
    end = tokenizer.token_to_id(END[name])
    sampled = expected[len(prompt) : expected.index(end, len(prompt)) + 1]
    assert renderers[name].decode(sampled).strip() == REPLY
    tokenized = play(renderers[name], sampled, REPLY, Message(Role.USER, NEXT))
    assert tokenized.prompt([*START, Message(Role.ASSISTANT, REPLY), Message(Role.USER, NEXT)]) == (
        expected
    )
    assert tokenized.ledger.forks == 0
    origins = tokenized.ledger.segments[0].origins
    assert [i for i, o in enumerate(origins) if o is Origin.SAMPLED] == list(
        range(len(prompt), len(prompt) + len(sampled))
    )


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_an_uncanonical_reply_keeps_its_sampled_ids(
    name: str, folders: dict[str, Path], renderers: dict[str, HuggingFaceRenderer]
) -> None:
    tokenizer = tokenizer_of(folders, name)
    letters = [tokenizer.token_to_id(letter) for letter in "move"]
    sampled = [*letters, tokenizer.token_to_id(END[name])]
    assert None not in sampled
    assert encode(tokenizer, "move") != letters
    reply = renderers[name].decode(sampled)
    tokenized = play(renderers[name], sampled, reply, Message(Role.USER, NEXT))
    segment = tokenized.ledger.segments[0]
    kept = [i for i, o in zip(segment.ids, segment.origins, strict=True) if o is Origin.SAMPLED]
    assert (reply, kept, tokenized.ledger.forks) == ("move", sampled, 0)


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_a_reply_cut_by_length_is_ended_by_force(
    name: str, folders: dict[str, Path], renderers: dict[str, HuggingFaceRenderer]
) -> None:
    tokenizer = tokenizer_of(folders, name)
    end = tokenizer.token_to_id(END[name])
    sampled = [tokenizer.token_to_id(letter) for letter in "mov"]
    cut = play(renderers[name], sampled, "mov", Message(Role.USER, NEXT)).ledger
    whole = play(renderers[name], [*sampled, end], "mov", Message(Role.USER, NEXT)).ledger
    assert cut.prompt_ids() == whole.prompt_ids()
    marks = list(zip(cut.segments[0].ids, cut.segments[0].origins, strict=True))
    assert [mark for mark in marks if mark[1] is Origin.FORCED] == [(end, Origin.FORCED)]
    assert Origin.FORCED not in whole.segments[0].origins


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_white_space_around_a_reply_is_no_rewrite(
    name: str, folders: dict[str, Path], renderers: dict[str, HuggingFaceRenderer]
) -> None:
    tokenizer = tokenizer_of(folders, name)
    sampled = [*encode(tokenizer, "\n move \n\n"), tokenizer.token_to_id(END[name])]
    tokenized = play(renderers[name], sampled, "\n move \n\n", Message(Role.USER, NEXT))
    assert tokenized.ledger.forks == 0


def test_both_the_end_of_turn_and_the_models_eos_stop_a_reply(
    folders: dict[str, Path], renderers: dict[str, HuggingFaceRenderer]
) -> None:
    tokenizer = tokenizer_of(folders, "llama3")
    ids = {tokenizer.token_to_id(name) for name in ("<|eot_id|>", "<|end_of_text|>")}
    assert set(renderers["llama3"].stop_ids) == ids
    assert len(renderers["chatml"].stop_ids) == 1


def test_a_template_without_control_tokens_goes_on_in_the_middle_of_a_text(
    folders: dict[str, Path], renderers: dict[str, HuggingFaceRenderer]
) -> None:
    tokenizer = tokenizer_of(folders, "plain")
    sampled = encode(tokenizer, "move right")
    tokenized = play(renderers["plain"], sampled, "move right", Message(Role.USER, NEXT))
    text = tokenizer.decode(tokenized.ledger.prompt_ids())
    assert text.endswith(f"assistant: move right\nuser: {NEXT}\nassistant:")
    assert tokenized.ledger.forks == 0


def test_a_template_that_drops_thoughts_forks_and_says_why(
    folders: dict[str, Path], renderers: dict[str, HuggingFaceRenderer]
) -> None:
    tokenizer = tokenizer_of(folders, "thinking")
    reply = "<think>go right</think>\nmove right"
    sampled = encode(tokenizer, reply + "<|im_end|>")
    ledger = play(renderers["thinking"], sampled, reply, Message(Role.USER, NEXT)).ledger
    assert [segment.fork_reason for segment in ledger.segments] == ["", "template_rewrote_reply"]
    assert "think" not in tokenizer.decode(ledger.prompt_ids())
    assert ledger.segments[0].ids[-len(sampled) :] == tuple(sampled)
    plain = play(
        renderers["thinking"],
        encode(tokenizer, "move<|im_end|>"),
        "move",
        Message(Role.USER, NEXT),
    )
    assert plain.ledger.forks == 0


def test_a_template_that_moves_the_system_prompt_forks(
    folders: dict[str, Path], renderers: dict[str, HuggingFaceRenderer]
) -> None:
    tokenizer = tokenizer_of(folders, "moving")
    start = [Message(Role.SYSTEM, "Be brief."), START[2]]
    tokenized = TokenizedConversation(renderers["moving"])
    tokenized.prompt(start)
    sampled = encode(tokenizer, "move<|im_end|>")
    tokenized.append_reply(sampled, [-1.0] * len(sampled), generation=0)
    tokenized.prompt([*start, Message(Role.ASSISTANT, "move"), Message(Role.USER, NEXT)])
    assert tokenized.ledger.segments[-1].fork_reason == "template_rewrote_history"


@pytest.mark.parametrize("name", ["chatml", "llama3", "llama2", "plain", "thinking"])
@given(
    turns=st.lists(
        st.tuples(
            st.lists(st.integers(5, 400), min_size=1, max_size=6),
            st.booleans(),
            st.text(max_size=9),
        ),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=25, deadline=None)
def test_prompts_grow_by_appending_for_any_sampled_ids(
    name: str,
    renderers: dict[str, HuggingFaceRenderer],
    turns: list[tuple[list[int], bool, str]],
) -> None:
    renderer = renderers[name]
    tokenized = TokenizedConversation(renderer)
    messages = list(START)
    prompt = tokenized.prompt(messages)
    for turn, (ids, ended, observation) in enumerate(turns):
        sampled = [*ids, renderer.stop_ids[-1]] if ended else ids
        tokenized.append_reply(sampled, [-0.5] * len(sampled), generation=turn)
        reply = tokenized.reply_text(sampled)
        messages += [Message(Role.ASSISTANT, reply, sampled=True), Message(Role.USER, observation)]
        forks = tokenized.ledger.forks
        following = tokenized.prompt(messages)
        if tokenized.ledger.forks == forks:
            assert following[: len(prompt) + len(sampled)] == [*prompt, *sampled]
        prompt = following
    assert tokenized.ledger.forks == 0 or "</think>" in str(messages)


def test_asking_twice_for_a_prompt_changes_nothing(
    renderers: dict[str, HuggingFaceRenderer],
) -> None:
    tokenized = TokenizedConversation(renderers["chatml"])
    assert tokenized.prompt(START) == tokenized.prompt(START)


def test_a_prompt_without_its_reply_is_an_error(renderers: dict[str, HuggingFaceRenderer]) -> None:
    tokenized = TokenizedConversation(renderers["chatml"])
    tokenized.prompt(START)
    with pytest.raises(ValueError):
        tokenized.prompt([*START, Message(Role.USER, NEXT)])
    tokenized.append_reply([5], [-1.0], generation=0)
    with pytest.raises(ValueError):
        tokenized.prompt([*START, Message(Role.USER, NEXT), Message(Role.USER, NEXT)])


def test_a_reply_is_cut_at_the_first_stop_string(
    folders: dict[str, Path], renderers: dict[str, HuggingFaceRenderer]
) -> None:
    ids = encode(tokenizer_of(folders, "chatml"), "Action: move\nThought: no")
    tokenized = TokenizedConversation(renderers["chatml"])
    assert tokenized.reply_text(ids, ("\nThought", "zz")) == "Action: move"


def test_a_conversation_that_the_template_refuses_is_a_configuration_error(
    renderers: dict[str, HuggingFaceRenderer],
) -> None:
    with pytest.raises(PolicyMisconfigured, match="roles must alternate"):
        renderers["llama2"].begin([*START, START[0]])


def test_the_date_in_a_template_is_the_one_that_was_given(tmp_path: Path) -> None:
    folder = tiny.chatml(tmp_path, "{{ strftime_now('%d %b %Y') }} " + tiny.CHATML)
    renderer = HuggingFaceRenderer(folder, today=datetime.date(2024, 4, 6))
    assert renderer.begin(START).text.startswith("06 Apr 2024 ")


def test_generation_marks_and_unescaped_json_are_understood(tmp_path: Path) -> None:
    template = (
        "{% for m in messages %}<|im_start|>{% generation %}{{ m.content | tojson }}"
        "{% endgeneration %}<|im_end|>{% endfor %}"
    )
    folder = tiny.chatml(tmp_path, template)
    text = HuggingFaceRenderer(folder).begin([Message(Role.USER, "a < 'b' é")]).text
    assert text == "<|im_start|>\"a < 'b' é\"<|im_end|>"


def test_a_template_file_wins_and_a_named_list_gives_its_default(tmp_path: Path) -> None:
    named = [{"name": "tools", "template": "x"}, {"name": "default", "template": tiny.CHATML}]
    folder = tiny.save(tmp_path, tiny.byte_level(["<|im_start|>", "<|im_end|>"]), "")
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    assert HuggingFaceRenderer(folder).begin(START).text.startswith("<|im_start|>system")
    (folder / "chat_template.jinja").write_text(
        "{{ messages[0].content }}{{ messages[1].content }}"
    )
    assert HuggingFaceRenderer(folder).begin(START).text == START[0].text + START[1].text


def no_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def bad_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}")


def bad_config(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text("{")


def no_template(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text("{}")


def bad_template(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("{% for %}")


@pytest.mark.parametrize(
    "damage", [no_tokenizer, bad_tokenizer, bad_config, no_template, bad_template]
)
def test_a_folder_that_cannot_be_used_says_so(
    damage: Callable[[Path], None], tmp_path: Path
) -> None:
    folder = tiny.chatml(tmp_path)
    damage(folder)
    with pytest.raises(PolicyMisconfigured):
        HuggingFaceRenderer(folder)


def test_templates_run_in_a_sandbox(tmp_path: Path) -> None:
    template = "{{ messages.__class__.__base__.__subclasses__() }}" + tiny.CHATML
    with pytest.raises(PolicyMisconfigured):
        HuggingFaceRenderer(tiny.chatml(tmp_path, template)).begin(START)


@pytest.mark.parametrize("name", ["chatml", "llama2"])
def test_the_pieces_of_a_text_are_the_text(folders: dict[str, Path], name: str) -> None:
    tokenizer = ModelTokenizer(folders[name])
    text = "move  left, then up:\n\n  the goal"
    pieces = tokenizer.pieces(tokenizer.encode(text))
    assert "".join(pieces).lstrip() == text
    assert len(pieces) == len(tokenizer.encode(text))
    assert "\ufffd" in "".join(tokenizer.pieces(tokenizer.encode("🦜")))


@pytest.mark.parametrize("secret", ["loop.__class__", "loop._iterator", "messages.append(1)"])
def test_a_template_gets_at_nothing_but_the_numbers_of_its_loop(secret: str) -> None:
    def render(body: str) -> str:
        source = "{% for message in messages %}" + body + "{% endfor %}"
        template = compile_template(source, special_tokens={}, today=datetime.date(2026, 1, 1))
        return template(START)

    assert render("{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }} ") == (
        "10TrueFalse 21FalseFalse 32FalseTrue "
    )
    assert render("{{ loop.length }}{{ loop.revindex }} ") == "33 32 31 "
    with pytest.raises(PolicyMisconfigured, match="unsafe"):
        render("{{ " + secret + ".x }}")
