from __future__ import annotations

import json
import random
from collections.abc import Sequence

import pytest

from rulerag.errors import ConfigError, PredicateError, ProbeBudgetError
from rulerag.explanation.faithfulness.planted import PlantedAnswer
from rulerag.explanation.lattice import mask_of
from rulerag.explanation.probing.engine import ProbeEngine
from rulerag.explanation.records.certificates import Certificate
from rulerag.explanation.records.results import CertifiedRules, SourceRule
from rulerag.explanation.source_rules.certified import CertifiedMiner
from rulerag.explanation.source_rules.monotone_search import BorderSearch, RuleOracle, shrink
from tests.fakes import brute_force, random_function

KINDS = ("retention", "omission")


def yes(output: str) -> bool:
    return output.startswith("yes")


def planted(
    sizes: list[int], seed: int, *, num_sources: int = 50, noise: float = 0.0
) -> PlantedAnswer:
    chance = random.Random(f"{sizes} {seed}")
    places = chance.sample(range(num_sources), sum(sizes))
    rules = [[places.pop() for _ in range(size)] for size in sizes]
    return PlantedAnswer(num_sources, rules, noise=noise, seed=seed)


def mine(answer: PlantedAnswer, kind: str = "retention", **settings: object) -> CertifiedRules:
    return CertifiedMiner(kind, **settings).mine(answer.engine(), answer.predicate)  # type: ignore[arg-type]


@pytest.mark.parametrize(("sizes", "most"), [([1], 12), ([2, 2], 36), ([2, 2, 3, 3], 100)])
def test_planted_rules_among_fifty_sources_are_found_with_few_probes(
    sizes: list[int], most: int
) -> None:
    probes = minimal = 0
    for seed in range(40):
        answer = planted(sizes, seed)
        rules = mine(answer, seed=seed)
        assert rules.minimal == rules.certified == answer.minimal()
        assert rules.complete and rules.finished
        assert all(rule.bound >= 0.95 for rule in rules.rules)
        minimal += sum(rule.certificate.minimality == "shown" for rule in rules.rules)
        probes += rules.num_search_probes
    assert probes / 40 <= most
    assert minimal / (40 * len(sizes)) > 0.9


def test_omission_rules_are_the_hitting_sets() -> None:
    answer = planted([2, 3], 7)
    rules = CertifiedMiner("omission").mine(answer.engine(), lambda output: output == "no")
    assert rules.minimal == answer.minimal("omission") and len(rules) == 6
    assert rules.rules[0].kind == "omission"
    assert all(rule.bound >= 0.95 for rule in rules.rules)


def test_one_rule_takes_fifty_nine_successes() -> None:
    answer = planted([2], 1)
    rules = mine(answer)
    (rule,) = rules.rules
    told = rule.certificate
    assert told.samples == told.successes == 59 and rule.bound == 0.95
    assert told.counterexamples == ()
    assert told.kind == "certified" and told.subsets == "uniform" and rule.kind == "retention"
    higher = mine(answer, validity=0.99, confidence=0.99)
    assert higher.rules[0].certificate.samples > 450 and higher.rules[0].bound >= 0.99


def test_the_risk_is_divided_among_the_rules() -> None:
    rules = mine(planted([1, 1, 1, 1], 2))
    assert len(rules) == 4
    # 0.95 ** n <= 0.975 * 0.05 / 4
    assert {rule.certificate.samples for rule in rules.rules} == {86}


@pytest.mark.parametrize("sizes", [[1], [2, 2], [2, 2, 3]])
def test_bounds_hold_with_noise(sizes: list[int]) -> None:
    runs, wrong, recalled, precise = 30, 0, 0.0, 0.0
    for seed in range(runs):
        answer = planted(sizes, seed, noise=0.05)
        rules = mine(answer, seed=seed)
        wrong += any(rule.bound > answer.validity(rule.sources) for rule in rules.rules)
        hits = len(rules.minimal & answer.minimal())
        recalled += hits / len(sizes)
        precise += hits / max(1, len(rules))
    assert wrong <= 5  # 1.5 expected at most; more than 5 has a probability of 0.003
    assert recalled / runs > 0.8  # the full set itself is stray in 1 of 20 runs
    assert precise / runs > 0.8


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ([({7}, {13}), {7, 20}], {frozenset({7, 20})}),
        ([({7}, {13}), {7, 20}, {7, 33}], {frozenset({7, 20}), frozenset({7, 33})}),
        ([{7, 8}, ({3}, {4})], {frozenset({7, 8})}),
    ],
)
def test_a_counterexample_refutes_and_the_rule_grows(
    clauses: list[object], expected: set[frozenset[int]]
) -> None:
    answer = PlantedAnswer(50, clauses)  # type: ignore[arg-type]
    rules = mine(answer)
    assert rules.minimal == rules.certified == expected and rules.complete
    assert not any(rule.certificate.failures for rule in rules.rules)
    assert frozenset({7}) not in rules.minimal


