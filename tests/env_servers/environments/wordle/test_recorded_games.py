"""Games that were recorded from the original Wordle give the same feedback here.

Recorded with a fixed hidden word (the last, winning guess) over `wordle_official_400`; both are
given as options.
"""

from env_servers.environments.wordle import WordleEnvironment
from env_servers.environments.wordle.tasks import WordleTasks
from tests.kit.fidelity import FidelityContract, Replay


class TestRecordedGames(FidelityContract):
    environment = WordleEnvironment
    counts = (478, 1574)

    def test_the_listed_words_are_those_of_the_vocabulary(
        self, replays: list[Replay], replayed_tasks: WordleTasks
    ) -> None:
        vocabulary = replayed_tasks.vocabularies.named("wordle_official_400")
        for game in replays:
            listed = game.recording.observations[0].split("```\n")[1]
            assert tuple(listed.split()) == vocabulary.words

    def test_nothing_is_earned_before_the_last_guess(self, replays: list[Replay]) -> None:
        for game in replays:
            assert {observation.reward for observation in game.observations[:-1]} == {0.0}
