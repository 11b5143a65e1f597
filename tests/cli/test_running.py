"""``rulerag evaluate`` and ``rulerag demo``."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rulerag.ruleqa import DatasetInfo
from rulerag.ruleqa.dataset import RuleQADataset

ROOT = Path(__file__).resolve().parents[2]
WEIGHED = "generator: {type: symbolic, evidence: %s}\n"
Refused = Callable[..., str]
Write = Callable[..., Path]


def test_an_experiment_is_run_and_told(experiment: Write, rulerag: Any, tmp_path: Path) -> None:
    file, out = (
        experiment("expected: {exact_match: {value: 0.9, tolerance: 0.5}}\n"),
        tmp_path / "o",
    )
    result = rulerag("evaluate", file, "--out", out)
    assert result.code == 0
    assert "%|" not in result.err + result.out
    names = {path.name for path in out.iterdir()}
    assert {"metrics.json", "predictions.jsonl", "run.trec", "config.yaml"} <= names
    metrics = json.loads((out / "metrics.json").read_text())
    assert list(metrics) == [
        *("benchmark", "method", "retriever", "generator", "num_queries", "metrics", "seconds"),
        *("seed", "config", "versions"),
    ]
    told = {line.split()[1]: float(line.split()[0]) for line in table(result.out)}
    assert told["exact_match"] == pytest.approx(100 * metrics["metrics"]["exact_match"], abs=0.05)
    assert "expected exact_match 90.0 ± 50.0: met" in result.out
    assert f"written to {out}; read {out / 'report.html'}" in result.out
    page = (out / "report.html").read_text()
    right = round(metrics["metrics"]["exact_match"] * metrics["num_queries"])
    assert f"{right} right, {told['exact_match']:.1f} %" in page
    assert "rulerag evaluate " in page and "± 50.0" in page


def table(out: str) -> list[str]:
    """The lines of a metric each."""
    lines = out.splitlines()
    start = lines.index("value  metric") + 1
    return [line for line in lines[start:] if len(line.split()) == 2 and line[0] == " "]


def test_a_rerun_resumes_and_another_run_is_refused(
    experiment: Write, rulerag: Any, refused: Refused, tmp_path: Path
) -> None:
    file, out = experiment(), tmp_path / "out"
    assert rulerag("evaluate", file, "--out", out, "--quiet").code == 0
    before = (out / "predictions.jsonl").read_text()
    again = rulerag("evaluate", file, "--out", out, "--quiet")
    assert (again.code, again.err.split(" queries ")[1]) == (0, "stand already\n")
    assert (out / "predictions.jsonl").read_text() == before
    told = refused("evaluate", file, "top_k=5", "--out", out, "--quiet")
    assert "holds a run with other config" in told and "--overwrite" in told
    told = refused("evaluate", file, "--out", out, "--limit", 3, "--quiet")
    assert "holds a run with other queries" in told
    assert rulerag("evaluate", file, "top_k=5", "--out", out, "--quiet", "--overwrite").code == 0
    assert json.loads((out / "metrics.json").read_text())["config"]["top_k"] == 5


def test_ctrl_c_keeps_what_was_answered_and_a_rerun_goes_on(
    dated_dataset: RuleQADataset, experiment: Write, rulerag: Any, tmp_path: Path
) -> None:
    asked = dated_dataset.query_set("full")
    copies = 4000 // len(asked)
    many = [replace(q, id=f"{q.id}-{n}") for n in range(copies) for q in asked]
    corpus, rules = dated_dataset.corpus, dated_dataset.rules
    RuleQADataset(
        corpus=corpus,
        queries={"test": many},
        rules=rules,
        info=DatasetInfo(calendar=dated_dataset.calendar),
    ).save(tmp_path / "many")
    file, out = experiment(dataset=tmp_path / "many"), tmp_path / "out"
    command = [sys.executable, "-m", "rulerag.cli", "evaluate", str(file), "--out", str(out)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    predictions = out / "predictions.jsonl"
    while process.poll() is None and not (
        predictions.exists() and b"\n" in predictions.read_bytes()
    ):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    last = err.splitlines()[-1]
    assert last == "interrupted; answered queries are kept, the same command goes on from there"
    assert "Traceback" not in err
    kept = predictions.read_text().rpartition("\n")[0].splitlines()
    assert 0 < len(kept) < len(many)
    assert not (out / "metrics.json").exists()

    again = rulerag("evaluate", file, "--out", out, "--quiet")
    assert again.code == 0
    assert again.err == f"{len(kept)} of {len(many)} queries stand already\n"
    rows = predictions.read_text().splitlines()
    assert rows[: len(kept)] == kept
    assert [json.loads(row)["query_id"] for row in rows] == [query.id for query in many]
    once = rulerag("evaluate", file, "--out", tmp_path / "once", "--quiet")
    assert table(again.out) == table(once.out)


@pytest.mark.parametrize(
    ("more", "arguments", "message"),
    [
        ("", ("topk=5",), "experiment.yaml, key 'topk': no such key to override — did you mean"),
        ("", ("top_k",), "the override 'top_k' is not key=value"),
        ("", ("top_k=ten",), "key 'top_k': expected a whole number"),
        ("", ("top_k=0",), "key 'top_k': 0 is below 1"),
        ("", ("query_set=hard",), "has no query set 'hard'"),
        ("", ("retriever.type=bm52",), "no retriever is called 'bm52' — did you mean 'bm25'?"),
        ("", ("dataset.path=nowhere",), "key 'dataset.path': the dataset folder nowhere is not"),
        ("", ("--limit", "0"), "key 'limit': 0 is below 1"),
        ("topk: 5\n", (), "experiment.yaml, key 'topk': unknown key — did you mean 'top_k'?"),
        (WEIGHED % "{prio: 5}", (), "'generator.evidence.prio': unknown key — did you mean 'prior"),
        (WEIGHED % "{prior: -5}", (), "yaml, key 'generator.evidence.prior': -5 is below 0"),
        (
            WEIGHED % "{prior: a}",
            (),
            "'generator.evidence.prior': expected a number, found 'a'",
        ),
        (WEIGHED % "5", (), "key 'generator.evidence': expected a section of keys"),
        ("", ("evidence.prior=-5",), "the override 'evidence.prior' fits several keys — retriever"),
        ("", ("generator.evidence.prior=-5",), "key 'generator.evidence.prior': -5 is below 0"),
        ("guided: {merge: rank}\n", (), "key 'guided': unknown key"),
        ("extends: nowhere.yaml\n", (), "nowhere.yaml: no such file"),
        ("seed: {", (), "experiment.yaml, line "),
        ("reader_rules: some\n", (), "key 'reader_rules': unknown choice 'some'"),
    ],
)
def test_bad_experiments(
    more: str,
    arguments: tuple[str, ...],
    message: str,
    experiment: Write,
    refused: Refused,
    tmp_path: Path,
) -> None:
    file = experiment(more)
    assert message in refused("evaluate", file, *arguments, "--out", tmp_path / "o", "--quiet")


def test_bad_places(experiment: Write, refused: Refused, tmp_path: Path, blocked: Path) -> None:
    file = experiment()
    assert "no such file" in refused("evaluate", tmp_path / "no.yaml", "--out", tmp_path / "o")
    assert "is a folder" in refused("evaluate", tmp_path, "--out", tmp_path / "o")
    assert "cannot be written" in refused("evaluate", file, "--out", blocked)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "predictions.jsonl").write_text("{}\n")
    told = refused("evaluate", file, "--out", tmp_path / "foreign", "--quiet")
    assert "predictions of an unknown run" in told


def test_a_dataset_that_changed(
    experiment: Write, dated_dataset: RuleQADataset, refused: Refused, tmp_path: Path
) -> None:
    folder = tmp_path / "copy"
    dated_dataset.save(folder)
    rules = (folder / "rules.jsonl").read_text()
    (folder / "rules.jsonl").write_text(rules.replace('"support": ', '"support": 1', 1))
    told = refused("evaluate", experiment(dataset=folder), "--out", tmp_path / "o", "--quiet")
    assert f"{folder / 'rules.jsonl'}: has the fingerprint" in told


def test_the_demo_tells_what_it_does(rulerag: Any, refused: Refused, tmp_path: Path) -> None:
    out = tmp_path / "new" / "demo"
    result = rulerag("demo", "--facts", 600, "--out", out, "--quiet")
    assert (result.code, result.err) == (0, "")
    assert result.out.count("precision 1.00, recall 1.00") == 2
    assert str(out / "report.html") in result.out
    again = rulerag("demo", "--facts", 600, "--out", out, "--quiet")  # over its own output
    assert again.code == 0


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [("--facts", 10, "10 is out of range — 100 to"), ("--seed", -1, "-1 is out of range")],
)
def test_a_demo_that_cannot_be(
    option: str, value: int, message: str, refused: Refused, tmp_path: Path, blocked: Path
) -> None:
    assert message in refused("demo", option, value, "--out", tmp_path / "demo")
    assert "cannot be written" in refused("demo", "--out", blocked)
