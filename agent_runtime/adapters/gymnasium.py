"""Gymnasium's interface: an environment of texts, and many of them stepped together.

    import gymnasium
    import agentgym.gymnasium  # registers every installed environment

    env = gymnasium.make("agentgym/TextCraft-v0")
    observation, info = env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step("inventory")

What Gymnasium has no word for is in `info`: `item_id`; `score`, where there is one;
`parsed_action`, where the server read one; `scored`, for Gymnasium has no absent reward: it is 0.0;
`images`, where an option asks for them: their number and sizes vary, which no space of it says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Final, Literal, TypedDict, Unpack, cast

from agent_runtime.channel import ConnectionOptions
from agent_runtime.episode import Transition
from agent_runtime.errors import UnknownName
from agent_runtime.extras import install_command
from agent_runtime.library.sync import Environment, Episode, Vector, make
from agent_runtime.library.values import sendable
from agent_runtime.library.vector import Batch

try:
    import gymnasium
    import numpy as np
    from gymnasium.spaces import Text
    from gymnasium.utils.seeding import np_random
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ImportError as error:
    raise ImportError(
        f"Gymnasium is not installed: {install_command('gymnasium')}", name=error.name
    ) from error

__all__ = ["GymnasiumEnv", "GymnasiumVectorEnv", "Settings", "Unicode", "register"]

_PRINTABLE: Final = "".join(map(chr, range(32, 127)))
_SAMPLE_CHARS: Final = 80
_OBSERVATION_CHARS: Final = 1 << 18
_SEEDS: Final = 1 << 31
_CODE_POINTS: Final = 0x110000


def register(environments: Mapping[str, str]) -> None:
    """Register environments with Gymnasium, under ids of the form "agentgym/TextCraft-v0".

    Args:
        environments: Name of the environment by id.
    """
    for gymnasium_id, name in environments.items():
        if gymnasium_id not in gymnasium.registry:
            gymnasium.register(  # pyright: ignore[reportUnknownMemberType]
                id=gymnasium_id,
                entry_point=f"{__name__}:{GymnasiumEnv.__name__}",
                vector_entry_point=f"{__name__}:{GymnasiumVectorEnv.__name__}",
                kwargs={"environment": name},
            )


class _Characters(Sequence[str], AbstractSet[str]):
    """All code points, by their number; a million strings would be 100 MB."""

    def __len__(self) -> int:
        return _CODE_POINTS

    def __getitem__(self, index: Any) -> Any:
        return chr(index)

    def __iter__(self) -> Iterator[str]:
        return map(chr, range(_CODE_POINTS))

    def __contains__(self, character: object) -> bool:
        return isinstance(character, str) and len(character) == 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Characters)

    def __hash__(self) -> int:
        return hash(_Characters)


class Unicode(Text):
    """All texts up to a length, in any script.

    Gymnasium's `Text` lists its characters; a model writes what it likes. Samples are short and
    ASCII. Flattened, a character is its code point.
    """

    def __init__(self, max_length: int, *, seed: int | np.random.Generator | None = None) -> None:
        """`max_length` is in characters."""
        super().__init__(max_length, min_length=0, charset=_PRINTABLE, seed=seed)

    @property
    def character_set(self) -> frozenset[str]:
        """Every character; made when it is asked for."""
        return cast("frozenset[str]", _Characters())

    @property
    def character_list(self) -> tuple[str, ...]:
        """Every character, by its code point."""
        return cast("tuple[str, ...]", _Characters())

    def character_index(self, char: str) -> np.int32:
        """Return the code point."""
        return np.int32(ord(char))

    def contains(self, x: Any) -> bool:
        """Tell whether it is a text, not too long, that UTF-8 can say."""
        if not isinstance(x, str) or len(x) > self.max_length:
            return False
        try:
            sendable(x)
        except ValueError:
            return False
        return True

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Return up to 80 printable ASCII characters; masks are not supported."""
        if mask is not None or probability is not None:
            raise ValueError("a text of any script is not sampled by a mask over all characters")
        length = int(self.np_random.integers(min(self.max_length, _SAMPLE_CHARS) + 1))
        return "".join(
            _PRINTABLE[it] for it in self.np_random.integers(len(_PRINTABLE), size=length)
        )

    def __repr__(self) -> str:
        return f"Unicode({self.max_length})"

    def __eq__(self, other: object, /) -> bool:
        return isinstance(other, Unicode) and self.max_length == other.max_length


