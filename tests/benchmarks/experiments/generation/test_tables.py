"""What the tables of the reading rows say, on rows whose values are set by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.common.published import NOT_PUBLIC, paper_note, paper_recall, published_pairs
from benchmarks.common.results import TEN, UNION, Result, difference_table
from benchmarks.experiments.generation.tables import (
    against_baselines,
    against_learned,
    best_table,
    orderings,
    paired,
    reading_table,
    summary,
)
from benchmarks.experiments.matrix.rows import FT, reading_row
from benchmarks.experiments.retrieval.tables import against_paper
from benchmarks.stages.answers import CHARACTERS, EM, F1, LENIENT

SSFT, ICL, RAG = (
    "dense-pooled-ssft-learned__llama-ssft",
    "dense-guided__llama-guided",
    "dense__llama",
)


def row(name: str, *seeds: list[float], of: int = 0, **told: Any) -> Result:
    """A row whose exact match is given, one list for each seed."""
    values = []
    records = []
    for number, right in enumerate(seeds):
        column = np.array(right)
        columns = dict.fromkeys((EM, F1, LENIENT, CHARACTERS, "in_documents"), column)
        values.append({**columns, "places": np.arange(len(right))})
        metrics = {key: float(one.mean()) for key, one in columns.items()}
        record = {
            "metrics": metrics,
            "num_queries": len(right),
            "of_queries": of or len(right),
            "cpu_seconds": {"read": 1.0},
            "reader": "installed",
            "seed": number,
            "ceilings": {"same_subject": 0.058, "oracle": 0.5, "anywhere": 0.9},
        }
        records.append({**record, **told})
    known = reading_row(name).title if "__" in name else name
    return Result(name, known, records, values)


def halves(best: float, of: int = 100) -> list[float]:
    return [1.0] * round(best * of) + [0.0] * (of - round(best * of))


def line_of(table: str, start: str) -> list[str]:
    (line,) = (one for one in table.splitlines() if one.startswith(f"| {start}"))
    return [cell.strip() for cell in line.strip("| ").split(" | ")]


def test_met_needs_a_corrected_p_value() -> None:
    results = {
        FT: row(FT, halves(0.50)),
        SSFT: row(SSFT, halves(0.48)),
        ICL: row(ICL, halves(0.90)),
        RAG: row(RAG, halves(0.10)),
    }
    table, rows = against_learned({"ruleqa-y": results})
    met = {one["against"]: one["met"] for one in rows}
    assert met == {
        "SSFT + SSFT": "within chance",
        "RuleRAG-ICL": "no",
        "standard RAG": "yes",
    }
    for one in rows:
        assert (one["p_holm"] < 0.05) == (one["met"] != "within chance")
    assert table.count("| within chance |") == 1


def test_verdicts_are_of_corrected_p_values_over_the_queries_of_both() -> None:
    described = ("benchmark", "row", "against", "bar")
    known = {**dict.fromkeys(described, "x"), "ours": 0.5, "other": 0.1, "p": 0.03}
    rows = [{**known}, {**known}]
    difference_table(rows, described, "EM", called="met")
    assert [(one["p_holm"], one["met"]) for one in rows] == [(0.06, "within chance")] * 2
    whole, part = row(RAG, [1.0, 0.0, 1.0, 0.0]), row(ICL, [1.0, 0.0])
    part.values[0]["places"] = np.array([1, 2])
    assert paired(whole, part, EM) == ([0.0, 1.0], [1.0, 0.0])


def test_methods_that_a_reader_cannot_do_are_not_compared() -> None:
    nothing = [0.0] * 100
    results = {
        FT: row(FT, halves(0.5)),
        RAG: row(RAG, halves(0.2)),
        ICL: row(ICL, nothing),
        "dense__ve": row("dense__ve", nothing, of=500),
        "none__llama": row("none__llama", nothing),
    }
    table = reading_table("ruleqa-i", results, list(results))
    assert line_of(table, "verify-and-edit")[3:7] == ["n/a"] * 4
    assert line_of(table, "standard prompting")[3:7] == ["n/a"] * 4
    assert line_of(table, "RuleRAG-ICL")[3].startswith("0.0 ["), "reads, and is wrong"
    assert "n/a: this reader cannot do that method" in table
    _, rows = against_learned({"ruleqa-i": results})
    assert [one["against"] for one in rows] == ["standard RAG", "RuleRAG-ICL"]
    text, told = orderings({"ruleqa-i": results})
    assert told["ruleqa-i"]["pairs"] == 1, "FT and standard RAG"
    assert told["ruleqa-i"]["left_out"] == ["standard prompting", "verify-and-edit", "RuleRAG-ICL"]
    assert "verify-and-edit; RuleRAG-ICL |" in text
    good = {**results, "dense__ve": row("dense__ve", halves(0.3), of=500)}
    assert line_of(reading_table("ruleqa-i", good, list(good)), "verify-and-edit")[3][:4] == "30.0"


def test_best_steps_and_seeds_are_told() -> None:
    def steps(kept: int) -> dict[str, Any]:
        return {"best_step": kept, "steps": 256}

    result = row(FT, halves(0.5), halves(0.6))
    for record, kept in zip(result.records, (0, 96), strict=True):
        record["training"] = {"retriever": steps(0), "reader": steps(kept)}
    table = reading_table("ruleqa-i", {FT: result}, [FT])
    cells = line_of(table, "RuleRAG-FT: RGFT + RGFT (2 seeds)")
    assert cells[9] == "retriever 0, 0 of 256; reader 0, 96 of 256"
    assert summary(result)["best_step"] == {"retriever": [0, 0], "reader": [0, 96]}
    one = row(FT, halves(0.5), training={"reader": steps(8)})
    assert "(1 seed)" in reading_table("ruleqa-i", {FT: one}, [FT])
    assert "seed" not in reading_table("ruleqa-i", {RAG: row(RAG, halves(0.5))}, [RAG])


def test_the_interval_of_a_row_with_seeds_holds_what_training_changes() -> None:
    apart = row(FT, halves(0.2), halves(0.5), halves(0.8))
    low, high = apart.interval(EM)
    assert low < 0.3 and high > 0.7
    pooled = row(FT, apart.column(EM).tolist()).interval(EM)
    assert high - low > 1.5 * (pooled[1] - pooled[0])


def test_baselines_come_first_on_the_queries_of_the_table() -> None:
    base = row("most-recent", [1.0] * 50 + [0.0] * 150)
    results = {RAG: row(RAG, halves(0.2)), "dense__ve": row("dense__ve", halves(0.2, 10), of=100)}
    table = reading_table("ruleqa-i", results, list(results), baselines={"most-recent": base})
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    assert lines[2].startswith("| most-recent |")
    cells = line_of(table, "most-recent")
    assert cells[3].startswith("50.0 [") and cells[10] == "100", "of 200, the 100 that rows read"
    assert cells[1] == cells[2] == "–"
    _, rows = against_baselines(
        {"ruleqa-i": {FT: row(FT, halves(0.9)), **results}},
        {"ruleqa-i": {"most-recent": base, "worse": row("worse", [0.0] * 200)}},
    )
    assert [(one["row"], one["beats it"]) for one in rows] == [
        ("RGFT + RGFT", "yes"),
        ("best row: RuleRAG-FT: RGFT + RGFT", "yes"),
    ]
    assert {one["against"] for one in rows} == {"most-recent"}


def test_no_verdict_where_the_papers_queries_cannot_be_ours() -> None:
    results = {RAG: row(RAG, halves(0.9))}
    table = best_table({"ruleqa-i": results, "ruleqa-f": results, "ruleqa-n": results}, {})
    verdicts = [line.split("|")[-2].strip() for line in table.splitlines()[2:]]
    assert verdicts == ["yes", "not comparable", "not comparable"]
    metrics = {TEN: 0.99, UNION: 0.2, "documents@10_union": 10.0}
    found = {"dense": Result("dense", "dense", [{"metrics": metrics}], [{}])}
    text = against_paper(dict.fromkeys(("ruleqa-i", "ruleqa-f"), found))
    verdicts = [line.split("|")[-2].strip() for line in text.splitlines()[2:]]
    assert verdicts == ["vectors and all", "not comparable"], "by ten documents in all"


def test_the_note_counts_in_the_published_tables() -> None:
    assert published_pairs() == (200, 29)
    assert "29 of its 200 published pairs have T-F1 below EM" in paper_note("ruleqa-i")
    recalls = [paper_recall(("4", "Standard RAG", "Contriever"), name) for name in NOT_PUBLIC]
    assert recalls == pytest.approx([0.806, 0.876])
    note = paper_note("ruleqa-f", 0.125)
    assert "reaches recall 80.6, where" in note and "for 12.5 % of our questions" in note
    assert "Contriever" not in paper_note("ruleqa-i", 0.125)
    assert "pairs" not in paper_note("ruleqa-f", 0.125, answers=False)
    results = {RAG: row(RAG, halves(0.5)), "bm25__symbolic": row("bm25__symbolic", halves(0.5))}
    assert "for 5.8 % of our questions" in reading_table("ruleqa-f", results, [RAG])
    assert "Paper:" not in reading_table("ruleqa-f", results, ["bm25__symbolic"])
