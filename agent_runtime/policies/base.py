"""What a policy is: from a conversation to the next reply.

A `Policy` is shared by all episodes of a run; it opens one `PolicySession` per episode, which owns
what that episode accumulates (token ledger, cache affinity). Requests to a server have no side
effect and are sent again where they were sent; the run plays episodes anew for what that cannot
heal.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, Self

from agent_runtime.conversation import Message
from agent_runtime.draft import Draft
from agent_runtime.request_retry import Outage, RequestCounts
from agent_runtime.sampling import FinishReason, Sampling
from agent_runtime.spending import Pricing
from agent_runtime.weights import Interrupt, Weights
from agentgym.env.v1 import environment_pb2, types_pb2
from agentgym.episode.v1 import episode_pb2

if TYPE_CHECKING:
    from agent_runtime.policies.config import PolicyConfig

__all__ = [
    "Completion",
    "EpisodeContext",
    "LiveEpisode",
    "Policy",
    "PolicySession",
    "TrainablePolicy",
]


# Not frozen, as what is made for every reply or episode: a frozen one takes three times as long.
@dataclass(slots=True, kw_only=True)
class Completion:
    """One reply of a policy; nobody changes it."""

    text: str
    finish_reason: FinishReason = FinishReason.STOP
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    policy_version: str = ""
    """The version that the engine reported; empty = none reported."""
    cost_usd: float | None = None
    """None = prices unknown."""
    repeats: Mapping[str, int] = field(default_factory=dict[str, int])
    """How often its requests were sent again, by reason."""
    reasoning: str = ""
    """What the model thought before it replied; no part of `text`."""
    reasoning_tokens: int = 0
    """Completion tokens that it thought with."""
    cache_write_tokens: int = 0
    """Prompt tokens that the server put into its prompt cache."""
    output_items: Sequence[str] = ()
    """What a server answered that answers with several items, each as JSON."""
    same_completion: bool = False
    """A further tool call of the completion before: nothing was asked, nothing is counted."""
    from_cache: bool = False
    """A response cache gave the answer: nothing was asked, nothing is billed."""


class LiveEpisode(Protocol):
    """The part of a live environment episode that scripted policies may use."""

    async def consult(self, advisor: environment_pb2.Advisor, seed: int) -> environment_pb2.Advice:
        """Ask a scripted player for advice in the current state; changes nothing."""
        ...


@dataclass(slots=True, kw_only=True)
class EpisodeContext:
    """What a session may know of its episode when it opens; nobody changes it."""

    episode_id: str
    environment: str
    item_id: str
    action_format: types_pb2.ActionFormat
    live: LiveEpisode
    tools_json: str = "[]"
    """The environment's functions as a JSON list of OpenAI-style tools."""
    draft: Draft = field(default_factory=Draft)
    """Takes replies while they are written; only a session that `streams` has use for it."""


class PolicySession(ABC):
    """A policy's side of one episode."""

    streams: bool = False
    """Whether it writes the draft of a reply where that is wanted. The reply is the same then."""

    def begin(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the conversation's start as this policy wants it; called once, before the reset.

        Args:
            messages: The environment's own: instruction and acknowledgement.

        Returns:
            What the record holds and every `reply` begins with; the last is the assistant's.
        """
        return messages

    def inherit(self, messages: Sequence[Message], replies: Sequence[Sequence[int]]) -> None:
        """Take over the turns that a branch begins with; called once, after `begin`.

        A policy that reads texts needs nothing but the messages, which `reply` gets.

        Args:
            messages: The conversation so far; the last message is the user's.
            replies: Token ids of the replies in it, as they were sampled; empty where they are not
                known, and `messages` are read as text.
        """

    @property
    def takes_images(self) -> bool:
        """Whether images of observations reach the model, or it needs no observations at all.

        To a session that takes none they are not shown: its episode fails and says so.
        """
        return False

    @abstractmethod
    async def reply(self, messages: Sequence[Message], *, turn: int, seed: int) -> Completion:
        """Give the next reply to a conversation.

        Args:
            messages: The whole conversation so far; the last message is the user's.
            turn: Counts replies from 0.
            seed: Sampling seed of this turn.

        Raises:
            PolicyError: The model or its server failed.
        """

    def token_segments(self) -> list[episode_pb2.TokenSegment]:
        """Return the token ledger; empty for text-only policies."""
        return []

    async def close(self) -> None:
        """Abort what is in flight and release what the session holds."""


class Policy(ABC):
    """A source of replies for many episodes at once."""

    name: str = ""
    """Identifies the policy in records, for example `openai:gpt-x`."""
    pricing: Pricing = Pricing.UNKNOWN
    """Whether it knows what its replies cost; with PRICED, `cost_usd` is never None."""

    def identity(self) -> Mapping[str, str]:
        """Return what decides the replies beyond the configuration: weights, what computes them.

        Known once the policy is started. It is recorded; a resumed run must find the same.
        """
        return {}

    def outage(self) -> Outage | None:
        """Return why no episode should be begun now; None = nothing speaks against it."""
        return None

    def request_counts(self) -> RequestCounts | None:
        """Return what became of the requests to its server so far; None = it has none."""
        return None

    @abstractmethod
    def open(self, context: EpisodeContext) -> PolicySession:
        """Open a session for one episode."""

    async def start(self) -> None:
        """Connect and check; called once before the first session. Raises PolicyError."""

    async def close(self) -> None:
        """Release connections."""


class TrainablePolicy(Policy):
    """A policy whose weights can be replaced and whose probabilities can be asked for."""

    _config: PolicyConfig

    @abstractmethod
    async def update_weights(
        self, weights: Weights, *, version: str = "", interrupt: Interrupt | None = None
    ) -> str:
        """Replace the weights while episodes are played.

        Each token carries the version that sampled it. Nothing is changed by an update that is
        refused.

        Args:
            weights: A checkpoint's folder as the engine sees it, or a state_dict.
            version: Name that tokens of these weights carry; new for new weights. A folder on this
                machine may go without: an embedded engine names it by its digest.
            interrupt: What happens to replies that are being sampled; default: what disturbs this
                kind of policy least.

        Returns:
            The version that tokens carry from now on.

        Raises:
            PolicyMisconfigured: The weights are of another model, the version is no new one, or
                the policy cannot interrupt its replies like this.
            PolicyError: An engine could not be updated.
            RuntimeError: The policy is not started.
        """

    def follow(self, version: str) -> None:
        """Know that another process has given the engines weights of this version.

        Of what an engine of one's own serves, nobody has to be told.
        """

    def with_sampling(self, sampling: Sampling) -> Self:
        """Return this policy with other settings of sampling: same engine, same weights.

        It is started, closed and given weights as this one is, never by itself.
        """
        other = copy.copy(self)
        other._config = replace(self._config, sampling=sampling)
        return other

    @abstractmethod
    async def score(self, ids: Sequence[int]) -> list[float | None]:
        """Compute the logprob of each id given those before it, by the weights of the moment.

        Returns:
            One logprob per id, of the untruncated distribution at temperature 1, in nats; None for
            the first id, which follows nothing.

        Raises:
            PolicyError: The engine cannot score these ids.
            RuntimeError: The policy is not started.
        """
