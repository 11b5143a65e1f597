"""Tables: expected numbers beside measured ones, the best of a column marked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rulerag.errors import DataError, DataFormatError, EmptyDataError, UnknownNameError
from rulerag.evaluation.tables import (
    expected_rows,
    load_results,
    results_table,
)


def result(method: str, recall: float, documents: float, **changes: Any) -> dict[str, Any]:
    metrics = {"answer_recall@10": recall, "documents_per_query": documents}
    base = {
        "benchmark": "toy",
        "method": method,
        "retriever": "bm25",
        "generator": "symbolic",
        "num_queries": 1559,
        "metrics": metrics,
        "seconds": {"total": 1.0},
        "config": {},
    }
    return base | changes


TWO = [result("plain", 0.4521, 10.0), result("guided | 50%", 0.55, 21.25, retriever="guided")]


def test_markdown() -> None:
    assert results_table(TWO).to_markdown() == (
        "| method | retriever | queries | R@10 | docs |\n"
        "| --- | --- | ---: | ---: | ---: |\n"
        "| plain | bm25 | 1,559 | 45.2 | 10.0 |\n"
        "| guided \\| 50% | guided | 1,559 | **55.0** | 21.2 |\n"
    )


@pytest.mark.parametrize(
    ("values", "best"),
    [
        ([("toy", 0.45212), ("toy", 0.45214), ("toy", 0.4)], [True, True, False]),  # as printed
        ([("toy", 0.5)], [False]),  # one run alone is not the best
        ([("toy", 0.1), ("toy", 0.2), ("easy", 0.8), ("easy", 0.7)], [False, True, True, False]),
        ([("toy", None), ("toy", None)], [False, False]),
    ],
)
def test_the_best_is_the_best_of_its_benchmark(
    values: list[tuple[str, Any]], best: list[bool]
) -> None:
    rows = [result(f"m{n}", v, 1, benchmark=name) for n, (name, v) in enumerate(values)]
    table = results_table(rows, ["answer_recall@10"])
    assert [row[-1].best for row in table.rows] == best
    assert ("benchmark" in table.titles) == (len(dict(values)) > 1), "what differs is shown"
    assert [row[-1].text for row in table.rows if values[0][1] is None] in ([], ["–", "–"])


def test_what_is_no_table() -> None:
    assert results_table(TWO, [], describing=["generator"]).titles == ("generator", "queries")
    with pytest.raises(UnknownNameError, match="unknown metric 'exact'"):
        results_table(TWO, ["exact"])
    with pytest.raises(EmptyDataError):
        results_table([])


def expecting(**expected: Any) -> dict[str, Any]:
    return result("plain", 0.4521, 10.0, config={"expected": expected})


def test_expected_numbers_stand_beside_the_measured_ones() -> None:
    told = {"value": 0.45, "tolerance": 0.005, "source": "table 2"}
    table = results_table([expecting(**{"answer_recall@10": told}), TWO[1]])
    assert table.titles == ("method", "retriever", "queries", "R@10", "R@10 expected", "docs")
    assert [row[4].text for row in table.rows] == ["45.0 ± 0.5 ✓", "–"]
    assert "45.0 ± 0.5 ✓" in table.to_markdown()


@pytest.mark.parametrize(
    ("value", "tolerance", "met"),
    [(0.4521, 0, True), (0.4421, 0.01, True), (0.4621, 0.01, True), (0.4420, 0.01, False)],
)
def test_met_means_within_the_tolerance(value: float, tolerance: float, met: bool) -> None:
    rows = expected_rows(
        expecting(**{"answer_recall@10": {"value": value, "tolerance": tolerance}})
    )
    assert rows[0]["met"] is met


def test_expectations_that_are_none() -> None:
    assert expected_rows(TWO[0]) == []
    assert expected_rows(expecting(exact_match=0.3))[0] == {
        "metric": "exact_match",
        "measured": None,
        "expected": 0.3,
        "tolerance": 0.0,
        "met": False,
        "source": "",
    }
    with pytest.raises(DataFormatError, match=r"key 'expected.exact_match': expected a number"):
        expected_rows(expecting(exact_match="high"))
    with pytest.raises(DataFormatError, match="expected a number"):
        expected_rows(expecting(exact_match={"tolerance": 0.1}))


def test_results_are_read_from_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.json").write_text(json.dumps(TWO[0]))
    (tmp_path / "other.json").write_text(json.dumps(TWO[1]))
    assert load_results([tmp_path / "run", tmp_path / "other.json"]) == TWO
    with pytest.raises(DataError, match="the run is not complete"):
        load_results([tmp_path])
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(DataFormatError, match="is no result of a run"):
        load_results([tmp_path / "other.json"])
