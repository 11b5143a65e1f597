"""Conjunctive queries: written, read and executed as brute force executes them."""

from __future__ import annotations

import itertools
import random

import pytest

from rulerag.errors import DataFormatError
from rulerag.kg.grounding import ExtendedIndex, FactIndex, execute, solve
from rulerag.kg.queries import ConjunctiveQuery, ends
from rulerag.rules import Atom
from rulerag.types import Fact

NAMES, RELATIONS, VARIABLES = "abcd", "rs", ("?x", "?y", "?z")


def index_of(facts: list[Fact]) -> FactIndex:
    return FactIndex(list(enumerate(facts)))


def by_brute_force(query: ConjunctiveQuery, facts: list[Fact]) -> set[tuple[tuple[str, str], ...]]:
    """Every binding of the variables that makes all atoms true."""
    found = set()
    for values in itertools.product(NAMES, repeat=len(query.variables)):
        bound = dict(zip(query.variables, values, strict=True))
        if all(
            any(
                fact.relation == atom.relation
                and (fact.subject, fact.object) == tuple(bound.get(t, t) for t in ends(atom))
                and (query.since is None or (fact.timestamp or 0) >= query.since)
                and (query.until is None or (fact.timestamp or 0) <= query.until)
                for fact in facts
            )
            for atom in query.atoms
        ):
            found.add(tuple(sorted(bound.items())))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_execution_is_brute_force(seed: int) -> None:
    chance = random.Random(seed)
    facts = [
        Fact(chance.choice(NAMES), chance.choice(RELATIONS), chance.choice(NAMES), n % 5)
        for n in range(14)
    ]
    terms = [*VARIABLES, *NAMES[:2]]
    made = 0
    while made < 5:
        atoms = tuple(
            Atom(chance.choice(RELATIONS), chance.choice(terms), chance.choice(terms))
            for _ in range(chance.randint(1, 3))
        )
        since, until = chance.choice([(None, None), (1, 3), (2, None)])
        try:
            query = ConjunctiveQuery(atoms, "?x", "entities", since, until)
        except DataFormatError:
            continue
        made += 1
        truth = by_brute_force(query, facts)
        index = index_of(facts)
        assert {tuple(sorted(one.bound.items())) for one in solve(query, index)} == truth
        answers = sorted({dict(one)["?x"] for one in truth})
        assert list(execute(query, index).values) == answers
        count = ConjunctiveQuery(atoms, "?x", "count", since, until)
        assert execute(count, index).values == ((len(answers),) if answers else ())
        for place in execute(query, index).places:
            assert facts[place].relation in RELATIONS


HIRED = [
    Fact("Acme", "hired", "Ann", 3),
    Fact("Acme", "hired", "Ben", 5),
    Fact("Bolt", "hired", "Cid", 4),
    Fact("Ann", "works for", "Acme"),
]


@pytest.mark.parametrize(
    ("atoms", "wanted", "form", "values"),
    [
        ([("Acme", "hired", "?x")], "?x", "first", ("Ann",)),
        ([("Acme", "hired", "?x")], "?x", "last", ("Ben",)),
        ([("?x", "hired", "Ann")], "", "time", (3,)),
        ([("Ann", "works for", "Acme")], "Acme", "yes or no", ("yes",)),
        ([("Ann", "works for", "Bolt")], "Bolt", "yes or no", ("no",)),  # for Acme instead
        ([("Ben", "works for", "Acme")], "Acme", "yes or no", ()),  # nothing is known of Ben
    ],
)
def test_forms(
    atoms: list[tuple[str, str, str]], wanted: str, form: str, values: tuple[object, ...]
) -> None:
    query = ConjunctiveQuery(tuple(Atom(r, s, o) for s, r, o in atoms), wanted, form)  # type: ignore[arg-type]
    assert execute(query, index_of(HIRED)).values == values
    assert ConjunctiveQuery.from_json(query.to_json()) == query


def test_no_rests_on_what_is_stated_instead() -> None:
    query = ConjunctiveQuery((Atom("works for", "Ann", "Bolt"),), "Bolt", "yes or no")
    assert execute(query, index_of(HIRED)).places == [3]


def test_a_name_may_be_excluded_and_facts_added() -> None:
    atoms = (Atom("hired", "Acme", "?x"),)
    query = ConjunctiveQuery(atoms, "?x", excluded=("Ann",))
    assert execute(query, index_of(HIRED)).values == ("Ben",)
    more = ExtendedIndex(index_of(HIRED), [Fact("Acme", "hired", "Dan", 9)])
    result = execute(query, more)
    assert result.values == ("Ben", "Dan") and result.places == [1]  # Dan's fact stands nowhere


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"form": "entites"}, "unknown form 'entites'.*did you mean 'entities'"),
        ({"wanted": "?y"}, "'\\?y' is no variable"),
        ({"atoms": []}, "no atom names an entity"),
        ({"atoms": [["?x", "hired", "?y"]]}, "no atom names an entity"),
        ({"atoms": [["Acme", "hired", "?x"], ["?y", "hired", "?z"]]}, "shares no variable"),
        ({"atoms": [["Acme", "hired"]]}, "expected lists of subject, relation and object"),
        ({"since": "2014"}, "key 'since': expected a whole number"),
    ],
)
def test_what_is_no_query_is_named(changed: dict[str, object], message: str) -> None:
    right = {"form": "entities", "wanted": "?x", "atoms": [["Acme", "hired", "?x"]]}
    assert str(ConjunctiveQuery.from_json(right)) == "entities ?x: hired(Acme, ?x)"
    with pytest.raises(DataFormatError, match=message):
        ConjunctiveQuery.from_json(right | changed)
