"""What an episode shows and earns, in each of its profiles."""

from __future__ import annotations

import random

import pytest

from env_servers.environments.bird import Bird
from env_servers.environments.bird.prompt import GRAMMAR
from env_servers.environments.bird.schema import schema_of_ddl
from env_servers.environments.bird.tasks import BirdTasks
from env_servers.sdk import ActionFormat, Advice, InvalidOption, StopReason
from tests.env_servers.environments.bird.conftest import SHOP, every_item, start

ITEM = "bird_1000000"


def gold(tasks: BirdTasks, item: str = ITEM) -> str:
    return tasks.get(item).payload.sql


@pytest.mark.parametrize(
    ("reply", "action"),
    (
        ("Thought: x\n\nAction: ```sql\nSELECT 1;\n```", "SELECT 1;"),
        ("```sql SELECT 1 ``` and ```sql\nSELECT 2\n``` done", "SELECT 2"),
        ("```sql\nSELECT 1", "SELECT 1"),
        ("SELECT 1", "SELECT 1"),
        ("Action: SELECT 1", "Action: SELECT 1"),
        ("SELECT 1 ``` SELECT 2", "SELECT 1"),
        ("```SQL\nSELECT 1\n```", ""),
        ("```sql\n```", ""),
    ),
)
def test_replies_are_read_as_the_original_client_did(reply: str, action: str) -> None:
    assert GRAMMAR.read(reply, ActionFormat.REACT) == action


def test_what_the_expert_writes_is_a_fenced_statement() -> None:
    written = GRAMMAR.write(Advice("SELECT 1", "Because."), ActionFormat.REACT)
    assert written == "Thought: Because.\n\nAction: ```sql\nSELECT 1\n```"


def test_every_statement_ends_the_episode(embedded: BirdTasks) -> None:
    for action in ("SELECT 1", "nonsense", "", "DROP TABLE customer", "describe customer"):
        episode, _ = start(embedded, ITEM)
        last = episode.step(action)
        assert last.terminated
        assert (last.reward, last.stop_reason) == (0.0, StopReason.ANSWERED)


def test_observations_are_rows_or_errors_of_at_most_103_characters(embedded: BirdTasks) -> None:
    def answer(action: str) -> str:
        return start(embedded, ITEM)[0].step(action).text

    assert answer("SELECT region_id, region_name FROM region WHERE region_id < 3") == (
        "[(1, 'North'), (2, 'East')]"
    )
    assert answer("SELECT NULL, 1.5, x'00'") == "[(None, 1.5, b'\\x00')]"
    assert answer("SELECT * FROM nowhere") == "no such table: nowhere"
    assert answer("SELEC 1") == 'near "SELEC": syntax error'
    assert answer("") == "[]"
    long = answer("SELECT * FROM customer")
    assert len(long) == 103
    assert long.startswith("[(1, 'Klara', ")
    assert long.endswith("...")
    assert len(answer("SELECT " + "x" * 200)) == 103


def test_the_set_of_rows_decides(embedded: BirdTasks) -> None:
    item = next(
        item
        for item in every_item(embedded, "train")
        if embedded.get(item).payload.base.database.ask(gold(embedded, item)).count > 2
        and "ORDER BY" not in gold(embedded, item)
    )
    sql = gold(embedded, item)
    for same in (sql, f"{sql};", f"SELECT * FROM ({sql}) ORDER BY 1 DESC", f"{sql} -- why"):
        last = start(embedded, item)[0].step(same)
        assert (last.reward, last.stop_reason) == (1.0, StopReason.GOAL_REACHED)
    assert start(embedded, item)[0].step(f"{sql} UNION ALL {sql}").reward == 1.0
    for other in (f"{sql} LIMIT 1", f"SELECT *, 1 FROM ({sql})"):
        assert start(embedded, item)[0].step(other).reward == 0.0


