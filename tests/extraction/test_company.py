"""What unknown words mean by the company that they keep, and what they do not."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from benchmarks.extraction.study import seeds_of
from rulerag.extraction import TripleExtractor
from rulerag.extraction.company import Said, understand
from rulerag.extraction.patterns import INVERSE, shared_out
from rulerag.extraction.slots import EntityKinds
from rulerag.synthetic import World, write_prose
from rulerag.types import Document, Fact

APPLY, JOIN, LEAVE, PRAISE = ("appl", "to"), ("join",), ("leav",), ("prais",)


def lives(people: int, share: float = 0.0) -> list[Said]:
    """People, nine of ten of whom apply to a firm, join it and leave it; all praise another one.

    Args:
        people: how many.
        share: how many of the first two facts are said in words that nobody knows, a fraction.
    """
    rng = np.random.default_rng(3)
    found = []
    for n in range(people):
        person, firm = f"p{n}", f"firm {n % 7}"
        for day, words, new, relation in (
            (n, APPLY, ("seek", "post", "at"), "applies"),
            (n + 10, JOIN, ("enrol", "in"), "joins"),
        ):
            known = rng.random() >= share
            if n % 10:
                fact = Fact(person, relation if known else "", firm, day)
                found.append(Said(words if known else new, fact))
        if n % 10:
            found.append(Said(LEAVE, Fact(person, "leaves", f"firm {n % 7}", n + 90)))
        found.append(Said(PRAISE, Fact(person, "praises", f"firm {(n + 3) % 7}", n)))
    return found


@pytest.fixture
def kinds() -> EntityKinds:
    return EntityKinds(one.fact for one in lives(300))


@pytest.mark.parametrize("people", [300, 12])
def test_words_mean_the_relation_whose_company_they_keep(people: int, kinds: EntityKinds) -> None:
    company = understand(lives(people, share=0.25), kinds)
    meant = {words: guess.relation for words, guess in company.guesses.items()}
    right = {("seek", "post", "at"): "applies", ("enrol", "in"): "joins"}
    assert meant == (right if people == 300 else {})


def test_words_without_company_and_of_other_kinds_mean_nothing(kinds: EntityKinds) -> None:
    said = lives(200)
    said += [Said(("dine", "at"), Fact(f"p{n}", "", f"firm {n % 5}", 5000 + n)) for n in range(40)]
    said += [Said(("hum",), Fact(f"p{n}", "", f"tune {n}", n)) for n in range(40)]
    company = understand(said, kinds)
    assert company.unknown == 80
    assert company.guesses == {}


def test_without_known_facts_nothing_is_understood() -> None:
    said = [Said(("dine", "at"), Fact(f"p{n}", "", "firm", n)) for n in range(9)]
    assert understand(said, EntityKinds([])).margin is None


@pytest.mark.parametrize("kind", ["temporal", "static"])
def test_new_words_in_a_world_are_understood_without_a_wrong_one(kind: str) -> None:
    world = World.generate(3000, kind=kind, seed=31, max_body_atoms=1)
    facts, calendar = list(world.graph.train), world.graph.calendar
    known = seeds_of(facts, 10, 31)
    rest = [one for one in facts if one not in set(known)]
    order = np.random.default_rng(31).permutation(len(rest)).tolist()
    new = [rest[n] for n in order[: len(rest) // 4]]
    old = [one for one in facts if one not in set(new)]
    told = [page.document for page in write_prose(old, calendar, split=31)]
    for page in write_prose(new, calendar, part="new words", split=31):
        told.append(dataclasses.replace(page.document, id=f"new {page.document.id}"))
    found = TripleExtractor(known, calendar=calendar).extract(told)
    guessed = {one.fact for one in found.triples if one.by.startswith("company: ")}
    assert len(guessed) > 0.1 * len(new)
    assert len(guessed & set(facts)) > 0.95 * len(guessed)
    assert found.company.right >= 0.95


def test_a_fact_without_a_date_is_shared_out_among_what_joins_its_ends() -> None:
    wrote, owns = Fact("a", "wrote", "b"), Fact("c", "owns", "d")
    heard = {
        wrote: {(("pen",), "penned", "wrote"), (("own",), "owned", "wrote")},
        owns: {(("own",), "owned", "owns")},
        Fact("e", "wrote", "f"): {(("pen",), "penned", "wrote")},
        Fact("g", "made", "h"): {(("mak",), "made", "made"), (("odd",), "odd", "made")},
        Fact("i", "held by", "j"): {(("hold",), "held", INVERSE + "held by")},
    }
    counts: dict[tuple[str, str], float] = {}
    for (word,), _, relation, count in shared_out(heard, {("mak",): {"made": 1.0}}):
        counts[word, relation] = counts.get((word, relation), 0.0) + count
    assert counts["pen", "wrote"] > 1.9
    assert counts["own", "owns"] == pytest.approx(1)
    assert ("own", "wrote") not in counts  # said once, beside others that say it
    assert ("odd", "made") not in counts
    assert counts["hold", INVERSE + "held by"] == 0.25  # most words name the subject first


def test_a_pronoun_is_the_subject_before_it_where_a_known_fact_says_so() -> None:
    text = "Ann Bo joined Acme Works on 1970-01-01. She quit Acme Works on 1970-01-02."
    extractor = TripleExtractor([Fact("Ann Bo", "leaves", "Acme Works", 1)])
    book = extractor.learn([Document("d", text)])
    assert book.counts[("quit",)] == {"leaves": 1.0}
    assert ("join",) not in book.counts
