"""Rules among many sources, each with a guarantee: what is found, shown, said, and how surely."""

from __future__ import annotations

import math
import random

import pytest

from rulerag.errors import ConfigError
from rulerag.explanation.probing import ProbeEngine
from rulerag.explanation.records import CertifiedRules
from rulerag.explanation.search import CertifiedMiner
from tests.fakes import brute_force, random_function, subset_of
from tests.planted import PlantedAnswer

KINDS = ("retention", "omission")


def planted(sizes: list[int], seed: int, *, num_sources: int = 50) -> PlantedAnswer:
    chance = random.Random(f"{sizes} {seed}")
    places = chance.sample(range(num_sources), sum(sizes))
    return PlantedAnswer(num_sources, [[places.pop() for _ in range(size)] for size in sizes])


def mine(answer: PlantedAnswer, kind: str = "retention", **settings: object) -> CertifiedRules:
    wanted = "yes" if kind == "retention" else "no"
    miner = CertifiedMiner(kind, **settings)  # type: ignore[arg-type]
    return miner.mine(answer.engine(), lambda output: output == wanted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("sizes", "most"), [([1], 75), ([2, 2], 155), ([2, 2, 3, 3], 330)])
def test_planted_rules_are_found_and_shown_with_few_probes(
    sizes: list[int], most: int, kind: str
) -> None:
    if kind == "omission" and len(sizes) == 4:
        sizes = [2, 3]  # every choice of one source each is a rule: six of them
    probes = 0
    for seed, count in enumerate([24, 36, 50, 50, 50, 50]):
        answer = planted(sizes, seed, num_sources=count)
        rules = mine(answer, kind, seed=seed)
        assert rules.minimal == rules.certified == answer.minimal(kind)
        assert rules.complete and not rules.ended
        assert all(rule.bound >= 0.95 - 1e-9 and rule.kind == kind for rule in rules.rules)
        probes += rules.num_probes
    assert probes / 6 < (most if kind == "retention" else 480)


def test_a_higher_validity_and_confidence_take_more_draws() -> None:
    (rule,) = mine(planted([2], 1), validity=0.99, confidence=0.99).rules
    assert rule.certificate.samples > 450 and rule.bound >= 0.99


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("subsets", ["uniform", "by-size"])
def test_certified_rules_hold_as_often_as_was_shown(kind: str, subsets: str) -> None:
    """Any function of a few sources: the shares are counted over all subsets, with their weights.

    A bound is above the truth in a twentieth of the results at most, whatever the function is like.
    """
    chance, wrong, shown = random.Random(f"{kind} {subsets}"), 0, 0
    for seed in range(150):
        function = random_function(chance, max_sources=7)
        count, full = function.num_sources, len(function.outputs) - 1
        engine = ProbeEngine.from_function(function, num_sources=count)
        miner = CertifiedMiner(kind, validity=0.7, seed=seed, subsets=subsets)
        rules = miner.mine(engine, lambda output: output == "yes")
        assert rules.num_probes == engine.num_probes == len(set(function.asked))
        false = False
        for rule in rules.rules:
            weights = holds = 0.0
            for mask in range(full + 1):
                if rule.sources <= subset_of(mask):
                    others = mask.bit_count() - len(rule.sources)
                    weight = 1.0
                    if subsets == "by-size":
                        weight = 1 / math.comb(count - len(rule.sources), others)
                    weights += weight
                    kept = mask if kind == "retention" else full ^ mask
                    holds += weight * (function.outputs[kept] == "yes")
            shown += rule.certified
            false |= rule.bound > holds / weights + 1e-9
        wrong += false
        if rules.complete:  # no valid rule is missing: each holds a reported one
            valid, _ = brute_force(count, lambda m, f=function: f.outputs[m] == "yes", kind)
            assert all(any(one <= sources for one in rules.minimal) for sources in valid)
    assert shown > 60 and wrong <= 0.05 * 150 + 8


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ([({7}, {13}), {7, 20}], {frozenset({7, 20})}),
        ([({7}, {13}), {7, 20}, {7, 33}], {frozenset({7, 20}), frozenset({7, 33})}),
    ],
)
def test_a_rule_that_falls_grows(clauses: list[object], expected: set[frozenset[int]]) -> None:
    rules = mine(PlantedAnswer(50, clauses))  # type: ignore[arg-type]
    assert rules.certified == expected <= rules.minimal and frozenset({7}) not in rules.minimal


def test_trivial_predicates() -> None:
    always = mine(PlantedAnswer(30, [set()]))
    assert always.minimal == always.certified == {frozenset()} and always.rules[0].bound >= 0.95
    never = mine(PlantedAnswer(30, []))
    assert len(never) == 0 and never.complete and never.num_probes == 1
    alone = mine(PlantedAnswer(0, [set()]))
    assert alone.minimal == {frozenset()} and alone.num_probes == 1


def test_a_rule_larger_than_allowed_is_reported_as_not_found() -> None:
    rules = mine(planted([11], 3))
    assert len(rules) == 0 and not rules.complete and "there may be more" in str(rules)


def test_a_budget_ends_with_what_was_found_and_tested() -> None:
    answer, miner = planted([2, 2], 5), CertifiedMiner("retention")
    whole = mine(answer)
    for budget in (0, 1, 20, 60, whole.num_probes - 1):
        part = miner.mine(answer.engine(max_probes=budget), answer.predicate)
        assert not part.complete and f"budget of {budget} probes" in part.ended
        assert f"ended early ({part.ended})" in str(part)
        assert part.minimal <= whole.minimal and part.num_probes == budget
        for rule in part.rules:
            untested = rule.certificate.kind == "untested"
            assert untested == (rule.certificate.samples == 0) == ("(not tested)" in str(rule))
            assert "0 %" not in str(rule).replace("100 %", "")
    assert len(part.minimal) == 2
    exact = miner.mine(answer.engine(max_probes=whole.num_probes), answer.predicate)
    assert exact.complete and exact.rules == whole.rules


def test_a_warm_engine_is_not_asked_again_and_the_seed_decides() -> None:
    answer = planted([2, 2], 6)
    engine = answer.engine()
    first = CertifiedMiner("retention", seed=1).mine(engine, answer.predicate)
    asked = engine.num_probes
    second = CertifiedMiner("retention", seed=1).mine(engine, answer.predicate)
    assert engine.num_probes == asked and second.rules == first.rules
    CertifiedMiner("retention", seed=2).mine(engine, answer.predicate)
    assert engine.num_probes > asked


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "retentions"}, "did you mean 'retention'"),
        ({"validity": 1}, "MonoMiner"),
        ({"validity": 0}, "key 'validity'"),
        ({"validity": True}, "key 'validity'"),
        ({"validity": "0.9"}, "key 'validity'"),
        ({"confidence": 1.2}, "key 'confidence'"),
        ({"subsets": "by_size"}, "key 'subsets': .*did you mean 'by-size'"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CertifiedMiner(**{"kind": "retention", **settings})  # type: ignore[arg-type]


def test_bounds_of_many_sets_are_true_together() -> None:
    """Every subset is wrong in 5 of 100: of 59 sets tried, none may claim to hold in more than 95.

    With the whole risk for each, one of them claims 96.8.
    """
    answer = PlantedAnswer(24, [[3, 9]], noise=0.05, seed=2)
    miner = CertifiedMiner("retention", validity=0.9, confidence=0.9, seed=2)
    bounds = [one.certificate.bound for one in miner.mine(answer.engine(), answer.predicate).rules]
    assert len(bounds) > 50 and max(bounds) <= 0.95
