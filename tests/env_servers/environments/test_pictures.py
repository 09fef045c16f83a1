"""What the environments' pictures say, read from their views of plain text."""

import pytest

from env_servers.environments.searchqa import picture as searchqa_picture
from env_servers.environments.searchqa.passages import Passage
from env_servers.environments.searchqa.questions import Clue, Question
from env_servers.sdk import (
    EnvironmentConfig,
    EnvironmentUnavailable,
    ResetOptions,
    load_environment,
)


@pytest.fixture(scope="module")
def begin():
    """Open an episode; the tasks of an environment are loaded once."""
    loaded = {}

    def start(name, item_id, **options):
        if name not in loaded:
            try:
                environment = load_environment(name)
                loaded[name] = environment, environment.load_tasks(EnvironmentConfig())
            except EnvironmentUnavailable as error:
                pytest.skip(str(error))
        environment, tasks = loaded[name]
        episode = environment(tasks)
        episode.reset(tasks.get(item_id), ResetOptions(options=options))
        return episode

    yield start
    for _, tasks in loaded.values():
        tasks.close()


def text_among(views, name="text"):
    return next(view.content.decode() for view in views if view.name == name)


def text_of(episode, name="text"):
    """A view that a terminal shows."""
    return text_among(episode.render(), name)


def play_expert(episode, steps):
    for _ in range(steps):
        episode.step(episode.advise_expert(0).action)


def test_a_maze_shows_the_way_that_was_walked(begin):
    episode = begin("maze", "lmrlgym_maze_0")
    for action in ("move right", "move right", "move up", "move down", "move down"):
        episode.step(action)
    rows = text_of(episode).splitlines()
    assert rows[1:4] == ["#S··  #     #", "###·##### ###", "###@##### ###"]
    assert rows[-1] == "at 3, 3, goal 8, 6, steps 5"


def test_a_level_shows_the_whole_grid_and_what_is_carried(begin):
    episode = begin("babyai", "babyai_1000000")
    before = text_of(episode)
    assert before.splitlines()[1] == "##          KG##"
    assert "goal: go to the red ball" in before
    assert "carrying nothing" in before
    assert before.count("AR") == 1


def test_guesses_show_what_each_letter_is_worth(begin):
    episode = begin("wordle", "wordle_1500000", hidden_word="bushy")
    for guess in ("irate", "sulky", "nonsense"):
        episode.step(guess)
    assert text_of(episode).splitlines() == [
        "I R A T E   . . . . .",
        "S U L K Y   y G . . G",
        "attempts 3 of 6, 1 with no word",
        "letters: A. E. I. K. L. R. Sy T. UG YG",
        "hidden word: bushy",
    ]


def test_recipes_show_what_is_carried_and_what_must_be_got(begin):
    episode = begin("textcraft", "textcraft_1000001")
    assert "└─ 4 amethyst shard [get]" in text_of(episode)
    episode.step("get 4 amethyst shard")
    assert "└─ 4 amethyst shard [x]" in text_of(episode)
    assert text_of(episode).endswith("inventory:\n4 amethyst shard")


def test_a_sheet_shows_what_is_not_yet_as_it_was_asked_for(begin):
    episode = begin("sheet", "sheet_1000000")
    before = text_of(episode, "grid_text")
    assert "opened: none" in before
    assert "≠" in before.partition("asked for")[2]
    play_expert(episode, 3)
    after = text_of(episode, "grid_text")
    assert "cells to change: 0" in after
    assert "2   Ghent        Mountains  22    1,199.04  65" in after


def test_an_account_shows_what_must_still_come_and_go(begin):
    for number in range(1_000_000, 1_000_100):
        episode = begin("todo", f"todo_{number}")
        if "Must still come" in text_of(episode, "account_text"):
            break
    assert "account: not as it must be" in text_of(episode, "account_text")
    play_expert(episode, 14)
    assert "account: as it must be" in text_of(episode, "account_text")


def test_what_was_looked_up_is_shown_as_tables(begin):
    episode = begin("movie", "movie_1000013")
    assert "expected: 'Weidong Lin'" in text_of(episode)
    play_expert(episode, 2)
    assert "1121372  Weidong Lin    Director" in text_of(episode)
    episode = begin("weather", "weather_1000000")
    play_expert(episode, 3)
    assert "2025-05-01  5.0" in text_of(episode)


def test_the_part_of_a_graph_that_was_looked_up_is_a_tree(begin):
    episode = begin("academia", "academia_1000026")
    play_expert(episode, 3)
    drawn = next(view.content.decode() for view in episode.render() if view.name == "graph")
    for label in ("Guowei Zeng", "org: Recife Research Labs", "Boris Sokolyanov"):
        assert f">{label}</text>" in drawn


def test_statements_show_their_results_beside_the_gold_ones(begin):
    episode = begin("bird", "bird_1000003")
    assert "# Gold statement\nSELECT COUNT(*) FROM customer" in text_of(episode)
    before = episode.fork()
    episode.step("SELECT city, NULL FROM customer LIMIT 1")
    shown = text_of(episode)
    assert "rows: 1, columns: 2\ncity" in shown
    assert "NULL" in shown
    assert "rows: 1, columns: 1\nCOUNT(*)\n--------\n196" in shown
    assert before.fingerprint() == episode.fingerprint(), "what is shown is no part of the state"


def test_passages_show_what_matched():
    clue = Clue('"Ada"', ("Where was Ada born?",), "the town where Ada was born", "It is Tum")
    question = Question("Where was Ada born?", ("Tum",), (clue,))
    assert "searched for: nothing yet" in text_among(searchqa_picture.draw(question, (), (), ()))
    found = Passage("7", '"Ada"', "Ada was born in Tum, where born means <born>.")
    views = searchqa_picture.draw(question, ("Ada born",), (found,), {'"Ada"'})
    assert "yes    the town where Ada was born" in text_among(views)
    assert "Ada was [born] in [Tum], where [born] means <[born]>." in text_among(views)
    assert b"<mark>Tum</mark>, where <mark>born</mark> means &lt;" in views[0].content


def test_a_room_shows_its_places_and_what_is_held(begin):
    episode = begin("alfworld", "alfworld_1000000")
    assert "at: the middle of the room" in text_of(episode)
    play_expert(episode, 2)
    shown = text_of(episode)
    assert "holding: bowl 1" in shown
    assert "@  diningtable 1            bread 1, knife 1, knife 2, lettuce 2" in shown
    play_expert(episode, 3)
    assert "@  [cabinet 14]     opened  [bowl 1], saltshaker 2" in text_of(episode)


def test_an_experiment_shows_the_room_and_the_goals_that_are_met():
    pytest.importorskip("scienceworld", reason="the extra `sciworld` is not installed")
    from env_servers.environments.sciworld import picture
    from env_servers.environments.sciworld.simulator import Outcome, Survey

    survey = Survey(
        "Your task is to boil water.",
        "This room is called the kitchen. In it, you see: \n\ta stove\n\ta sink\n",
        "In your inventory, you see:\n\tan orange\n",
        "Sequential Subgoals:\n---\n0\ttrue\tGoalFind\tfocus on water\n1\tfalse\tGoalBoil\tboil",
        ["open OBJ"],
        ["stove", "sink"],
        Outcome("", 0.25, False, 7),
    )
    views = picture.draw(survey)
    page, lines = views[0].content.decode(), text_among(views)
    assert "<ul><li>a stove</li><li>a sink</li></ul>" in page
    assert "score: 25\nmoves: 7" in lines
    assert "In your inventory, you see:\n        an orange" in lines
    assert "✓  focus on water  GoalFind\n   boil            GoalBoil" in lines
