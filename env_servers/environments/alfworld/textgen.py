"""A game file's text grammar: command templates and production rules, read once and rendered.

Contains the language: actions with `template` and `feedback`, rules with conditions, and right-hand
sides made of literal text, `#rule#`, `{expression | query}` and `[{...}]` for lists in prose.
Expressions are read, never evaluated as code. It knows facts only through `Facts`, and no rules of
any world.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from env_servers.environments.alfworld.pddl import Fact, GameError

__all__ = ["Bindings", "Condition", "Facts", "Placeholder", "Slot", "TextGrammar", "read_grammar"]


class Placeholder(NamedTuple):
    """A variable of a query, with the type that its objects must have."""

    name: str
    type: str


Bindings: TypeAlias = Mapping[Placeholder, str]
"""Object by placeholder."""


class Condition(NamedTuple):
    """One fact that a query asks for; `not_x` asks for a fact that an action made false."""

    predicate: str
    placeholders: tuple[Placeholder, ...]


class Slot(NamedTuple):
    """A place in a text where the name of a variable's object stands, once for every answer."""

    variable: str
    query: tuple[Condition, ...]


class Facts(Protocol):
    """What rendering asks of a state."""

    def sorted_facts(self, predicate: str, pattern: Sequence[str | None]) -> Sequence[Fact]:
        """Argument tuples that fit the pattern (None fits everything), in ascending order."""
        ...

    def is_a(self, name: str, type_name: str) -> bool:
        """Return whether the object has the type or a subtype of it."""
        ...

    def attribute(self, name: str, attribute: str) -> str:
        """`name`, `id`, `type`, `definite` or `indefinite` of an object."""
        ...


class _Literal(NamedTuple):
    text: str


class _Call(NamedTuple):
    rule: str


class _Attribute(NamedTuple):
    variable: str
    attribute: str


class _Expression(NamedTuple):
    """The first alternative that is not empty; an alternative is a concatenation."""

    alternatives: tuple[tuple[_Literal | _Attribute, ...], ...]


class _Expand(NamedTuple):
    """The body, once for every answer to the query."""

    body: _Call | _Expression
    query: tuple[Condition, ...]


class _Listing(NamedTuple):
    """The answers as a list in prose."""

    items: _Expand


_Symbol: TypeAlias = _Literal | _Call | _Expand | _Listing


class _Rule(NamedTuple):
    condition: tuple[Condition, ...]
    symbols: tuple[_Symbol, ...]


class _Action(NamedTuple):
    template: str
    feedback: str


ATTRIBUTES: Final = frozenset({"name", "id", "type", "definite", "indefinite"})

_SKIP: Final = re.compile(r"(?:\s+|#[^\n]*)+")
_HEAD: Final = re.compile(r"action\s+([\w/-]+)\s*\{")
_GRAMMAR: Final = re.compile(r'grammar\s*::\s*"""(.*?)"""\s*;', re.DOTALL)
_FIELD: Final = re.compile(
    r'(template|feedback)\s*::\s*"([^"]*)"\s*;|(grammar|pddl)\s*::\s*"""(.*?)"""\s*;', re.DOTALL
)
_LINE_START: Final = re.compile(r"(?://[^\n]*|\s*)\n?")
_CALL: Final = re.compile(r"#([\w()/!<>\-\s,.]+)#")
_EXPAND: Final = re.compile(
    r"\{(?:\#(?P<call>[\w()/!<>\-\s,.]+)\#|(?P<code>[^|\[\]{}\n<>]+))"
    r"(?:\s*\|\s*(?P<query>[^;|{}\n\[\]#]+))?\}"
)
_TEXT: Final = re.compile(r'"([^;|"<>\[\]#{}]*)"|([^;|"<>\[\]#{}]+)')
_CONDITION: Final = re.compile(r"\s*(\w+)\s*\(([^()]*)\)\s*")
_TERM: Final = re.compile(r"\s*(?:'([^'\\]*)'|([A-Za-z_]\w*)(?:\.([a-z]+))?)\s*")
_NAMELESS: Final = "There is no rule {!r} in the game's text grammar"


