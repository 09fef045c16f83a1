"""The files that `python -m env_servers new` writes: `string.Template`s over the names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["PACKAGE_FILES", "PACKAGE_STEPS", "PROJECT_FILES", "PROJECT_STEPS"]

PACKAGE_STEPS: Final = """
python -m env_servers check $name     # does it keep the contract?
python -m env_servers play $name      # try it yourself; /expert shows a good move
python -m pytest $name                # the same contract, as tests
python -m env_servers serve $name     # serve it over gRPC
"""

PROJECT_STEPS: Final = """
cd $name && python -m pip install -e .   # from now on every command knows it
python -m env_servers check $name     # does it keep the contract?
python -m pytest                      # the same contract, as tests
python -m orchestrator.sample --env $name --policy expert,random
docker build -t $distribution .       # the same as a server, port 50051
"""

_INIT: Final = '''"""The environment $name."""

from $name.environment import $class_name

environment = $class_name
'''

_ENVIRONMENT: Final = '''"""Guess a hidden number: complete, to be replaced by your game."""

import random
import re

from env_servers import sdk

HIGHEST = ("100", "1000")  # the first is the default
HELP = "Say: guess <a whole number>"
RULES = "I think of a number. Guess it; I say whether mine is higher or lower.\\n"
NUMBER = sdk.Parameter("number", "integer")


def express(action: str) -> tuple[str, dict[str, int]]:
    """A native action as a function call, so that scripted players speak every format."""
    verb, _, number = action.partition(" ")
    return verb, {"number": int(number)} if number.isdecimal() else {}


GRAMMAR = sdk.Grammar(
    verbs=(sdk.Verb("guess", "Guess a number.", "guess {number}", (NUMBER,)),),
    express=express,
)
CALL = '{"thought": "...", "function_name": "guess", "arguments": {"number": 1}}'
STARTS = {
    sdk.ActionFormat.REACT: sdk.ConversationStart(
        RULES + "Reply with\\n\\nThought:\\n...\\n\\nAction:\\nguess <number>"
    ),
    sdk.ActionFormat.FUNCTION_CALLING: sdk.ConversationStart(f"{RULES}Reply with {CALL}"),
}


def make_task(index: int) -> sdk.Task:
    """The same index always gives the same hidden number: a share of the highest one."""
    return sdk.Task(f"${name}_{index}", payload=random.Random(index).random())


class $class_name(sdk.Environment):
    """One game. What is known so far is the state: low <= hidden number <= high."""

    spec = sdk.EnvironmentSpec(
        name="$name",
        version="1",
        description="Guess a hidden number.",
        grammar=GRAMMAR,
        conversation_starts=STARTS,
        max_rounds=12,
        has_score=True,
    )

    @classmethod
    def load_tasks(cls, config: sdk.EnvironmentConfig) -> sdk.TaskSet:
        train = sdk.RangeSplit(sdk.EMBEDDED_BASE, 1000, make_task)
        held_out = sdk.RangeSplit(sdk.EMBEDDED_BASE + 1000, 100, make_task)
        return sdk.RangeTaskSet(cls.spec.name, {"train": train, "eval": held_out})

    def reset(self, task: sdk.Task, options: sdk.ResetOptions) -> sdk.Observation:
        options.require(self.spec.profiles, ["highest"])
        self.low, self.high = 1, int(options.choose("highest", HIGHEST))
        self.hidden = 1 + int(task.payload * self.high)
        return sdk.Observation(f"My number is between 1 and {self.high}.", score=0.0)

    def step(self, action: str) -> sdk.Observation:
        guess = re.fullmatch(r"guess ([0-9]{1,9})", action.strip())
        if guess is None:
            return sdk.Observation(HELP, reward=0.0, score=0.0)
        number = int(guess[1])
        if number == self.hidden:
            self.low = self.high = number
            solved = sdk.StopReason.GOAL_REACHED
            return sdk.Observation("Correct!", 1.0, 1.0, terminated=True, stop_reason=solved)
        if number < self.hidden:
            self.low, hint = max(self.low, number + 1), "higher"
        else:
            self.high, hint = min(self.high, number - 1), "lower"
        return sdk.Observation(f"My number is {hint}.", reward=0.0, score=0.0)

    def fingerprint(self) -> bytes:
        return repr((self.hidden, self.low, self.high)).encode()

    def advise_expert(self, seed: int) -> sdk.Advice:
        return sdk.Advice(f"guess {(self.low + self.high) // 2}", "I halve what is left.")

    def advise_random(self, rng: random.Random) -> sdk.Advice:
        return sdk.Advice(f"guess {rng.randint(self.low, self.high)}", "I try my luck.")
'''

_TESTS: Final = '''"""What $name promises to everybody, and what is special about it."""

from env_servers.sdk import EnvironmentConfig, ResetOptions, load_environment
from env_servers.sdk.contract import EnvironmentContract


class Test$class_name(EnvironmentContract):
    """The promises that every environment makes."""

    environment_name = "$name"


def test_the_hint_says_where_the_number_is() -> None:
    """A guess that is too low is answered with "higher"."""
    environment = load_environment("$name")
    tasks = environment.load_tasks(EnvironmentConfig())
    candidates = (tasks.get(item_id) for item_id in tasks.item_ids("train", 0, 100))
    episode = environment(tasks)
    episode.reset(next(task for task in candidates if task.payload > 0.1), ResetOptions())
    assert episode.step("guess 1").text == "My number is higher."
'''

_README: Final = """# $name

