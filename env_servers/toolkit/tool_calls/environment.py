"""One episode of a tool environment: calls, what they returned, what they were worth.

Owns the loop that the five tool environments share: read a call, answer it from the session,
score it, show it. What differs (tools, what counts as equal, end states) is a class attribute or
one of the methods marked as hooks. Invariant: a call that raises a fault of infrastructure leaves
the episode as it was.

Profile `agentgym` does what the original does, bugs included: an output that equals the answer is
worth as much as handing it in, types have to agree, the word "finish" anywhere ends the episode,
input stands on one line. Profile `fixed` scores only what is handed in, by value.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar, Final, Self, cast

from env_servers.sdk import (
    Advice,
    Environment,
    EnvironmentConfig,
    Execution,
    InvalidOption,
    Observation,
    Parameter,
    ResetOptions,
    SdkError,
    StopReason,
    Task,
    TaskSet,
)
from env_servers.toolkit.tool_calls.backends import LIVE, Reply, Session, ToolError
from env_servers.toolkit.tool_calls.declarations import Tool, ToolSet
from env_servers.toolkit.tool_calls.line_format import (
    Call,
    Unreadable,
    call_key,
    read_call,
    read_call_leniently,
    write_call,
)
from env_servers.toolkit.tool_calls.planning import advise, plan_of_calls, progress
from env_servers.toolkit.tool_calls.scoring import Subgoals, equal_exactly, equal_in_value
from env_servers.toolkit.tool_calls.tasks import ToolTask, ToolTaskSet

__all__ = ["ToolEnvironment", "ToolEpisode"]

OPENING: Final = (
    "Now new trial starts.\nYou should perform actions to accomplish the goal: "
    "{goal}\nGive me one action."
)
VALID_ACTIONS: Final = "You can use following valid actions: {names}"
REWARDS: Final = ("original", "dense", "binary")
_OPTIONS: Final = ("goal", "as_recorded", "reward")
_MAX_GOAL: Final = 64 * 1024
_MAX_KEPT: Final = 1000
"""Outputs that an episode keeps for its expert."""


@dataclass(slots=True)
class ToolEpisode:
    """The state of one episode."""

    task: ToolTask
    session: Session
    fixed: bool
    reward_kind: str
    subgoals: Subgoals
    reward: float = 0.0
    """Dense: the best share so far, as the original's environments hold it."""
    steps: int = 0
    outputs: dict[str, Any] = field(default_factory=dict[str, Any])
    """Value of each call that was made, by `call_key`; of the last one where it was repeated."""
    progress: float = 0.0
    finished: bool = False
    not_recorded: int = 0
    """Calls that no recording could answer."""