@dataclass(frozen=True, slots=True)
class TextGrammar:
    """Command templates and rules of one game."""

    actions: Mapping[str, _Action]
    """By lower-cased action name."""
    rules: Mapping[str, tuple[_Rule, ...]]

    def render(self, text: str, facts: Facts, bindings: Bindings) -> str:
        """Return the text with everything in it expanded, for these facts and bound variables."""
        return "".join(self._render(read_symbols(text), facts, bindings))

    def command(self, action: str, facts: Facts, bindings: Bindings) -> str:
        """Return what an agent types for the action."""
        return self.render(self.actions[action].template, facts, bindings)

    def feedback(self, action: str, facts: Facts, bindings: Bindings) -> str:
        """Return what the agent is told after the action; `facts` are those after it."""
        return self.render(self.actions[action].feedback, facts, bindings)

    def prefix(self, action: str) -> str:
        """Literal text with which every command of the action begins."""
        symbols = read_symbols(self.actions[action].template)
        return symbols[0].text if symbols and isinstance(symbols[0], _Literal) else ""

    def pattern(self, action: str) -> tuple[str | Slot, ...] | None:
        """Return the literals and the names that make a command; None where it has other parts."""
        parts = tuple(map(_part, read_symbols(self.actions[action].template)))
        return None if None in parts else tuple(part for part in parts if part is not None)

    def queried(self) -> frozenset[str]:
        """Predicates that some rule or template asks for."""
        texts = [symbol for rules in self.rules.values() for r in rules for symbol in r.symbols]
        for action in self.actions.values():
            texts.extend(read_symbols(action.template))
        predicates = {
            c.predicate for rules in self.rules.values() for r in rules for c in r.condition
        }
        return frozenset(predicates.union(c.predicate for s in texts for c in _parse_query(s)))

    def template_queries(self, action: str) -> frozenset[str]:
        """Predicates that the action's command depends on."""
        symbols = read_symbols(self.actions[action].template)
        if any(isinstance(_parse_body(symbol), _Call) for symbol in symbols):
            return self.queried()
        return frozenset(c.predicate for symbol in symbols for c in _parse_query(symbol))

    def check(self) -> None:
        """Raise GameError for rules that do not exist or that lead back to themselves."""
        done: set[str] = set()
        for action in self.actions.values():
            for text in (action.template, action.feedback):
                for name in _calls(read_symbols(text)):
                    self._check_rule(name, (), done)

    def _check_rule(self, name: str, above: tuple[str, ...], done: set[str]) -> None:
        if name in above:
            raise GameError(f"rule {name!r} of the text grammar leads back to itself")
        if name in done:
            return
        if name not in self.rules:
            raise GameError(_NAMELESS.format(name))
        for rule in self.rules[name]:
            for called in _calls(rule.symbols):
                self._check_rule(called, (*above, name), done)
        done.add(name)

    def _render(
        self, symbols: Iterable[_Symbol], facts: Facts, bindings: Bindings
    ) -> Iterator[str]:
        for symbol in symbols:
            match symbol:
                case _Literal(text):
                    yield text
                case _Call():
                    yield from self._body(symbol, facts, bindings)
                case _Expand(body, query):
                    for answer in answers(facts, query, bindings):
                        yield from self._body(body, facts, answer)
                case _Listing(items):
                    yield self._listing(items, facts, bindings)

    def _body(self, body: _Call | _Expression, facts: Facts, bindings: Bindings) -> Iterator[str]:
        if isinstance(body, _Expression):
            yield _evaluate(body, facts, bindings)
            return
        for rule in self.rules.get(body.rule, ()):
            if not rule.condition or next(answers(facts, rule.condition, bindings), None):
                yield from self._render(rule.symbols, facts, bindings)
                return

    def _listing(self, items: _Expand, facts: Facts, bindings: Bindings) -> str:
        shown = [
            "".join(self._body(items.body, facts, answer))
            for answer in answers(facts, items.query, bindings)
        ]

        def word(rule: str) -> str:
            return "".join(self._body(_Call(rule), facts, bindings))

        if not shown:
            return word("list_empty")
        if len(shown) == 1:
            return shown[0]
        return word("list_separator").join(shown[:-1]) + word("list_last_separator") + shown[-1]


