"""Wordle, played: feedback, rewards, limits, profiles, options, players."""

import random

import pytest

from env_servers.environments.wordle.environment import MOST_MISSES, WordleEnvironment
from env_servers.environments.wordle.prompt import EXAMPLE, GRAMMAR
from env_servers.environments.wordle.rules import SOLVED, counted_feedback, simple_feedback, spaced
from env_servers.environments.wordle.tasks import WordleTasks
from env_servers.environments.wordle.words import OFFICIAL_WORDS
from env_servers.sdk import (
    ActionFormat,
    EnvironmentConfig,
    InvalidOption,
    Observation,
    ResetOptions,
    StopReason,
    load_environment,
)

TASKS = WordleTasks(None)
LISTED = "wordle_2000000"


def _opened(item: str = LISTED, profile: str = "agentgym", **options):
    game = WordleEnvironment(TASKS)
    first = game.reset(TASKS.get(item), ResetOptions(profile=profile, options=options))
    return game, first


def _played(game: WordleEnvironment, *guesses: str) -> list[Observation]:
    return [game.step(guess) for guess in guesses]


def _solved_in(game: WordleEnvironment) -> tuple[Observation, int]:
    guesses = 0
    while True:
        observation = game.step(game.advise_expert(guesses).action)
        guesses += 1
        if observation.terminated:
            return observation, guesses


def test_the_registry_finds_it():
    assert load_environment("wordle") is WordleEnvironment
    assert isinstance(WordleEnvironment.load_tasks(EnvironmentConfig()), WordleTasks)


def test_the_first_observation_lists_the_vocabulary_one_word_a_line():
    for item in (LISTED, "lmrlgym_wordle_3"):
        _, first = _opened(item)
        listed = first.text.split("```\n")[1].splitlines()
        assert tuple(listed) == TASKS.get(item).payload.vocabulary.words
        assert first.reward == 0.0


def test_an_open_game_lists_no_words():
    _, first = _opened("wordle_2500000")
    assert len(first.text) < 2_500
    assert str(TASKS.get("wordle_2500000").payload.hidden) not in first.text


def test_the_worked_example_follows_the_rules():
    _, first = _opened()
    hidden, guesses = EXAMPLE
    for number, guess in enumerate(guesses, 1):
        assert f"guess {number}: {spaced(guess)}\n" in first.text
        for rule in (simple_feedback, counted_feedback):
            assert f"marks {number}: {spaced(rule(guess, hidden))}\n" in first.text


def test_a_guess_may_have_blanks_between_its_letters_or_not():
    for guess in ("c o u l d", "could", " c o uld  "):
        game, _ = _opened(hidden_word="audio", vocabulary=["could", "audio"])
        assert game.step(guess) == Observation("b y y b y\n", reward=0.0)


def test_finding_the_word_succeeds():
    game, _ = _opened(hidden_word="audio", vocabulary=["could", "audio"])
    assert game.step("a u d i o") == Observation(
        "g g g g g\n", reward=1.0, terminated=True, stop_reason=StopReason.GOAL_REACHED
    )


@pytest.mark.parametrize(
    "guess", ["zzzzz", "", "COULD", "could.", "coul", "c\to\tu\tl\td", "\x00", "x" * 10**6]
)
def test_an_invalid_guess_is_answered_and_used_up(guess):
    game, _ = _opened(hidden_word="audio", vocabulary=["could", "audio"])
    observations = _played(game, *[guess] * 6)
    assert observations[:5] == [Observation("invalid word", reward=0.0)] * 5
    assert observations[5] == Observation(
        "invalid word", reward=0.0, terminated=True, stop_reason=StopReason.GOAL_FAILED
    )


def test_the_sixth_wrong_guess_fails_and_the_sixth_right_one_wins():
    for last, reward in (("could", 0.0), ("audio", 1.0)):
        game, _ = _opened(hidden_word="audio", vocabulary=["could", "audio"])
        *before, end = _played(game, *["could"] * 5, last)
        assert not any(observation.terminated for observation in before)
        assert (end.terminated, end.reward) == (True, reward)


