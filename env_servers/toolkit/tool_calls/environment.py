"""The loop that the tool environments share: read a call, answer it, score it, show it.

What differs (tools, what counts as equal, end states) is a class attribute or one of the methods
marked as hooks. A call that raises a fault of infrastructure leaves the episode as it was.

Profile `agentgym` does what the original does, bugs included: an output that equals the answer is
worth as much as handing it in, types have to agree, the word "finish" anywhere ends the episode,
input stands on one line. Profile `fixed` scores only what is handed in, by value.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar, Final, cast

from env_servers.sdk import (
    Advice,
    Environment,
    EnvironmentConfig,
    EpisodeEnvironment,
    Execution,
    InvalidOption,
    Observation,
    Parameter,
    ResetOptions,
    SdkError,
    Task,
    View,
)
from env_servers.toolkit.tool_calls.backends import (
    ALL_CALLS,
    LIVE,
    RECORDED_CALLS,
    Reply,
    ToolError,
)
from env_servers.toolkit.tool_calls.declarations import Tool, ToolSet
from env_servers.toolkit.tool_calls.episode import REWARDS, ToolEpisode
from env_servers.toolkit.tool_calls.line_format import (
    Call,
    Unreadable,
    read_call,
    read_call_leniently,
    write_call,
)
from env_servers.toolkit.tool_calls.payload import ToolTask
from env_servers.toolkit.tool_calls.picture import draw_calls
from env_servers.toolkit.tool_calls.planning import advise, fixed_plan
from env_servers.toolkit.tool_calls.scoring import Subgoals, equal_exactly, equal_in_value
from env_servers.toolkit.tool_calls.tasks import ToolTaskSet

__all__ = ["ToolEnvironment"]

FIRST_OBSERVATION: Final = (
    "Now new trial starts.\nYou should perform actions to accomplish the goal: "
    "{goal}\nGive me one action."
)
VALID_ACTIONS: Final = "You can use following valid actions: {names}"
_MAX_GOAL: Final = 64 * 1024


class ToolEnvironment(EpisodeEnvironment[ToolEpisode]):
    """A user's goal, tools, and an answer. Subclasses say which tools and which tasks."""

    toolset: ClassVar[ToolSet]
    option_names = ("goal", "as_recorded", "reward", "recorded_calls")
    binary_reward: ClassVar[bool] = False
    """The original's server reports 1 for any reward above 0."""
    recorded_first_observation: ClassVar[str] = FIRST_OBSERVATION
    """The first observation as AgentTraj-L has it, with {goal}."""
    tasks: ToolTaskSet

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
        """Return whether an output satisfies a subgoal, in profile `agentgym`."""
        return equal_exactly(subgoal, output)

    def dense_reward(self, episode: ToolEpisode) -> float:
        """Return the dense reward of the state, 0 to 1, in profile `agentgym`."""
        episode.subgoals.update(self.matches)
        return episode.subgoals.share

    def finish_reward(self, episode: ToolEpisode, answer: Any) -> float:
        """Return what handing in an answer is worth, in profile `fixed`."""
        right = any(equal_in_value(subgoal, answer) for subgoal in episode.task.subgoals)
        return float(right)

    def final_reward(self, episode: ToolEpisode, reward: float) -> float:
        """Return the reward of the last step, which may depend on the state of the world."""
        return reward

    def unknown_tool_error(self, name: str) -> str:
        """Return what is said of a call of no tool."""
        return f"ERROR | Invalid action: {name}."

    def ends_episode(self, line: str) -> bool:
        """Return whether a call ends the episode, by its text, in profile `agentgym`."""
        return "finish" in line or "Finish" in line

    def finish(self, episode: ToolEpisode, arguments: Mapping[str, Any]) -> Reply:
        """Hand in an answer; a list is sorted, as in the original."""
        answer = arguments["answer"]
        if type(answer) is list and not episode.fixed:
            answer = sorted(cast("list[Any]", answer))
        return Reply(answer)

    def scores_errors(self) -> bool:
        """Return whether a call that failed is scored too, in profile `agentgym`."""
        return False

    def remember(self, episode: ToolEpisode, call: Call, text: str, reply: Reply | None) -> None:
        """Keep what a call returned, or the text of its error, for subgoals and expert."""
        if reply is not None:
            episode.note_output(reply)
        episode.remember(call, text if reply is None else reply.value)

    def sample_argument(self, tool: Tool, parameter: Parameter, rng: random.Random) -> Any:
        """Return an argument that a random player may try; plausible ones make a better gate."""
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

    def draw_world(self, episode: ToolEpisode) -> Sequence[View]:
        """Return views of what the tools work on, where that is in this process."""
        return ()

    # The episode.

    def start(self, task: Task, options: ResetOptions) -> tuple[ToolEpisode, Observation]:
        payload: ToolTask = task.payload
        values = options.options
        goal = _text_option(values, "goal", payload.goal)
        reward_kind = _text_option(values, "reward", REWARDS[0])
        if reward_kind not in REWARDS:
            raise InvalidOption(f"option reward: {reward_kind[:100]!r}", valid=REWARDS)
        as_recorded = values.get("as_recorded", False)
        if not isinstance(as_recorded, bool):
            raise InvalidOption("option as_recorded must be a bool")
        recorded_calls = _text_option(values, "recorded_calls", ALL_CALLS)
        if recorded_calls not in RECORDED_CALLS:
            raise InvalidOption(
                f"option recorded_calls: {recorded_calls[:100]!r}", valid=RECORDED_CALLS
            )
        backend = self.tasks.backend(payload).knowing(recorded_calls, payload)
        self.close()  # a live account is let go before the next session takes it
        episode = ToolEpisode(
            task=payload,
            session=backend.open(payload),
            fixed=options.profile == "fixed",
            reward_kind=reward_kind,
            binary_reward=self.binary_reward,
            subgoals=Subgoals.of(payload.subgoals),
        )
        text = self.recorded_first_observation if as_recorded else FIRST_OBSERVATION
        return episode, Observation(text.replace("{goal}", goal))

    def fork_episode(self, episode: ToolEpisode) -> ToolEpisode:
        return episode.fork()

    def close_episode(self, episode: ToolEpisode) -> None:
        episode.session.close()

    def cancel(self) -> None:
        if self.running:
            self.episode.session.cancel()

    def render_error(self, message: str, last: Observation) -> Observation:
        return Observation(message, reward=self.episode.reported_reward())

    def step(self, action: str) -> Observation:
        episode = self.episode
        call = read_call_leniently(action) if episode.fixed else read_call(action)
        if isinstance(call, Unreadable):
            episode.steps += 1
            text = call.text if call.is_format_error else _framed(call.text)
            return Observation(text, reward=episode.reported_reward())
        text, reply = self._answer(episode, call)
        episode.steps += 1
        self.remember(episode, call, text, reply)
        done = self._score(episode, call, text, reply)
        return episode.observation(_framed(text), done)

    def _answer(self, episode: ToolEpisode, call: Call) -> tuple[str, Reply | None]:
        """Return what is shown of a call, and its reply where it did not fail."""
        tool = self.toolset.get(call.tool)
        if tool is None:
            return self.unknown_tool_error(call.tool), None
        try:
            arguments = tool.bind(call.arguments, strictly=episode.fixed)
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

    def _score(self, episode: ToolEpisode, call: Call, text: str, reply: Reply | None) -> bool:
        """Bring the reward up to date; returns whether the episode ends."""
        if episode.fixed:
            done = call.tool == "finish" and reply is not None
            if done and reply is not None:
                episode.reward = self.finish_reward(episode, reply.value)
                episode.reward = self.final_reward(episode, episode.reward)
            return done
        failed = reply is None and text.startswith("ERROR | ")
        unknown = failed and self.toolset.get(call.tool) is None
        done = self.ends_episode(call.line) and (unknown or not failed)
        if (not failed or unknown or self.scores_errors()) and "Invalid" not in text:
            episode.reward = max(episode.reward, self.dense_reward(episode))
        if done:
            episode.reward = self.final_reward(episode, episode.reward)
        return done

    def render(self) -> Sequence[View]:
        return [*self.draw_world(self.episode), *draw_calls(self.episode)]

    # The players.

    def advise_expert(self, seed: int) -> Advice:
        episode = self.episode
        plan = episode.task.plan
        if plan is None:
            subgoals = episode.task.subgoals
            plan = fixed_plan((), subgoals[0] if subgoals else "done")
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


@cache
def _live_class(environment: type[ToolEnvironment]) -> type[ToolEnvironment]:
    """Return the same environment on a live service: its steps wait, and answers may change."""
    spec = replace(environment.spec, execution=Execution.THREAD, deterministic=False)
    return type(f"Live{environment.__name__}", (environment,), {"spec": spec})


def _framed(text: str) -> str:
    if not text.isascii():  # a literal such as "\\ud800" is no UTF-8 and could not be sent
        text = text.encode("utf-8", "replace").decode()
    return f"Observation: {text}\nGive me one action."


def _brief(error: Exception) -> str:
    text = str(error)
    return text if len(text) <= 500 else text[:500] + "..."


def _text_option(options: Mapping[str, Any], name: str, default: str) -> str:
    value = options.get(name, default)
    if not isinstance(value, str) or len(value) > _MAX_GOAL:
        raise InvalidOption(f"option {name} must be a text of at most {_MAX_GOAL} characters")
    return value
