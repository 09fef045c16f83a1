"""Rules of one episode's life: reset, the three ways to step, the end, close, consult."""

from __future__ import annotations

from typing import Final

from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2
from env_servers.conformance.harness import Harness, NotApplicable
from env_servers.conformance.verdicts import (
    expect,
    expect_equal,
    expect_error,
    expect_observation,
)

__all__ = ["CHECKS"]

_EXPERT_SEED: Final = 1


async def reset_step_close(harness: Harness) -> None:
    """A reset opens at seq 0, each step adds 1, close ends the episode."""
    play = await harness.play()
    expect_equal(play.events[0].seq, 0, "seq of the reset's event")
    expect(not play.events[0].HasField("parsed_action"), "a reset has a parsed_action")
    for seq in (1, 2):
        if play.ended:
            break
        event = await play.step()
        expect_equal(event.seq, seq, "seq of the step's event")
        expect(not event.replayed, "a first answer is marked replayed")
    closed = await play.ask(close=pb.Close())
    expect(closed.closed.found, "close did not find a live episode")


async def bare_integers_are_items(harness: Harness) -> None:
    """The integer of `<environment>_<int>` alone names the same task, in resets and listings."""
    item_id = harness.items[0]
    task, _, integer = item_id.rpartition("_")
    if task != harness.described.name:
        raise NotApplicable("the first items have another task's name")
    listing = pb.ListTasksRequest(environment=harness.environment, item_ids=[integer])
    page = await harness.stub.ListTasks(
        listing, timeout=harness.target.timeout, metadata=harness.target.metadata()
    )
    expect_equal([it.item_id for it in page.tasks], [item_id], f"the item that {integer} names")
    by_id = await harness.play()
    reset = harness.reset()
    reset.reset.item_id = integer
    by_integer = expect_observation(await by_id.stream.ask(reset))
    if harness.deterministic:
        expect_equal(by_integer.state_hash, by_id.events[0].state_hash, "state_hash of the reset")


async def closing_twice_is_no_error(harness: Harness) -> None:
    """A second close says found = false; any other command says EPISODE_NOT_FOUND."""
    play = await harness.play()
    await play.ask(close=pb.Close())
    again = await play.ask(close=pb.Close())
    expect(again.HasField("closed"), f"{again.WhichOneof('body')} instead of closed")
    expect(not again.closed.found, "a closed episode was found")
    for body in (
        {"action": "too late"},
        {"heartbeat": pb.Heartbeat()},
        {"attach": pb.Attach(last_seq_seen=0)},
        {"consult": pb.Consult(advisor=pb.ADVISOR_NOOP)},
        {"cancel": pb.Cancel()},
    ):
        await play.refused("EPISODE_NOT_FOUND", "journal_replayable", **body)


async def replies_and_calls_are_read_by_the_server(harness: Harness) -> None:
    """A reply in every listed format and a native action lead to the same native action."""
    harness.require(pb.CAPABILITY_EXPERT)
    for action_format in harness.described.action_formats:
        reset = harness.reset()
        reset.reset.action_format = action_format
        stream = await harness.open_stream()
        expect_observation(await stream.ask(reset))
        consult = pb.Command(
            episode_id=reset.episode_id, consult=pb.Consult(advisor=pb.ADVISOR_EXPERT)
        )
        advice = (await stream.ask(consult)).advice
        step = pb.Command(episode_id=reset.episode_id, seq=1, reply=advice.reply)
        event = expect_observation(await stream.ask(step))
        name = types_pb2.ActionFormat.Name(action_format)
        expect_equal(event.parsed_action, advice.action, f"parsed_action of a {name} reply")