def test_small_lattices_are_tested_whole_and_agree_with_brute_force() -> None:
    chance = random.Random("small")
    complete = 0
    for kind in KINDS:
        for _ in range(150):
            function = random_function(chance)
            engine = ProbeEngine.from_function(function, num_sources=function.num_sources)
            rules = CertifiedMiner(kind).mine(engine, yes)
            assert rules.num_probes == engine.num_probes == len(set(function.asked))
            valid, minimal = brute_force(
                function.num_sources, lambda mask, f=function: yes(f.outputs[mask]), kind
            )
            for rule in rules.rules:
                told = rule.certificate
                assert told.kind == "exact" and rule.bound == told.successes / told.samples
                assert (rule.bound == 1) == (rule.sources in valid)
                if rule.bound == 1 and told.minimality == "shown":
                    assert rule.sources in minimal
            if rules.complete:
                complete += 1
                # No valid rule is missing: each holds a reported one.
                assert all(any(one <= sources for one in rules.minimal) for sources in valid)
    assert complete > 200


def test_trivial_predicates() -> None:
    always = mine(PlantedAnswer(30, [set()]))
    assert always.minimal == {frozenset()} and always.rules[0].bound >= 0.95
    never = mine(PlantedAnswer(30, []))
    assert len(never) == 0 and never.complete and never.num_probes == 1
    alone = mine(PlantedAnswer(0, [set()]))
    assert (
        alone.minimal == {frozenset()}
        and alone.rules[0].certificate.kind == "exact"
        and alone.num_probes == 1
    )


def test_every_pair_of_ten_among_a_hundred_sources() -> None:
    def answer(kept: list[tuple[int, ...]]) -> list[str]:
        return ["yes" if sum(index < 10 for index in k) >= 2 else "no" for k in kept]

    engine = ProbeEngine.from_function(answer, num_sources=100)
    rules = CertifiedMiner("retention").mine(engine, yes)
    assert len(rules) == 45 and rules.complete and len(rules.certified) == 45
    assert rules.num_search_probes < 500


def test_a_rule_larger_than_allowed_is_reported_as_not_found() -> None:
    rules = mine(planted([11], 3))
    assert len(rules) == 0 and rules.isolated == 1 and not rules.complete
    assert "there may be more" in str(rules)


def test_the_search_can_be_cut_short() -> None:
    answer = planted([2] * 6, 4)
    oracle = RuleOracle("retention", answer.engine(), answer.predicate)
    search = BorderSearch(oracle, max_size=10, max_probes=40, seed=0)
    search.run()
    assert 0 < len(search.found) < 6 and not search.complete and search.num_probes >= 40


def test_a_budget_keeps_what_was_found_and_tested() -> None:
    answer = planted([2, 2], 5)
    whole = mine(answer)
    for budget in (0, 1, 20, 60, whole.num_probes - 1):
        with pytest.raises(ProbeBudgetError, match="rules found") as caught:
            CertifiedMiner("retention").mine(answer.engine(max_probes=budget), answer.predicate)
        part = caught.value.partial
        assert isinstance(part, CertifiedRules)
        assert not part.finished and part.minimal <= whole.minimal
        assert part.num_probes == budget
        assert all(rule.bound == 0 or rule.certificate.samples for rule in part.rules)
    assert len(part.certified) == 2
    exact = answer.engine(max_probes=whole.num_probes)
    assert CertifiedMiner("retention").mine(exact, answer.predicate).finished


def test_a_warm_engine_is_not_asked_again_and_the_seed_decides() -> None:
    answer = planted([2, 2], 6)
    engine = answer.engine()
    first = CertifiedMiner("retention", seed=1).mine(engine, answer.predicate)
    asked = engine.num_probes
    second = CertifiedMiner("retention", seed=1).mine(engine, answer.predicate)
    assert engine.num_probes == asked and second.rules == first.rules
    CertifiedMiner("retention", seed=2).mine(engine, answer.predicate)
    assert engine.num_probes > asked


def test_rules_are_heard_as_soon_as_they_are_tested() -> None:
    heard: list[SourceRule] = []
    answer = planted([1, 2], 8)
    rules = CertifiedMiner("retention").mine(
        answer.engine(), answer.predicate, on_rule=heard.append
    )
    assert {rule.sources for rule in heard} == rules.minimal


