"""Whatever a model writes is read as one action or rejected; nothing is ever evaluated."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from env_servers.sdk import (
    ActionFormat,
    Advice,
    Grammar,
    Parameter,
    Rejected,
    Verb,
    read_first_action,
    read_last_action,
    read_single_action,
)
from env_servers.sdk.contract.hostile import REPLIES, mutations
from env_servers.sdk.grammar import INVALID_ACTION, MAX_CODE_CHARS, SEVERAL_ACTIONS

CODE = ActionFormat.CODE_AS_ACTION
CALL = ActionFormat.FUNCTION_CALLING
REACT = ActionFormat.REACT
INVALID = Rejected(INVALID_ACTION, repeat_observation=True)


def put_all(arguments):
    return "put " + " and ".join(arguments["things"]) + f" {arguments.get('times', 1):d} times"


GRAMMAR = Grammar(
    verbs=(
        Verb("say", "Say it.", "say {text}", (Parameter("text"),)),
        Verb("wait", "Wait.", "wait"),
        Verb("turn", "Turn.", "turn {side}", (Parameter("side", enum=("left", "right")),)),
        Verb("add", "Add.", "add {a} {b}", (Parameter("a", "number"), Parameter("b", "integer"))),
        Verb(
            "put",
            "Put things.",
            put_all,
            (
                Parameter("things", "array", items="string"),
                Parameter("times", "number", required=False),
            ),
        ),
        Verb("keep", "Keep.", "keep {what}", (Parameter("what", "object"),)),
        Verb("flag", "Flag.", "flag {on}", (Parameter("on", "boolean"),)),
    ),
    express=lambda action: ("say", {"text": action.removeprefix("say ")}),
)
READERS = (read_last_action, read_first_action, read_single_action)
FORMATS = tuple(ActionFormat)

text = st.text(st.characters(exclude_categories=("Cs",)))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=10,
)


def is_readable(read):
    """One action that fits into a message, or a rejection that does."""
    assert isinstance(read, str | Rejected)
    (read.message if isinstance(read, Rejected) else read).encode()
    return True


@given(text, st.sampled_from(FORMATS), st.sampled_from(READERS))
def test_any_text_is_read_or_rejected(reply, action_format, reader):
    grammar = Grammar(GRAMMAR.verbs, reader, GRAMMAR.express)
    assert is_readable(grammar.read(reply, action_format))


@given(st.sampled_from(FORMATS), st.sampled_from(["say", "add", "put", "keep", "flag"]), text)
def test_any_argument_text_in_any_call_is_read_or_rejected(action_format, name, argument):
    for reply in (
        f"```python\n{name}({argument})\n```",
        f'{{"function_name": "{name}", "arguments": {argument}}}',
        f"Thought: x\nAction: {argument}",
    ):
        assert is_readable(GRAMMAR.read(reply, action_format))


@given(st.sampled_from([verb.name for verb in GRAMMAR.verbs] + ["nothing"]), json_values)
def test_any_json_arguments_are_read_or_rejected(name, arguments):
    assert is_readable(GRAMMAR.read_call(name, arguments))
    assert is_readable(GRAMMAR.read_call_json(name, json.dumps(arguments)))
    assert is_readable(GRAMMAR.read_call(name, {"text": arguments, "a": arguments, "b": 1}))
    assert is_readable(GRAMMAR.read_call(name, {"things": [arguments], "what": {"x": arguments}}))


@given(st.sampled_from(FORMATS), text.map(lambda words: " ".join(words.split())).filter(bool))
def test_what_is_written_is_read_back(action_format, words):
    assume("Action:" not in words)
    advice = Advice(f"say {words}", "because ```python\nof\n``` this")
    assert GRAMMAR.read(GRAMMAR.write(advice, action_format), action_format) == advice.action


@pytest.mark.parametrize("action_format", FORMATS)
@pytest.mark.parametrize("label", REPLIES)
def test_hostile_replies_are_read_or_rejected(action_format, label):
    assert is_readable(GRAMMAR.read(REPLIES[label], action_format))


@pytest.mark.parametrize("action_format", FORMATS)
def test_damaged_replies_are_read_or_rejected(action_format):
    for advice in (Advice("say hello 3"), Advice("say ```"), Advice('say "\\')):
        for _, reply in mutations(GRAMMAR.write(advice, action_format)):
            assert is_readable(GRAMMAR.read(reply, action_format))


@pytest.mark.parametrize(
    "code",
    [
        "add(a=1" + "0" * 400 + "+1j, b=1)",
        "add(a=0x" + "f" * 20_000 + ", b=1)",
        "add(a=" + "9" * 5000 + ", b=1)",
        "add(a=1e999, b=1e999)",
        "keep(what={[]: 1})",
        "add(a=" + "-" * 3000 + "1, b=1)",
        "say(text=" + "1+" * 5000 + "1)",
        "wait" + "()" * 5000,
        "say(*['x'])",
        "say(**{'text': 'x'})",
        "say(text='a', text='b')",
        "say('a', text='b')",
        "say('a', 'b')",
        "say(text=f'{1}')",
        "say(text='a'\0)",
        "say(text='\\ud800')",
        "say.__class__('x')",
        "(lambda: 1)()",
        "say(text=open('x').read())",
        "wait(",
        "wait(); wait()",
        "",
    ],
)
def test_code_that_is_no_call_with_literals_is_rejected(code):
    assert GRAMMAR.read(f"```python\n{code}\n```", CODE) == INVALID


def test_code_is_never_evaluated(tmp_path):
    witness = tmp_path / "witness"
    deed = f"open({str(witness)!r}, 'w')"
    for code in (
        f"say(text={deed})",
        f"say(text=[{deed}])",
        f"{deed}",
        f"say(text=f'{{{deed}}}')",
        f"say(text='x' if {deed} else 'y')",
        f"say(text=(lambda: {deed})())",
        f"say(text=[x for x in [{deed}]])",
        f"say(text='%s' % {deed})",
        f"say(text=__import__('pathlib').Path({str(witness)!r}).touch())",
    ):
        assert GRAMMAR.read(code, CODE) == INVALID
        assert GRAMMAR.read(f"```python\n{code}\n```", CODE) == INVALID
    assert not witness.exists()


def test_code_that_would_keep_the_parser_busy_is_rejected_unparsed():
    assert GRAMMAR.read("say(" + "*a," * MAX_CODE_CHARS + ")", CODE) == INVALID


def test_an_agents_escapes_raise_no_warning_even_where_warnings_are_errors():
    code = (
        "from env_servers.sdk import *;"
        "say = Verb('say', 'Say it.', '{text}', (Parameter('text'),));"
        r"""print(Grammar((say,)).read(r'say(text="\d")', ActionFormat.CODE_AS_ACTION))"""
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("\\d\n", "")


def test_code_takes_positional_and_named_literals():
    assert GRAMMAR.read("```py\n# I add\nadd(1.5, b=-2)\n```", CODE) == "add 1.5 -2"
    assert GRAMMAR.read("wait()", CODE) == "wait"
    assert GRAMMAR.read("put(things=['a', 'b'], times=2)", CODE) == "put a and b 2 times"


@pytest.mark.parametrize(
    "reply",
    [
        '{"thought": "t", "function_name": "say", "arguments": {"text": "hi"}}',
        '```json\n{"function_name": "say", "arguments": {"text": "hi"}}\n```',
        'I say hi. {"thought": "two\nlines", "function_name": "say", "arguments": {"text": "hi"}}',
    ],
)
def test_a_function_call_is_found_in_fences_and_prose(reply):
    assert GRAMMAR.read(reply, CALL) == "say hi"


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "say hi",
        "[]",
        "{}",
        '{"function_name": "say"}',
        '{"function_name": "say", "arguments": "hi"}',
        '{"function_name": "say", "arguments": {"text": 1}}',
        '{"function_name": "say", "arguments": {"text": "hi", "loud": true}}',
        '{"function_name": "say", "arguments": {"text": "\\ud800"}}',
        '{"function_name": "turn", "arguments": {"side": "up"}}',
        '{"function_name": "turn", "arguments": {"side": ["left"]}}',
        '{"function_name": "add", "arguments": {"a": NaN, "b": 1}}',
        '{"function_name": "add", "arguments": {"a": true, "b": 1}}',
        '{"function_name": "put", "arguments": {"things": [1]}}',
        '{"function_name": "put", "arguments": {"things": ["a"], "times": 1e999}}',
        '{"function_name": "nothing", "arguments": {}}',
        '{"function_name": null, "arguments": {}}',
    ],
)
def test_a_wrong_function_call_is_rejected(reply):
    assert GRAMMAR.read(reply, CALL) == INVALID


def test_a_call_without_arguments_needs_none():
    assert GRAMMAR.read('{"function_name": "wait"}', CALL) == "wait"
    assert GRAMMAR.read('{"function_name": "wait", "arguments": null}', CALL) == "wait"
    assert GRAMMAR.read_call_json("wait", "") == "wait"


def test_templates_are_filled_once_and_arguments_are_no_templates():
    assert GRAMMAR.read_call("say", {"text": "{text} {0.__class__}"}) == "say {text} {0.__class__}"


def test_react_readers_differ_where_several_actions_stand():
    reply = "Thought: t\nAction: go east!\nAction:\nlook  "
    assert read_last_action(reply) == "look"
    assert read_first_action(reply) == "go east!"
    assert read_single_action(reply) == Rejected(SEVERAL_ACTIONS)
    assert read_single_action("Action:\n\ngo  east!") == "go east"
    assert [reader("go") for reader in READERS] == ["", "go", ""]


def test_schemas_are_json_and_name_every_verb():
    tools = json.loads(GRAMMAR.functions_json())
    assert [tool["function"]["name"] for tool in tools] == [verb.name for verb in GRAMMAR.verbs]
    put = next(
        tool["function"]["parameters"] for tool in tools if tool["function"]["name"] == "put"
    )
    assert put["required"] == ["things"]
    assert put["properties"]["things"] == {"type": "array", "items": {"type": "string"}}


def test_an_argument_of_any_type_takes_every_value():
    verb = Verb(
        "finish", "End.", lambda given: repr(given["answer"]), (Parameter("answer", "any"),)
    )
    grammar = Grammar(verbs=(verb,))
    for value in ("x", 1, 1.5, True, None, [1, {}], {"a": 1}):
        reply = json.dumps({"function_name": "finish", "arguments": {"answer": value}})
        assert grammar.read(reply, ActionFormat.FUNCTION_CALLING) == repr(value)
    assert "type" not in verb.parameters[0].schema()


def test_an_environment_may_have_its_own_form_of_react():
    grammar = Grammar(write_react=lambda advice: f"{advice.thought} => {advice.action}")
    assert grammar.write(Advice("go", "onwards"), ActionFormat.REACT) == "onwards => go"


def test_reading_code_warns_nobody_and_leaves_the_warnings_of_others_alone():
    grammar = Grammar(verbs=(Verb("say", "", "{text}", (Parameter("text"),)),))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        filters = list(warnings.filters)
        for code in (r'say("\d")', r'say("\q"'):
            grammar.read(code, ActionFormat.CODE_AS_ACTION)
        assert warnings.filters == filters
        warnings.warn("somebody else's", stacklevel=1)
    assert [str(warning.message) for warning in caught] == ["somebody else's"]


def test_importing_the_sdk_changes_no_warning_filter():
    check = (
        "import warnings, env_servers.sdk; "
        "assert not any('agent reply' in str(entry) for entry in warnings.filters)"
    )
    subprocess.run([sys.executable, "-c", check], check=True)
