"""What AgentGym's original servers answered, asked of the gateway again.

Each test says which of its exchanges are not comparable, and why. All others are equal.
"""

import re

import pytest

from tests.kit.agentgym_exchanges import Replay, alike, read_exchanges
from tests.kit.data import data_fixture
from tests.kit.gateways import gateway_client, open_agentgym

data_dir = data_fixture("agentgym_http/exchanges.jsonl")

VISUAL = "script VISUAL=true"
"""How the original was started so that web pages may ask."""
ORIGIN = "http://x.test"


def same(exchange, there, here):
    return "" if alike(there, here) else f"{here!r:.300} and not {there!r:.300}"


def asks_from_a_page(exchange):
    """Pages of others are refused here, where the original answers without what browsers want."""
    return "Origin" in exchange.get("request_headers", {}) and exchange["source"] != VISUAL


async def replay(data, environment, recorded, *, differ=(), compare=same, prepare=None, **options):
    """Send all exchanges again; `differ` are those (of a note, a path, a pair) that may differ."""
    compared = excused = 0
    prefix = f"/{environment}" if recorded in ("maze", "wordle") else ""
    hosted = {"lmrlgym": ("maze", "wordle")}.get(recorded, (environment,))
    for exchanges in read_exchanges(data, recorded):
        async with open_agentgym(*hosted, data_dir=data, **options) as gateway:
            if prepare is not None:
                prepare(gateway.environments[environment], exchanges)
            origins = [ORIGIN] if exchanges[0]["source"] == VISUAL else []
            async with gateway_client(gateway, origins=origins) as client:
                played = Replay(prefix)
                for exchange in exchanges:
                    await played.play(client, exchange, compare)
        wrong = []
        for exchange, why in played.differences:
            if asks_from_a_page(exchange) or any(it(exchange) for it in differ):
                excused += 1
            else:
                wrong.append(f"{exchange['n']} {exchange['method']} {exchange['path']}: {why}")
        assert not wrong, "\n".join(wrong)
        compared += played.compared
    return compared, excused


def noted(*words):
    """Exchanges whose note says one of these."""
    return lambda exchange: any(word in exchange.get("note", "") for word in words)


async def test_maze(data_dir):
    assert await replay(data_dir, "maze", "maze") == (234, 2)


async def test_the_server_that_has_maze_and_wordle(data_dir):
    assert await replay(data_dir, "", "lmrlgym") == (19, 2)


async def test_wordle(data_dir):
    assert await replay(data_dir, "wordle", "wordle") == (256, 2)


def as_recorded(environment, exchanges):
    """Give numbers the tasks of the recorder's machine: they depend on the order of a folder."""
    tasks = {}
    for exchange in exchanges:
        reply = exchange["reply"]
        if exchange["path"] not in ("/create", "/reset") or "observation" not in (reply or ()):
            continue
        shown = re.fullmatch(
            r"Crafting commands:\n(.*)\n\nGoal: craft (.*)\.", reply["observation"], re.DOTALL
        )
        number = reply["id"] if exchange["path"] == "/create" else None
        if number is None:
            body = exchange["body"] or {"data_idx": 3}
            number = int(body.get("data_idx", 0))
        tasks[number % 544] = {"commands": shown[1], "goal": shown[2]}
    environment.options = lambda number: environment.reset_options | tasks[number % 544]


async def test_textcraft(data_dir):
    assert await replay(data_dir, "textcraft", "textcraft", prepare=as_recorded) == (298, 2)


async def test_babyai(data_dir):
    def compare(exchange, there, here):
        if exchange["path"] == "/render" and isinstance(here, str):
            return "" if here.startswith("data:image/") else here[:40]
        return same(exchange, there, here)

    huge = noted("data_idx='1000000000000000000")  # our items have smaller numbers
    assert await replay(data_dir, "babyai", "babyai", compare=compare, differ=[huge]) == (284, 3)


@pytest.mark.slow
async def test_alfworld(data_dir):
    # What is wrong with a number that no game has is said in other words.
    missing = noted("only part of the games is on disk")
    assert await replay(data_dir, "alfworld", "alfworld", differ=[missing]) == (206, 4)


