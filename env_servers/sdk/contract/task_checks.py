"""Checks of an environment's task set: addressing, paging, and errors about what is not there.

Each check yields one sentence per broken promise; its docstring is the promise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from env_servers.sdk.contract.subject import Subject
from env_servers.sdk.environment import Environment
from env_servers.sdk.errors import InvalidOption, SdkError, UnknownItem, UnknownSplit
from env_servers.sdk.types import ResetOptions

__all__ = [
    "bare_integers_are_items",
    "item_ids_round_trip",
    "pages_make_up_the_whole",
    "splits_are_sized_and_disjoint",
    "unknown_items_and_splits_raise",
    "unknown_profiles_and_options_raise",
]

LISTED_AT_MOST: Final = 50_000
"""Items of a split that are compared with other splits'."""
PAGED: Final = 100
"""Items that are fetched in pages, and items that are looked up."""

_ITEM_ID: Final = re.compile(r"[A-Za-z0-9_-]+_[0-9]+")


def splits_are_sized_and_disjoint(subject: Subject) -> Iterator[str]:
    """Every split has as many items as it says, and no item is in two splits."""
    splits = subject.tasks.splits()
    if not any(splits.values()):
        yield f"there are no tasks: {dict(splits)}"
    owner: dict[str, str] = {}
    for split, size in splits.items():
        item_ids = subject.tasks.item_ids(split, 0, LISTED_AT_MOST)
        if len(item_ids) != min(size, LISTED_AT_MOST):
            yield f"split {split} says {size} items and lists {len(item_ids)}"
        if len(set(item_ids)) != len(item_ids):
            yield f"split {split} lists an item twice"
        shared = [item_id for item_id in item_ids if owner.setdefault(item_id, split) != split]
        if shared:
            yield f"{shared[0]} and {len(shared) - 1} more of {split} are in {owner[shared[0]]} too"


def pages_make_up_the_whole(subject: Subject) -> Iterator[str]:
    """Pages of a split follow each other without a gap, and end where the split ends."""
    for split, size in subject.tasks.splits().items():
        whole = list(subject.tasks.item_ids(split, 0, PAGED))
        paged: list[str] = []
        for start in range(0, PAGED, 7):
            paged += subject.tasks.item_ids(split, start, min(start + 7, PAGED))
        if paged != whole:
            yield f"pages of {split} differ from the whole"
        last = subject.tasks.item_ids(split, max(0, size - 1), size + 10)
        if len(last) != min(size, 1):
            yield f"the last page of {split} has {len(last)} items"
        if subject.tasks.item_ids(split, size, size + 10):
            yield f"there are items of {split} beyond its end"


def item_ids_round_trip(subject: Subject) -> Iterator[str]:
    """The task of a listed item id has that id, in the form `<task>_<int>`, and a category."""
    for item_id in subject.items(PAGED):
        task = subject.tasks.get(item_id)
        if task.item_id != item_id:
            yield f"the task of {item_id} calls itself {task.item_id}"
        if not _ITEM_ID.fullmatch(item_id):
            yield f"{item_id!r} is no <task>_<int>"
        category = subject.tasks.category(item_id)
        if category != task.category:
            yield f"{item_id} is listed as {category!r} and is {task.category!r}"


def bare_integers_are_items(subject: Subject) -> Iterator[str]:
    """The integer of `<environment>_<int>` alone is the same task, under its whole id."""
    name = subject.spec.name
    for item_id in subject.items(PAGED):
        task, _, integer = item_id.rpartition("_")
        if task != name:
            continue  # an integer alone is of the environment's own task
        try:
            found = subject.tasks.get(integer)
        except UnknownItem as error:
            yield f"{item_id} is not found as {integer}: {error!s:.200}"
            continue
        if found.item_id != item_id:
            yield f"{integer} is {found.item_id!r}, not {item_id}"


def unknown_items_and_splits_raise(subject: Subject) -> Iterator[str]:
    """Unknown items raise UnknownItem, unknown splits UnknownSplit."""
    name = subject.spec.name
    unknown = (
        "",
        "no item",
        f"{name}_",
        f"{name}_x",
        f"{name}_-1",
        f"{name}_1.0",
        f"{name}_٣",
        f"{name}_999999999999",
        f"{name}_{'9' * 5000}",
        "nobody_knows_0",
        "../0",
        "\0",
    )
    for item_id in unknown:
        yield from _raises(UnknownItem, lambda i=item_id: subject.tasks.get(i), f"item {item_id!r}")
    for split in ("no_such_split", ""):
        yield from _raises(
            UnknownSplit, lambda s=split: subject.tasks.item_ids(s, 0, 1), f"split {split!r}"
        )


def unknown_profiles_and_options_raise(subject: Subject) -> Iterator[str]:
    """Every profile of the spec can be reset; other profiles and options raise InvalidOption."""
    task = subject.tasks.get(subject.items(1)[0])

    def reset(options: ResetOptions) -> object:
        episode: Environment = subject.environment(subject.tasks)
        return episode.reset(task, options)

    for profile in subject.spec.profiles:
        reset(ResetOptions(profile=profile))
    for profile in ("no_such_profile", ""):
        options = ResetOptions(profile=profile)
        yield from _raises(InvalidOption, lambda o=options: reset(o), f"profile {profile!r}")
    options = ResetOptions(profile=subject.spec.profiles[0], options={"no_such_option": 1.0})
    yield from _raises(InvalidOption, lambda: reset(options), "option 'no_such_option'")


def _raises(expected: type[SdkError], call: Callable[[], object], request: str) -> Iterator[str]:
    try:
        call()
    except expected:
        return
    except Exception as error:  # noqa: BLE001 - the wrong error is the finding
        yield f"{request:.60} raised {error!r:.200}, not {expected.__name__}"
    else:
        yield f"{request:.60} was accepted, without {expected.__name__}"
