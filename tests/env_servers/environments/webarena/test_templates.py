"""What every template promises: tasks that differ, can be judged, are undone at first, and end."""

import pytest

from env_servers.environments.webarena.addresses import PUBLIC
from env_servers.environments.webarena.evaluation.criteria import Evaluator
from env_servers.environments.webarena.sites.embedded import new_world
from env_servers.environments.webarena.tasks import CONTENT, TEMPLATES, content_digest
from env_servers.environments.webarena.templates.plan import Answer
from env_servers.environments.webarena.templates.site_task import AT_ANY_PAGE
from env_servers.environments.webarena.templates.template import INSTANCES

MOST_ROUNDS = 30


def tasks_of(template):
    return [template.instance(number) for number in range(INSTANCES)]


@pytest.fixture(params=TEMPLATES, ids=lambda template: template.name, scope="module")
def tasks(request):
    return tasks_of(request.param)


def test_the_digest_of_the_tasks_tells_what_sites_and_tasks_hold():
    # A change of content wants a new constant, by which runs of the old content are told apart.
    assert content_digest() == CONTENT


def test_names_of_templates_are_unique():
    names = [template.name for template in TEMPLATES]
    assert sorted({*names}) == sorted(names)


def test_no_two_instances_of_a_template_want_the_same(tasks):
    intents = [task.intent for task in tasks]
    assert sorted({*intents}) == sorted(intents)


def test_every_instance_is_undone_in_untouched_sites(tasks):
    world = new_world()
    for task in tasks:
        assert task.check is None or not task.check(world), task.intent


def test_every_instance_asks_for_an_answer_a_page_or_a_change(tasks):
    for task in tasks:
        assert task.check is not None or task.criteria != AT_ANY_PAGE, task.intent


def test_every_plan_starts_at_a_known_address_and_ends_with_its_only_answer(tasks):
    for task in tasks:
        ends = [isinstance(move, Answer) for move in task.plan]
        assert ends == [False] * (len(ends) - 1) + [True], task.intent
        assert len(ends) <= MOST_ROUNDS, task.intent
        assert task.start.startswith((*PUBLIC.values(),)), task.start


def test_an_answer_that_is_judged_is_what_its_plan_says(tasks):
    for task in tasks:
        spoken = task.plan[-1].text
        assert bool(spoken) == (Evaluator.STRING in task.criteria.evaluators), task.intent
