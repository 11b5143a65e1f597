"""Every measure by hand, on four documents."""

from __future__ import annotations

import math

import pytest

from benchmarks.explanation.cases import Case, threshold
from benchmarks.explanation.explainers import Ranking
from benchmarks.explanation.measures import (
    MEASURES,
    agreement,
    measured,
    named,
    ranking,
)
from benchmarks.explanation.tables import Lattice


def needs(*rules: set[int], marked: tuple[int, ...]) -> Case:
    """An answer at -1 with a whole rule and at -9 without."""
    values = [
        -1.0 if any(all(mask >> i & 1 for i in rule) for rule in rules) else -9.0
        for mask in range(16)
    ]
    texts = tuple(f"Document {n}." for n in range(4))
    return Case(Lattice("q", "planted", "What?", texts, marked, " It.\n", 2, tuple(values), 0.0))


def test_the_answer_is_kept_while_it_is_a_tenth_as_probable() -> None:
    assert math.exp(threshold(math.log(0.5))) == pytest.approx(0.05)
    case = needs({0, 1}, marked=(0, 1))
    assert [mask for mask in range(16) if case.kept[mask]] == [3, 7, 11, 15]
    assert case.asked(1, 0).threshold == threshold(-1.0)


def test_all_measures_of_one_explanation() -> None:
    """The answer needs 0 and 1; people marked 0 and 3; the explainer says 0, 2, 1, 3."""
    found = Ranking((0.9, 0.1, 0.8, 0.0))
    row = measured(needs({0, 1}, marked=(0, 3)), found, seed=0)
    assert set(row) == set(MEASURES)
    assert named(found) == {0, 2}  # 0.7 between them and 1
    assert row["average_precision"] == pytest.approx((1 / 1 + 2 / 4) / 2)
    assert (row["precision"], row["recall"], row["f1"], row["named"]) == (0.5, 0.5, 0.5, 2)
    assert row["changed"] == 1  # one is enough, and document 0 does it
    assert row["kept"] == 0  # two are enough, and 0 and 2 are not they
    assert row["drop"] == 8
    assert (row["named_changed"], row["named_kept"]) == (1, 0)


def test_where_either_document_is_enough_both_have_to_go() -> None:
    case = needs({0}, {1}, marked=(0, 1))
    by_value = Ranking((0.9, 0.1, 0.5, 0.0), named=frozenset({0}))
    row = measured(case, by_value, seed=0)
    assert (row["changed"], row["kept"], row["named_changed"]) == (0, 1, 0)
    stated = Ranking(by_value.values, frozenset({0}), removals=[0, 1, 2, 3])
    assert measured(case, stated, seed=0)["changed"] == 1


def test_all_named_is_no_shortcut() -> None:
    case = needs({0, 1}, marked=(0, 1))
    row = measured(case, Ranking((0.0, 0.1, 0.2, 0.3), frozenset(range(4))), seed=0)
    assert row["named_changed"] == row["named_kept"] == row["recall"] == 1
    assert row["changed"] == row["kept"] == 0 and row["precision"] == 0.5


def test_equal_values_are_no_ranking() -> None:
    firsts = {ranking([0.0] * 4, seed)[0] for seed in range(40)}
    assert firsts == {0, 1, 2, 3}
    assert ranking([0.1, 0.3, 0.2], 0) == [1, 2, 0]


def test_agreement_of_two_explanations() -> None:
    one, other = Ranking((4.0, 3.0, 1.0, 0.0)), Ranking((3.0, 4.0, 1.0, 0.0))
    rho, shared = agreement(one, other)
    assert rho == pytest.approx(1 - 6 * 2 / (4 * 15))  # Spearman: two neighbours swapped
    assert shared == 1  # the widest gap is behind both
    assert agreement(one, Ranking((0.0,) * 4)) == (None, 0.0)
    assert agreement(one, Ranking((0.0, 0.0, 0.0, 9.0)))[1] == 0