def answers(facts: Facts, query: Sequence[Condition], bindings: Bindings) -> Iterator[Bindings]:
    """All ways to bind the query's placeholders, in the order of its conditions and their facts.

    Different placeholders stand for different objects.
    """
    if not query:
        yield bindings
        return
    predicate, placeholders = query[0]
    pattern = [bindings.get(placeholder) for placeholder in placeholders]
    for fact in facts.sorted_facts(predicate, pattern):
        extended = _bind(facts, placeholders, fact, bindings)
        if extended is not None:
            yield from answers(facts, query[1:], extended)


def _bind(
    facts: Facts, placeholders: Sequence[Placeholder], fact: Fact, bindings: Bindings
) -> Bindings | None:
    """Return the bindings and those of the fact, or None where they do not go together."""
    if len(placeholders) != len(fact):
        return None
    extended = dict(bindings)
    for placeholder, name in zip(placeholders, fact, strict=True):
        if not facts.is_a(name, placeholder.type):
            return None
        bound = extended.get(placeholder)
        if bound is None:
            if name in extended.values():
                return None
            extended[placeholder] = name
        elif bound != name:
            return None
    return extended


def _evaluate(expression: _Expression, facts: Facts, bindings: Bindings) -> str:
    named = {placeholder.name: name for placeholder, name in bindings.items()}
    text = ""
    for terms in expression.alternatives:
        text = "".join(
            term.text if isinstance(term, _Literal) else _value(term, facts, named)
            for term in terms
        )
        if text:
            break
    return text


def _value(term: _Attribute, facts: Facts, named: Mapping[str, str]) -> str:
    name = named.get(term.variable)
    return "" if name is None else facts.attribute(name, term.attribute)


def read_grammar(text: str) -> TextGrammar:
    """Read a game's text grammar; raises GameError."""
    actions: dict[str, _Action] = {}
    rules: dict[str, tuple[_Rule, ...]] = {}
    position = _skip(text, 0)
    while position < len(text):
        if block := _GRAMMAR.match(text, position):
            rules |= _read_rules(block[1])
            position = block.end()
        elif head := _HEAD.match(text, position):
            position = _read_action(text, head, actions, rules)
        else:
            raise GameError(
                f"the text grammar cannot be read at {text[position : position + 40]!r}"
            )
        position = _skip(text, position)
    grammar = TextGrammar(actions, rules)
    grammar.check()
    return grammar


def _skip(text: str, position: int) -> int:
    blank = _SKIP.match(text, position)
    return blank.end() if blank else position


def _read_action(
    text: str,
    head: re.Match[str],
    actions: dict[str, _Action],
    rules: dict[str, tuple[_Rule, ...]],
) -> int:
    fields = {"template": "", "feedback": ""}
    position = _skip(text, head.end())
    while field := _FIELD.match(text, position):
        if field[1]:
            fields[field[1]] = field[2]
        elif field[3] == "grammar":
            rules |= _read_rules(field[4])
        position = _skip(text, field.end())
    if text[position : position + 1] != "}":
        raise GameError(f"action {head[1]} of the text grammar cannot be read")
    actions[head[1].lower()] = _Action(fields["template"], fields["feedback"])
    return position + 1


@lru_cache(maxsize=256)
def _read_rules(block: str) -> Mapping[str, tuple[_Rule, ...]]:
    """Return the rules of one block of JSON; lines that begin with # are comments."""
    lines = textwrap.dedent(block).split("\n")
    source = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    try:
        data = json.loads(source)
        return {
            name: tuple(_read_rule(rule["rhs"], rule.get("condition", "")) for rule in rules)
            for name, rules in data.items()
        }
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise GameError(f"a block of the text grammar cannot be read: {error}") from error


