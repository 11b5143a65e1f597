"""The retrieval experiments on a generated world: measures, resuming, fusion, reports."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from benchmarks.common.bench import Bench
from benchmarks.common.published import paper_recall
from benchmarks.common.results import TEN
from benchmarks.experiments.command import main
from benchmarks.experiments.matrix.rows import (
    CONTROLS,
    PAIRS,
    PAPER_BEST,
    ROWS,
    row,
)
from benchmarks.experiments.matrix.tables import RETRIEVAL
from benchmarks.experiments.retrieval.fusion import fused, run_fusion
from benchmarks.experiments.retrieval.plan import Plan, rule_bank, run_retrieval_table
from benchmarks.experiments.retrieval.report import report_retrieval
from benchmarks.experiments.retrieval.runs import MemoizedRetriever, run_row
from benchmarks.experiments.retrieval.tables import COMPARED, comparison_table, results_of
from benchmarks.stages.search_results import SearchResults
from rulerag.assembly.presets import method
from rulerag.io import read_json, write_json
from rulerag.retrieval.lexical.bm25 import BM25Retriever
from rulerag.ruleqa.builder import RuleQASettings, build
from rulerag.synthetic.world import World
from rulerag.types import Document, ScoredDocument
from training.common.tiny import make_encoder, train_tokenizer

pytestmark = pytest.mark.usefixtures("one_thread")

SHORT = ("max_steps=2", "every=1", "batch_size=8", "extra_negatives=4", "max_queries=10")


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """A world as RuleQA-I, and an encoder that can read it."""
    home = tmp_path_factory.mktemp("retrieval")
    settings = RuleQASettings(num_queries=30, miner="tlogic", min_support=5, min_confidence=0.1)
    dataset = build("ruleqa-i", World.generate(3000, seed=5).graph, settings=settings)
    dataset.save(home / "datasets" / "ruleqa-i")
    texts = [document.text for document in dataset.corpus]
    texts += [rule.text for rule in dataset.rules]
    encoder = make_encoder(train_tokenizer(texts, vocabulary=500), width=32, layers=1)
    encoder.save(str(home / "encoder"), create_model_card=False)
    return Plan(
        out=home / "out",
        datasets=home / "datasets",
        data=home,
        benchmarks=("ruleqa-i",),
        seeds=1,
        encoder=str(home / "encoder"),
        overrides=SHORT,
        isolate=False,
    )


FEW = (
    *("bm25", "bm25-guided", "bm25-pooled", "symbolic", "dense-guided"),
    *("dense-ssft", "dense-guided-rgft", "dense-pooled-ssft"),
)
"""One row of each kind."""


@pytest.fixture(scope="module")
def bench(plan: Plan) -> Bench:
    """With some rows of Table 2, and what they are fused to."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RULERAG_CACHE", str(plan.out / "cache"))
        run_retrieval_table(RETRIEVAL["table2-retrieval"], dataclasses.replace(plan, rows=FEW))
    return plan.bench("ruleqa-i")


def test_a_row_that_lacks_a_measure_is_measured_again_from_what_was_found(
    bench: Bench,
) -> None:
    def no_search(*_: object) -> BM25Retriever:
        raise AssertionError("nothing is searched again")

    one = row("dense-ssft")
    place = bench.place(one.name, "balanced")
    record = place.parent / f"{place.name}.json"
    whole = read_json(record)
    assert whole["training"]["retriever"]["best_step"] in (0, 1, 2)
    old = {**whole, "metrics": {"answer_recall@10": 0.5}}
    del old["training"]
    write_json(record, old)
    assert run_row(bench, one, "balanced", open_retriever=no_search) == whole
    fused_record = bench.place("bm25-guided+symbolic", "balanced")
    whole = read_json(f"{fused_record}.json")
    write_json(f"{fused_record}.json", {**whole, "metrics": {}})
    again = run_fusion(bench, [row("bm25-guided"), row("symbolic")], "balanced")
    assert again["metrics"] == whole["metrics"]


