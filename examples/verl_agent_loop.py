"""verl's agent loop (0.9) for our environments: a trajectory is one episode.

verl finds it by the file that `actor_rollout_ref.rollout.agent.agent_loop_config_path` names:

    - name: agentgym
      _target_: verl_agent_loop.AgentGymLoop
      environment: textcraft
      target: 127.0.0.1:50051

`verl_tasks.py` writes its data (`data.train_files`). What was sampled is never tokenised again:
verl's continuous tokens are appended to. verl cuts a first prompt that is longer than
`rollout.prompt_length` and goes on: give it room for the first observation. CI checks the types
with verl 0.9.1.
"""

import asyncio
import functools
from typing import Any
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import (
    AgentLoopBase,
    AgentLoopMetrics,
    AgentLoopOutput,
)

import agentgym
from agent_runtime.conversation import normalize_reply


class AgentGymLoop(AgentLoopBase):
    """Plays the task that a row names; verl makes one for each trajectory."""

    def __init__(self, environment: str, target: str = "", **verl: Any) -> None:
        super().__init__(**verl)
        self._opened = opened(environment, target)
        self._tokenizer: Any = self.tokenizer  # verl's type for it is its factory

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        """Play an episode; raises what the environment or its server fails of."""
        env = await self._opened
        async with await env.reset(str(row["extra_info"]["item_id"])) as episode:
            return await self._play(env, episode, sampling_params)

    async def _play(
        self, env: agentgym.aio.Environment, episode: agentgym.aio.Episode, sampling: dict[str, Any]
    ) -> AgentLoopOutput:
        messages = [
            {"role": "user", "content": env.instruction()},
            {"role": "assistant", "content": env.acknowledgement()},
            {"role": "user", "content": episode.text},
        ]
        ids = await self.ct_build_initial_tokens(messages)
        start, request, most = len(ids), uuid4().hex, self.rollout_config.response_length
        mask: list[int] = []
        logprobs: list[float] | None = None
        while not episode.ended and episode.seq < env.max_rounds and len(mask) < most:
            if episode.seq:
                merged, mask, logprobs = await self.ct_merge_context_msg(
                    messages[:-1], messages, ids, mask, logprobs
                )
                ids = merged.token_ids
                if len(mask) >= most:
                    break
            sampled = await self.server_manager.generate(
                request, prompt_ids=ids, sampling_params=sampling
            )
            told = sampled.log_probs
            merged, mask, logprobs = await self.ct_merge_assistant_token(
                ids, sampled.token_ids, mask, (logprobs or []) if told is not None else None, told
            )
            ids = merged.token_ids
            reply = self._tokenizer.decode(sampled.token_ids, skip_special_tokens=True)
            await episode.reply(normalize_reply(reply))
            messages.append({"role": "assistant", "content": reply})
            messages.append({"role": "user", "content": episode.text})
        response = ids[start:][:most]
        scored = episode.score is not None
        return AgentLoopOutput(
            prompt_ids=ids[:start],
            response_ids=response,
            # Nothing is learned from an episode that was not scored, which is not one that lost.
            response_mask=mask[:most] if scored else [0] * len(response),
            response_logprobs=logprobs[:most] if logprobs else None,
            reward_score=episode.score if scored else 0.0,
            num_turns=len(messages),
            metrics=AgentLoopMetrics(),
            extra_fields={"turn_scores": [], "tool_rewards": [], "scored": scored},
        )


@functools.cache
def opened(environment: str, target: str) -> asyncio.Task[agentgym.aio.Environment]:
    """Open an environment, once in each of verl's worker processes, until it ends."""

    async def open_it() -> agentgym.aio.Environment:
        env = agentgym.aio.make(environment, target=target)
        await env.open()
        return env

    return asyncio.ensure_future(open_it())