Guess a hidden number within 12 rounds. Written by `python -m env_servers new`: replace the game in
`environment.py` by yours and keep this page true.

- **Tasks**: generated, `${name}_1000000` ...: `train` 1,000, `eval` 100. The same id is always the
  same task.
- **Options**: `highest` (100 or 1000), up to which the number can be.
- **Actions**: `guess <number>`, as text or as a call of the function `guess`. Anything else is
  answered with a hint and changes nothing.
- **Reward**: 1.0 for the right number, which ends the episode; 0.0 before. The score is the same.
- **State**: the fingerprint holds all of it, so equal states are recognised.
- **Expert**: halves the interval; always succeeds within 10 guesses. Where an expert cannot always
  win, say how often it does: `check --expert-success 0.6`, and `Terms(expert_success=0.6)` in the
  tests.

`python -m env_servers check $name` tells what is missing.
"""

_PYPROJECT: Final = """[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "$distribution"
version = "0.1.0"
description = "The environment $name for AgentGym over gRPC"
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["$requirement"]

[project.optional-dependencies]
test = ["pytest>=8.3"]

# How every command finds it: the name, and the module whose `environment` it is.
[project.entry-points."agentgym.environments"]
$name = "$name"

[tool.hatch.build.targets.wheel]
packages = ["$name"]
"""

_DOCKERFILE: Final = """FROM python:3.12-slim
WORKDIR /app
COPY pyproject.toml README.md ./
COPY $name ./$name
RUN pip install --no-cache-dir .
USER 65534
EXPOSE 50051
# It refuses to listen on every address in plain text: give --tls-cert and --tls-key (and the token
# AGENTGYM_TOKEN), or --insecure within a private network.
ENTRYPOINT ["python", "-m", "env_servers", "serve", "$name", "--bind", "0.0.0.0:50051"]
"""

_IGNORED: Final = """__pycache__/
*.egg-info/
.venv/
dist/
runs/
"""

PACKAGE_FILES: Final[Mapping[str, str]] = {
    "environment.py": _ENVIRONMENT,
    "__init__.py": _INIT,
    "README.md": _README,
    "tests/__init__.py": "",
    "tests/test_$name.py": _TESTS,
}
"""By path below the package's folder, in the order in which they are best read."""

PROJECT_FILES: Final[Mapping[str, str]] = {
    "$name/environment.py": _ENVIRONMENT,
    "$name/__init__.py": _INIT,
    "README.md": _README,
    "pyproject.toml": _PYPROJECT,
    "Dockerfile": _DOCKERFILE,
    "tests/test_$name.py": _TESTS,
    ".gitignore": _IGNORED,
}
"""By path below the project's folder."""
