"""inspect_ai's evaluation with its mock model; a solver plays, the log has every sample."""

# pyright: reportMissingImports=false, reportUnknownVariableType=false
from __future__ import annotations

from typing import Any, Final

from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageUser,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver

from benchmark.whole_path.loops.script import Outcome, Play, Script, read_arguments, write

_AT_ONCE: Final = 256
_ITEM: Final = "item"


@solver
def plays(script: Script, outcome: Outcome) -> Solver:
    """Play the sample's task with the model."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        item_id = str(state.sample_id)
        play = Play(script, item_id)
        state.messages.append(ChatMessageUser(content=play.text))
        while not play.ended:
            state = await generate(state)
            play.reply(state.output.completion)
            state.messages.append(ChatMessageUser(content=play.text))
        play.close()
        state.store.set("reward", play.reward)
        outcome.add(item_id, play.reward, play.steps)
        return state

    return solve


@scorer(metrics=[mean()])
def rewards() -> Scorer:
    """Take the reward from the episode."""

    async def score(state: TaskState, target: Target) -> Score:
        return Score(value=state.store.get("reward"))

    return score


def main() -> None:
    """Evaluate every task, with as many epochs as samples."""
    arguments = read_arguments()
    script, outcome = Script(arguments.replies), Outcome()

    def answer(messages: Any, *_: Any) -> ModelOutput:
        item_id = messages[0].metadata[_ITEM]
        turn = sum(message.role == "assistant" for message in messages) - 1
        output = ModelOutput.from_content("mockllm/model", script.next_reply(item_id, turn))
        # Without, Inspect counts tokens by a vocabulary that it fetches.
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output

    samples = [
        Sample(
            id=item_id,
            input=[
                ChatMessageUser(content=script.instruction, metadata={_ITEM: item_id}),
                ChatMessageAssistant(content=script.acknowledgement),
            ],
        )
        for item_id in script.replies
    ]
    task = Task(dataset=MemoryDataset(samples), solver=plays(script, outcome), scorer=rewards())
    (log,) = evaluate(
        task,
        model=get_model("mockllm/model", custom_outputs=answer),
        epochs=arguments.samples,
        max_samples=_AT_ONCE,
        max_connections=_AT_ONCE,
        log_dir=str(arguments.folder),
        display="none",
    )
    if log.status != "success":
        raise RuntimeError(f"Inspect ended with {log.status}: {log.error}")
    write(arguments, outcome)


if __name__ == "__main__":
    main()
