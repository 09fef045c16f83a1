"""How many groups may be begun, and which are learned from next: what bounds the age of tokens.

    playing ──finish──▶ ready ──take──▶ taken          the groups of a step, each once
                          └──advance──▶ dropped        too old, or nothing of it can be learned
            ──finish──▶ replaced                       its rewards agree: another takes its place

Version v of the weights is what v steps of `batch` groups made. A group may begin while fewer than
(v + staleness + 1) x batch were begun that count for a step: where groups end in the order in
which they began, no token is then more than `staleness` versions older than the weights that learn
from it, and with a staleness of 0 a step is what a step with a barrier is. The oldest ready groups
are taken first. A group that others overtake may have tokens that are older: those are no targets
(`training.data.trajectories`), the rest of the group counts. Only a group whose newest token is too
old is dropped, and another begins in its place. Groups whose rewards agree teach nothing: so many
of them as `replacements` says do not count for the step that is taken next, but come beside it.

Pure: no I/O, no clock. The rule of capacity is AReaL's, https://arxiv.org/abs/2505.24298; that of
replacing is dynamic sampling, https://arxiv.org/abs/2503.14476.
"""

from __future__ import annotations

from collections.abc import Collection

__all__ = ["GroupAdmission"]


class GroupAdmission:
    """The groups of a run, numbered from 0 in the order in which they begin.

    `begin` until it gives None, `finish` each group when its last episode has ended, `take` when
    the learner is free, `advance` when it has learned.
    """

    def __init__(
        self,
        *,
        batch: int,
        staleness: int,
        steps: int,
        taken: Collection[int] = (),
        dropped: Collection[int] = (),
        begun: int = 0,
        replacements: int = 0,
    ) -> None:
        """Begin, or go on where a run was cut off.

        Args:
            batch: Groups that a step learns from.
            staleness: Versions by which a token may be older than the weights that learn from it.
            steps: Of the whole run: no group begins that none of them would take.
            taken: Groups that steps learned from: those of whole steps.
            dropped: Groups that were dropped, or replaced.
            begun: Groups that were begun; those that were neither taken nor dropped count as being
                played.
            replacements: Groups that others take the place of before a step, at most, because
                their rewards agree.

        Raises:
            ValueError: The numbers contradict each other.
        """
        if min(batch, steps) < 1 or min(staleness, replacements) < 0:
            raise ValueError(
                "batch and steps are at least 1, staleness and replacements at least 0"
            )
        self._taken, self._dropped = set(taken), set(dropped)
        known = self._taken | self._dropped
        self._begun = max(begun, max(known, default=-1) + 1)
        self._version, rest = divmod(len(self._taken), batch)
        if rest or self._taken & self._dropped:
            raise ValueError("taken groups are those of whole steps, and none of them was dropped")
        self._batch, self._staleness, self._steps = batch, staleness, steps
        self._replacements = replacements
        self._playing = set(range(self._begun)) - known
        self._ready: dict[int, int] = {}
        """The step of the newest weights that sampled a token of each."""
        self._replaced: set[int] = set()
        """Groups whose place others took."""
        self._waiting: list[int] = []
        """Those of them that no step has been given yet."""
        self._beside: tuple[int, ...] = ()
        self._learning = False

    @property
    def version(self) -> int:
        """Steps that were learned, which is what tokens of the weights of the moment carry."""
        return self._version

    @property
    def playing(self) -> frozenset[int]:
        """Groups whose last episode has not ended yet."""
        return frozenset(self._playing)

    @property
    def ready(self) -> tuple[int, ...]:
        """Groups that wait to be learned from, the oldest first."""
        return tuple(sorted(self._ready))

    @property
    def dropped(self) -> frozenset[int]:
        """Groups that nothing is learned from, and those that were replaced before a cut-off."""
        return frozenset(self._dropped)

    @property
    def beside(self) -> tuple[int, ...]:
        """Groups that were replaced before the last step was taken: it reads them as well."""
        return self._beside

    @property
    def capacity(self) -> int:
        """Groups that may begin now."""
        allowed = min(self._version + self._staleness + 1, self._steps) * self._batch
        counted = self._begun - len(self._dropped) - len(self._replaced)
        return max(0, allowed - counted)

    def begin(self) -> int | None:
        """Return the number of a group that begins now; None = none may."""
        if not self.capacity:
            return None
        number = self._begun
        self._begun += 1
        self._playing.add(number)
        return number

    def finish(self, number: int, newest: int | None, *, agrees: bool = False) -> None:
        """Report that the last episode of a group has ended.

        Args:
            number: Of a group that is being played.
            newest: The step of the newest weights that sampled one of its tokens; None = nothing of
                it can be learned, because all of its episodes were lost.
            agrees: Whether its episodes all have one reward.
        """
        if number not in self._playing:
            raise ValueError(f"group {number} is not being played")
        self._playing.remove(number)
        if newest is None or self._too_old(newest):
            self._dropped.add(number)
        elif agrees and len(self._waiting) < self._replacements:
            self._replaced.add(number)
            self._waiting.append(number)
        else:
            self._ready[number] = newest

    def take(self) -> tuple[int, ...] | None:
        """Return the groups of the next step, the oldest first; None = too few are ready."""
        if self._learning:
            raise ValueError("the step before has not been learned")
        if self._version == self._steps or len(self._ready) < self._batch:
            return None
        numbers = self.ready[: self._batch]
        for number in numbers:
            del self._ready[number]
        self._taken.update(numbers)
        self._beside = tuple(sorted(self._waiting))
        self._waiting.clear()
        self._learning = True
        return numbers

    def advance(self) -> None:
        """Report that the step that was taken has been learned, and drop what is too old for it."""
        if not self._learning:
            raise ValueError("no step was taken")
        self._learning = False
        self._version += 1
        for number, newest in list(self._ready.items()):
            if self._too_old(newest):
                del self._ready[number]
                self._dropped.add(number)

    def _too_old(self, newest: int) -> bool:
        return self._version - newest > self._staleness
