"""Judges answer, or say why not; verdicts are asked for once."""

from __future__ import annotations

import pytest

from agentgym.rubric import Grade, Rubric
from env_servers.sdk import EnvironmentUnavailable, InvalidOption
from env_servers.sdk.judging import (
    MAX_PROMPT_CHARS,
    Answer,
    Examiner,
    Judge,
    JudgeFailed,
    JudgeFailure,
    recorded_judgements,
)
from env_servers.toolkit.judges import judge_of
from env_servers.toolkit.judges.openai_judge import OpenAIJudge
from tests.kit.fake_openai import Behaviour, FakeOpenAI, serving

RUBRIC = Rubric(
    template="Does it say these?\n{{points}}\n{{answer}}",
    grades={"points": Grade(highest=10.0), "style": Grade(lowest=-1.0)},
    success_score=0.5,
)
QUICK = Behaviour(quickest=0.0, slowest=0.0)


def prompt(answer: str) -> str:
    return RUBRIC.prompt({"answer": answer}, {"points": "- point: a red fox\n- point: two"})


class Counting(Judge):
    """Says the next of its answers each time."""

    def __init__(self, *answers: str, cut_off: bool = False) -> None:
        self.answers = list(answers)
        self.cut_off = cut_off

    @property
    def identity(self) -> str:
        return "counting"

    async def ask(self, prompt: str, seed: int) -> Answer:
        return Answer(text=self.answers.pop(0), model="m", prompt_tokens=7, cut_off=self.cut_off)


def openai(url: str, seconds: float = 5.0) -> OpenAIJudge:
    return OpenAIJudge(base_url=url, model="fake", key="", seconds=seconds, max_tokens=99)


async def test_a_question_is_asked_once_and_what_was_recorded_never():
    examiner = Examiner(Counting('{"points": 10, "style": -1}', '{"points": 0, "style": 1}'))
    first = await examiner.examine(RUBRIC, prompt("x"), seed=1, recorded={})
    assert (first.score, first.success, first.answer.prompt_tokens) == (0.5, True, 7)
    assert await examiner.examine(RUBRIC, prompt("x"), seed=1, recorded={}) == first
    other = await examiner.examine(RUBRIC, prompt("x"), seed=2, recorded={})
    assert other.asked != first.asked
    assert other.answer.text == '{"points": 0, "style": 1}'
    elsewhere = Examiner(Counting())
    recorded = recorded_judgements({"judgements": [first.as_info()]})
    again = await elsewhere.examine(RUBRIC, prompt("x"), seed=1, recorded=recorded)
    assert again.as_info() == first.as_info()


@pytest.mark.parametrize(
    ("judge", "asked", "failure"),
    [
        (Counting("I like it."), "x", JudgeFailure.OFF_FORMAT),
        (Counting('{"points": 11, "style": 0}'), "x", JudgeFailure.OFF_FORMAT),
        (Counting("I think that", cut_off=True), "x", JudgeFailure.CUT_OFF),
        (Counting(), "x" * MAX_PROMPT_CHARS, JudgeFailure.PROMPT_TOO_LONG),
    ],
)
async def test_no_verdict_is_an_error_and_no_grade(judge, asked, failure):
    with pytest.raises(JudgeFailed, match=failure) as caught:
        await Examiner(judge).examine(RUBRIC, prompt(asked), seed=0, recorded={})
    assert caught.value.failure is failure
    assert isinstance(caught.value, EnvironmentUnavailable)


async def test_an_answer_that_was_no_verdict_is_asked_for_again():
    examiner = Examiner(Counting("hm", '{"points": 5, "style": 0}'))
    with pytest.raises(JudgeFailed):
        await examiner.examine(RUBRIC, prompt("x"), seed=0, recorded={})
    assert (await examiner.examine(RUBRIC, prompt("x"), seed=0, recorded={})).score == 0.5


@pytest.mark.parametrize("given", ["text", [1], [{"asked": "x"}], [{"asked": 1, "answer": "y"}]])
def test_what_is_given_back_has_to_be_judgements(given):
    with pytest.raises(InvalidOption, match="judgements"):
        recorded_judgements({"judgements": given})


async def test_the_scripted_judge_grades_the_share_of_points():
    examiner = Examiner(judge_of({"judge.model": "scripted"}))
    for text, grades in (
        ("A fox, red. Two!", {"points": 10.0, "style": 1.0}),
        ("a red wolf and two", {"points": 5.0, "style": 0.0}),
        ("- point: nothing", {"points": 0.0, "style": -1.0}),
    ):
        judgement = await examiner.examine(RUBRIC, prompt(text), seed=0, recorded={})
        assert judgement.grades == grades


async def test_a_model_is_asked_and_its_answer_and_tokens_are_told():
    fake = FakeOpenAI(QUICK, reply=lambda _: 'Good.\n{"points": 10, "style": 1}')
    async with serving(fake) as url:
        answer = await openai(url).ask("question", 5)
    assert answer.text.startswith("Good.")
    assert answer.completion_tokens > 0
    [body] = fake.bodies
    assert (body["messages"], body["seed"]) == ([{"role": "user", "content": "question"}], 5)


async def test_a_busy_server_is_asked_again(monkeypatch):
    monkeypatch.setattr("env_servers.toolkit.judges.openai_judge._PAUSES", (0.0,) * 60)
    fake = FakeOpenAI(Behaviour(quickest=0, slowest=0, refused=0.4, failed=0.2, truncated=0.2))
    async with serving(fake) as url:
        for number in range(5):
            assert (await openai(url, 20.0).ask("question", number)).text
    assert fake.answers["refused"] and fake.answers["failed"] and fake.answers["truncated"]


async def test_a_judge_that_does_not_answer_is_silent(monkeypatch):
    monkeypatch.setattr("env_servers.toolkit.judges.openai_judge._PAUSES", (0.0,))
    with pytest.raises(JudgeFailed, match="JUDGE_SILENT"):
        await openai("http://127.0.0.1:9/v1").ask("question", 0)
    async with serving(FakeOpenAI(Behaviour(hung=1.0))) as url:
        with pytest.raises(JudgeFailed, match=r"JUDGE_SILENT.*given up after 0\.1 s"):
            await openai(url, 0.1).ask("question", 0)


@pytest.mark.parametrize(
    "settings",
    [
        {"judge.model": "gpt"},
        {"judge.base_url": "http://x/v1"},
        {"judge.model": "gpt", "judge.base_url": "ftp://x"},
        {"judge.model": "gpt", "judge.base_url": "http://x/v1", "judge.timeout": "99"},
        {"judge.model": "gpt", "judge.base_url": "http://x/v1", "judge.key": "secret"},
        {"judge.model": "scripted", "judge.timeout": "5"},
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings):
    with pytest.raises(InvalidOption):
        judge_of(settings)


def test_without_settings_there_is_no_judge():
    assert judge_of({"shell.other": "1"}) is None