@lru_cache(maxsize=4096)
def _read_rule(rhs: str, condition: str) -> _Rule:
    return _Rule(_read_query(condition), read_symbols(rhs))


@lru_cache(maxsize=4096)
def read_symbols(text: str) -> tuple[_Symbol, ...]:
    """Return a right-hand side; raises GameError for an expression or a query that cannot be read.

    As in the reference, white space at its very beginning and tabs before a symbol are dropped,
    and so is everything from the first character on that begins no symbol.
    """
    text = text.replace("\\n", "\n")
    start = _LINE_START.match(text)
    position = start.end() if start else 0
    symbols: list[_Symbol] = []
    while position < len(text):
        while text[position : position + 1] == "\t":
            position += 1
        if position == len(text):
            break
        read = _read_symbol(text, position)
        if read is None:
            break
        symbols.append(read[0])
        position = read[1]
    return tuple(symbols)


def _read_symbol(text: str, position: int) -> tuple[_Symbol, int] | None:
    """Return the symbol at a position and where it ends, or None."""
    if text[position] == "[":
        inner = _EXPAND.match(text, position + 1)
        if inner and text[inner.end() : inner.end() + 1] == "]":
            return _Listing(_expand(inner)), inner.end() + 1
    elif match := _EXPAND.match(text, position):
        return _expand(match), match.end()
    elif match := _CALL.match(text, position):
        return _Call(match[1]), match.end()
    elif match := _TEXT.match(text, position):
        return _Literal(match[2] if match[1] is None else match[1]), match.end()
    return None


def _expand(match: re.Match[str]) -> _Expand:
    body = _Call(match["call"]) if match["call"] else _read_expression(match["code"])
    return _Expand(body, _read_query(match["query"] or ""))


def _read_expression(code: str) -> _Expression:
    """`a.name or a.id` and `a.indefinite + ' ' + a.name`; raises GameError for anything else."""
    return _Expression(
        tuple(
            tuple(_read_term(term) for term in alternative.split("+"))
            for alternative in re.split(r"\bor\b", code)
        )
    )


def _read_term(term: str) -> _Literal | _Attribute:
    match = _TERM.fullmatch(term)
    if match is None or (match[3] or "name") not in ATTRIBUTES:
        raise GameError(f"an expression of the grammar cannot be read: {term[:60]!r}")
    return _Literal(match[1]) if match[1] is not None else _Attribute(match[2], match[3] or "name")


@lru_cache(maxsize=4096)
def _read_query(text: str) -> tuple[Condition, ...]:
    if not text.strip():
        return ()
    conditions: list[Condition] = []
    for part in text.split("&"):
        match = _CONDITION.fullmatch(part)
        if match is None:
            raise GameError(f"a condition of the grammar cannot be read: {part[:60]!r}")
        pairs = [p.strip().partition(":") for p in match[2].split(",") if p.strip()]
        placeholders = (
            Placeholder(name.strip(), kind.strip() or name.strip()) for name, _, kind in pairs
        )
        conditions.append(Condition(match[1], tuple(placeholders)))
    return tuple(conditions)


def _parse_body(symbol: _Symbol) -> Any:
    match symbol:
        case _Listing(items):
            return items.body
        case _Expand(body, _):
            return body
        case _:
            return symbol


def _parse_query(symbol: _Symbol) -> tuple[Condition, ...]:
    match symbol:
        case _Listing(items):
            return items.query
        case _Expand(_, query):
            return query
        case _:
            return ()


def _part(symbol: _Symbol) -> str | Slot | None:
    if isinstance(symbol, _Literal):
        return symbol.text
    match _parse_body(symbol):
        case _Expression(((_Attribute(variable, "name"),),)):
            return Slot(variable, _parse_query(symbol))
        case _:
            return None


def _calls(symbols: Iterable[_Symbol]) -> Iterator[str]:
    """Rules that the symbols name."""
    for symbol in symbols:
        body = _parse_body(symbol)
        if isinstance(body, _Call):
            yield body.rule
        if isinstance(symbol, _Listing):
            yield from ("list_empty", "list_separator", "list_last_separator")