def test_results_print_and_serialise() -> None:
    rules = mine(PlantedAnswer(40, [{1}, {2, 3}]))
    assert str(rules).splitlines()[1:] == [
        "  when source 1 is kept (at least 95 %, held in 73 of 73 random subsets, confidence 95 %)",
        "  when source 2 and source 3 are kept together "
        "(at least 95 %, held in 73 of 73 random subsets, confidence 95 %)",
        "  Every other subset lies inside one that fails: no other set always holds.",
    ]
    assert str(rules).startswith("2 retention rules, all shown to hold for at least 95 % of the")
    assert "whenever" not in str(rules)
    assert rules.complete and rules.rules[0].sources == {1}
    told = json.loads(json.dumps(rules.rules[0].certificate.to_json()))
    assert Certificate.from_json(told) == rules.rules[0].certificate
    assert (told["kind"], told["bound"], told["samples"]) == ("certified", 0.95, 73)


def test_each_smaller_rule_is_shown_to_fall_below_with_its_samples() -> None:
    (rule,) = mine(planted([2], 1)).rules
    assert rule.certificate.minimality == "shown"
    smaller = rule.certificate.smaller
    assert {one.without for one in smaller} == set(rule.names)
    for one in smaller:
        assert one.successes < one.samples and one.successes / one.samples < one.ceiling < 0.95


def test_a_rule_with_a_valid_smaller_one_is_not_said_to_be_minimal() -> None:
    # Source 0 alone holds for 63 of 64 subsets: no pair is minimal among rules that hold for 95 %.
    rules = mine(PlantedAnswer(40, [{0, i} for i in range(1, 7)]))
    assert len(rules) == 6 and {rule.certificate.minimality for rule in rules.rules} == {
        "not shown"
    }
    assert all("not shown to be minimal" in str(rule) for rule in rules.rules)
    for rule in rules.rules:
        ceilings = {one.without: one.ceiling for one in rule.certificate.smaller}
        assert ceilings.pop("source 0") < 0.95 and max(ceilings.values()) >= 0.95


def test_after_a_stop_nothing_is_said_of_smaller_rules_or_of_rules_without_a_test() -> None:
    answer = planted([2, 2], 5)
    whole = mine(answer)
    for budget in (whole.num_search_probes + 10, whole.num_probes - 1):
        with pytest.raises(ProbeBudgetError) as caught:
            CertifiedMiner("retention").mine(answer.engine(max_probes=budget), answer.predicate)
        part = caught.value.partial
        assert isinstance(part, CertifiedRules) and len(part) == 2
        for rule in part.rules:
            assert rule.certificate.minimality == "untested"
            words = str(rule)
            assert ("no smaller one was looked for" if rule.certified else "not tested") in words
            assert "0 %" not in words.replace("100 %", "")


def test_counterexamples_are_told_by_the_sources_removed() -> None:
    told = 0
    for seed in range(10):
        answer = planted([2], seed, noise=0.05)
        for rule in mine(answer, seed=seed).rules:
            for removed in rule.certificate.counterexamples:
                kept = set(range(50)) - {int(name.removeprefix("source ")) for name in removed}
                assert rule.sources <= kept and answer([sorted(kept)]) == ["no"]
                told += 1
    assert told


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "retentions"}, "did you mean 'retention'"),
        ({"validity": 1}, "MonoMiner"),
        ({"validity": 0}, "key 'validity'"),
        ({"confidence": 1.2}, "key 'confidence'"),
        ({"subsets": "by_size"}, "key 'subsets': .*did you mean 'by-size'"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CertifiedMiner(**{"kind": "retention", **settings})  # type: ignore[arg-type]


def test_a_predicate_that_fails_is_named() -> None:
    with pytest.raises(PredicateError, match="on the output 'yes'"):
        CertifiedMiner("retention").mine(planted([1], 1).engine(), lambda output: bool(1 / 0))


def test_shrink_finds_a_minimal_set_with_few_questions() -> None:
    for dense in (range(40), range(0, 40, 2), (3,), ()):
        wanted = mask_of(dense)
        asked: list[int] = []

        def hold(
            masks: Sequence[int], wanted: int = wanted, asked: list[int] = asked
        ) -> list[bool]:
            asked.extend(masks)
            return [wanted & ~mask == 0 for mask in masks]

        assert shrink(range(40), hold) == wanted
        assert len(asked) <= 12 + 3 * len(dense)
    whole = mask_of(range(40))
    assert shrink(range(40), lambda masks: [m == whole for m in masks], max_size=5) is None


@pytest.mark.parametrize("width", [2, 7, 64])
def test_shrink_asks_in_fewer_rounds_where_more_is_answered_at_once(width: int) -> None:
    wanted, rounds = mask_of((3, 17, 30)), {1: 0, width: 0}
    for wide in rounds:

        def hold(masks: Sequence[int], wide: int = wide) -> list[bool]:
            rounds[wide] += 1
            assert len(masks) <= wide
            return [wanted & ~mask == 0 for mask in masks]

        assert shrink(range(40), hold, width=wide) == wanted
    assert rounds[width] < rounds[1]
