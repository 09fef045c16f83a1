"""One live environment and the proof of its state: the synchronous core of an episode.

It runs wherever the environment runs: on the loop, in a thread, in a worker process.
"""

from __future__ import annotations

import contextlib
import json
import math
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Self, cast

from xxhash import xxh3_64_digest

from env_servers.sdk import (
    ActionFormat,
    Advice,
    Advisor,
    AsyncEnvironment,
    Environment,
    EnvironmentConfig,
    InvalidOption,
    Observation,
    ResetOptions,
    TaskSet,
    View,
    load_environment,
)
from env_servers.sdk.images import proof_of
from env_servers.sdk.images import require_fit as require_fit_images
from env_servers.sdk.judging import JUDGEMENTS
from env_servers.sdk.views import require_fit as require_fit_views
from env_servers.server.inputs import Action, StepInput

__all__ = [
    "AdvisedReply",
    "EnvironmentInstance",
    "LoadedEnvironment",
    "ReplayDiverged",
    "ResetSpec",
    "Result",
]

MAX_OBSERVATION_BYTES: Final = 32 * 1024 * 1024
"""Of an observation's text, well below what a message may have. One of 70 MB once broke its stream
again and again: it could not be sent, and every new stream asked for it anew."""
_MAX_INFO_CHARS: Final = MAX_OBSERVATION_BYTES // 16
"""Of an observation's info as Python writes it; a list of zeros is some ten times as long on the
wire."""
_NO_HASH: Final = b""
_new = cast("Callable[..., Result]", tuple.__new__)  # pyright: ignore[reportUnknownMemberType]

AdvisedReply = tuple[str, str, str]
"""A scripted player's (action, thought, rendered reply)."""


class ObservationTooLong(Exception):
    """Raised for an observation that no message could carry."""


class OutcomeNotFinite(Exception):
    """Raised for a reward or score that is NaN or infinite."""


class ReplayDiverged(Exception):
    """Raised when a journal, played again, leads to another state than it records."""

    def __init__(self, at_seq: int, expected: bytes, actual: bytes) -> None:
        super().__init__(
            f"replay diverged at seq {at_seq}: state hash {actual.hex()} instead of "
            f"{expected.hex()}"
        )
        self.at_seq = at_seq


class ResetSpec(NamedTuple):
    """Everything that decides how an episode begins; equal specs begin equal episodes."""

    environment: str
    item_id: str
    seed: int
    profile: str
    action_format: ActionFormat
    options: Mapping[str, Any]
    images: bool = False
    """The client takes images."""

    def __eq__(self, other: object) -> bool:
        # For Python 1 == True; for an environment's options they differ.
        return (
            isinstance(other, ResetSpec)
            and self[:5] == other[:5]
            and self.images == other.images
            and _json(self.options) == _json(other.options)
        )

    def __ne__(self, other: object) -> bool:
        return not self == other


def _json(options: Mapping[str, Any]) -> str:
    # What judges said before is given back for a rebuild: it begins no other episode.
    chosen = {name: value for name, value in options.items() if name != JUDGEMENTS}
    return json.dumps(chosen, sort_keys=True)


class Result(NamedTuple):
    """The outcome of a reset or step."""

    observation: Observation
    state_hash: bytes
    parsed_action: str | None
    """The native action that a reply or call was read as; None where there was nothing to read or
    it could not be."""


class LoadedEnvironment:
    """An environment class with its task set, loaded once per process."""

    __slots__ = ("_preparing", "environment", "name", "prepared", "spec", "tasks")

    def __init__(self, name: str, config: EnvironmentConfig) -> None:
        """Load the environment; raises SdkError.

        `name` is what the registry resolves; clients see the spec's own name.
        """
        self.name = name
        self.environment: type[Environment] = load_environment(name).configured(config)
        self.spec = self.environment.spec
        self.tasks: TaskSet = self.environment.load_tasks(config)
        self.prepared = type(self.tasks).prepare is TaskSet.prepare  # which does nothing
        self._preparing = threading.Lock()

    def prepare(self) -> None:
        """Let the task set make what it left out, once; whoever comes meanwhile waits."""
        with self._preparing:
            if not self.prepared:
                self.tasks.prepare()
                self.prepared = True

    @property
    def waits(self) -> bool:
        """Whether its operations spend their time waiting for others."""
        return issubclass(self.environment, AsyncEnvironment)

    def open(
        self,
        reset: ResetSpec,
        journal: Sequence[StepInput] = (),
        hashes: Sequence[bytes] = (),
    ) -> tuple[EnvironmentInstance, list[Result]]:
        """Start an episode and play a journal; returns it with the result of every seq.

        Args:
            reset: How the episode begins.
            journal: The inputs to play.
            hashes: Recorded state hashes by seq; empty ones are not checked.

        Raises:
            SdkError: For an item, a profile or an option that does not exist.
            ReplayDiverged: Where a state differs from its recorded hash.
        """
        instance, first = self.begin(reset, hashes)
        try:
            return instance, [first, *instance.replay(journal, hashes, 1)]
        except BaseException:
            instance.abandon()
            raise

    def begin(
        self, reset: ResetSpec, hashes: Sequence[bytes] = ()
    ) -> tuple[EnvironmentInstance, Result]:
        """Start an episode without playing a journal; raises as `open` does."""
        if not self.prepared:
            self.prepare()
        task = self.tasks.get(reset.item_id)
        instance = EnvironmentInstance(
            self.environment(self.tasks), reset.action_format, images=reset.images
        )
        options = ResetOptions(reset.seed, reset.profile, reset.options)
        try:
            first = instance.begin(instance.environment.reset(task, options))
            _check(first, hashes, 0)
        except BaseException:
            instance.abandon()
            raise
        return instance, first


