"""What the environments' pictures say, read from their views of plain text."""

import pytest

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


def text_of(episode):
    """The view that a terminal shows."""
    return next(view.content.decode() for view in episode.render() if view.name == "text")


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
    assert "amethyst shard  4" in text_of(episode)
