"""What facts say of candidates, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from rulerag import Document
from rulerag.candidates import CorpusFacts
from rulerag.candidates.facts import NO_TIME
from rulerag.candidates.features import Traits, list_features
from rulerag.types import Fact


def facts_of(rows: list[tuple[str, str, str, int]] | list[tuple[str, str, str]]) -> CorpusFacts:
    return CorpusFacts([Document(f"d{n}", "", (Fact(*row),)) for n, row in enumerate(rows)])


def traits(facts: CorpusFacts, time: int, *asked: tuple[str, str, str]) -> np.ndarray:
    entities, relations = facts.table.entities, facts.table.relations
    ids = [
        (entities.id(s) if s in entities else -1, relations.id(r), entities.id(o))
        for s, r, o in asked
    ]
    return Traits(facts, time).of(*np.array(ids, dtype=np.int64).T)


def test_facts_are_counted_by_what_they_share_with_the_question() -> None:
    facts = facts_of([("a", "r", "x"), ("a", "r", "y"), ("b", "r", "x"), ("x", "q", "a")])
    asked = ("a", "r", "x"), ("a", "r", "y"), ("?", "r", "x")
    x, y, unknown = np.expm1(traits(facts, NO_TIME, *asked))
    # The fact and the other way round; linked at all, and the other way round; of the subject and
    # the relation, of the relation and the candidate.
    assert x[:6] == pytest.approx([1, 0, 1, 1, 2, 2]) and y[:6] == pytest.approx([1, 0, 1, 0, 2, 1])
    # As a subject: the asked one, the candidate; the candidate as object; the relation's facts;
    # different objects of the subject, different subjects of the candidate.
    assert x[6:12] == pytest.approx([2, 1, 2, 3, 2, 2]) and y[10:12] == pytest.approx([2, 1])
    assert unknown[:4] == pytest.approx([0] * 4) and unknown[6:8] == pytest.approx([0, 1])
    # The relation: facts for each pair, objects for each subject, subjects for each object.
    assert x[12:15] == pytest.approx([1, 1.5, 1.5])


def test_a_candidate_of_another_kind_is_less_like_the_objects() -> None:
    rows = [(f"p{n}", "lives", f"town{n % 3}") for n in range(6)]
    rows += [(f"town{n}", "in", "land") for n in range(4)] + [("p0", "likes", "tea")]
    asked = [("p0", "lives", name) for name in ("town1", "town3", "land", "tea")]
    like = traits(facts_of(rows), NO_TIME, *asked)[:, -1]
    assert like[0] > 0.5 and like[1] > like[0] and like[2:] == pytest.approx([0, 0])


def test_later_facts_do_not_count_and_time_is_told_in_steps() -> None:
    rows = [("a", "r", "x", 0), ("a", "r", "x", 24), ("a", "r", "y", 48), ("a", "r", "x", 72)]
    facts = facts_of(rows)
    assert facts.time_step == 24
    x, y = traits(facts, 72, ("a", "r", "x"), ("a", "r", "y"))
    number, last, first, *faded = x[:6]
    assert np.expm1([number, -last, -first]) == pytest.approx([2, 2, 3]) and y[1] > last
    expected = [np.exp(-2 / span) + np.exp(-3 / span) for span in (5, 30, 150)]
    assert np.expm1(faded) == pytest.approx(expected, rel=1e-4)
    assert (traits(facts, 0, ("a", "r", "x"))[0, [1, 2]] == -50).all()


def test_what_is_made_of_facts_is_kept_for_a_few_keys() -> None:
    facts, made = facts_of([("a", "r", "x")]), []
    for key in (1, 2, 1, 3, 1):
        facts.remember(("kind",), key, lambda key=key: made.append(key), most=2)
    assert made == [1, 2, 3, 1]


def test_places_are_those_of_the_scores() -> None:
    scores = np.array([[0.5, 0.1], [0.25, 0.0], [0.125, 0.4]])
    found = list_features(np.array([1.0, 0.0, 3.0]), np.log(np.maximum(scores, 0.01)), scores > 0)
    assert found.shape == (3, 10) and found[:, 0].tolist() == [-2, -3, 0]
    assert np.exp(found[:, 1]).sum() == pytest.approx(1)
    assert np.expm1(found[:, 2]) == pytest.approx([1, 2, 0]) and found[:, 3].tolist() == [2, 1, 2]
    below = np.log([[1, 0.25], [0.5, 0.025], [0.25, 1]])
    assert found[:, 6:8] == pytest.approx(below, abs=1e-6)
    assert np.expm1(found[[0, 2], 8:]) == pytest.approx(np.array([[0, 1], [2, 0]]))
    assert found[1, 9] == 6