def test_letters_are_not_counted_as_in_the_original():
    game, _ = _opened(hidden_word="light", vocabulary=["allot", "light"])
    assert game.step("allot").text == "b y y b g\n"
    game, _ = _opened(profile="fixed", hidden_word="light", vocabulary=["allot", "light"])
    assert game.step("allot").text == "b y b b g\n"


def test_the_official_game_draws_its_target_anew_among_the_words_that_still_fit():
    for seed in range(25):
        game, _ = _opened(f"lmrlgym_wordle_{seed}")
        rng, left = random.Random(seed), list(OFFICIAL_WORDS)
        for guess in ("other", "panic", "wrung", "solar"):
            target = rng.choice(left)
            feedback = simple_feedback(guess, target)
            left = [word for word in left if simple_feedback(guess, word) == feedback]
            observation = game.step(guess)
            assert observation.text == f"{spaced(feedback)}\n"
            assert observation.terminated == (feedback == SOLVED)
            if observation.terminated:
                break


def test_an_invalid_guess_draws_nothing():
    plain, _ = _opened("lmrlgym_wordle_5")
    noisy, _ = _opened("lmrlgym_wordle_5")
    noisy.step("zzzzz")
    assert _played(plain, "other", "panic") == _played(noisy, "other", "panic")


def test_a_target_may_change_between_guesses():
    """The first drawn target is no promise: some seed denies a word that was true before."""
    changed = 0
    for seed in range(25):
        game, _ = _opened(f"lmrlgym_wordle_{seed}")
        first_target = random.Random(seed).choice(OFFICIAL_WORDS)
        game.step("whack")
        changed += game.step(first_target).text != "g g g g g\n"
    assert changed > 5


def test_fixed_draws_the_official_word_once():
    for seed in range(25):
        game, _ = _opened(f"lmrlgym_wordle_{seed}", "fixed")
        game.step("whack")
        assert game.step(random.Random(seed).choice(OFFICIAL_WORDS)).reward == 1.0


def test_fixed_reads_guesses_in_any_clothes():
    for guess in ("C-O-U-L-D", '"could".', "Could!", "c o u l d\n"):
        game, _ = _opened(profile="fixed", hidden_word="audio", vocabulary=["could", "audio"])
        assert game.step(guess).text == "b y y b y\n"


def test_fixed_explains_invalid_guesses_and_charges_nothing_for_them():
    game, _ = _opened(profile="fixed", hidden_word="audio", vocabulary=["could", "audio"])
    for _ in range(MOST_MISSES - 1):
        assert "6 guesses left" in game.step("zzzzz").text
    twin = game.fork()
    assert game.step("audio").reward == 1.0
    last = twin.step("")
    assert (last.truncated, last.stop_reason) == (True, StopReason.STEP_LIMIT)


def test_fixed_tells_the_word_at_the_end():
    game, _ = _opened(profile="fixed", hidden_word="audio", vocabulary=["could", "audio"])
    last = _played(game, *["could"] * 6)[-1]
    assert (last.terminated, last.reward) == (True, 0.0)
    assert last.text == "b y y b y\nNo guess is left. The word was audio.\n"


def test_a_vocabulary_can_be_given_by_name():
    _, first = _opened("lmrlgym_wordle_1", vocabulary="answers", hidden_word="audio")
    assert "\naudio\n" in first.text


@pytest.mark.parametrize(
    "options",
    [
        {"hidden_word": "zzzzz"},
        {"hidden_word": 5},
        {"vocabulary": 5},
        {"vocabulary": []},
        {"vocabulary": ["no"]},
        {"vocabulary": "no such list"},
        {"vocabulary": ["could", "audio"]},
        {"instructions": ["x"]},
        {"colour": "red"},
    ],
)
def test_impossible_options_are_refused(options):
    with pytest.raises(InvalidOption):
        _opened(LISTED, **options)


def test_unknown_profiles_are_refused():
    with pytest.raises(InvalidOption):
        _opened(LISTED, "strict")


def test_the_official_instructions_can_be_put_in_place_of_ours():
    assert _opened(instructions="Go!\n")[1].text == "Go!\n"


