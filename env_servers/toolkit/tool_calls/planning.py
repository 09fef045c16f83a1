"""The scripted expert: a plan is a generator of calls, and the episode so far says where it is.

A plan yields the calls that it needs, is sent what each returned, and returns the answer. It is run
anew for every advice, over the calls that were really made, so advice is a pure function of the
episode, and other calls in between do no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from env_servers.sdk import Advice
from env_servers.toolkit.tool_calls.line_format import call_key, write_call

__all__ = [
    "NO_ANSWER",
    "Plan",
    "PlanState",
    "PlannedCall",
    "advise",
    "fixed_plan",
    "progress",
    "solve",
]

NO_ANSWER: Final = "no answer"
"""Returned by a plan whose `finish` takes no answer."""
_MAX_CALLS: Final = 64
_FINISHES: Final = (
    "I have everything that I need, so I hand in {answer}.",
    "That settles the task: the answer is {answer}.",
    "No further call is needed. I finish with {answer}.",
)
_ENDS: Final = (
    "Everything that was asked for is done, so I finish.",
    "Nothing is left to do. I end the task.",
    "The task is complete, so I call finish.",
)
_MAX_SHOWN: Final = 80


class PlannedCall(NamedTuple):
    """A call that a plan wants made, with true reasons for it in several wordings."""

    tool: str
    arguments: Mapping[str, Any]
    why: Sequence[str]


Plan = Callable[[], Generator[PlannedCall, Any, Any]]
"""Makes a fresh run of a plan: it yields `PlannedCall`, is sent the value that each call returned,
and returns the answer for `finish`."""


class PlanState(NamedTuple):
    """Where a plan stands after the calls made so far."""

    made: int
    """Calls of the plan that were made."""
    next: PlannedCall | None
    """The next call; None = only the answer is left."""
    answer: Any


def stand(plan: Plan, outputs: Mapping[str, Any]) -> PlanState:
    """Return where a plan stands; `outputs` are the values of calls made, by `call_key`.

    A call whose output the plan cannot use, such as an error's text, is asked for again.
    """
    run = plan()
    count = 0
    try:
        call = next(run)
        while count < _MAX_CALLS:
            key = call_key(call.tool, dict(call.arguments))
            if key is None or key not in outputs:
                return PlanState(count, call, None)
            count += 1
            try:
                call = run.send(outputs[key])
            except (LookupError, TypeError, ValueError, AttributeError):
                return PlanState(count - 1, call, None)
    except StopIteration as end:
        return PlanState(count, None, end.value)
    raise RuntimeError(f"a plan makes more than {_MAX_CALLS} calls")


def advise(plan: Plan, outputs: Mapping[str, Any], seed: int) -> Advice:
    """Return the next call of a plan, with one of its reasons."""
    state = stand(plan, outputs)
    if state.next is not None:
        why = state.next.why[seed % len(state.next.why)]
        return Advice(write_call(state.next.tool, state.next.arguments), why)
    if state.answer is NO_ANSWER:
        return Advice(write_call("finish", {}), _ENDS[seed % len(_ENDS)])
    shown = str(state.answer)
    shown = shown if len(shown) <= _MAX_SHOWN else shown[:_MAX_SHOWN] + "..."
    thought = _FINISHES[seed % len(_FINISHES)].format(answer=shown)
    return Advice(write_call("finish", {"answer": state.answer}), thought)


def progress(plan: Plan, steps: int, outputs: Mapping[str, Any]) -> float:
    """Return the share of a plan of so many steps (with `finish`) that is done, below 1."""
    return min(stand(plan, outputs).made / steps, 1.0) if steps else 0.0


def solve(plan: Plan, answer_call: Callable[[str, Mapping[str, Any]], Any]) -> tuple[Any, int]:
    """(answer, number of calls without `finish`) of a plan whose calls are answered by a function.

    Task generators find the expected answer with it.
    """
    run = plan()
    count = 0
    try:
        call = next(run)
        while True:
            count += 1
            call = run.send(answer_call(call.tool, call.arguments))
    except StopIteration as end:
        return end.value, count


def fixed_plan(calls: Sequence[PlannedCall], answer: Any) -> Plan:
    """Return the plan that makes fixed calls, whatever they return, and hands in a known answer."""

    def run() -> Generator[PlannedCall, Any, Any]:
        for call in calls:  # noqa: UP028 - a list cannot be sent what the calls return
            yield call
        return answer

    return run
