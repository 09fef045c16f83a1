"""Games that were recorded from the original Wordle give the same feedback here.

Recorded with a fixed hidden word (the last, winning guess) over `wordle_official_400`; both are
given as options.
"""

from env_servers.environments.wordle.environment import WordleEnvironment
from env_servers.environments.wordle.prompt import GRAMMAR
from env_servers.environments.wordle.tasks import WordleTasks
from env_servers.sdk import ActionFormat, ResetOptions
from tests.kit.data import read_conversations, require_data


def _actions(replies: list[str]) -> list[str]:
    actions = [GRAMMAR.read(reply, ActionFormat.REACT) for reply in replies]
    return [action for action in actions if isinstance(action, str)]


def test_every_recorded_step_is_reproduced():
    tasks = WordleTasks(require_data("wordle"))
    games = read_conversations("lmrlgym_wordle")
    vocabulary = tasks.vocabularies.named("wordle_official_400")
    steps = 0
    for recorded in games:
        opening, *turns = [turn["value"] for turn in recorded["conversations"][2:]]
        assert tuple(opening.split("```\n")[1].split()) == vocabulary.words
        actions, told = _actions(turns[::2]), turns[1::2]
        options = {
            "vocabulary": "wordle_official_400",
            "hidden_word": actions[-1].replace(" ", ""),
            "instructions": opening,
        }
        game = WordleEnvironment(tasks)
        first = game.reset(tasks.get(recorded["item_id"]), ResetOptions(options=options))
        assert first.text == opening
        played = [game.step(action) for action in actions]
        assert [(observation.text, observation.reward) for observation in played[:-1]] == [
            (text, 0.0) for text in told
        ]
        steps += len(told)
        assert (played[-1].reward, played[-1].terminated) == (1.0, True), recorded["item_id"]
    assert (len(games), steps) == (478, 1574)