@pytest.mark.parametrize("profile", WordleEnvironment.spec.profiles)
@pytest.mark.parametrize("split", ["eval", "eval_open", "official_eval"])
def test_the_expert_finds_every_word(split, profile):
    for item in TASKS.item_ids(split, 0, 200):
        game, _ = _opened(item, profile)
        assert _solved_in(game)[0].reward == 1.0, item


def test_the_expert_does_not_look_at_the_hidden_word():
    words = [f"{letter}ight" for letter in "lmnrstfe"]
    advice = set()
    for hidden in words:
        game, _ = _opened(hidden_word=hidden, vocabulary=words)
        advice.add(game.advise_expert(0))
    assert len(advice) == 1


def test_the_expert_splits_look_alikes_with_a_word_that_cannot_be_right():
    alike = ["light", "might", "night", "right", "sight", "tight", "fight", "eight"]
    game, _ = _opened(hidden_word="eight", vocabulary=[*alike, "films", "north"])
    game.step("light")
    advice = game.advise_expert(0)
    assert advice.action.replace(" ", "") in {"films", "north"}
    assert "is not one of them" in advice.thought
    assert _solved_in(game)[0].reward == 1.0


def test_the_expert_finds_an_accepted_word_that_is_no_usual_answer():
    game, _ = _opened("wordle_2500000", hidden_word="yarns")
    assert "yarns" not in TASKS.vocabularies.answers
    assert _solved_in(game)[0].reward == 1.0


def test_the_seed_changes_the_thought_and_nothing_else():
    game, _ = _opened()
    before = game.fingerprint()
    advice = [game.advise_expert(seed) for seed in range(4)]
    assert len({a.action for a in advice}) == 1
    assert len({a.thought for a in advice}) > 1
    assert advice == [game.advise_expert(seed) for seed in range(4)]
    assert game.fingerprint() == before


def test_doing_nothing_never_scores():
    for item in ("lmrlgym_wordle_0", LISTED, "wordle_2500000"):
        game, _ = _opened(item)
        rewards = [game.step(game.advise_noop().action).reward for _ in range(6)]
        assert set(rewards) == {0.0}


def test_the_random_player_guesses_accepted_words():
    game, _ = _opened()
    rng = random.Random(0)
    words = TASKS.get(LISTED).payload.vocabulary
    assert all(game.advise_random(rng).action.replace(" ", "") in words for _ in range(50))


@pytest.mark.parametrize("action_format", ActionFormat)
def test_every_format_has_a_start_and_carries_every_guess(action_format):
    assert WordleEnvironment.spec.conversation_starts[action_format].instruction
    game, _ = _opened()
    for advice in (game.advise_expert(1), game.advise_noop(), game.advise_random(random.Random(1))):
        assert GRAMMAR.read(GRAMMAR.write(advice, action_format), action_format) == advice.action


def test_a_function_call_may_write_the_word_with_or_without_blanks():
    for word in ("shire", "s h i r e"):
        assert GRAMMAR.read_call("guess", {"word": word}) == "s h i r e"


@pytest.mark.parametrize("item", ["lmrlgym_wordle_4", LISTED])
def test_a_fork_goes_its_own_way(item):
    game, _ = _opened(item)
    words = TASKS.get(item).payload.vocabulary.words
    game.step(words[0])
    twin = game.fork()
    assert twin.fingerprint() == game.fingerprint()
    ahead = _played(twin, words[1], words[2])
    assert twin.fingerprint() != game.fingerprint()
    assert _played(game, words[1], words[2]) == ahead
    assert twin.fingerprint() == game.fingerprint()


def test_fingerprints_tell_attempts_hidden_words_and_profiles_apart():
    games = [
        _opened(hidden_word="audio", vocabulary=["could", "audio"])[0],
        _opened(hidden_word="could", vocabulary=["could", "audio"])[0],
        _opened(profile="fixed", hidden_word="could", vocabulary=["could", "audio"])[0],
        _opened("lmrlgym_wordle_1")[0],
        _opened("lmrlgym_wordle_2")[0],
    ]
    prints = [game.fingerprint() for game in games]
    games[0].step("zzzzz")
    assert len({*prints, games[0].fingerprint()}) == 6
