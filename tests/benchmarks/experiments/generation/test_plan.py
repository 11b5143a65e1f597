"""The generator experiments on a generated world: fine-tuning, reading, resuming, reports."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks.baselines.counts import BASELINES
from benchmarks.common.bench import Bench
from benchmarks.common.published import paper_value
from benchmarks.common.results import Result
from benchmarks.experiments.command import main
from benchmarks.experiments.generation.errors import ERRORS, error_classes
from benchmarks.experiments.generation.plan import ReadingPlan, run_reading_table
from benchmarks.experiments.generation.report import report_generation
from benchmarks.experiments.generation.runs import Readers, run_reading_row, train_reader
from benchmarks.experiments.generation.tables import (
    best_of,
    paired,
    pairs_table,
    readings_of,
)
from benchmarks.experiments.generation.weights import tuned_weight
from benchmarks.experiments.matrix.rows import (
    FT,
    LANGUAGE_MODELS,
    OTHERS,
    PAPER_BEST_EM,
    READING,
    READING_PAIRS,
    reading_row,
)
from benchmarks.experiments.matrix.tables import READINGS, RETRIEVAL
from benchmarks.experiments.retrieval.plan import Plan
from benchmarks.speed.generation import small_llama
from benchmarks.stages.answers import EM
from rulerag.assembly.presets import method
from rulerag.io import read_json, write_json
from rulerag.ruleqa.builder import RuleQASettings, build
from rulerag.synthetic.world import World
from rulerag.types import Completion

pytestmark = [
    pytest.mark.slow,  # half a minute: the full matrix on a small world
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # PEFT and TRL on transformers 5.23
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

SHORT = ("max_steps=2", "every=1", "batch_size=8", "extra_negatives=4", "max_queries=10")
READING_SHORT = (
    "training.max_steps=2",
    "training.batch_size=4",
    "validation.every=0.5",
    "validation.max_queries=3",
    "validation.max_new_tokens=6",
    "data.samples=16",
    "lora.rank=2",
)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReadingPlan]:
    """A world as RuleQA-I, the installed encoder and reader, and a reader without training."""
    home = tmp_path_factory.mktemp("generation")
    settings = RuleQASettings(num_queries=14, miner="tlogic", min_support=5, min_confidence=0.1)
    graph = World.generate(1200, seed=5).graph
    dataset = build("ruleqa-i", graph, settings=settings)
    dataset.save(home / "datasets" / "ruleqa-i")
    easy = build("ruleqa-i", graph, settings=settings, variant="degenerate")
    easy.save(home / "datasets" / "ruleqa-i-degenerate")
    texts = [document.text for document in dataset.corpus]
    model, tokenizer = small_llama(texts, width=32, layers=1)
    model.save_pretrained(home / "reader")
    tokenizer.save_pretrained(home / "reader")
    write_json(home / "reader" / "prompt.json", {"type": "compact"})
    retrieval = Plan(
        out=home / "out",
        datasets=home / "datasets",
        data=home,
        benchmarks=("ruleqa-i",),
        seeds=1,
        overrides=SHORT,
        isolate=False,
    )
    readers = Readers(overrides=READING_SHORT, sample=8)
    weak = Readers(str(home / "reader"), "weak", overrides=READING_SHORT, sample=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RULERAG_CACHE", str(home / "cache"))
        yield ReadingPlan(retrieval, readers, (weak,))


FEW = (
    "none__llama",
    "dense__llama",
    "dense-guided__llama",
    "dense-guided__llama-guided",
    "dense-pooled-ssft-learned__llama-ssft",
    FT,
    "bm25-guided__symbolic",
    "symbolic__symbolic",
    "bm25-guided-learned__hybrid",
)
"""One row of each kind."""


@pytest.fixture(scope="module")
def bench(plan: ReadingPlan) -> Bench:
    """With some rows of Table 2."""
    run_reading_table(READINGS["table2"], dataclasses.replace(plan, rows=FEW), baselines=True)
    return plan.retrieval.bench("ruleqa-i")


@pytest.fixture
def results(bench: Bench) -> dict[str, Result]:
    return readings_of(bench.out / "reading" / "ruleqa-i" / "balanced")


def test_every_row_has_its_experiment_file_and_the_papers_figures() -> None:
    names = list(PAPER_BEST_EM)
    for number, row in enumerate((*READING, *OTHERS)):
        turn = names[number % len(names)]  # one each: reading a method takes a while
        assert method(row.name, turn)["metadata.benchmark"] == turn
        for benchmark, best in PAPER_BEST_EM.items():
            if row.paper:
                assert 0 <= (paper_value(row.paper, benchmark, "em") or 0) <= best
                assert paper_value(row.paper, benchmark, "token_f1") is not None
    for experiment in READINGS.values():
        for paper in (experiment.papers or {}).values():
            assert paper_value(paper, "ruleqa-y", "em") is not None, paper
    ft = reading_row(FT).paper
    published = [paper_value(ft, name, "em") for name in PAPER_BEST_EM]
    assert published == pytest.approx([0.205, 0.446, 0.416, 0.349, 0.42])


def test_what_a_row_reads_is_what_its_name_says(bench: Bench, results: dict[str, Result]) -> None:
    told = {name: results[name].records[0]["config"] for name in results}
    for name, config in told.items():
        shown = config.get("reader_rules", "selected") != "none" and "selector" in config
        reader = name.partition("__")[2]
        sees = ("llama-guided", "llama-rgft", "hybrid", "symbolic", "candidate")
        assert shown == (reader in sees), name
        adapter = str(config["generator"].get("adapter", ""))
        assert adapter.endswith("rgft-0") == (reader == "llama-rgft")
        assert adapter.endswith("ssft-0") == (reader == "llama-ssft")
    learned = read_json(Path(told[FT]["generator"]["adapter"]) / "metrics.json")
    assert learned["method"] == "rgft" and learned["steps"] == 2
    assert [row["step"] for row in learned["history"]] == [0, 1, 2], "validated by parts"


def test_a_finished_row_stands_and_fewer_queries_are_read_apart(
    bench: Bench, plan: ReadingPlan
) -> None:
    row = reading_row("dense__llama")
    folder = train_reader(bench, plan.readers, "rgft", 0)
    place = bench.out / "reading" / "ruleqa-i" / "balanced" / "dense__llama-0.json"
    files = (place, folder / "metrics.json")
    before = [file.stat().st_mtime_ns for file in files]
    record = run_reading_row(bench, row, plan.readers)
    train_reader(bench, plan.readers, "rgft", 0)
    assert [file.stat().st_mtime_ns for file in files] == before and len(record["answers"]) == 8
    fewer = run_reading_row(bench, row, dataclasses.replace(plan.readers, label="few", sample=3))
    assert fewer["num_queries"] == 3 and fewer["of_queries"] == 14
    assert fewer["identity"] != record["identity"]


def test_a_record_that_lacks_a_measure_is_measured_again_from_its_answers(
    bench: Bench, plan: ReadingPlan
) -> None:
    def no_reading(*_: object) -> list[Completion]:
        raise AssertionError("nothing is read again")

    for name in ("symbolic__symbolic", "dense-pooled-ssft-learned__llama-ssft"):
        place = bench.out / "reading" / "ruleqa-i" / "balanced" / f"{name}-0.json"
        whole = read_json(place)
        old = {**whole, "metrics": {key: whole["metrics"][key] for key in (EM, "token_f1")}}
        del old["training"]
        write_json(place, old)
        assert run_reading_row(bench, reading_row(name), plan.readers, generate=no_reading) == whole
    assert whole["training"]["reader"]["steps"] == whole["training"]["retriever"]["steps"] == 2


def test_seeds_are_of_what_is_fine_tuned(plan: ReadingPlan, bench: Bench) -> None:
    rows = ("dense-pooled-ssft-learned__llama-ssft", "dense__llama")
    more = dataclasses.replace(plan.retrieval, seeds=2)
    run_reading_table(READINGS["table2"], dataclasses.replace(plan, retrieval=more, rows=rows))
    found = readings_of(bench.out / "reading" / "ruleqa-i" / "balanced")
    assert [record["seed"] for record in found[rows[0]].records] == [0, 1]
    assert len(found[rows[1]].records) == 1, "nothing of it is fine-tuned"
    adapters = {record["config"]["generator"]["adapter"] for record in found[rows[0]].records}
    assert len(adapters) == 2
    both = [record["metrics"]["token_f1"] for record in found[rows[0]].records]
    assert found[rows[0]].mean("token_f1") == pytest.approx(np.mean(both))


def test_the_hybrid_weight_is_that_of_held_out_queries_or_none(
    bench: Bench, plan: ReadingPlan, results: dict[str, Result]
) -> None:
    for name in (name for name in results if name.endswith("__hybrid")):
        weight = tuned_weight(bench, reading_row(name), plan.readers)
        kept = read_json(bench.out / "reading" / "ruleqa-i" / "weights" / f"{name}-0.json")
        found = {float(key): value for key, value in kept["exact_match"].items()}
        assert found[weight] == max(found.values()) or weight == 0
        assert weight == 0 or found[weight] > found[0.0]
        assert results[name].records[0]["config"]["generator"]["weight"] == weight


def test_errors_have_one_class_each(results: dict[str, Result]) -> None:
    values = {
        "exact_match": np.array([1, 0, 0, 0, 0.0]),
        "in_documents": np.array([1, 0, 0, 1, 1.0]),
        "supported": np.array([1, 1, 0, 1, 0.0]),
        "answered": np.array([1, 1, 1, 0, 1.0]),
    }
    found = error_classes(Result("r", "r", [{}], [values]))
    assert found["wrong"] == 4
    assert found["shares"] == {
        "rule failure": 0.25,
        "retrieval error": 0.5,
        "attribution error": 0.25,
    }
    assert found["unreachable"] == 0.5 and found["abstained"] == 0.25
    for result in results.values():
        told = error_classes(result)
        if told["wrong"]:
            assert sum(told["shares"][kind] for kind in ERRORS) == pytest.approx(1, abs=1e-3)


def test_rows_are_compared_over_the_queries_of_both(results: dict[str, Result]) -> None:
    whole, part = results["symbolic__symbolic"], results[FT]
    left, right = paired(whole, part, EM)
    places = part.values[0]["places"].astype(int)
    assert left == whole.values[0][EM][places].tolist() and len(right) == 8
    _, pairs = pairs_table({"ruleqa-i": results})
    assert [one["names"] for one in pairs] == [
        [ours, other] for ours, other, _ in READING_PAIRS if {ours, other} <= results.keys()
    ]
    best = best_of(results)
    merits = [float(np.mean(paired(result, part, EM)[0])) for result in results.values()]
    assert np.mean(paired(best, part, EM)[0]) == pytest.approx(max(merits))


@pytest.mark.slow
def test_every_table_and_figure_runs_and_is_reported(
    bench: Bench, plan: ReadingPlan, tmp_path: Path
) -> None:
    depths, deeper = READINGS["figure3"].steps
    steps = (dataclasses.replace(depths, top_k=(1, 5)), deeper)
    tables = READINGS | {
        "figure3": dataclasses.replace(READINGS["figure3"], steps=steps),
        "figure5": dataclasses.replace(READINGS["figure5"], banks=("R1", "R2")),
    }
    for name in sorted(tables):
        run_reading_table(tables[name], plan, baselines=name.startswith("table"))
    found = readings_of(bench.out / "reading" / "ruleqa-i" / "balanced")
    asked = {tuple(found[name].values[0]["places"].tolist()) for name in LANGUAGE_MODELS}
    assert len(asked) == 1 and len(next(iter(asked))) == 8, "every learned row reads the same"
    text = report_generation(bench.out, tmp_path, tables=tables)
    assert "reader weak" in text and "(paper" not in text
    for name, experiment in READINGS.items():
        assert f"# {experiment.title}" in text
        stem = "reading" if name in RETRIEVAL else "table"
        rows = (tmp_path / name / f"{stem}.md").read_text().splitlines()
        assert not name.startswith("figure") or (tmp_path / name / "reading.png").exists()
        heads = [n for n, line in enumerate(rows) if line.startswith("| method |")]
        for head in heads if name.startswith("table") else ():
            first = [line.split(" | ")[0] for line in rows[head + 2 : head + 5]]
            assert first == [f"| {one.title}" for one in BASELINES], name
    kept = read_json(tmp_path / "table2" / "results.json")
    assert set(kept["rows"]["ruleqa-i"]) == {row.name for row in READING}
    assert set(kept["weights"]["ruleqa-i"]) == {
        f"{row.name}-0" for row in READING if row.reader == "hybrid"
    }
    curves = read_json(tmp_path / "figure3" / "reading.json")
    assert len(curves) == 5 and curves["bm25"]["k"] == [1, 5, 20]
    assert np.array(read_json(tmp_path / "figure5" / "reading.json")["gains"]).shape == (2, 2)


def test_the_command(plan: ReadingPlan, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    retrieval = plan.retrieval
    common = ["--out", str(tmp_path / "out"), "--datasets", str(retrieval.datasets)]
    common += ["--benchmarks", "ruleqa-i", "--queries", "4"]
    common += ["--reader", plan.others[0].model]
    assert main(["run", "table2", *common, "--rows", "none__llama"]) == 0
    assert "| standard prompting | – |" in capsys.readouterr().out
    assert main(["report", str(tmp_path / "out"), "--save", str(tmp_path / "saved")]) == 0
    assert (tmp_path / "saved" / "table2" / "results.json").exists()
    for words, said in (
        (["run", "table3", *common, "--other-readers", "weak=nowhere"], "NAME=FOLDER"),
        (["run", "table2", *common, "--rows", "none__lama"], "none__llama"),
        (["report", str(tmp_path)], "no finished run"),
    ):
        assert main(words) == 2
        assert said in capsys.readouterr().err
