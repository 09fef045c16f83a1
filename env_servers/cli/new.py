"""`python -m env_servers new`: an environment package that works and is short enough to edit.

Nothing that exists is ever overwritten.
"""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Final

import tyro

from env_servers.sdk import SdkError, environment_names

__all__ = ["New", "NewConfig", "Scaffold", "ScaffoldError", "create"]

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")


class ScaffoldError(SdkError):
    """Raised when a package cannot be created under that name in that folder."""


@dataclass(frozen=True, slots=True)
class NewConfig:
    """Write a new environment package that is ready to edit."""

    name: tyro.conf.Positional[str]
    """Package and environment name, for example my_env: lower-case letters, digits, underscores."""
    folder: Path = Path()
    """Where the package's folder is made."""


@dataclass(frozen=True, kw_only=True)
class New(NewConfig):
    """Write a new environment package that is ready to edit."""

    def run(self) -> int:
        """Write the files and say what to do next; returns the exit status."""
        scaffold = create(self.name, self.folder)
        files = "\n".join(f"  {path}" for path in scaffold.files)
        sys.stdout.write(f"wrote\n{files}\n{scaffold.next_steps}\n")
        return 0


@dataclass(frozen=True, slots=True)
class Scaffold:
    """What was written."""

    package: Path
    """The new package's folder."""
    files: tuple[Path, ...]
    """Its files, in the order in which they are best read."""
    next_steps: str
    """What to do with it, for a terminal."""


def create(name: str, folder: Path = Path()) -> Scaffold:
    """Write the package `folder/name`; raises ScaffoldError and touches nothing that exists."""
    _check_name(name)
    package = folder / name
    try:
        package.mkdir(parents=True)
    except FileExistsError:
        raise ScaffoldError(f"{package} exists already; choose another name") from None
    except OSError as error:
        raise ScaffoldError(f"cannot create {package}: {error.strerror}") from error
    words = {
        "name": name,
        "class_name": "".join(part.capitalize() for part in name.split("_")),
    }
    files: list[Path] = []
    for path, template in _TEMPLATES.items():
        file = package / Template(path).substitute(words)
        file.parent.mkdir(exist_ok=True)
        file.write_text(Template(template).substitute(words), encoding="utf-8")
        files.append(file)
    return Scaffold(package, tuple(files), Template(_NEXT_STEPS).substitute(words).strip())


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise ScaffoldError(
            f"{name[:60]!r} cannot name an environment",
            valid="a lower-case letter, then up to 39 letters, digits and underscores",
        )
    if name in environment_names():
        raise ScaffoldError(f"the environment {name} exists already; choose another name")
    if name in sys.stdlib_module_names or _importable(name):
        raise ScaffoldError(f"a module {name} exists already and would hide it")


def _importable(name: str) -> bool:
    """Whether a real module has the name; a mere folder without code does not count."""
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.origin is not None


_NEXT_STEPS: Final = """
python -m env_servers check $name     # does it keep the contract?
python -m env_servers play $name      # try it yourself; /expert shows a good move
python -m pytest $name                # the same contract, as tests
python -m env_servers serve $name     # serve it over gRPC
"""

_INIT: Final = '''"""The environment $name."""

from $name.environment import $class_name

environment = $class_name
'''

_ENVIRONMENT: Final = '''"""Guess a hidden number: complete, to be replaced by your game."""

import random
import re

from env_servers import sdk

HIGHEST = 100
START = sdk.ConversationStart(
    f"I think of a number from 1 to {HIGHEST}. Guess it; I say whether mine is higher or lower.\\n"
    "Reply with your thought, then your action:\\n\\nThought:\\n...\\n\\nAction:\\nguess <number>"
)


def make_task(index: int) -> sdk.Task:
    """The same index always gives the same hidden number."""
    return sdk.Task(f"${name}_{index}", payload=random.Random(index).randint(1, HIGHEST))


class $class_name(sdk.Environment):
    """One game. What is known so far is the state: low <= hidden number <= high."""

    spec = sdk.EnvironmentSpec(
        name="$name",
        version="1",
        description="Guess a hidden number.",
        grammar=sdk.Grammar(),
        conversation_starts={sdk.ActionFormat.REACT: START},
        max_rounds=10,
    )

    @classmethod
    def load_tasks(cls, config: sdk.EnvironmentConfig) -> sdk.TaskSet:
        train = sdk.RangeSplit(sdk.EMBEDDED_BASE, 1000, make_task)
        held_out = sdk.RangeSplit(sdk.EMBEDDED_BASE + 1000, 100, make_task)
        return sdk.RangeTaskSet(cls.spec.name, {"train": train, "eval": held_out})

    def reset(self, task: sdk.Task, options: sdk.ResetOptions) -> sdk.Observation:
        options.require(self.spec.profiles)
        self.hidden, self.low, self.high = task.payload, 1, HIGHEST
        return sdk.Observation(f"My number is between 1 and {HIGHEST}.")

    def step(self, action: str) -> sdk.Observation:
        guess = re.fullmatch(r"guess ([0-9]{1,9})", action.strip())
        if guess is None or not 1 <= (number := int(guess[1])) <= HIGHEST:
            return sdk.Observation(f"Say: guess <a number from 1 to {HIGHEST}>", reward=0.0)
        if number == self.hidden:
            solved = sdk.StopReason.GOAL_REACHED
            return sdk.Observation("Correct!", 1.0, terminated=True, stop_reason=solved)
        if number < self.hidden:
            self.low, hint = max(self.low, number + 1), "higher"
        else:
            self.high, hint = min(self.high, number - 1), "lower"
        return sdk.Observation(f"My number is {hint}.", reward=0.0)

    def advise_expert(self, seed: int) -> sdk.Advice:
        return sdk.Advice(f"guess {(self.low + self.high) // 2}", "I halve what is left.")

    def advise_random(self, rng: random.Random) -> sdk.Advice:
        return sdk.Advice(f"guess {rng.randint(1, HIGHEST)}", "I try my luck.")
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
    episode.reset(next(task for task in candidates if task.payload > 1), ResetOptions())
    assert episode.step("guess 1").text == "My number is higher."
'''

_README: Final = """# $name

Guess a hidden number from 1 to 100 within 10 rounds. Written by `python -m env_servers new`:
replace the game in `environment.py` by yours and keep this page true.

- **Tasks**: generated, `${name}_1000000` ...: `train` 1,000, `eval` 100. The same id is always the
  same task.
- **Actions**: `guess <number>`. Anything else is answered with a hint and changes nothing.
- **Reward**: 1.0 for the right number, which ends the episode; 0.0 before.
- **Expert**: halves the interval; always succeeds within 7 guesses.

To support function calls and code as actions too, give the grammar `verbs` and an `express`
function and add their conversation starts; `python -m env_servers check $name` tells what is
missing.
"""

_TEMPLATES: Final = {
    "environment.py": _ENVIRONMENT,
    "__init__.py": _INIT,
    "README.md": _README,
    "tests/__init__.py": "",
    "tests/test_$name.py": _TESTS,
}