def test_the_original_description_keeps_its_quirks() -> None:
    told = schema_of_ddl("shop", SHOP).sentences()
    assert told == (
        "shop contains tables such as shop, sale. Table shop has columns such as shopid, shop "
        "name, city. shopid is the primary key. Table sale has columns such as shopid, day, "
        "amount.  is the primary key. The day of sale is the foreign key of shop name of shop."
    )


def test_a_true_description_has_the_names_that_sql_needs() -> None:
    assert schema_of_ddl("shop", SHOP).lines() == (
        'Shop(ShopID INTEGER PRIMARY KEY, "Shop Name" TEXT, City TEXT)\n'
        "Sale(ShopID INTEGER PRIMARY KEY -> Shop.ShopID, Day TEXT PRIMARY KEY, Amount REAL)"
    )


def test_the_first_observation_is_description_and_question(embedded: BirdTasks) -> None:
    item = next(i for i in every_item(embedded, "train") if embedded.get(i).payload.evidence)
    puzzle = embedded.get(item).payload
    asked = f"{puzzle.question}\nHint: {puzzle.evidence}"
    name = puzzle.base.database.name
    assert start(embedded, item)[1].text == f"{puzzle.base.sentences}\n\n{asked}"
    fixed = start(embedded, item, "fixed")[1].text
    assert fixed == f"Database {name}:\n{puzzle.base.lines}\n\n{asked}"
    several = start(embedded, item, "multi_turn", rounds=7)[1].text
    assert several.startswith(f"Database {name} with the tables ")
    assert asked in several
    assert "You have 7 rounds" in several


@pytest.mark.slow
@pytest.mark.parametrize("profile", Bird.spec.profiles)
def test_the_expert_solves_every_embedded_task(embedded: BirdTasks, profile: str) -> None:
    _solve(embedded, profile, every_item(embedded, "train", "eval"))


@pytest.mark.parametrize("profile", Bird.spec.profiles)
def test_the_expert_solves_embedded_tasks(embedded: BirdTasks, profile: str) -> None:
    _solve(embedded, profile, every_item(embedded, "train", "eval")[::5])


def _solve(embedded: BirdTasks, profile: str, items: list[str]) -> None:
    for number, item in enumerate(items):
        episode, last = start(embedded, item, profile)
        rounds = 0
        while not (last.terminated or last.truncated):
            last = episode.step(episode.advise_expert(number).action)
            rounds += 1
        assert last.reward == 1.0, item
        assert rounds <= Bird.spec.max_rounds


def test_doing_nothing_earns_nothing(embedded: BirdTasks) -> None:
    for profile in Bird.spec.profiles:
        for item in every_item(embedded, "eval")[::10]:
            episode, _ = start(embedded, item, profile)
            assert episode.step(episode.advise_noop().action).reward == 0.0


def test_thoughts_name_the_tables_and_vary(embedded: BirdTasks) -> None:
    for item in every_item(embedded, "eval")[::7]:
        episode, _ = start(embedded, item)
        thoughts = {episode.advise_expert(seed).thought for seed in range(14)}
        assert len(thoughts) >= 7
        puzzle = embedded.get(item).payload
        assert puzzle.tables()
        for thought in thoughts:
            assert puzzle.reason[1:] in thought
            assert all(table in thought for table in puzzle.tables())


def test_random_play_keeps_going(embedded: BirdTasks) -> None:
    episode, last = start(embedded, ITEM, "multi_turn", rounds=30)
    rng = random.Random(3)
    while not (last.terminated or last.truncated):
        last = episode.step(episode.advise_random(rng).action)
    assert last.reward == 0.0


