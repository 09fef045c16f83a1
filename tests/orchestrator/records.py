"""Builders of manifests and episode records for tests: by hand, sound unless asked otherwise.

`build_episode()` gives a record that passes every audit against `build_manifest()`; tests change
what they are about.
"""

from __future__ import annotations

import hashlib

from agentgym.env.v1 import types_pb2
from agentgym.episode.v1 import episode_pb2
from env_servers.toolkit.png import encode_png
from orchestrator import seeds
from orchestrator.manifest import EnvironmentIdentity, Manifest, Session

RUN_ID = "run-1"
RUN_SEED = 7
PROMPT_IDS = (11, 12, 13)
OBSERVATION_IDS = (21, 22)
REPLY_IDS = (31, 32, 33)


def build_manifest(**changes: object) -> Manifest:
    fields: dict = {
        "run_id": RUN_ID,
        "created": "2026-01-01T00:00:00+00:00",
        "environments": (
            EnvironmentIdentity(name="maze", version="1.0", digest="d-maze"),
            EnvironmentIdentity(name="wordle", version="1.0", digest="d-wordle"),
        ),
        "policy": "scripted",
        "run_seed": RUN_SEED,
        "sampling": {"temperature": 1.0, "stop": ["</s>"]},
        "config": {"samples": 2, "environments": {"maze": {"max_rounds": 15}}},
    }
    return Manifest(**(fields | changes))


def build_session(**changes: object) -> Session:
    fields: dict = {
        "started": "2026-01-01T00:00:01+00:00",
        "code_version": "0.1.0",
        "git_commit": None,
        "lock_hash": None,
        "command": ("sample",),
        "machine": {"host": "here"},
    }
    return Session(**(fields | changes))


def build_episode(
    item_id: str = "maze_1",
    *,
    environment: str = "maze",
    sample: int = 0,
    policy: str = "scripted",
    attempt: int = 1,
    reward: float | None = 1.0,
    success: bool | None = True,
    replies: tuple[str, ...] = ("Thought: up it is.\nAction: move up", "Action: move left"),
    tokens: bool = True,
    run_id: str = RUN_ID,
) -> episode_pb2.Episode:
    """A finished episode with one step per reply."""
    names = {"environment": environment, "item_id": item_id}
    episode = episode_pb2.Episode(
        schema_version=1,
        run_id=run_id,
        episode_id=seeds.episode_id(run_id, sample=sample, policy=policy, attempt=attempt, **names),
        environment_version="1.0",
        environment_digest=f"d-{environment}",
        split="eval",
        category="small",
        sample=sample,
        attempt=attempt,
        seed=seeds.episode_seed(RUN_SEED, **names),
        action_format=types_pb2.ACTION_FORMAT_REACT,
        profile="agentgym",
        policy=policy,
        terminated=True,
        stop_reason=types_pb2.STOP_REASON_GOAL_REACHED,
        started_unix_ms=1_700_000_000_000,
        ended_unix_ms=1_700_000_002_500,
        environment_seconds=0.5,
        policy_seconds=2.0,
        **names,
    )
    episode.options.update({"size": 3})
    _add(episode, episode_pb2.ROLE_USER, "Find the goal.")
    _add(episode, episode_pb2.ROLE_ASSISTANT, "OK.")
    _add_step(episode, "You see a wall.", None)
    for turn, reply in enumerate(replies):
        _add(episode, episode_pb2.ROLE_ASSISTANT, reply, sampled=True)
        episode.generations.add(
            turn=turn,
            finish_reason="stop",
            prompt_tokens=len(PROMPT_IDS) + turn * (len(REPLY_IDS) + len(OBSERVATION_IDS)),
            completion_tokens=len(REPLY_IDS),
            sampling_seed=seeds.sampling_seed(RUN_SEED, sample=sample, turn=turn, **names),
            seconds=1.0,
            policy_version="v1",
        )
        _add_step(episode, f"You moved ({turn + 1}).", reply)
    last = episode.steps[-1]
    last.terminated, last.stop_reason = True, episode.stop_reason
    if reward is not None:
        last.reward = episode.reward = episode.score = reward
    if success is not None:
        episode.success = success
    if tokens:
        episode.token_segments.append(build_segment(len(replies)))
    return episode


