"""Inspect's interface: a task of its evaluations for each environment.

    inspect eval agentgym/textcraft --model openai/gpt-4o --limit 20

A sample is a task of ours, its id the item id. The model under test plays one episode: it is shown
the environment's own conversation start, its replies go to the server as they are, and the server
reads the actions in them. The log holds the conversation, what every step led to, and the score.
"""

# Types are those of a library that is not where most is checked: `nox -s adapters` has it.
# pyright: standard, reportMissingImports=false

from __future__ import annotations

from typing import Any, Final, TypedDict, Unpack

from agent_runtime.conversation import normalize_reply
from agent_runtime.extras import install_command
from agent_runtime.images import require_texts
from agent_runtime.library.sync import Environment, Episode, make

try:
    from anyio import to_thread
    from inspect_ai import Task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ChatMessageAssistant, ChatMessageUser
    from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
    from inspect_ai.solver import Generate, Solver, TaskState, solver
except ImportError as error:
    raise ImportError(
        f"inspect_ai is not installed: {install_command('inspect')}", name=error.name
    ) from error

__all__ = ["Settings", "environment_task"]

_OUTCOME: Final = "agentgym"
"""Where in a sample's store the solver keeps what the scorer reads."""


class Settings(TypedDict, total=False):
    """What a task takes: `-T NAME=VALUE` of `inspect eval`."""

    target: str
    """HOST:PORT of a running server; default: one is started, and ends with Inspect."""
    split: str
    """Which tasks; default: "eval", as `orchestrator.evaluate`."""
    action_format: str
    """How replies are read; default: the environment's first."""
    profile: str
    """How tasks are scored; default: the environment's first."""
    options: dict[str, Any]
    """Of each episode, as the environment's README describes them."""
    seed: int
    """Of each episode; epochs of a sample share it. Default: 0."""
    max_rounds: int
    """Replies that an episode has at most; default: the environment's own number."""
    data: str
    """Folder of official data files for a server that is started."""


def environment_task(environment: str, **settings: Unpack[Settings]) -> Task:
    """Return an Inspect task that plays an environment.

    Args:
        environment: Its name.
        **settings: See `Settings`.

    Raises:
        UnknownName: There is no such split or action format.
        AgentRuntimeError: As `agentgym.make`.
    """
    # Open until the process ends: nothing tells a task that Inspect needs it no more.
    env = make(environment, target=settings.get("target", ""), data=settings.get("data") or None)
    try:
        action_format = settings.get("action_format", "")
        start = [
            ChatMessageUser(content=env.instruction(action_format)),
            ChatMessageAssistant(content=env.acknowledgement(action_format)),
        ]
        samples = [
            Sample(id=task.item_id, input=list(start), metadata={"category": task.category})
            for task in env.tasks(settings.get("split", "eval"))
        ]
    except BaseException:
        env.close()
        raise
    return Task(
        dataset=MemoryDataset(samples, name=environment),
        solver=play_episode(env, settings),
        scorer=episode_score(env.success_score),
        version=env.version,
        metadata={"environment": env.name, "profile": settings.get("profile") or env.profiles[0]},
    )


@solver
def play_episode(env: Environment, settings: Settings) -> Solver:
    """Play the sample's task with the model under test.

    What fails is the sample's error. An episode that a limit of Inspect ends counts as far as it
    was played, like one that has had all its rounds.
    """
    rounds = settings.get("max_rounds") or env.max_rounds

    def open_episode(item_id: str) -> Episode:
        return env.reset(
            item_id,
            seed=settings.get("seed", 0),
            options=settings.get("options"),
            profile=settings.get("profile", ""),
            action_format=settings.get("action_format", ""),
        )

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        # In threads, for Inspect runs on asyncio or on trio, and the episode on a loop of its own.
        episode = await to_thread.run_sync(open_episode, str(state.sample_id))
        try:
            _observe(state, episode)
            while not episode.ended and episode.seq < rounds:
                state = await generate(state)
                if state.output.stop_reason == "model_length":
                    break
                reply = normalize_reply(state.output.completion)
                await to_thread.run_sync(episode.reply, reply)
                _observe(state, episode)
        finally:
            episode.close()
        return state

    return solve


def _observe(state: TaskState, episode: Episode) -> None:
    """Show the model what the reset or step led to, and note what the episode is worth now."""
    require_texts(episode.images, "the solver of Inspect's tasks")
    state.messages.append(ChatMessageUser(content=episode.text))
    state.store.set(
        _OUTCOME,
        {
            "score": episode.score,
            "steps": episode.seq,
            "terminated": episode.terminated,
            "truncated": episode.truncated,
        },
    )


@scorer(metrics={"score": [mean(), stderr()], "success": [mean(), stderr()]})
def episode_score(success_score: float) -> Scorer:
    """Take the score from the episode: nothing is judged here.

    Args:
        success_score: An episode is a success from this score on.
    """

    async def score(state: TaskState, target: Target) -> Score:
        del target  # what is right is the environment's to know
        outcome: dict[str, Any] = state.store.get(_OUTCOME, {})
        reached: float | None = outcome.get("score")
        if reached is None:
            return Score.unscored(
                reason="no_score", explanation="the environment scored no step", metadata=outcome
            )
        success = float(reached >= success_score)
        return Score(value={"score": reached, "success": success}, metadata=outcome)

    return score