async def action_format_can_change_per_command(harness: Harness) -> None:
    """`action_format` of a command says how its reply is read, whatever the episode's format."""
    harness.require(pb.CAPABILITY_EXPERT)
    formats = harness.described.action_formats
    if len(formats) < 2:
        raise NotApplicable("the environment speaks one action format")
    first_format, second_format = formats[0], formats[1]
    first = harness.reset()
    first.reset.action_format = first_format
    stream = await harness.open_stream()
    expect_observation(await stream.ask(first))
    advice = (
        await stream.ask(
            pb.Command(episode_id=first.episode_id, consult=pb.Consult(advisor=pb.ADVISOR_EXPERT))
        )
    ).advice
    second = harness.reset()
    second.reset.action_format = second_format
    expect_observation(await stream.ask(second))
    step = pb.Command(
        episode_id=second.episode_id, seq=1, reply=advice.reply, action_format=first_format
    )
    event = expect_observation(await stream.ask(step))
    expect_equal(event.parsed_action, advice.action, "parsed_action")


async def tool_calls_are_steps(harness: Harness) -> None:
    """A structured call is a step; one that cannot be read is an observation all the same."""
    harness.require_echo()
    play = await harness.play()
    call = types_pb2.ToolCall(name="say", arguments_json='{"text": "hello"}')
    event = expect_observation(await play.ask(1, tool_call=call))
    expect_equal(event.parsed_action, "hello", "parsed_action")
    nonsense = types_pb2.ToolCall(name="no such function", arguments_json="[not JSON")
    event = expect_observation(await play.ask(2, tool_call=nonsense))
    expect(not event.HasField("parsed_action"), "an unreadable call has a parsed_action")


async def unreadable_replies_are_turns(harness: Harness) -> None:
    """A reply without a call, where one is asked for, is a step without a parsed_action."""
    structured = (
        types_pb2.ACTION_FORMAT_FUNCTION_CALLING,
        types_pb2.ACTION_FORMAT_CODE_AS_ACTION,
    )
    spoken = [it for it in structured if it in harness.described.action_formats]
    if not spoken:
        raise NotApplicable("the environment speaks ReAct alone")
    for action_format in spoken:
        play = await harness.play()
        event = expect_observation(
            await play.ask(1, reply="I do not know.", action_format=action_format)
        )
        name = types_pb2.ActionFormat.Name(action_format)
        expect(not event.HasField("parsed_action"), f"an unreadable {name} has a parsed_action")
        await play.must_be_at(1)


async def invalid_actions_are_observations(harness: Harness) -> None:
    """Nonsense from the agent is answered by the environment, never with an error."""
    play = await harness.play()
    texts = ("", "\x00\x01\x7f", "?" * 20_000, "Action:\nAction:\nAction:", "\U0001f600 \u202e")
    for text in texts:
        event = expect_observation(await play.ask(play.seq + 1, action=text))
        play.events.append(event)
        if play.ended:
            return
    for text in (*texts, "no action in here", "```python\nimport os\n```", '{"thought":'):
        event = expect_observation(await play.ask(play.seq + 1, reply=text))
        play.events.append(event)
        if play.ended:
            return


async def rewards_are_optional(harness: Harness) -> None:
    """A reset carries no reward unless the environment scores it; absent is not 0."""
    harness.require_echo()
    play = await harness.play(length=2)
    expect(not play.events[0].HasField("reward"), "echo's reset has a reward")
    middle = await play.step()
    expect(not middle.HasField("reward"), "an unscored step has a reward")
    expect(not middle.HasField("score"), "an environment without score has a score")
    last = await play.step()
    expect(last.HasField("reward"), "the last step has no reward")
    expect_equal(last.reward, 1.0, "the last reward")