@pytest.mark.slow
async def test_webshop(data_dir):
    # The recorder had a stand-in for the search engine, and tasks are drawn.
    drawn = noted("before reset", "session_id='None'", "without session_id")

    def searched(exchange):
        return exchange["path"] in ("/step", "/available_actions", "/observation")

    differ = [drawn, searched]
    compared, excused = await replay(data_dir, "webshop", "webshop", differ=differ)
    assert (compared, excused <= 16) == (139, True)


def with_all_questions(environment, exchanges):
    """The recorder's file of BIRD's questions lacks six before these: later numbers are lower."""
    item = environment.item

    async def shifted(number):
        return await item(number + 6 if number >= 10_139 else number)

    environment.item = shifted


@pytest.mark.slow
async def test_bird(data_dir):
    pool = noted("pool of 8")
    figures = await replay(data_dir, "bird", "sqlgym", prepare=with_all_questions, differ=[pool])
    assert figures == (208, 3)


# In an empty list, pydantic 1 finds each field missing, and pydantic 2 no object.
arrays = noted("JSON array")


@pytest.mark.slow
async def test_weather(data_dir):
    def reckoned(exchange):
        # A distance in its last digit; a place that the recorder could not look up, and what
        # that left behind.
        return exchange["path"] == "/step" and exchange["n"] in (76, 77, 78)

    assert await replay(data_dir, "weather", "weather", differ=[arrays, reckoned]) == (217, 8)


@pytest.mark.slow
async def test_movie(data_dir):
    assert await replay(data_dir, "movie", "movie", differ=[arrays]) == (110, 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["todo", "sheet"])
async def test_tools_whose_accounts_the_recorder_lacked(data_dir, name):
    def needs_account(exchange):
        return exchange["n"] in (20, 21, 25, 26, 27)

    assert await replay(data_dir, name, name, differ=[arrays, needs_account]) == (31, 7)


@pytest.mark.slow
async def test_academia(data_dir):
    """Its questions and graphs are not in the data folder: only what does not depend on them."""

    def asks_for_task(exchange):
        return exchange["status"] in (200, 500)

    differ = [arrays, asks_for_task]
    assert (await replay(data_dir, "academia", "academia", differ=differ))[0] == 110


@pytest.mark.slow
async def test_searchqa(data_dir):
    """Only the form of replies: the recorder had stand-ins for questions and passages."""

    def compare(exchange, there, here):
        if isinstance(there, dict) and isinstance(here, dict):
            return "" if there.keys() == here.keys() else f"{here}"
        return "" if type(there) is type(here) else f"{here}"

    def with_questions(environment, exchanges):
        async def item(number):
            return f"searchqa_{300_000 + environment.official_number(number) % 100}"

        environment.item = item

    # A question of the recorder's has another answer here, or is asked of other passages.
    answered = noted("right answer")
    prepared = {"prepare": with_questions, "differ": [answered]}
    assert await replay(data_dir, "searchqa", "searchqa", compare=compare, **prepared) == (188, 2)


@pytest.mark.slow
async def test_sciworld(data_dir):
    def inside(exchange):
        paths = ("/object_tree", "/state", "/step_visual")  # without the tree of all objects
        if exchange["path"] == "/goals":  # before a reset: the stack of the original's Java
            return "java.util" in str(exchange["reply"])
        return exchange["path"] in paths or exchange.get("note") == "detail after step_visual"

    def compare(exchange, there, here):
        # The simulator lists things in an order of its own, from one process to the next.
        return same(exchange, in_any_order(there), in_any_order(here))

    huge = noted("data_idx='1000000000000000000")  # said in other words
    prepared = {"differ": [inside, huge], "settings": {"sciworld.ids": "4639"}}
    compared, excused = await replay(data_dir, "sciworld", "sciworld", compare=compare, **prepared)
    assert (compared, excused < 20) == (376, True)


def in_any_order(value):
    if isinstance(value, dict):
        return {key: in_any_order(it) for key, it in value.items()}
    return sorted(re.sub(r"\d+:", "", value).splitlines()) if isinstance(value, str) else value
