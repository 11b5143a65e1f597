"""Which facts of a known graph texts state: what their words say, and nothing else."""

from __future__ import annotations

from rulerag.extraction import with_known_facts
from rulerag.kg import Calendar
from rulerag.linking import link_mentions
from rulerag.types import Document, Fact

PEOPLE = [f"Ann{n}" for n in range(40)]
FIRMS = [f"Firm{n}" for n in range(40)]
NAMES = {name: (name,) for name in (*PEOPLE, *FIRMS)}


def stated(texts: list[str], facts: list[Fact], calendar: Calendar | None = None) -> list[Document]:
    documents = [Document(f"d{n}", text) for n, text in enumerate(texts)]
    return with_known_facts(link_mentions(documents, NAMES), facts, NAMES, calendar)


def both() -> list[Fact]:
    """Half of the people found a firm, half work for one, and one does both."""
    pairs = list(zip(PEOPLE, FIRMS, strict=True))
    facts = [Fact(a, "founds", b) for a, b in pairs[:20]]
    facts += [Fact(a, "works for", b) for a, b in pairs[20:]]
    return [*facts, Fact("Ann0", "works for", "Firm0")]


def test_words_tell_two_relations_of_a_pair_apart() -> None:
    pairs = list(zip(PEOPLE, FIRMS, strict=True))
    texts = [f"In May {a} set up {b}." for a, b in pairs[1:20]]
    texts += [f"{b} pays {a} well." for a, b in pairs[20:]]
    found = stated([*texts, "In May Ann0 set up Firm0.", "Firm0 pays Ann0 well."], both())
    assert [one.facts for one in found[-2:]] == [
        (Fact("Ann0", "founds", "Firm0"),),
        (Fact("Ann0", "works for", "Firm0"),),
    ]
    assert all(len(one.facts) == 1 for one in found)


def test_other_words_about_the_same_two_state_nothing() -> None:
    pairs = list(zip(PEOPLE, FIRMS, strict=True))
    texts = [f"{a} set up {b}." for a, b in pairs[:20]]
    chance = [f"A picture shows {a} beside {b}." for a, b in zip(PEOPLE[5:], FIRMS, strict=False)]
    same = [
        "A picture shows Ann1 beside Firm1.",
        "Ann2 did not set up Firm2.",
        "Ann3 set up Firm4.",
    ]
    found = stated([*texts, *chance, *same], both())
    assert all(one.facts for one in found[:20])
    assert not any(one.facts for one in found[20:])


def test_a_dated_fact_is_stated_with_its_date() -> None:
    days = Calendar("day", "2020-01-01")
    facts = [Fact("Ann0", "meets", "Ann1", 2), Fact("Ann0", "meets", "Ann1", 8)]
    texts = [
        "Ann0 met Ann1 on 3 January 2020.",
        "Ann0 met Ann1 on 4 January 2020.",
        "Ann0 met Ann1.",
        "It was 3 January 2020. Ann0 met Ann1.",
    ]
    assert [one.facts for one in stated(texts, facts, days)] == [(facts[0],), (), (), ()]


def test_documents_with_facts_and_texts_about_nobody_are_kept() -> None:
    own = Document("a", "Ann0 left Firm0.", (Fact("Ann0", "leaves", "Firm0"),))
    other = Document("b", "It rained.")
    assert with_known_facts([own, other], both(), NAMES) == [own, other]
    assert with_known_facts([], both(), NAMES) == []
