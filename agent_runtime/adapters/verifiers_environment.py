"""verifiers' interface (0.4): a taskset of ours, the environment that plays it, and its harness.

    vf-eval agentgym-verifiers --env.taskset.env textcraft --model MODEL

A task is one of ours. An episode of verifiers' is one of ours: the model is shown the environment's
own conversation start, its replies go to the server as they are, and the server reads the actions
in them. The reward is the episode's score.
"""

# Types are those of a library that is not where most is checked: `nox -s verifiers` has it.
# pyright: standard, reportMissingImports=false

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import Iterator
from typing import Any, Final

from agent_runtime.conversation import normalize_reply
from agent_runtime.extras import install_command
from agent_runtime.images import require_texts
from agent_runtime.library.sync import Environment, Episode, make

try:
    import verifiers.v1 as vf

    # Where openai is not installed, Pyright takes a package of ours for it.
    from openai import (
        AsyncOpenAI,  # pyright: ignore[reportAttributeAccessIssue]
        DefaultAsyncHttpxClient,  # pyright: ignore[reportAttributeAccessIssue]
        OpenAIError,  # pyright: ignore[reportAttributeAccessIssue]
    )
    from verifiers.v1.dialects.chat import message_to_wire
    from verifiers.v1.types import AssistantMessage, Messages, UserMessage
except ImportError as error:
    raise ImportError(
        f"verifiers is not installed: {install_command('verifiers')}", name=error.name
    ) from error

__all__ = [
    "AgentGymEnv",
    "AgentGymEnvConfig",
    "AgentGymTask",
    "AgentGymTaskData",
    "AgentGymTaskset",
    "AgentGymTasksetConfig",
    "ChatHarness",
    "ChatHarnessConfig",
]


_READER: Final = "the environment of verifiers"


class AgentGymTasksetConfig(vf.TasksetConfig):
    """What is played: `--env.taskset.NAME VALUE`, `[env.taskset]` of a TOML file."""

    env: str = ""
    """Name of the environment; must be given."""
    target: str = ""
    """HOST:PORT of a running server; default: one is started, and ends with the run."""
    split: str = ""
    """Which tasks; default: the environment's first, which is to be trained on."""
    action_format: str = ""
    """How replies are read; default: the environment's first."""
    profile: str = ""
    """How tasks are scored; default: the environment's first."""
    options: dict[str, Any] = {}
    """Of each episode, as the environment's README describes them."""
    seed: int = 0
    """Of each episode; the rollouts of a group share it."""
    max_rounds: int = 0
    """Replies that an episode has at most; default: the environment's own number."""
    data: str = ""
    """Folder of official data files for a server that is started."""


class AgentGymTaskData(vf.TaskData):
    """What names a task: `id` is the item id. Its first messages come with its episode."""

    category: str = ""


class AgentGymTask(vf.Task[AgentGymTaskData, vf.State, vf.TaskConfig]):
    """A task of ours. Its score comes with the episode: there is nothing to judge afterwards."""

    @property
    def key(self) -> str:
        return str(self.data.id)


class AgentGymTaskset(vf.Taskset[AgentGymTask, AgentGymTasksetConfig]):
    """The tasks of a split."""

    def load(self) -> Iterator[AgentGymTask]:
        """Yield them in their order; raises UnknownName, and what `agentgym.make` raises."""
        with _open(self.config) as environment:
            for task in environment.tasks(self.config.split):
                values = {"id": task.item_id, "name": task.item_id, "category": task.category}
                yield AgentGymTask(AgentGymTaskData.model_validate(values), self.config.task)


class ChatHarnessConfig(vf.HarnessConfig):
    """Nothing can be set: the model gets messages and answers."""


