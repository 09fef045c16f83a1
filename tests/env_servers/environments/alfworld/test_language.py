"""The two languages of a game file: PDDL and text grammar, on games made for the purpose."""

from __future__ import annotations

import json

import pytest

from env_servers.environments.alfworld.game import Game, read_game
from env_servers.environments.alfworld.naming import display_names
from env_servers.environments.alfworld.pddl import GameError, read_domain, read_problem
from env_servers.environments.alfworld.textgen import read_grammar
from env_servers.environments.alfworld.wording import Wording

DOMAIN = """
; a comment
(define (domain d)
  (:types lamp heavy - thing place agent)
  (:constants MASTER - lamp)
  (:predicates (at ?a - agent ?p - place) (in ?t - thing ?p - place) (lit ?t - thing))
  (:action walk :parameters (?a - agent ?from ?to - place)
    :precondition (at ?a ?from)
    :effect (and (not (at ?a ?from)) (at ?a ?to) (increase (total-cost) 1)))
  (:action flip :parameters (?t - lamp) :precondition ()
    :effect (and (when (lit ?t) (not (lit ?t))) (when (not (lit ?t)) (lit ?t))))
  (:action grab :parameters (?a - agent ?t - thing ?p - place)
    :precondition (and (at ?a ?p) (or (in ?t ?p) (and (lit MASTER) (= ?t MASTER)))
                       (not (exists (?o - heavy) (and (in ?o ?p) (not (= ?o ?t))))))
    :effect (not (in ?t ?p)))
  (:action wish :parameters (?a - agent ?t - thing, ?p - place)
    :precondition (in ?t ?p) :effect (lit ?t)))
"""
PROBLEM = """
(define (problem p) (:domain d)
  (:objects I - agent Hall_bar_1 Attic_bar_1 - place Lamp_bar_1 Lamp_bar_2 - lamp
            Safe_bar_1 - heavy)
  (:init (at I Hall_bar_1) (in Lamp_bar_1 Hall_bar_1) (in Lamp_bar_2 Attic_bar_1)
         (in Safe_bar_1 Attic_bar_1)
         (= (total-cost) 0))
  (:goal (forall (?t - lamp) (lit ?t))))
"""
GRAMMAR = '''
# a comment
grammar :: """
{
    # another one
    "intro": [{"rhs": "  It is #light#.\\n\\n#things#"}],
    "light": [{"condition": "lit(t:lamp)", "rhs": "light"}, {"rhs": "dark"}],
    "things": [{"rhs": "[{t.indefinite + ' ' + t.name | in(t:thing, p:place)}]} is lost"}],
    "gone": [{"condition": "not_in(t:thing, p:place)", "rhs": "{t.name or t.id} is gone"},
             {"rhs": "{t.name} was not there"}],
    "list_empty": [{"rhs": "nothing"}],
    "list_separator": [{"rhs": ", "}],
    "list_last_separator": [{"rhs": ", and "}]
}
""";
action walk { template :: "walk to {to}"; feedback :: "You are at {to.name}: #things#."; }
action flip { template :: "flip {t}"; feedback :: "It is #light#."; }
action grab { template :: "grab {t}"; feedback :: "#gone#."; }
action wish { template :: "wish {t}"; feedback :: "no"; }
'''


def game(
    domain: str = DOMAIN, problem: str = PROBLEM, grammar: str = GRAMMAR, **more: object
) -> Game:
    texts = {"pddl_domain": domain, "pddl_problem": problem, "grammar": grammar}
    return read_game(json.dumps(texts | more))


def told(played: Game, *commands: str) -> list[str]:
    state, texts = played.first, []
    for command in commands:
        state, text = played.act(state, command)
        texts.append(text)
    return texts


def test_lists_are_told_in_prose_and_text_after_an_odd_bracket_is_dropped() -> None:
    assert game().intro() == "It is dark.\n\na lamp 2, a lamp 1, and a safe 1"


def test_an_action_that_changes_nothing_is_not_offered() -> None:
    played = game()
    assert played.admissible(played.first)[-1] == "walk to attic 1"
    assert told(played, "walk to hall 1") == ["Nothing happens."]


def test_a_type_that_nobody_declared_has_no_members() -> None:
    played = game()
    assert not any(each.startswith("wish") for each in played.admissible(played.first))


def test_constants_and_subtypes_count_as_objects() -> None:
    played = game()
    assert [each for each in played.admissible(played.first) if each.startswith("flip")] == [
        "flip lamp 1",
        "flip lamp 2",
        "flip master",
    ]


def test_an_object_of_which_no_fact_tells_can_be_named() -> None:
    assert told(game(), "flip master", "flip nobody") == ["It is light.", "Nothing happens."]


