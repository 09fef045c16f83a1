"""verifiers' interface: a multi-turn environment of ours, for its evaluator and its trainers.

    import agentgym.verifiers_environment

    env = agentgym.verifiers_environment.load_environment(env="textcraft")
    results = env.evaluate_sync(client=..., model="...", num_examples=20)

A row of the data set is a task of ours. A rollout is an episode: the model is shown the
environment's own conversation start, its replies go to the server as they are, and the server
reads the actions in them. The reward is the episode's score.
"""

# Types are those of a library that is not where most is checked: `nox -s verifiers` has it.
# pyright: standard, reportMissingImports=false

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from agent_runtime.conversation import normalize_reply
from agent_runtime.errors import AgentRuntimeError
from agent_runtime.extras import install_command
from agent_runtime.images import require_texts
from agent_runtime.library.sync import Environment, Episode, make

try:
    import verifiers as vf
    from datasets import Dataset
except ImportError as error:
    raise ImportError(
        f"verifiers is not installed: {install_command('verifiers')}", name=error.name
    ) from error

__all__ = ["VerifiersEnv", "load_environment"]

_EPISODE: Final = "agentgym_episode"
_SCORE: Final = "agentgym_score"
"""In a rollout's state: the live episode, and what it is worth so far (None = not scored)."""


def load_environment(
    env: str,
    target: str = "",
    split: str = "",
    eval_split: str = "eval",
    action_format: str = "",
    profile: str = "",
    options: dict[str, Any] | None = None,
    seed: int = 0,
    max_rounds: int = 0,
    data: str = "",
) -> VerifiersEnv:
    """Return an environment as verifiers wants it.

    Args:
        env: Its name.
        target: HOST:PORT of a running server; default: one is started, and ends with the process.
        split: What is trained on; default: the environment's first.
        eval_split: What is evaluated on.
        action_format: How replies are read; default: the environment's first.
        profile: How tasks are scored; default: the environment's first.
        options: Of each episode, as the environment's README describes them.
        seed: Of each episode; the rollouts of a group share it.
        max_rounds: Replies that an episode has at most; default: the environment's own number.
        data: Folder of official data files for a server that is started.

    Raises:
        UnknownName: There is no such split or action format.
        AgentRuntimeError: As `agentgym.make`.
    """
    environment = make(env, target=target, data=data or None)

    def open_episode(item_id: str) -> Episode:
        return environment.reset(
            item_id, seed=seed, options=options, profile=profile, action_format=action_format
        )

    try:
        return VerifiersEnv(
            environment,
            open_episode,
            max_rounds=max_rounds or environment.max_rounds,
            dataset=_rows(environment, split, action_format),
            eval_dataset=_rows(environment, eval_split, action_format),
        )
    except BaseException:
        environment.close()
        raise


def _rows(environment: Environment, split: str, action_format: str) -> Dataset:
    """Return the tasks of a split; the first observation follows when an episode is opened."""
    start = [
        {"role": "user", "content": environment.instruction(action_format)},
        {"role": "assistant", "content": environment.acknowledgement(action_format)},
    ]
    infos = [
        {"item_id": task.item_id, "category": task.category} for task in environment.tasks(split)
    ]
    return Dataset.from_list([{"prompt": start, "answer": "", "info": info} for info in infos])


class VerifiersEnv(vf.MultiTurnEnv):
    """Episodes of one environment as verifiers' rollouts."""

    def __init__(
        self,
        environment: Environment,
        open_episode: Callable[[str], Episode],
        *,
        max_rounds: int,
        dataset: Dataset,
        eval_dataset: Dataset,
    ) -> None:
        """Take over an open environment; `load_environment` does so."""
        success_score = environment.success_score

        async def score(state: vf.State) -> float:
            return state.get(_SCORE) or 0.0  # there is no absent reward; `scored` tells

        async def success(state: vf.State) -> float:
            return float((state.get(_SCORE) or 0.0) >= success_score)

        async def scored(state: vf.State) -> float:
            return float(state.get(_SCORE) is not None)

        super().__init__(
            dataset=dataset,
            eval_dataset=eval_dataset,
            rubric=vf.Rubric(funcs=[score, success, scored], weights=[1.0, 0.0, 0.0]),
            pass_threshold=success_score,
        )
        self.environment = environment
        """The environment under it."""
        self._open_episode = open_episode
        self._max_rounds = max_rounds

    async def setup_state(self, state: vf.State) -> vf.State:
        """Open the episode and show its first observation."""
        try:
            episode = await asyncio.to_thread(self._open_episode, state["info"]["item_id"])
            require_texts(episode.images, "the environment of verifiers")
        except AgentRuntimeError as error:
            raise vf.InfraError(str(error)) from error
        state[_EPISODE] = episode
        state[_SCORE] = episode.score
        state["prompt"] = [*state["prompt"], vf.UserMessage(content=episode.text)]
        return state

    async def add_model_response(
        self, state: vf.State, prompt_messages: vf.Messages, response: vf.Response
    ) -> None:
        """Apply a reply as soon as it is there: verifiers would drop the one of the last round."""
        await super().add_model_response(state, prompt_messages, response)
        episode: Episode = state[_EPISODE]
        content = response.message.content
        reply = normalize_reply(content if isinstance(content, str) else "")
        try:
            await asyncio.to_thread(episode.reply, reply)
            require_texts(episode.images, "the environment of verifiers")
        except AgentRuntimeError as error:
            raise vf.InfraError(str(error)) from error
        state[_SCORE] = episode.score
        if episode.ended or episode.seq >= self._max_rounds:
            state["final_env_response"] = [vf.UserMessage(content=episode.text)]

    async def env_response(self, messages: vf.Messages, state: vf.State, **_: Any) -> vf.Messages:
        """Return what the reply led to."""
        return [vf.UserMessage(content=state[_EPISODE].text)]

    @vf.cleanup
    async def close_episode(self, state: vf.State) -> None:
        """End the episode; a rollout whose reset failed has none."""
        episode: Episode | None = state.pop(_EPISODE, None)
        if episode is not None:
            episode.close()

    @vf.teardown
    async def close_environment(self) -> None:
        """Leave the server."""
        self.environment.close()
