"""What somebody who means harm may write into `Action Input:`, and what must come of it: nothing.

A test class that each tool environment inherits beside `EnvironmentContract`; it does not need
pytest.

    class TestHostileInput(HostileInputContract):
        environment_name = "weather"
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from env_servers.sdk import EnvironmentConfig, Observation, ResetOptions, load_environment
from env_servers.toolkit.tool_calls.environment import ToolEnvironment
from env_servers.toolkit.tool_calls.line_format import BAD_INPUT
from env_servers.toolkit.tool_calls.tasks import ToolTaskSet

__all__ = ["CODE", "VALUES", "HostileInputContract"]

_WITNESS: Final = "AGENTGYM_HOSTILE_WITNESS"
_MODULE: Final = "this"
"""A module of the standard library that nobody else imports."""

CODE: Final[Mapping[str, str]] = {
    "import": f"__import__('os').environ.__setitem__('{_WITNESS}', '1')",
    "import in a value": f"{{'answer': __import__('{_MODULE}')}}",
    "dunder chain": "{'answer': ().__class__.__bases__[0].__subclasses__()}",
    "dunder of a text": "{'answer': ''.__class__.__mro__}",
    "comprehension": "{'answer': [x for x in range(10**9)]}",
    "lambda": "(lambda: {'answer': 1})()",
    "call": "dict(answer=1)",
    "call of a builtin": "{'answer': open('/etc/passwd').read()}",
    "name": "{'answer': answer}",
    "format string": "{'answer': f'{__name__}'}",
    "walrus": "{'answer': (x := 1)}",
    "power": "{'answer': 9**9**9}",
    "shift": "{'answer': 1 << 10**9}",
    "repeated text": "{'answer': 'a' * 10**9}",
    "repeated list": "{'answer': [0] * 10**9}",
    "spread": "{**{'answer': 1}}",
    "division by zero": "{'answer': 1/0}",
    "unhashable key": "{{}: 1}",
    "unhashable item": "{[1]}",
    "statement": "import os",
    "two statements": "1; 2",
    "nothing": "",
    "unclosed": "{'answer': ",
    "json true": '{"answer": true}',
    "json null": '{"answer": null}',
    "deep list": "[" * 5000 + "]" * 5000,
    "deep dictionary": "{'a':" * 5000 + "1" + "}" * 5000,
    "deep signs": "-" * 5000 + "1",
    "deep sum": "+".join("1" * 20_000),
    "huge digits": "{'answer': " + "9" * 5000 + "}",
    "too long": "'" + "a" * 1_000_000 + "'",
    "starred": "*a, **b",
    "null byte": "{'answer': '\0'}",
    "await": "{'answer': await x}",
    "yield": "{'answer': (yield)}",
    "ellipsis": "{'answer': ...}",
}
"""Inputs that are no literals, by label; each gets the original's error, in profile `agentgym`."""

VALUES: Final[Mapping[str, Any]] = {
    "none": None,
    "true": True,
    "negative": -1,
    "large": 10**25,
    "infinite": float("inf"),
    "complex": 1j,
    "empty text": "",
    "bytes": b"\xff",
    "surrogate": "\ud800",
    "path": "../../../../etc/passwd",
    "null": "a\0b",
    "formula": "=IMPORTXML('http://localhost/', '//a')",
    "command": "=cmd|'/C calc'!A0",
    "query": "'; DROP TABLE items; --",
    "template": "{0.__class__.__init__.__globals__} %s ${x}",
    "dunder": "__class__",
    "markup": "<script>alert(1)</script>\x1b[31m",
    "right to left": "\u202etfel\u202c",
    "long text": "a" * 20_000,
    "list": [[1, [2, [3, {}]]], "a", None],
    "long list": list(range(5000)),
    "dictionary": {"__proto__": {"a": 1}, 1: 2},
    "tuple": (1, "a"),
    "set": {"b", "a", 1},
    "date": "9999-99-99",
    "odd date": "0001-01-01",
    "digits": "٣",
}
"""Literals that no tool was made for, by label."""