def test_a_name_under_a_condition_that_an_action_does_not_demand_is_still_understood() -> None:
    listed = '"walk [{to.name | in(t:thing, to:place)}]"'
    played = game(grammar=GRAMMAR.replace('"walk to {to}"', listed))
    [told_there] = told(played, "walk attic 1, and attic 1")
    assert told_there.startswith("You are at attic 1")


def test_names_without_a_text_between_them_are_still_understood() -> None:
    played = game(grammar=GRAMMAR.replace('"grab {t}"', '"grab {t}{p}"'))
    assert told(played, "grab lamp 2hall 1", "grab lamp 1hall 1") == [
        "lamp 2 is gone.",
        "Nothing happens.",
    ]


def test_a_command_that_can_be_read_in_two_ways_names_nothing_for_certain() -> None:
    wording = Wording("put ", ("?t", "?p"), " on ")
    assert wording.read("put hat on table 1") == {"?t": "hat", "?p": "table 1"}
    assert wording.read("put hat on table on wheels") == {}
    assert wording.read("put hat") is None


def test_conditions_of_effects_are_those_before_the_action() -> None:
    assert told(game(), "flip lamp 1", "flip lamp 1", "flip lamp 2") == [
        "It is light.",
        "It is dark.",
        "It is light.",
    ]


def test_a_goal_over_all_objects_needs_every_one() -> None:
    played = game()
    state = played.first
    for command in ("flip lamp 1", "flip lamp 2", "flip master"):
        assert not played.won(state)
        state, _ = played.act(state, command)
    assert played.won(state)


def test_negation_and_equality_bind_late_and_see_all_objects() -> None:
    played = game()
    assert [each for each in played.admissible(played.first) if "grab" in each] == ["grab lamp 2"]
    state, _ = played.act(played.first, "flip master")
    assert "grab master" in played.admissible(state)
    # In the attic stands a safe: only it can be grabbed there.
    state, _ = played.act(state, "walk to attic 1")
    assert [each for each in played.admissible(state) if "grab" in each] == ["grab safe 1"]


def test_texts_can_ask_for_what_an_action_made_false() -> None:
    assert told(game(), "grab lamp 2", "flip master", "grab lamp 2") == [
        "lamp 2 is gone.",
        "It is light.",
        "Nothing happens.",
    ]


def test_states_are_snapshots() -> None:
    played = game()
    after, _ = played.act(played.first, "flip lamp 1")
    assert after.difference(played.first) == (("lit", (("lamp_bar_2",),), ()),)
    assert played.first.difference(played.first) == ()
    assert not played.won(played.first)


def test_objects_are_numbered_downwards_by_their_ids() -> None:
    names = display_names(
        ["apple_bar_b", "apple_bar_a", "sink_bar_1_bar_sinkbasin", "loc_bar__minus_3"]
    )
    assert names == {
        "apple_bar_a": "apple 2",
        "apple_bar_b": "apple 1",
        "loc_bar__minus_3": "loc 1",
        "sink_bar_1_bar_sinkbasin": "sinkbasin 1",
    }
    assert display_names(["agent1"]) == {"agent1": "agent1 "}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "(define",
        "(define (domain d)))",
        "no pddl",
        "(define x (:action a :effect (forall () ())))",
    ],
)
def test_broken_domains_are_reported(text: str) -> None:
    with pytest.raises(GameError):
        read_domain(text)


@pytest.mark.parametrize(
    "text",
    [
        "(define (problem p))",
        "(define (problem p) (:goal x))",
        "(" * 1000,
        "(define (:goal ((()))))",
    ],
)
def test_broken_problems_are_reported(text: str) -> None:
    with pytest.raises(GameError):
        read_problem(text)


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        'action a { template :: "x"',
        'grammar :: """ {"a": 3} """;',
        'grammar :: """ {"a": [{"rhs": "{__import__(\'os\')}"}]} """;',
        'grammar :: """ {"a": [{"rhs": "#b#"}]} """; action x { feedback :: "#a#"; }',
        'grammar :: """ {"a": [{"rhs": "#a#"}]} """; action x { feedback :: "#a#"; }',
        'grammar :: """ {"a": [{"rhs": "x", "condition": "p(x"}]} """;',
    ],
)
def test_broken_grammars_are_reported(text: str) -> None:
    with pytest.raises(GameError):
        read_grammar(text)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"pddl_domain": 3}', b"[" * 100_000])
def test_broken_game_files_are_reported(content: bytes) -> None:
    with pytest.raises(GameError):
        read_game(content)


def test_an_action_without_words_is_reported() -> None:
    with pytest.raises(GameError, match="no action flip"):
        game(grammar=GRAMMAR.replace("action flip", "action flop"))