def build_branch(item_id: str = "maze_1", *, turn: int = 1, **changes) -> episode_pb2.Episode:
    """A branch of `build_episode(item_id)` at a turn; text only, as what a person plays."""
    episode = build_episode(item_id, tokens=False, **changes)
    parent = build_episode(item_id)
    episode.parent.run_id, episode.parent.episode_id = parent.run_id, parent.episode_id
    episode.parent.turn = turn
    for reply in [it for it in episode.messages if it.sampled][:turn]:
        reply.sampled = False
    del episode.generations[:turn]
    return episode


RED_SQUARE = encode_png(8, bytes(64), b"\xff\0\0")


def build_seeing(item_id: str = "maze_1", **changes) -> episode_pb2.Episode:
    """An episode whose observations have images: the first and the last the same one."""
    episode = build_episode(item_id, **changes)
    blue = encode_png(8, bytes(64), b"\0\0\xff")
    for content in (RED_SQUARE, blue):
        episode.images.add(media_type="image/png", content=content)
    observed = [it for it in episode.messages[2:] if it.role == episode_pb2.ROLE_USER]
    for step, message, places in zip(episode.steps, observed, ([0], [1], [0]), strict=True):
        step.images[:] = message.images[:] = places
    return episode


def build_failed(item_id: str = "maze_1", **changes) -> episode_pb2.Episode:
    """An attempt that failed after its steps, by the policy's fault unless told otherwise."""
    fault = changes.pop("fault", types_pb2.FAULT_POLICY)
    retriable = changes.pop("retriable", True)
    episode = build_episode(item_id, **changes)
    for field in ("reward", "score", "success"):
        episode.ClearField(field)
    episode.terminated = False
    episode.steps[-1].terminated = False
    episode.stop_reason = types_pb2.STOP_REASON_POLICY_ERROR
    episode.error.reason = "POLICY_UNAVAILABLE"
    episode.error.message = "the model's server went away"
    episode.error.fault = fault
    episode.error.retriable = retriable
    episode.error.at_seq = len(episode.steps)
    return episode


def build_segment(replies: int) -> episode_pb2.TokenSegment:
    segment = episode_pb2.TokenSegment(policy_versions=["v1"])
    _extend(segment, PROMPT_IDS, episode_pb2.TOKEN_ORIGIN_CONTEXT, 0.0, 0)
    for turn in range(replies):
        start = len(segment.ids)
        _extend(segment, REPLY_IDS, episode_pb2.TOKEN_ORIGIN_SAMPLED, -0.5, turn + 1)
        segment.version_spans.add(start=start, end=len(segment.ids), version=0)
        _extend(segment, OBSERVATION_IDS, episode_pb2.TOKEN_ORIGIN_CONTEXT, 0.0, 0)
    return segment


def _extend(segment, ids, origin, logprob, generation) -> None:
    segment.ids.extend(ids)
    segment.origins.extend([origin] * len(ids))
    segment.logprobs.extend([logprob] * len(ids))
    segment.generations.extend([generation] * len(ids))


def _add(episode, role, text, *, sampled=False) -> None:
    episode.messages.add(role=role, text=text, sampled=sampled)


def _add_step(episode, observation: str, reply: str | None) -> None:
    seq = len(episode.steps)
    step = episode.steps.add(
        seq=seq, observation=observation, state_hash=hashlib.sha256(observation.encode()).digest()
    )
    if reply is not None:
        step.input.reply = reply
        step.parsed_action = reply.rpartition("Action:")[2].strip()
        step.reward = 0.0
    _add(episode, episode_pb2.ROLE_USER, observation)