async def the_end_is_said_once_and_for_all(harness: Harness) -> None:
    """The last event says terminated or truncated and why; further steps are EPISODE_ENDED."""
    play = await harness.play(**harness.length(3))
    if not harness.is_echo:
        harness.require(pb.CAPABILITY_EXPERT)
    for _ in range(200):
        if play.ended:
            break
        event = play.events[-1]
        expect_equal(event.stop_reason, types_pb2.STOP_REASON_UNSPECIFIED, "an early stop_reason")
        consult = pb.Consult(advisor=pb.ADVISOR_EXPERT, seed=_EXPERT_SEED)
        advice = await play.ask(consult=consult)
        await play.step(advice.advice.action)
    if not play.ended:
        raise NotApplicable("the expert did not reach an end within 200 steps")
    last = play.events[-1]
    expect(last.terminated != last.truncated, "the end is both terminated and truncated")
    reason = types_pb2.StopReason.Name(last.stop_reason)
    expect(0 < last.stop_reason < 20, f"an environment's stop_reason is {reason}")
    await play.refused("EPISODE_ENDED", seq=play.seq + 1, action="one more")
    again = await play.ask(play.seq, action=play.actions[-1])
    expect_observation(again, replayed=True)


async def advice_changes_nothing(harness: Harness) -> None:
    """Consult answers with a native action and its rendering, and leaves the episode alone."""
    harness.require(pb.CAPABILITY_EXPERT)
    consulted, left_alone = await harness.play(), await harness.play()
    for _ in range(2):
        first = await consulted.ask(consult=pb.Consult(advisor=pb.ADVISOR_EXPERT, seed=5))
        expect(first.HasField("advice"), f"{first.WhichOneof('body')} instead of advice")
        second = await consulted.ask(consult=pb.Consult(advisor=pb.ADVISOR_EXPERT, seed=5))
        expect_equal(second.advice, first.advice, "the same question asked again")
        expect(bool(first.advice.reply), "advice without a reply")
        one = await consulted.step(first.advice.action)
        stepped = await left_alone.step(first.advice.action)
        if harness.deterministic:
            expect_equal(one.state_hash, stepped.state_hash, "state_hash after being asked")
        if consulted.ended:
            return


async def advice_is_for_the_current_state(harness: Harness) -> None:
    """Consult at another seq is SEQ_GAP, without an advisor INVALID_ARGUMENT."""
    play = await harness.play()
    expert = pb.Consult(advisor=pb.ADVISOR_EXPERT)
    metadata = await play.refused("SEQ_GAP", "expected", seq=1, consult=expert)
    expect_equal(metadata["expected"], "0", "metadata expected")
    metadata = await play.refused("INVALID_ARGUMENT", "field", consult=pb.Consult())
    expect_equal(metadata["field"], "advisor", "metadata field")


async def crashes_end_one_episode(harness: Harness) -> None:
    """An environment that raises ends its own episode as ENVIRONMENT_CRASHED and no other."""
    harness.require_echo()
    stream = await harness.open_stream()
    bystander = await harness.play(stream)
    play = await harness.play(stream, crash_at=2)
    await play.step()
    error = await play.ask(2, action="boom")
    metadata = expect_error(error, "ENVIRONMENT_CRASHED", fault="ENVIRONMENT", retriable="false")
    again = expect_error(await play.ask(2, action="boom"), "ENVIRONMENT_CRASHED")
    expect_equal(again, metadata, "the error's metadata, asked again")
    expect_observation(await play.ask(1, action=play.actions[0]), replayed=True)
    await bystander.step()


CHECKS: Final = (
    ("R6.1", reset_step_close),
    ("R63.1", bare_integers_are_items),
    ("R7.1", replies_and_calls_are_read_by_the_server),
    ("R7.2", action_format_can_change_per_command),
    ("R7.3", tool_calls_are_steps),
    ("R7.4", unreadable_replies_are_turns),
    ("R8.1", invalid_actions_are_observations),
    ("R9.1", rewards_are_optional),
    ("R10.1", the_end_is_said_once_and_for_all),
    ("R11.1", closing_twice_is_no_error),
    ("R12.1", advice_changes_nothing),
    ("R12.2", advice_is_for_the_current_state),
    ("R13.1", crashes_end_one_episode),
)