class Settings(TypedDict, total=False):
    """What `gymnasium.make` and `gymnasium.make_vec` take beside the environment."""

    target: str
    """HOST:PORT of a running server; default: one is started here, and shared."""
    split: str
    """Where items are drawn from; default: the environment's first."""
    options: Mapping[str, Any]
    """Of every reset, as the environment's README describes them."""
    profile: str
    """How tasks are scored; default: the environment's first."""
    actions: Literal["native", "reply"]
    """Native actions, which is the default, or a model's whole replies."""
    action_format: str
    """How replies are read; default: the environment's first."""
    data: Path | str | None
    """Folder of official data files for a server that is started."""
    server_options: Sequence[str]
    """Further arguments for it."""
    connection: ConnectionOptions | None
    """Deadlines, TLS and token."""
    max_observation_chars: int
    """Bound of the observation space; what is longer is not cut. Default: 262,144."""


class _Game:
    """What one episode and many have in common: environment, spaces, the choice of tasks."""

    def __init__(self, environment: str, settings: Settings) -> None:
        """Open the environment; raises as `GymnasiumEnv`."""
        kind = settings.get("actions", "native")
        _check_choice("kind of actions", kind, ("native", "reply"))
        self.replies = kind == "reply"
        self.options = settings.get("options", {})
        self.profile = settings.get("profile", "")
        self.action_format = settings.get("action_format", "")
        self.environment = make(
            environment,
            target=settings.get("target", ""),
            data=settings.get("data"),
            server_options=settings.get("server_options", ()),
            connection=settings.get("connection"),
        )
        try:
            tasks = self.environment.tasks(settings.get("split", ""))
            self._item_ids = [task.item_id for task in tasks]
        except BaseException:
            self.environment.close()
            raise
        self.action_space = Unicode(self.environment.limits.max_text_bytes)
        self.observation_space = Unicode(settings.get("max_observation_chars", _OBSERVATION_CHARS))

    def draw(self, generator: np.random.Generator) -> tuple[str, int]:
        """Return the item and the seed of an episode."""
        item_id = self._item_ids[int(generator.integers(len(self._item_ids)))]
        return item_id, int(generator.integers(_SEEDS))


class GymnasiumEnv(gymnasium.Env[str, str]):
    """One episode after the other of an environment; actions and observations are texts."""

    # A game of texts has no speed; Gymnasium wants one for those who make films.
    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}

    def __init__(
        self, environment: str, *, render_mode: str | None = None, **settings: Unpack[Settings]
    ) -> None:
        """Open the environment.

        Args:
            environment: Its name.
            render_mode: None or "ansi": the state as a text.
            **settings: See `Settings`.

        Raises:
            UnknownName: There is no such render mode, split or kind of actions.
            AgentRuntimeError: As `agentgym.make`.
        """
        _check_choice("render mode", render_mode, (None, "ansi"))
        self._game = _Game(environment, settings)
        self.action_space = self._game.action_space
        self.observation_space = self._game.observation_space
        self.render_mode = render_mode
        self._episode: Episode | None = None

    @property
    def environment(self) -> Environment:
        """The environment under it: tasks, limits, what a model is told."""
        return self._game.environment

    @property
    def episode(self) -> Episode:
        """The episode that is played; raises ResetNeeded before the first reset."""
        if self._episode is None:
            raise gymnasium.error.ResetNeeded("call reset first: no episode is open")
        return self._episode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Open an episode.

        Args:
            seed: Decides which items are drawn from here on, and their seeds.
            options: `item_id`: play this one. `options`: of the environment, for this reset only.

        Raises:
            UnknownName: There is no such option.
            AgentRuntimeError: As `Environment.reset`.
        """
        super().reset(seed=seed)
        given = options or {}
        _check_options(given, ("item_id", "options"))
        item_id, episode_seed = self._game.draw(self.np_random)
        self._close_episode()
        self._episode = self.environment.reset(
            given.get("item_id", item_id),
            seed=episode_seed,
            options={**self._game.options, **given.get("options", {})},
            profile=self._game.profile,
            action_format=self._game.action_format,
        )
        return self._episode.text, _info(self._episode.item_id, self._episode.state)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Apply an action; a step that was not scored has reward 0.0, and `info` says so.

        Raises:
            AgentRuntimeError: As `Episode.step`: a failure is never a reward.
        """
        episode = self.episode
        state = episode.reply(action) if self._game.replies else episode.step(action)
        info = _info(episode.item_id, state)
        return state.text, state.reward or 0.0, state.terminated, state.truncated, info

    def render(self) -> str | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the state as a text: the environment's own, or the observation."""
        if self.render_mode is None:
            return None
        if "render" in self.environment.capabilities:
            for view in self.episode.render():
                if view.media_type == "text/plain":
                    return view.text
        return self.episode.text

    def close(self) -> None:
        """End the episode and leave the server; twice is no error."""
        self._close_episode()
        self.environment.close()

    def _close_episode(self) -> None:
        episode, self._episode = self._episode, None
        if episode is not None:
            episode.close()


