"""Episodes through a real browser: experts win, what is equal stays equal, what dies is rebuilt."""

import contextlib
import re

import psutil
import pytest

pytest.importorskip("playwright", reason="needs the extra webarena")

from env_servers.environments.webarena.environment import WebArena
from env_servers.environments.webarena.tasks import TEMPLATES
from env_servers.sdk import EnvironmentConfig, ResetOptions
from tests.env_servers.environments.webarena.chromium import skip_without_chromium

pytestmark = pytest.mark.slow
skip_without_chromium()
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


@pytest.mark.parametrize("item_id", TASKS.item_ids("eval", 0, len(TEMPLATES))[5::50])
def test_who_stops_at_once_without_an_answer_scores_nothing(item_id):
    episode, _ = start(item_id)
    assert episode.step("stop []").reward == 0.0
    episode.close()


def item_of(name):
    place = next(number for number, each in enumerate(TEMPLATES) if each.name == name)
    return TASKS.item_ids("eval", place, place + 1)[0]


def rewards_at(item_id, *urls):
    """Return what a task gives for stopping at each address."""
    rewards = []
    for url in urls:
        episode, _ = start(item_id)
        episode.step(f"goto [{url}]")
        rewards.append(episode.step("stop []").reward)
        episode.close()
    return rewards


def test_a_page_below_the_one_that_is_wanted_scores_nothing():
    item_id = item_of("git.profile")
    url = TASKS.get(item_id).payload.draw().criteria.url
    public = url.replace("http://git.test", "http://gitlab.com")
    assert rewards_at(item_id, public, f"{public}/no-such-project") == [1.0, 0.0]


def test_directions_count_however_their_places_were_typed():
    item_id = item_of("map.show_drive")
    path, start_of_way, end = TASKS.get(item_id).payload.draw().criteria.targets
    way = [target.required["exact_match"] for target in (start_of_way, end)]
    town = [f"{name.split(', ')[0]}, {name.split(', ')[4]}" for name in way]
    urls = [
        f"http://openstreetmap.org{path.required['exact_match']}?engine=fossgis_osrm_car"
        f"&route_from={a}&route_to={b}"
        for a, b in (way, town, reversed(way))
    ]
    assert rewards_at(item_id, *urls) == [1.0, 1.0, 0.0]


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


@pytest.mark.parametrize("victim", ["--type=renderer", "--type=utility", "run-driver"])
def test_a_page_a_driver_or_who_keeps_cookies_is_killed_and_nothing_changes(victim):
    item_id = item_of("shop.wish")
    calm, _ = play(item_id)
    episode, observation = start(item_id)
    for told in calm[1:]:
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if victim in process.cmdline():
                    process.kill()
        observation = episode.step(episode.advise_expert(0).action)
        assert (observation.text, episode.fingerprint()) == told
        assert observation.info is None
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


def test_the_picture_marks_what_was_acted_on():
    episode, first = start(TASKS.item_ids("eval", 0, 1)[0])
    found = re.search(r"\[(\d+)\] (?:textbox|searchbox|link|button) '([^']+)'", first.text)
    assert found is not None
    number, name = found.groups()
    assert [view.name for view in episode.render()] == ["window", "screenshot", "marks", "text"]
    episode.step(f"hover [{number}]")
    window, _, marks, text = (view.content.decode(errors="replace") for view in episode.render())
    assert f">{number}</text>" in window
    assert f">{number}</text>" in marks
    assert name in text
    episode.step("goto [http://openstreetmap.org]")
    assert "<rect" not in episode.render()[0].content.decode()
    episode.close()


def test_images_are_what_the_window_shows_and_come_out_again():
    task = TASKS.get(TASKS.item_ids("eval", 0, 1)[0])
    runs = []
    for options in ({"images": True}, {"images": True}, {}):
        episode = WebArena(TASKS)
        shown = [episode.reset(task, ResetOptions(0, "fixed", options))]
        shown += [episode.step("scroll [down]"), episode.step("stop []")]
        runs.append([(it.text, it.images) for it in shown])
        episode.close()
    assert runs[0] == runs[1]
    assert [len(images) for _, images in runs[0]] == [1, 1, 1]
    assert runs[2] == [(text, ()) for text, _ in runs[0]]


def test_html_has_numbers_to_act_on_and_what_was_filled_in():
    episode = WebArena(TASKS)
    task = TASKS.get(TASKS.item_ids("eval", 0, 1)[0])
    episode.reset(task, ResetOptions(0, "fixed", {"observation": "html"}))
    page = episode.step("goto [http://onestopmarket.com]").text
    found = re.search(r"\[(\d+)\] <input [^>]*name='q'[^>]*>", page)
    assert found is not None, page
    page = episode.step(f"type [{found[1]}] [a blue lamp] [0]").text
    assert "value='a blue lamp'>" in page
    assert f"PREVIOUS ACTION: type [{found[1]}] [a blue lamp] where [{found[1]}] is <input" in page
    full = WebArena(TASKS)
    first = full.reset(task, ResetOptions(0, "fixed", {"observation": "html", "tree": "full"}))
    assert len(first.text.splitlines()) > 5
    full.close()
    episode.close()