def test_plain_results_are_their_own_union_and_fuse_to_themselves(tmp_path: Path) -> None:
    corpus = [Document(f"d{n}", f"text {n}") for n in range(20)]
    listed = [[ScoredDocument(corpus[n], 20.0 - n, n + 1) for n in range(20)]]
    found = SearchResults.collect(listed, None, {d.id: n for n, d in enumerate(corpus)})
    assert found.union_of(0)[0].tolist() == list(range(10))
    found.save(tmp_path / "found.npz")
    again = SearchResults.load(tmp_path / "found.npz")
    alone = fused([again, again])
    assert alone.best[0].tolist() == found.best[0].tolist()
    assert sorted(alone.union_of(0)[0].tolist()) == list(range(10))
    assert alone.union_of(0)[1].tolist() == list(range(1, 11))


def test_rule_banks_share_out_every_rule(bench: Bench) -> None:
    banks = [{rule.id for rule in rule_bank(bench.dataset.rules, n)} for n in range(4)]
    assert sum(map(len, banks)) == len(set().union(*banks)) == len(bench.dataset.rules)
    assert max(map(len, banks)) - min(map(len, banks)) <= len(bench.dataset.rules.head_relations)


def test_a_finished_row_stands_and_a_changed_one_is_run_again(bench: Bench) -> None:
    one = row("bm25-guided")
    file = Path(f"{bench.place(one.name, 'balanced')}.json")
    before = file.stat().st_mtime_ns
    record = run_row(bench, one, "balanced")
    assert file.stat().st_mtime_ns == before
    changed, again = (
        run_row(bench, one, "balanced", overrides=[change], tag="-changed")
        for change in ("merge=rank", "retriever.pool=9")
    )
    assert len({one["identity"] for one in (record, changed, again)}) == 3


def test_rows_agree_with_what_they_are_made_of(bench: Bench) -> None:
    results = results_of(bench.out / "rows" / bench.name / "balanced")
    for result in results.values():
        for k, next_k in ((1, 2), (2, 5), (5, 10)):
            for part in ("", "_union"):
                low = result.mean(f"answer_recall@{k}{part}")
                assert low <= result.mean(f"answer_recall@{next_k}{part}")
    plain = results["bm25"]
    assert plain.mean("answer_recall@10") == plain.mean("answer_recall@10_union")
    fusion = results["bm25-guided+symbolic"]
    for part in ("bm25-guided", "symbolic"):
        assert np.all(
            fusion.column("answer_recall@10_union")
            >= results[part].column("answer_recall@10_union")
        )


def test_the_report_shows_every_row_and_what_rules_add(bench: Bench, tmp_path: Path) -> None:
    text = report_retrieval(bench.out, tmp_path)
    for one in map(row, FEW):
        assert f"| {one.title}{' (1 seed)' if one.training else ''} |" in text
    assert "| ruleqa-i | 45.5 |" in text and "| 45.1 |" in text, "the paper's best, its RGFT-DPR"
    kept = read_json(tmp_path / "table2-retrieval" / "results.json")
    assert set(kept["rows"]["ruleqa-i"]) >= set(FEW)
    assert list(kept["comparisons"]) == list(COMPARED), "rules first, merging second"
    rules = {(one["ours"], one["against"]) for one in kept["comparisons"][next(iter(COMPARED))]}
    pairs = [pair for pair in PAIRS if {*pair} <= {*FEW}]
    assert rules == {(row(ours).title, row(other).title) for ours, other in pairs} != set()
    assert all((tmp_path / "figure3" / f"ruleqa-i{end}").exists() for end in (".png", ".json"))
    assert not (tmp_path / "table5").exists(), "nothing was run for it"
    results = results_of(bench.out / "rows" / bench.name / "balanced")
    same = {**results, "dense-ssft": results["dense-guided-rgft"]}
    _, (line,) = comparison_table({"ruleqa-i": same}, [("dense-guided-rgft", "dense-ssft", TEN)])
    assert (line["p"], line["seeds_ahead"], line["better"]) == (1.0, "0 of 1", "within chance")