class ToolEnvironment(Environment):
    """A user's goal, tools, and an answer. Subclasses say which tools and which tasks."""

    toolset: ClassVar[ToolSet]
    binary_reward: ClassVar[bool] = False
    """The original's server reports 1 for any reward above 0."""
    recorded_opening: ClassVar[str] = OPENING
    """The first observation as AgentTraj-L has it, with {goal}."""
    tasks: ToolTaskSet

    def __init__(self, tasks: TaskSet) -> None:
        super().__init__(tasks)
        self._episode: ToolEpisode | None = None

    @classmethod
    def configured(cls, config: EnvironmentConfig) -> type[Environment]:
        if config.settings.get(f"{cls.spec.name}.backend") == LIVE:
            return _live_class(cls)
        return cls

    @classmethod
    @abstractmethod
    def load_tasks(cls, config: EnvironmentConfig) -> ToolTaskSet: ...

    # Hooks: what environments may differ in.

    def matches(self, subgoal: Any, output: Any) -> bool:
        """Whether an output satisfies a subgoal, in profile `agentgym`."""
        return equal_exactly(subgoal, output)

    def rate(self, episode: ToolEpisode) -> float:
        """The dense reward of the state, 0 to 1, in profile `agentgym`."""
        episode.subgoals.update(self.matches)
        return episode.subgoals.share

    def rate_finish(self, episode: ToolEpisode, answer: Any) -> float:
        """What handing in an answer is worth, in profile `fixed`."""
        right = any(equal_in_value(subgoal, answer) for subgoal in episode.task.subgoals)
        return float(right)

    def settle(self, episode: ToolEpisode, reward: float) -> float:
        """The reward of the last step, which may depend on the state of the world."""
        return reward

    def unknown_tool(self, name: str) -> str:
        """What is said of a call of no tool."""
        return f"ERROR | Invalid action: {name}."

    def says_finish(self, line: str) -> bool:
        """Whether a call ends the episode, by its text, in profile `agentgym`."""
        return "finish" in line or "Finish" in line

    def finish(self, episode: ToolEpisode, arguments: Mapping[str, Any]) -> Reply:
        """Hand in an answer; a list is sorted, as in the original."""
        answer = arguments["answer"]
        if type(answer) is list and not episode.fixed:
            answer = sorted(cast("list[Any]", answer))
        return Reply(answer)

    def rates_errors(self) -> bool:
        """Whether a call that failed is scored too, in profile `agentgym`."""
        return False

    def sample_argument(self, tool: Tool, parameter: Parameter, rng: random.Random) -> Any:
        """An argument that a random player may try; plausible ones make a better gate."""
        if parameter.enum:
            return rng.choice(parameter.enum)
        samples: dict[str, Any] = {
            "integer": rng.randrange(1, 10),
            "number": round(rng.uniform(-90, 90), 2),
            "boolean": rng.random() < 0.5,
            "array": [rng.randrange(10)],
            "object": {},
        }
        return samples.get(parameter.type, rng.choice(("a", "Paris", "2023-05-01")))

    # The episode.

    def reset(self, task: Task, options: ResetOptions) -> Observation:
        options.require(self.spec.profiles, _OPTIONS)
        payload: ToolTask = task.payload
        given = dict(options.options)
        goal = _text_option(given, "goal", payload.goal)
        reward_kind = _text_option(given, "reward", REWARDS[0])
        if reward_kind not in REWARDS:
            raise InvalidOption(f"option reward: {reward_kind[:100]!r}", valid=REWARDS)
        as_recorded = given.get("as_recorded", False)
        if not isinstance(as_recorded, bool):
            raise InvalidOption("option as_recorded must be a bool")
        if self._episode is not None:
            self._episode.session.close()
        self._episode = ToolEpisode(
            task=payload,
            session=self.tasks.backend(payload).open(payload),
            fixed=options.profile == "fixed",
            reward_kind=reward_kind,
            subgoals=Subgoals.of(payload.subgoals),
        )
        opening = self.recorded_opening if as_recorded else OPENING
        return Observation(opening.replace("{goal}", goal))

    def step(self, action: str) -> Observation:
        episode = self._live()
        call = read_call_leniently(action) if episode.fixed else read_call(action)
        if isinstance(call, Unreadable):
            episode.steps += 1
            text = call.text if call.is_format_error else _framed(call.text)
            return Observation(text, reward=self._reward(episode))
        text, reply = self._answer(episode, call)
        episode.steps += 1
        self._keep(episode, call, text, reply)
        done = self._score(episode, call, text, reply)
        return self._observation(episode, _framed(text), done)

    def _answer(self, episode: ToolEpisode, call: Call) -> tuple[str, Reply | None]:
        """What is shown of a call, and its reply where it did not fail."""
        tool = self.toolset.get(call.tool)
        if tool is None:
            return self.unknown_tool(call.tool), None
        try:
            arguments = self._arguments(episode, tool, call.arguments)
            if tool.name == "check_valid_actions":
                return VALID_ACTIONS.format(names=self.toolset.names()), None
            if tool.name == "finish":
                reply = self.finish(episode, arguments)
            else:
                reply = episode.session.call(tool.name, arguments)
            return str(reply.value), reply
        except SdkError:
            raise
        except ToolError as error:
            episode.not_recorded += error.text.startswith("NotRecorded(")
            return f"ERROR | {error.text}", None
        except Exception as error:  # noqa: BLE001 - boundary: the original shows what tools raise
            return f"ERROR | {type(error).__name__}({_brief(error)})", None

    def _arguments(self, episode: ToolEpisode, tool: Tool, given: Any) -> Mapping[str, Any]:
        """The declared arguments of a call; raises what the original's subscripts raise."""
        if not isinstance(given, dict):
            if not any(parameter.required for parameter in tool.parameters):
                return {}
            if isinstance(given, list | tuple):
                kind = type(given).__name__  # pyright: ignore[reportUnknownArgumentType]
                raise TypeError(f"{kind} indices must be integers or slices, not str")
            if isinstance(given, str):
                raise TypeError("string indices must be integers")
            raise TypeError(
                f"'{type(given).__name__.lstrip('_').lower()}' object is not subscriptable"
            )
        arguments = cast("dict[str, Any]", given)
        missing = tool.missing(arguments)
        if missing is not None:
            raise KeyError(missing)
        if episode.fixed:
            tool.check(arguments)
            return arguments
        return {p.name: arguments[p.name] for p in tool.parameters if p.name in arguments}

    def _keep(self, episode: ToolEpisode, call: Call, text: str, reply: Reply | None) -> None:
        """Remember what a call returned, or the text of its error, for subgoals and expert."""
        if reply is not None and reply.ok:
            episode.subgoals.note(reply.compared)
        key = call_key(call.tool, call.arguments)
        if key is not None and (key in episode.outputs or len(episode.outputs) < _MAX_KEPT):
            episode.outputs[key] = text if reply is None else reply.value

    def _score(self, episode: ToolEpisode, call: Call, text: str, reply: Reply | None) -> bool:
        """Bring the reward up to date; returns whether the episode ends."""
        if episode.fixed:
            done = call.tool == "finish" and reply is not None
            if done and reply is not None:
                episode.reward = self.rate_finish(episode, reply.value)
                episode.reward = self.settle(episode, episode.reward)
            return done
        failed = reply is None and text.startswith("ERROR | ")
        unknown = failed and self.toolset.get(call.tool) is None
        done = self.says_finish(call.line) and (unknown or not failed)
        if (not failed or unknown or self.rates_errors()) and "Invalid" not in text:
            episode.reward = max(episode.reward, self.rate(episode))
        if done:
            episode.reward = self.settle(episode, episode.reward)
        return done

    def _observation(self, episode: ToolEpisode, text: str, done: bool) -> Observation:
        reached = self._progress(episode, done)
        info = {"progress": reached} if done or reached != episode.progress else None
        if info is not None and episode.not_recorded:
            info["not_recorded"] = float(episode.not_recorded)
        episode.progress = reached
        episode.finished = done
        stop = StopReason.ANSWERED if done else StopReason.NONE
        reward = self._reward(episode)
        return Observation(text, reward=reward, terminated=done, stop_reason=stop, info=info)

    def _reward(self, episode: ToolEpisode) -> float:
        """The reward in the unit that was asked for."""
        dense = float(episode.reward)
        if episode.reward_kind == "binary":
            return float(dense >= 1.0)
        if episode.reward_kind == "original" and self.binary_reward:
            return float(dense > 0.0)
        return dense

    def _progress(self, episode: ToolEpisode, done: bool) -> float:
        """Share of the way that is done: of the expert's calls, or of the subgoals."""
        dense = float(episode.reward)
        task = episode.task
        if dense >= 1.0 or task.plan is None or not task.steps:
            return dense
        return max(dense, progress(task.plan, task.steps, episode.outputs))

    # The players.

    def advise_expert(self, seed: int) -> Advice:
        episode = self._live()
        plan = episode.task.plan
        if plan is None:
            subgoals = episode.task.subgoals
            plan = plan_of_calls((), subgoals[0] if subgoals else "done")
        return advise(plan, episode.outputs, seed + episode.steps)

    def advise_random(self, rng: random.Random) -> Advice:
        listed = [tool for tool in self.toolset.tools if tool.listed]
        tool = rng.choice(listed)
        arguments = {
            p.name: self.sample_argument(tool, p, rng) for p in tool.parameters if p.required
        }
        return Advice(write_call(tool.name, arguments), f"I try {tool.name}.")

    def advise_noop(self) -> Advice:
        return Advice(write_call("check_valid_actions", {}), "I only look at what I can do.")

    def fork(self) -> Self:
        copy = type(self)(self.tasks)
        if self._episode is not None:
            copy._episode = replace(
                self._episode,
                session=self._episode.session.fork(),
                subgoals=self._episode.subgoals.copy(),
                outputs=dict(self._episode.outputs),
            )
        return copy

    def cancel(self) -> None:
        if self._episode is not None:
            self._episode.session.cancel()

    def close(self) -> None:
        if self._episode is not None:
            self._episode.session.close()
            self._episode = None

    def render_error(self, message: str, last: Observation) -> Observation:
        return Observation(message, reward=self._reward(self._live()))

    def _live(self) -> ToolEpisode:
        if self._episode is None:
            raise RuntimeError("reset has to come before everything else")
        return self._episode


@cache
def _live_class(environment: type[ToolEnvironment]) -> type[ToolEnvironment]:
    """The same environment on a live service: its steps wait, and answers may change."""
    spec = replace(environment.spec, execution=Execution.THREAD, deterministic=False)
    return type(f"Live{environment.__name__}", (environment,), {"spec": spec})


def _framed(text: str) -> str:
    if not text.isascii():  # a literal such as "\\ud800" is no UTF-8 and could not be sent
        text = text.encode("utf-8", "replace").decode()
    return f"Observation: {text}\nGive me one action."


def _brief(error: Exception) -> str:
    text = str(error)
    return text if len(text) <= 500 else text[:500] + "..."


def _text_option(given: Mapping[str, Any], name: str, default: str) -> str:
    value = given.get(name, default)
    if not isinstance(value, str) or len(value) > _MAX_GOAL:
        raise InvalidOption(f"option {name} must be a text of at most {_MAX_GOAL} characters")
    return value