def _check(result: Result, hashes: Sequence[bytes], seq: int) -> None:
    expected = hashes[seq] if seq < len(hashes) else _NO_HASH
    if expected and expected != result.state_hash:
        raise ReplayDiverged(seq, expected, result.state_hash)


def _require_finite(reward: float | None, score: float | None) -> None:
    for name, value in (("reward", reward), ("score", score)):
        if value is not None and not math.isfinite(value):
            raise OutcomeNotFinite(f"a {name} of {value}")


class EnvironmentInstance:
    """A live environment, the hash of its state, and what it last showed."""

    __slots__ = (
        "_apply",
        "_fingerprint",
        "_sends_images",
        "action_format",
        "environment",
        "grammar",
        "last",
        "state_hash",
    )

    def __init__(
        self, environment: Environment, action_format: ActionFormat, *, images: bool = False
    ) -> None:
        """`images`: the client takes them; else they only count in the state hashes."""
        self.environment = environment
        self._sends_images = images
        self._apply = environment.step
        self._fingerprint = environment.fingerprint
        self.grammar = environment.spec.grammar
        self.action_format = action_format
        self.state_hash = _NO_HASH
        self.last = Observation("")

    def begin(self, observation: Observation) -> Result:
        """Take the observation of a reset as the first state."""
        self.grammar = self.environment.grammar
        return self._record(observation, None)

    def step(self, step_input: StepInput) -> Result:
        """Read an input and apply it; whatever the environment raises passes through."""
        if isinstance(step_input, Action):
            return self._record(self._apply(step_input.text), None)
        action = step_input.read(self.grammar)
        if isinstance(action, str):
            return self._record(self._apply(action), action)
        message = action.message + (self.last.text if action.repeat_observation else "")
        return self._record(self.environment.render_error(message, self.last), None)

    def replay(
        self, journal: Sequence[StepInput], hashes: Sequence[bytes], first_seq: int
    ) -> list[Result]:
        """Play inputs that were played before; the first leads to `first_seq`.

        `hashes` are by seq from 0, empty ones are not checked. Raises ReplayDiverged.
        """
        results: list[Result] = []
        for seq, step_input in enumerate(journal, start=first_seq):
            results.append(self.step(step_input))
            _check(results[-1], hashes, seq)
        return results

    def consult(self, advisor: Advisor, seed: int) -> AdvisedReply:
        """Return a scripted player's advice; changes nothing."""
        if advisor is Advisor.EXPERT:
            advice = self.environment.advise_expert(seed)
        elif advisor is Advisor.RANDOM:
            advice = self.environment.advise_random(random.Random(seed))
        else:
            advice = self.environment.advise_noop()
        return advice.action, advice.thought, self._render(advice)

    def render(self) -> Sequence[View]:
        """Return pictures of the state; changes nothing. Raises UnfitView."""
        views = self.environment.render()
        require_fit_views(views)
        return views

    def fork(self) -> Self:
        """Return an independent copy in the same state."""
        copy = type(self)(self.environment.fork(), self.action_format, images=self._sends_images)
        copy.grammar = self.grammar
        copy.state_hash = self.state_hash
        copy.last = self.last
        return copy

    def abandon(self) -> None:
        """Close an environment that failed already: its first error is the one that counts."""
        with contextlib.suppress(Exception):
            self.environment.close()

    def _render(self, advice: Advice) -> str:
        try:
            return self.grammar.write(advice, self.action_format)
        except (KeyError, ValueError) as error:
            raise InvalidOption(
                f"advice {advice.action!r} cannot be said in {self.action_format.name}"
            ) from error

    def _record(self, observation: Observation, action: str | None) -> Result:
        """Hash the state: of the environment's fingerprint, else chained over the transcript."""
        fingerprint = self._fingerprint()
        text, reward, score, terminated, truncated, _, info, images = observation
        encoded = text.encode()
        if len(encoded) > MAX_OBSERVATION_BYTES:
            raise ObservationTooLong(
                f"an observation of {len(encoded):,} bytes; at most {MAX_OBSERVATION_BYTES:,}"
            )
        if info is not None and (size := len(repr(info))) > _MAX_INFO_CHARS:
            raise ObservationTooLong(f"an info of {size:,} characters; at most {_MAX_INFO_CHARS:,}")
        proof = (self.state_hash if fingerprint is None else fingerprint) + encoded
        if reward is not None or score is not None:
            _require_finite(reward, score)
        if reward is not None or terminated or truncated:
            proof += repr((reward, score, terminated, truncated)).encode()
        if images:
            require_fit_images(images)
            proof += proof_of(images)
            if not self._sends_images:
                observation = observation._replace(images=())
        self.state_hash = state_hash = xxh3_64_digest(proof)
        self.last = observation
        # The named tuple's own constructor costs three times as much.
        return _new(Result, (observation, state_hash, action))
