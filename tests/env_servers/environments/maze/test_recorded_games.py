"""Games that were recorded from the original MAZE give the same observations here."""

from env_servers.environments.maze import MazeEnvironment
from tests.kit.fidelity import FidelityContract, Replay


class TestRecordedGames(FidelityContract):
    environment = MazeEnvironment
    counts = (108, 376)

    def test_success_is_told_and_nothing_is_earned_before(self, replays: list[Replay]) -> None:
        for game in replays:
            assert game.last.text == "Success\n"
            assert {observation.reward for observation in game.observations[:-1]} == {0.0}
