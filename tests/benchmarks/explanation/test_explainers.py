from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.explanation.certified import TARGETS
from benchmarks.explanation.certified import measure as measure_rules
from benchmarks.explanation.explainers import BUDGETS, EXPLAINERS, formulas, measure, worlds
from rulerag.explanation.attribution.values import attributions
from rulerag.explanation.source_rules.exact import MonoMiner

RESULTS = Path(__file__).resolve().parents[3] / "benchmarks" / "results" / "explanations"


def test_every_explainer_is_measured_within_its_budget() -> None:
    rows = measure(list(formulas(2)))
    families = {row["family"] for row in rows}
    assert families >= {"AND", "OR", "DNF", "noisy DNF"}
    assert {row["explainer"] for row in rows} == set(EXPLAINERS)
    assert {row["budget"] for row in rows} == set(BUDGETS)
    for row in rows:
        if row["explainer"] == "certified rules" and row["family"] in ("AND", "OR", "DNF"):
            assert row["sources_found"] == row["rule_f1"] == 1
            assert row["lds"] == pytest.approx(1)
        assert -1 <= row["lds"] <= 1 and 0 <= row["sources_found"] <= 1
        assert row["probes"] <= row["budget"]


def test_only_the_package_is_called_context_cite() -> None:
    assert not [name for name in EXPLAINERS if "cite" in name.lower()]
    committed = json.loads((RESULTS / "explainers.json").read_text(encoding="utf-8"))
    assert {row["explainer"] for row in committed["rows"]} == set(EXPLAINERS)


def test_values_are_those_that_are_returned() -> None:
    case = next(iter(formulas(1)))
    for name, method in (("guided surrogate", "guided"), ("linear surrogate", "linear")):
        measured = EXPLAINERS[name](case, 64, 5)
        assert measured is not None and len(measured.asked) <= 64
        engine = case.engine(64, set())
        (returned,), _ = attributions(engine, case.predicate, [method], samples=64, seed=5)
        assert measured.attribution == returned
        assert all(measured.predict(m) == returned.predict(m) for m in range(0, 1 << 24, 99_991))


def test_the_truth_of_worlds_is_what_decides_the_answer() -> None:
    cases = list(worlds(3, num_documents=10, num_facts=1000))
    assert len(cases) == 3
    for case in cases:
        found = MonoMiner("retention").mine(case.engine(None, set()), case.predicate)
        assert {index for rule in found.minimal for index in rule} & case.sources
        assert not found.minimal or frozenset() not in found.minimal


@pytest.mark.parametrize("sizes", TARGETS)
def test_the_targets_of_many_sources_hold(sizes: tuple[int, ...]) -> None:
    row = measure_rules(sizes, 10)
    assert row["recall"] == row["precision"] == row["bounds_true"] == 1
    assert row["search_probes"] <= TARGETS[sizes]