class TestRounds:
    def test_a_statement_shows_a_table_and_the_rounds_left(self, embedded: BirdTasks) -> None:
        episode, _ = start(embedded, ITEM, "multi_turn")
        seen = episode.step("SELECT region_id, region_name FROM region")
        assert seen.text == (
            "region_id | region_name\n1 | North\n2 | East\n3 | South\n4 | West\n(4 rows)\n\n"
            "Rounds left: 9"
        )
        assert seen.reward == 0.0
        assert not seen.terminated

    def test_long_results_are_cut(self, embedded: BirdTasks) -> None:
        episode, _ = start(embedded, ITEM, "multi_turn")
        lines = episode.step("SELECT customer_id FROM customer").text.splitlines()
        assert lines[20:22] == ["20", "(2400 rows, of which the first 20 are shown)"]
        wide = episode.step("SELECT printf('%9999d', 1), 'a\nb', NULL").text.splitlines()
        assert len(wide[1]) < 100
        assert wide[1].endswith("... | a b | NULL")

    def test_errors_are_shown_and_play_goes_on(self, embedded: BirdTasks) -> None:
        episode, _ = start(embedded, ITEM, "multi_turn")
        assert episode.step("SELECT x FROM region").text.startswith("Error: no such column: x\n")
        assert episode.step("DROP TABLE region").text.startswith("Error: attempt to write a ")
        assert episode.step("").text.startswith("There is no result.\n")

    def test_a_table_can_be_described(self, embedded: BirdTasks) -> None:
        episode, _ = start(embedded, ITEM, "multi_turn")
        text = episode.step("describe REGION").text
        assert text.startswith("region(region_id INTEGER PRIMARY KEY, region_name TEXT)\n")
        assert "1 | North" in text
        unknown = episode.step("describe sqlite_master").text
        assert unknown.startswith("no such table: sqlite_master. The tables are region, store")
        assert "region" in episode.step('Thought: x\n\nAction: describe "region";').text

    def test_what_is_submitted_decides(self, embedded: BirdTasks) -> None:
        right, _ = start(embedded, ITEM, "multi_turn")
        last = right.step(f"submit {gold(embedded)}")
        assert (last.reward, last.stop_reason) == (1.0, StopReason.GOAL_REACHED)
        wrong, _ = start(embedded, ITEM, "multi_turn")
        wrong.step(gold(embedded))
        last = wrong.step("submit SELECT 1")
        assert (last.reward, last.terminated) == (0.0, True)

    def test_submit_alone_hands_in_the_last_result(self, embedded: BirdTasks) -> None:
        episode, _ = start(embedded, ITEM, "multi_turn")
        episode.step(gold(embedded))
        episode.step("SELECT nonsense")
        assert episode.step("SUBMIT").reward == 1.0
        nothing, _ = start(embedded, ITEM, "multi_turn")
        assert nothing.step("submit").reward == 0.0

    def test_the_last_round_ends_without_success(self, embedded: BirdTasks) -> None:
        episode, _ = start(embedded, ITEM, "multi_turn", rounds=2)
        assert not episode.step(gold(embedded)).truncated
        last = episode.step(gold(embedded))
        assert (last.truncated, last.reward) == (True, 0.0)
        assert last.stop_reason is StopReason.STEP_LIMIT
        assert last.text.endswith("No round is left: nothing was handed in.")

    @pytest.mark.parametrize("rounds", (1, 2, 3))
    def test_the_expert_makes_do_with_few_rounds(self, embedded: BirdTasks, rounds: int) -> None:
        episode, last = start(embedded, ITEM, "multi_turn", rounds=rounds)
        while not (last.terminated or last.truncated):
            last = episode.step(episode.advise_expert(0).action)
        assert last.reward == 1.0

    @pytest.mark.parametrize("rounds", (0, 101, 1.5, "3", True, float("nan"), float("inf")))
    def test_the_number_of_rounds_is_checked(self, embedded: BirdTasks, rounds: object) -> None:
        with pytest.raises(InvalidOption, match="rounds"):
            start(embedded, ITEM, "multi_turn", rounds=rounds)

    def test_rounds_belong_to_their_profile(self, embedded: BirdTasks) -> None:
        with pytest.raises(InvalidOption, match="multi_turn"):
            start(embedded, ITEM, "fixed", rounds=3)