class ChatHarness(vf.Harness[ChatHarnessConfig]):
    """Asks the model for one reply, in this process.

    verifiers' own harness without tools starts a program for every turn.
    """

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """Send the conversation; verifiers takes the answer, or the failure, on its way back."""
        system, prompt = self.resolve_prompt(data)
        said: Messages = [UserMessage(content=prompt)] if isinstance(prompt, str) else prompt or []
        messages = [message_to_wire(it) for it in said]
        if system is not None:
            messages.insert(0, {"role": "system", "content": system})
        # How long a reply may take is verifiers' to say (`player.timeout`).
        http = DefaultAsyncHttpxClient(timeout=None, verify=_certificates())
        async with AsyncOpenAI(base_url=endpoint, api_key=secret, http_client=http) as client:
            body: dict[str, Any] = {"model": ctx.model, "messages": messages}
            try:
                await client.chat.completions.create(**body)
            except OpenAIError as error:
                return vf.ProgramResult(exit_code=1, stdout="", stderr=str(error))
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


class AgentGymEnvConfig(vf.EnvConfig):
    """`[env]` of a run."""

    player: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())
    """Who plays: the policy that is evaluated or trained. No program of its own is run."""


class AgentGymEnv(vf.Env[AgentGymEnvConfig]):
    """Episodes of one environment."""

    _environment: Environment | None = None

    async def start(self) -> None:
        """Reach the server, or start one."""
        self._environment = await asyncio.to_thread(_open, self._settings)

    async def stop(self) -> None:
        """Leave the server."""
        environment, self._environment = self._environment, None
        if environment is not None:
            await asyncio.to_thread(environment.close)

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        """Play an episode. What fails is the episode's error; a limit ends it where it is."""
        assert self._environment is not None
        rounds = self._settings.max_rounds or self._environment.max_rounds
        episode = await asyncio.to_thread(self._reset, str(task.data.id))
        try:
            require_texts(episode.images, _READER)
            opened = task.with_data(prompt=self._first_messages(episode))
            async with agents.player.interaction(opened) as interaction:
                segment = await interaction.turn()
                while not segment.terminated:
                    await asyncio.to_thread(episode.reply, _reply(segment))
                    require_texts(episode.images, _READER)
                    if episode.ended or episode.seq >= rounds:
                        break
                    segment = await interaction.turn(episode.text)
        finally:
            await asyncio.to_thread(episode.close)
        self._score(interaction.trace, episode)

    @property
    def _settings(self) -> AgentGymTasksetConfig:
        settings = self.config.taskset
        assert isinstance(settings, AgentGymTasksetConfig)
        return settings

    def _reset(self, item_id: str) -> Episode:
        assert self._environment is not None
        settings = self._settings
        return self._environment.reset(
            item_id,
            seed=settings.seed,
            options=settings.options,
            profile=settings.profile,
            action_format=settings.action_format,
        )

    def _first_messages(self, episode: Episode) -> Messages:
        assert self._environment is not None
        action_format = self._settings.action_format
        return [
            UserMessage(content=self._environment.instruction(action_format)),
            AssistantMessage(content=self._environment.acknowledgement(action_format)),
            UserMessage(content=episode.text),
        ]

    def _score(self, trace: vf.Trace, episode: Episode) -> None:
        """Record the score; a trace that failed, or was not scored, has none."""
        assert self._environment is not None
        score = episode.score if trace.ok else None
        trace.record_metric("scored", float(score is not None))
        if score is not None:
            trace.record_reward("score", score)
            trace.record_metric("success", float(score >= self._environment.success_score))


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Return what servers are trusted by: loading them takes longer than a turn does."""
    return ssl.create_default_context()


def _open(settings: AgentGymTasksetConfig) -> Environment:
    """Open the environment; whoever asks alike shares its server.

    Raises:
        ValueError: None is named. verifiers makes a configuration of defaults before it reads one.
    """
    if not settings.env:
        raise ValueError("say which environment is played: --env.taskset.env NAME")
    return make(settings.env, target=settings.target, data=settings.data or None)


def _reply(segment: vf.Segment) -> str:
    """Return what the model said, as it said it: `last_reply` is stripped."""
    content = segment.messages[-1].content
    return normalize_reply(content if isinstance(content, str) else "")
