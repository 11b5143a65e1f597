"""What the proposer is trained on."""

from __future__ import annotations

from benchmarks.explanation.lattices import Lattice
from rulerag.explanation.levels.proposer import expected_weights
from training.proposer import Case, fitted, minimal_sets, probes


def test_the_sets_of_a_table_hold_with_more_documents() -> None:
    def value(mask: int) -> float:
        # 0 and 1 are enough, though not with 2; 3 is, whatever else is there.
        return 0.0 if mask & 0b1000 or mask == 0b0011 else -9.0

    values = tuple(value(mask) for mask in range(16))
    table = Lattice("q", "m", "?", ("a", "b", "c", "d"), (3,), " x.", 2, values, 0.0)
    assert minimal_sets(table) == [0b1000]


def test_a_sign_that_tells_is_learned() -> None:
    cases = [
        Case("Who?", f"name{n}", ("name", f"it is name{n}", "who"), (1.0, 1.0, 1.0), (0b010,))
        for n in range(20)
    ]
    for scored, count in ((False, 8), (True, 11)):
        weights = fitted(cases, scored)
        assert len(weights) == count
        assert weights[0] > 0  # what is said stands in the document that decides
    case = Case("Who?", "Bo", ("a", "b", "c", "Bo it is"), None, (0b1000,))
    first, every = probes(case, expected_weights(case.question, case.claim, case.texts))
    assert first <= every <= probes(case, None)[1]
