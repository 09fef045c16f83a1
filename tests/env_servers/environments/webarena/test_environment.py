"""Episodes through a real browser: experts win, what is equal stays equal, what dies is rebuilt."""

import psutil
import pytest

pytest.importorskip("playwright", reason="needs the extra webarena")

from env_servers.environments.webarena.environment import WebArena
from env_servers.environments.webarena.tasks import TEMPLATES
from env_servers.sdk import EnvironmentConfig, ResetOptions
from tests.env_servers.environments.webarena.chromium import needs_chromium

pytestmark = [pytest.mark.slow, needs_chromium]
TASKS = WebArena.load_tasks(EnvironmentConfig())


def start(item_id, profile="agentgym"):
    episode = WebArena(TASKS)
    return episode, episode.reset(TASKS.get(item_id), ResetOptions(0, profile, {}))


def play(item_id, profile="agentgym"):
    episode, observation = start(item_id, profile)
    told = [(observation.text, episode.fingerprint())]
    while not observation.terminated:
        observation = episode.step(episode.advise_expert(0).action)
        told.append((observation.text, episode.fingerprint()))
        assert len(told) <= episode.spec.max_rounds
    episode.close()
    return told, observation.reward


# Every template takes minutes: `python -m orchestrator.evaluate` plays them all.
@pytest.mark.parametrize("item_id", TASKS.item_ids("eval", 0, len(TEMPLATES))[::12])
def test_the_expert_solves_tasks_of_every_site_through_the_browser(item_id):
    assert play(item_id)[1] == 1.0


def test_the_same_actions_give_the_same_pages_and_states():
    item_id = TASKS.item_ids("eval", 0, 1)[0]
    assert play(item_id) == play(item_id)


def test_off_its_plan_the_expert_begins_again_and_wins():
    episode, _ = start(TASKS.item_ids("eval", 0, 1)[0])
    episode.step("goto [http://homepage.com]")
    observation = episode.step(episode.advise_expert(0).action)
    while not observation.terminated:
        observation = episode.step(episode.advise_expert(0).action)
    assert observation.reward == 1.0
    episode.close()


def test_a_fork_is_in_the_same_state_and_goes_its_own_way():
    episode, _ = start(TASKS.item_ids("eval", 0, 1)[0])
    twin = episode.fork()
    assert twin.fingerprint() == episode.fingerprint()
    same = episode.advise_expert(0).action
    assert episode.step(same).text == twin.step(same).text
    twin.step("go_back")
    assert twin.fingerprint() != episode.fingerprint()
    twin.close()
    episode.close()


def test_a_browser_that_dies_is_replaced_and_its_episode_goes_on():
    item_id = TASKS.item_ids("eval", 0, 1)[0]
    calm, _ = play(item_id)
    episode, _ = start(item_id)
    for process in psutil.Process().children(recursive=True):
        if process.name().startswith("chrom"):
            process.kill()
    observation = episode.step(episode.advise_expert(0).action)
    assert (observation.text, episode.fingerprint()) == calm[1]
    episode.close()
