"""The learned order of what is tried first: what it reads, and that it changes no result."""

from __future__ import annotations

import numpy as np
import pytest

from rulerag.explanation.lattice import mask_of
from rulerag.explanation.levels.priors import Priors
from rulerag.explanation.levels.proposer import expected_weights, signs_of
from rulerag.explanation.probing import ProbeEngine
from rulerag.explanation.source_rules import BorderSearch, CoarseToFine, RuleOracle

TEXTS = [f"Iran meets Ostra {n}." for n in range(14)] + ["Iran consults Norland.", "It rains."]


def test_what_holds_the_claim_and_ranks_high_is_expected() -> None:
    weights = expected_weights("Whom does Iran consult?", "Norland", TEXTS)
    assert np.mean(weights) == pytest.approx(1) and int(np.argmax(weights)) == 14
    assert weights[0] > weights[15]  # a word of the question against none
    scores = [float(16 - n) for n in range(16)]
    ranked = expected_weights("Whom does Iran consult?", "Nobody", TEXTS, scores)
    assert ranked[0] > 2 * ranked[13]
    assert signs_of("", "", ["a", ""]).shape == (2, 7)
    assert expected_weights("", "", ["", ""], [0.0, 0.0]) == pytest.approx([1, 1])


def test_half_of_what_is_expected_is_learned() -> None:
    mixed = Priors(TEXTS).weights("Norland")
    both = Priors(TEXTS, (), lambda claim: [2.0] * 15 + [0.0]).weights("Norland")
    assert mixed is not None and both is not None
    assert both == pytest.approx([(one + 2) / 2 for one in mixed[:15]] + [mixed[15] / 2])


@pytest.mark.parametrize("misled", [False, True])
def test_the_order_saves_probes_and_changes_no_set(misled: bool) -> None:
    wanted = {frozenset({14}), frozenset({3, 9})}

    def searched(weights: list[float] | None) -> tuple[set[int], int]:
        engine = ProbeEngine.from_function(
            lambda kept: [str(any(one <= set(k) for one in wanted)) for k in kept], num_sources=16
        )
        oracle = RuleOracle("retention", engine, lambda text: text == "True")
        search = BorderSearch(
            oracle, max_size=10, max_probes=500, seed=0, shrink=CoarseToFine((), weights)
        )
        search.run()
        return set(search.found), oracle.num_probes

    claim = "Norland" if not misled else "It rains."
    alike, told = searched(None), searched(expected_weights("", claim, TEXTS))
    assert alike[0] == told[0] == {mask_of(one) for one in wanted}
    assert misled or told[1] < alike[1]
