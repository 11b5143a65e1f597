"""Each explainer finds the truth of formulas that it can find, within its calls."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.explanation.board import BUDGETS, budgets_of, explained
from benchmarks.explanation.cases import Case, Reading
from benchmarks.explanation.explainers import EXPLAINERS, Ranking
from benchmarks.explanation.measures import measured, named
from benchmarks.explanation.tables import Lattice
from rulerag.errors import ProbeBudgetError

ASKING = [name for name, one in EXPLAINERS.items() if one.kind == "asks"]
TEXTS = (
    "The weather in Kestrel is mild.",
    "Mara Voss was born in the town of Tenminster, on the river Orr, in the north of the country.",
    "Kestrel has a harbour.",
    "Nobody visits the museum.",
    "Tenminster lies in Orrland.",
    "The town of Kestrel.",
    "A long report on fishing, with tables of catches by month and by port, from 1901 to 1950.",
    "Ships.",
)


def planted(*rules: set[int], reading: Reading | None = None) -> Case:
    """An answer that needs one of some sets of eight documents; log-probabilities with noise."""
    rng = np.random.default_rng(1)
    values = [
        (-1.0 if any(all(mask >> i & 1 for i in rule) for rule in rules) else -15.0)
        + float(rng.normal(0, 0.05))
        for mask in range(256)
    ]
    truth = tuple(sorted(set().union(*rules)))
    question = "Where was Mara Voss born?"
    lattice = Lattice("q", "m", question, TEXTS, truth, " Tenminster\n", 3, tuple(values), 0.0)
    return Case(lattice, reading)


def explain(name: str, case: Case) -> Ranking:
    if name == "ContextCite":
        pytest.importorskip("context_cite")
    said = explained(EXPLAINERS[name], case, 64, seed=4)
    assert said is not None
    return said[0]


def found(name: str, case: Case) -> frozenset[int]:
    return named(explain(name, case))


@pytest.mark.parametrize("name", ASKING)
def test_all_of_several_documents_are_needed(name: str) -> None:
    case = planted({1, 4})
    row = measured(case, explain(name, case), seed=0)
    assert row["average_precision"] == row["changed"] == row["kept"] == 1
    if name != "Banzhaf":  # of 62 subsets its values scatter, and the widest gap is anywhere
        assert found(name, case) == {1, 4}


@pytest.mark.parametrize("name", [name for name in ASKING if name != "leave-one-out"])
def test_either_of_two_documents_is_enough(name: str) -> None:
    case = planted({1}, {4})
    assert found(name, case) == {1, 4}


@pytest.mark.parametrize("name", EXPLAINERS)
def test_no_explainer_asks_more_than_it_may(name: str) -> None:
    case, one = planted({1, 4}), EXPLAINERS[name]
    for budget in budgets_of(one):
        said = explained(one, case, budget, seed=0)
        if said is not None:
            assert said[1] - one.calls <= (budget or 256)
            assert len(said[0].values) == 8
    assert budgets_of(one) == ((0,) if one.fixed else BUDGETS)


def test_a_call_too_many_is_refused() -> None:
    asked = planted({1}).asked(2, 0)
    asked.scores([255, 0])
    asked.scores([0])  # known
    with pytest.raises(ProbeBudgetError):
        asked.scores([1])


def test_baselines_and_readers_of_texts() -> None:
    case = planted({1, 4})
    assert found("holds the answer", case) == {1, 4}
    assert 1 in found("retrieval", case) and 1 in found("similarity, words", case)
    assert found("longest document", case) <= {1, 6}
    for name in ("self-explanation", "judged citations"):
        assert explained(EXPLAINERS[name], case, 32, seed=0) is None  # the model was not asked


def test_what_a_model_says_of_itself() -> None:
    odds = (-1.0, 0.5, -2.0, -3.0, 0.25, -0.5, -0.75, -4.0)
    case = planted({1, 4}, reading=Reading("q", "…", "Kestrel", ("harbour", "Tenminster"), odds))
    assert found("self-explanation", case) == {1, 2, 4}
    assert found("judged citations", case) == {1, 4}


@pytest.mark.parametrize("name", ["exact rules", "certified rules"])
def test_rules_say_what_to_remove(name: str) -> None:
    """Document 4 meets all three rules; no other single one does."""
    case = planted({1, 4}, {2, 4}, {4, 6})
    removals = explain(name, case).removals
    assert removals is not None and removals[0] == 4 and sorted(removals) == [*range(8)]
    two = explain(name, planted({1, 2}, {4, 6}, {1, 4})).removals
    assert two is not None and set(two[:2]) in ({1, 4}, {1, 6}, {2, 4})
