from __future__ import annotations

import json
import random

from rulerag.explanation.probing.engine import ProbeEngine
from rulerag.explanation.probing.predicates import equals
from rulerag.explanation.report.explain import explain_answer
from rulerag.explanation.source_rules.exact import DualMiner
from rulerag.explanation.source_rules.hitting_sets import Duality, check_duality
from rulerag.types import Completion, GenerationRequest
from tests.fakes import PlantedGenerator, planted_answer, planted_rule, random_function

A = planted_rule("a")
NAMES = tuple("abcdef")


def names(*rules: str) -> list[tuple[str, ...]]:
    return [tuple(rule) for rule in rules]


def test_each_family_is_the_hitting_sets_of_the_other() -> None:
    found = check_duality(names("ab", "c"), names("ac", "bc"), NAMES)
    assert found == Duality(True, True)
    assert "Every subset falls under one of these rules" in str(found)
    assert check_duality([()], [], NAMES).dual and check_duality([], [()], NAMES).dual


def test_rules_without_a_common_source_contradict_each_other() -> None:
    found = check_duality(names("ab"), names("cd"), NAMES)
    assert not found.consistent and found.disjoint == (("a", "b"), ("c", "d"))
    assert "keeping a + b and removing c + d go together" in str(found)


def test_what_neither_family_decides_is_named() -> None:
    found = check_duality(names("ab", "c"), names("ac"), NAMES)
    assert found.consistent and not found.dual and found.undecided == ("b", "c")
    assert "for example with b and c removed" in str(found)
    nothing = check_duality([], [], NAMES)
    assert nothing.undecided == () and "with nothing removed" in str(nothing)
    for one in (found, nothing, check_duality(names("ab"), names("cd"), NAMES)):
        assert Duality.from_json(json.loads(json.dumps(one.to_json()))) == one


def test_exact_rules_never_contradict_and_are_dual_where_they_decide_every_subset() -> None:
    chance = random.Random("duality")
    dual = 0
    for _ in range(300):
        function = random_function(chance)
        count = function.num_sources
        engine = ProbeEngine.from_function(function, num_sources=count)
        yes = equals("yes")
        kept, removed = DualMiner().mine(engine, retention=yes, omission=~yes)
        families = [[rule.names for rule in part.rules] for part in (kept, removed)]
        found = check_duality(*families, engine.names)
        assert found.consistent
        place = {name: index for index, name in enumerate(engine.names)}
        masks = [[sum(1 << place[n] for n in rule) for rule in family] for family in families]
        undecided = [
            mask
            for mask in range(1 << count)
            if not any(rule & ~mask == 0 for rule in masks[0])
            and not any(rule & mask == 0 for rule in masks[1])
        ]
        assert found.dual == (not undecided)
        if found.undecided is not None:
            gone = sum(1 << place[name] for name in found.undecided)
            assert (1 << count) - 1 - gone in undecided
        dual += found.dual
    assert 50 < dual < 250


def test_explanations_tell_whether_their_rules_fit() -> None:
    answer = planted_answer("yes", [[A]] * 4)
    told = explain_answer(answer, PlantedGenerator.dnf([["d1", "d2"], ["d3"]]))
    assert told.duality == Duality(True, True) and str(told.duality) in told.scope

    def odd(ids: frozenset[str]) -> str:
        return "yes" if len(ids) == 4 or ("d1" in ids and len(ids) < 3) else "no"

    told = explain_answer(answer, PlantedGenerator(odd))
    assert told.duality is not None and not told.duality.dual
    assert "Some subsets fall under no rule of either kind" in told.scope
    certified = explain_answer(
        planted_answer("yes", [[A]] * 30), PlantedGenerator.dnf([["d3"]]), validity=0.95
    )
    assert certified.duality == Duality(True, True)


def test_nothing_is_said_where_the_conditions_are_not_opposite_or_rules_are_missing() -> None:
    answer = planted_answer("yes", [[A]] * 4)
    generator = PlantedGenerator.dnf([["d1"]])
    assert explain_answer(answer, generator, omission_predicate=equals("no")).duality is None
    assert explain_answer(answer, generator, max_probes=3).duality is None


def test_rules_that_were_not_shown_to_hold_are_not_compared() -> None:
    class Uneven:
        fingerprint = "uneven"

        def generate(self, requests: list[GenerationRequest]) -> list[Completion]:
            kept = [frozenset(d.id for d in request.documents) for request in requests]
            return [Completion("yes" if self.says(ids) else "no") for ids in kept]

        def says(self, ids: frozenset[str]) -> bool:
            return "d7" in ids and bool(ids & {"d1", "d2", "d3"})

    answer = planted_answer("yes", [[A]] * 30)
    told = explain_answer(answer, Uneven(), validity=0.95)
    assert told.duality is not None
    for budget in range(40, told.num_probes, 40):
        stopped = explain_answer(answer, Uneven(), validity=0.95, max_probes=budget)
        kinds = {r.certificate.kind for r in (*stopped.retained, *stopped.omitted)}
        assert stopped.duality is None or kinds == {"certified"}
        if not stopped.complete or "untested" in kinds:
            assert stopped.duality is None and "falls under" not in stopped.scope
