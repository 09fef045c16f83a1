"""Rules of scoring that no recording shows: words, the offline judge, calls in task files."""

from __future__ import annotations

import pytest

from env_servers.environments.webarena.evaluation import (
    EvaluationFailed,
    OfflineJudge,
    PageFailed,
    PolicyJudge,
    Question,
    evaluate,
    read_criteria,
)
from env_servers.environments.webarena.evaluation.judge import QuestionKind, messages
from env_servers.environments.webarena.evaluation.lookups import parse_call, post_address
from env_servers.environments.webarena.evaluation.tokens import is_word
from tests.env_servers.environments.webarena.recorded import StillPage

WORDS = ("0%", "$0", "(0)", "it's 0!", "0.", "0, 1", "[0]", "$0. bye", "0's", "0...", "a:0\n0")
NO_WORDS = ("10", "0/5", "-0", "0.0", "0:30", "x=0", "0. bye", "0,5", "no. 00", "0th")


@pytest.mark.parametrize("text", WORDS)
def test_a_digit_is_a_word_beside_signs_that_stand_apart(text: str) -> None:
    assert is_word("0", text)


@pytest.mark.parametrize("text", NO_WORDS)
def test_a_digit_is_no_word_inside_of_another_or_before_a_small_letter(text: str) -> None:
    assert not is_word("0", text)


def test_other_characters_are_words_by_their_own_rules() -> None:
    assert is_word("$", "cost$5")
    assert is_word("a", "b,a")
    assert not is_word("a", "b-a")
    assert is_word("+", "a +. b")


ANSWERS = (
    ("12 May", "on May 12", 1.0),
    ("12 May", "on May 13", 0.0),
    ("The red oak chairs", "an oak chair", 1.0),
    ("the red oak chair and table", "red", 0.0),
    ("$1,299.00", "1299", 0.0),
    ("?", "anything", 0.0),
)


@pytest.mark.parametrize(("reference", "answer", "score"), ANSWERS)
async def test_the_offline_rule_wants_numbers_and_most_words(
    reference: str, answer: str, score: float
) -> None:
    question = Question(QuestionKind.ANSWER, "When?", reference, answer)
    assert await OfflineJudge().judge(question) == score


async def test_a_score_says_who_judged_it() -> None:
    entry = {
        "eval_types": ["string_match"],
        "reference_answers": {"fuzzy_match": ["12 May"]},
        "program_html": [],
    }
    score = await evaluate(
        read_criteria(entry),
        intent="When?",
        answer="May 12",
        page=StillPage(),
        judge=OfflineJudge(),
        shop=NoShop(),
    )
    assert (score.value, score.judged_by) == (1.0, "offline rule")


class NoShop:
    address = "http://shop.test"

    async def get(self, path: str) -> object:
        raise AssertionError("it is not asked")


@pytest.mark.parametrize("reference", [{"exact_match": 5}, {"must_include": [None]}])
async def test_a_reference_that_is_no_text_gives_no_score(reference: dict[str, object]) -> None:
    entry = {"eval_types": ["string_match"], "reference_answers": reference, "program_html": []}
    with pytest.raises(EvaluationFailed, match="no text"):
        await evaluate(
            read_criteria(entry),
            intent="",
            answer="5",
            page=StillPage(),
            judge=OfflineJudge(),
            shop=NoShop(),
        )


async def test_a_judge_that_cannot_be_reached_gives_no_score() -> None:
    async def refuse(messages: object) -> str:
        raise ConnectionError("down")

    with pytest.raises(ConnectionError):
        await PolicyJudge("m", refuse).judge(Question(QuestionKind.ANSWER, "?", "a", "b"))


def test_a_question_with_braces_is_sent_as_it_is() -> None:
    question = Question(QuestionKind.REASON, "Fork {x}", "{answer} is private", "{}")
    content = messages(question)[1]["content"]
    assert "Task: Fork {x}\n" in content
    assert "True reason: {answer} is private\nGiven reason: {}" in content


def test_a_call_with_a_quote_in_the_address_stays_a_text() -> None:
    call = parse_call("reddit_get_post_url('__last_url__')")
    assert call.arguments == ("__last_url__",)
    assert post_address("http://f.test/f/a'b/1/x") == "http://f.test/f/a'b/1/"


@pytest.mark.parametrize("text", ["f'{1}'", "a.b('x')", "reddit_get_post_url(url='x')", "x" * 99])
def test_what_is_no_call_of_a_known_function_is_refused(text: str) -> None:
    with pytest.raises(EvaluationFailed):
        parse_call(text)


async def test_a_page_that_does_not_open_gives_no_score() -> None:
    class Closed(StillPage):
        async def goto(self, url: str) -> None:
            raise PageFailed(f"{url} does not open")

    target = {"url": "http://x.test", "locator": "", "required_contents": {"must_include": []}}
    entry = {"eval_types": ["program_html"], "program_html": [target]}
    with pytest.raises(PageFailed, match=r"x\.test does not open"):
        await evaluate(
            read_criteria(entry),
            intent="",
            answer="",
            page=Closed(),
            judge=OfflineJudge(),
            shop=NoShop(),
        )