class HostileInputContract:
    """Inherit it in a class named `Test...`."""

    environment_name: ClassVar[str] = ""
    config: ClassVar[EnvironmentConfig] = EnvironmentConfig()
    expert_solves: ClassVar[bool] = True
    more_values: ClassVar[Mapping[str, Any]] = {}
    """Literals that are hostile to this environment in particular."""
    _tasks: ClassVar[ToolTaskSet | None] = None

    @classmethod
    def teardown_class(cls) -> None:
        """Releases the task set."""
        if cls._tasks is not None:
            cls._tasks.close()
            cls._tasks = None

    def begin(self, profile: str = "agentgym", number: int = 0) -> ToolEnvironment:
        """Return a fresh episode of an embedded task."""
        environment = load_environment(self.environment_name)
        assert issubclass(environment, ToolEnvironment)
        cls = type(self)
        if cls._tasks is None:
            cls._tasks = environment.load_tasks(self.config)
        episode = environment(cls._tasks)
        item = cls._tasks.item_ids("train", number, number + 1)[0]
        episode.reset(cls._tasks.get(item), ResetOptions(profile=profile))
        return episode

    def test_code_in_an_input_gets_the_documented_error_and_changes_nothing(self) -> None:
        expected = f"Observation: {BAD_INPUT}\nGive me one action."
        episode = self.begin()
        modules = _MODULE in sys.modules
        rewards: set[float | None] = set()
        for tool in episode.toolset.tools:
            for label, text in CODE.items():
                observation = episode.step(f"Action: {tool.name} with Action Input: {text}")
                assert observation.text == expected, (tool.name, label, observation.text[:200])
                assert not (observation.terminated or observation.truncated)
                rewards.add(observation.reward)
        assert rewards == {0.0}
        assert _WITNESS not in os.environ
        assert (_MODULE in sys.modules) == modules
        if self.expert_solves:
            assert (self.play_expert(episode).reward or 0.0) >= 1.0

    def test_code_in_an_input_is_refused_in_profile_fixed_too(self) -> None:
        expected = f"Observation: {BAD_INPUT}\nGive me one action."
        episode = self.begin("fixed")
        for tool in episode.toolset.tools:
            for label, text in CODE.items():
                if label.startswith("json"):
                    continue
                observation = episode.step(f"Action: {tool.name} with Action Input: {text}")
                assert observation.text == expected, (tool.name, label, observation.text[:200])
                assert (observation.reward, observation.terminated) == (0.0, False)

    def test_values_that_no_tool_expects_are_answered(self) -> None:
        for profile in ("agentgym", "fixed"):
            for tool in self.begin(profile).toolset.tools:
                episode = self.begin(profile)
                for label, value in {**VALUES, **self.more_values}.items():
                    arguments = {parameter.name: value for parameter in tool.parameters}
                    observation = episode.step(
                        f"Action: {tool.name} with Action Input: {arguments!r}"
                    )
                    assert observation.text.startswith("Observation: "), (tool.name, label)
                    assert len(observation.text.encode()) < 1_000_000
                    if observation.terminated:
                        assert observation.reward is not None
                        assert observation.reward < 1.0, (tool.name, label)
                        episode = self.begin(profile)

    def test_inputs_that_are_no_dictionary_are_answered(self) -> None:
        episode = self.begin()
        for tool in episode.toolset.tools:
            if not any(parameter.required for parameter in tool.parameters):
                continue
            for value in (1, 1.5, "a", None, True, (), [], b"", 1j, {"__class__": 1}):
                observation = episode.step(f"Action: {tool.name} with Action Input: {value!r}")
                assert observation.text.startswith("Observation: ERROR | "), (tool.name, value)
                assert not observation.terminated

    def test_names_that_are_no_tools_reach_nothing(self) -> None:
        episode = self.begin()
        for name in ("__init__", "__class__", "call", "close", "fork", "task", "a" * 10_000, "é"):
            observation = episode.step(f"Action: {name} with Action Input: {{}}")
            assert (
                observation.text
                == f"Observation: {episode.unknown_tool_error(name)}\nGive me one action."
            )
            assert (observation.reward, observation.terminated) == (0.0, False)

    def play_expert(self, episode: ToolEnvironment) -> Observation:
        """Let the expert play on to the end."""
        observation = Observation("")
        for step in range(episode.spec.max_rounds):
            observation = episode.step(episode.advise_expert(step).action)
            if observation.terminated:
                break
        return observation