class GymnasiumVectorEnv(VectorEnv[tuple[str, ...], Sequence[str], Any]):
    """Many episodes on `agentgym.Vector`; equal to Gymnasium's own vector of the same seeds.

    An episode that fails is truncated; its reward is NaN and `infos["error"]` says what happened.
    """

    def __init__(
        self,
        environment: str,
        num_envs: int = 1,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        **settings: Unpack[Settings],
    ) -> None:
        """Open the environment; raises as `GymnasiumEnv`.

        Args:
            environment: Its name.
            num_envs: Number of episodes.
            autoreset_mode: What becomes of an episode that has ended.
            **settings: See `Settings`.
        """
        self._mode = AutoresetMode(autoreset_mode)
        self._game = _Game(environment, settings)
        self._vector = Vector(
            self._game.environment,
            num_envs,
            choose=self._choose,
            autoreset=self._mode.value,
            options=self._game.options,
            profile=self._game.profile,
            action_format=self._game.action_format,
        )
        self.num_envs = num_envs
        self.metadata = {"render_modes": [], "autoreset_mode": self._mode}
        self.single_action_space = self._game.action_space
        self.single_observation_space = self._game.observation_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._generators = [np.random.default_rng() for _ in range(num_envs)]
        self._items = [""] * num_envs
        self._wanted: Mapping[int, str] = {}

    @property
    def environment(self) -> Environment:
        """The environment under it."""
        return self._game.environment

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Open new episodes.

        Args:
            seed: Episode i has seed + i; or one for each.
            options: `reset_mask`: which ones get a new episode. `item_ids`: one for each.

        Raises:
            UnknownName: There is no such option.
            AgentRuntimeError: An episode cannot be opened.
        """
        given = dict(options or {})
        _check_options(given, ("reset_mask", "item_ids"))
        seeds = [seed + it for it in range(self.num_envs)] if isinstance(seed, int) else seed
        for slot, slot_seed in enumerate(seeds or ()):
            if slot_seed is not None:
                self._generators[slot] = np_random(slot_seed)[0]
        mask = given.get("reset_mask")
        item_ids: Sequence[str] = given.get("item_ids", ())
        self._wanted = dict(enumerate(item_ids))
        try:
            batch = self._vector.reset(None if mask is None else [bool(it) for it in mask])
        finally:
            self._wanted = {}
        for failure in batch.errors:
            if failure is not None:
                raise failure
        return tuple(batch.texts), self._infos(batch, self._items)

    def step(self, actions: Sequence[str]) -> tuple[tuple[str, ...], Any, Any, Any, dict[str, Any]]:
        """Apply an action in each episode; arrays have shape (num_envs,)."""
        items = list(self._items)
        apply = self._vector.reply if self._game.replies else self._vector.step
        batch = apply(actions)
        failed = np.array([error is not None for error in batch.errors])
        rewards = np.array([reward or 0.0 for reward in batch.rewards])
        rewards[failed] = np.nan
        truncated = np.array(batch.truncated) | failed
        return (
            tuple(batch.texts),
            rewards,
            np.array(batch.terminated),
            truncated,
            self._infos(batch, items),
        )

    def close_extras(self, **_: Any) -> None:
        """End the episodes and leave the server."""
        self._vector.close()
        self._game.environment.close()

    def _choose(self, slot: int) -> tuple[str, int]:
        item_id, seed = self._game.draw(self._generators[slot])
        self._items[slot] = self._wanted.get(slot, item_id)
        return self._items[slot], seed

    def _infos(self, batch: Batch, items: Sequence[str]) -> dict[str, Any]:
        """Return what `info` of each episode says; `items` were played before the step."""
        infos: dict[str, Any] = {}
        for slot, (state, opened, error) in enumerate(
            zip(batch.transitions, batch.opened, batch.errors, strict=True)
        ):
            shown = opened or state
            if error is not None:
                infos = self._add_info(infos, {"error": f"{error.reason}: {error}"}, slot)
            if state is not None and opened is not None:
                final = {"final_obs": state.text, "final_info": _info(items[slot], state)}
                infos = self._add_info(infos, final, slot)
            if shown is not None:
                infos = self._add_info(infos, _info(self._items[slot], shown), slot)
        return infos


def _info(item_id: str, state: Transition) -> dict[str, Any]:
    """What Gymnasium's tuple has no place for; what is absent has no key."""
    info: dict[str, Any] = {"item_id": item_id, "scored": state.reward is not None}
    if state.score is not None:
        info["score"] = state.score
    if state.images:
        info["images"] = state.images
    if state.parsed_action is not None:
        info["parsed_action"] = state.parsed_action
    return info


def _check_choice(what: str, value: object, valid: Sequence[str | None]) -> None:
    if value not in valid:
        raise UnknownName(what, value, map(str, valid))


def _check_options(given: Mapping[str, Any], valid: Sequence[str]) -> None:
    for name in given:
        _check_choice("option of a reset", name, valid)