def test_chosen_rows_of_queries_that_need_no_rule_stand_apart(
    plan: Plan, bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = RuleQASettings(num_queries=30, miner="tlogic", min_support=5, min_confidence=0.1)
    graph = World.generate(3000, seed=5).graph
    easy = build("ruleqa-i", graph, settings=settings, variant="degenerate")
    easy.save(plan.datasets / "ruleqa-i-degenerate")
    common = ["--datasets", str(plan.datasets), "--benchmarks", "ruleqa-i", "--retrieval-only"]
    command = ["run", "table5", "--out", str(tmp_path), *common, "--rows"]
    assert main([*command, "bm25", "bm25-guided"]) == 0
    text = capsys.readouterr().out
    assert "# Table 5" in text and "# Table 2" not in text
    assert set(results_of(tmp_path / "rows/ruleqa-i/degenerate")) == {"bm25", "bm25-guided"}
    assert not (tmp_path / "rows" / "ruleqa-i" / "balanced").exists()
    for words, named in (
        ([*command, "bm52"], "bm25"),
        (["run", "table7", "--out", str(tmp_path)], "table5"),
        (["run", "table4", "--out", str(tmp_path), "--benchmarks", "ruleqa-z"], "ruleqa-y"),
    ):
        assert main(words) == 2
        assert named in capsys.readouterr().err


@pytest.mark.slow  # it trains a retriever for each bank
def test_every_bank_is_learned_and_asked(
    plan: Plan, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RULERAG_CACHE", str(plan.out / "cache"))
    few = dataclasses.replace(plan, out=tmp_path, sample=5)
    figure5 = dataclasses.replace(RETRIEVAL["figure5"], banks=("R1", "R2"))
    run_retrieval_table(figure5, few)
    rows = tmp_path / "rows" / "ruleqa-i" / "balanced"
    assert len(list(rows.glob("dense-guided-rgft-R*.json"))) == 4
    report_retrieval(tmp_path, tmp_path / "save", tables={"figure5": figure5})
    kept = read_json(tmp_path / "save" / "figure5" / "ruleqa-i.json")
    plain = kept["plain"]["answer_recall@10_union"]
    crossed = read_json(rows / "dense-guided-rgft-R1-R2-0.json")["metrics"]
    gain = kept["answer_recall@10_union"]["gains"][0][1]
    assert gain == pytest.approx(crossed["answer_recall@10_union"] - plain, abs=1e-4)
    assert (tmp_path / "save" / "figure5" / "ruleqa-i.png").stat().st_size > 500


def test_searches_are_made_once(bench: Bench) -> None:
    retriever = BM25Retriever(bench.dataset.corpus)
    queries = bench.queries("balanced")[:5]
    kept = MemoizedRetriever(retriever, depth=20)
    first, again = kept.search(queries, 20), kept.search(queries[::-1], 5)
    np.testing.assert_array_equal(first.rows, retriever.search(queries, 20).rows)
    np.testing.assert_array_equal(again.rows, first.rows[::-1, :5])


def test_every_row_has_an_experiment_file_and_the_papers_numbers_are_known() -> None:
    names = list(PAPER_BEST)
    for number, one in enumerate((*ROWS, *CONTROLS)):
        turn = names[number % len(names)]  # one each: reading a method takes a while
        assert method(f"{one.name}__symbolic", turn)["metadata.benchmark"] == turn
    for one in ROWS:
        if one.paper is not None:
            assert all(paper_recall(one.paper, name) is not None for name in PAPER_BEST)
    assert paper_recall(("2", "RuleRAG-FT", "RGFT-DPR"), "ruleqa-f") == pytest.approx(0.951)
