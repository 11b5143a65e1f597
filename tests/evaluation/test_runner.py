"""The runner: its files, resuming after every kind of stop, and whose run a folder holds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ir_measures
import pytest

from rulerag.composition.config import Config, load_config
from rulerag.errors import (
    DataFormatError,
    EmptyDataError,
    FingerprintError,
    GenerationError,
    OutputError,
)
from rulerag.evaluation.metrics import metric
from rulerag.evaluation.runner import run_experiment
from rulerag.pipeline import RuleRAGPipeline
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.types import Answer, Query

ROOT = Path(__file__).resolve().parent.parent.parent
CONFIG = Config(
    {
        "metadata": {"benchmark": "people", "method": "plain BM25", "description": "by hand"},
        "retriever": {"type": "bm25"},
        "generator": {"type": "symbolic"},
        "top_k": 3,
    }
)
Make = Callable[[], RuleRAGPipeline]


def run(make: Callable[[], Any], dataset: RuleQADataset, out: Path, **changes: Any) -> Any:
    options: dict[str, Any] = {"config": CONFIG, "top_k": 3, "batch_size": 7, **changes}
    queries = options.pop("queries", dataset.query_set("full"))
    return run_experiment(make(), dataset, queries, out, **options)


class Watched:
    """A pipeline that remembers what it was asked, and fails after some batches."""

    def __init__(self, inner: RuleRAGPipeline, batches: int = -1) -> None:
        self.inner, self.batches, self.seconds = inner, batches, inner.seconds
        self.asked: list[str] = []

    def answer(self, queries: Sequence[Query]) -> list[Answer]:
        if self.batches == 0:
            raise GenerationError("busy", retryable=True)
        self.batches -= 1
        self.asked += [query.id for query in queries]
        return self.inner.answer(queries)


def files(folder: Path) -> dict[str, bytes]:
    """What a run leaves, but for the seconds that it took."""
    found = {}
    for name in ("predictions.jsonl", "run.trec", "config.yaml"):
        found[name] = (folder / name).read_bytes()
    metrics = json.loads((folder / "metrics.json").read_text())
    del metrics["seconds"]
    found["metrics.json"] = json.dumps(metrics).encode()
    return found


def test_a_run_by_hand(make_pipeline: Make, dataset: RuleQADataset, tmp_path: Path) -> None:
    result: Any = run(make_pipeline, dataset, tmp_path, seed=3, load_seconds=1.5)
    names = "benchmark method retriever generator num_queries metrics seconds seed config versions"
    assert list(result) == names.split()
    assert result == json.loads((tmp_path / "metrics.json").read_text())
    assert (result["benchmark"], result["method"]) == ("people", "plain BM25")
    assert (result["retriever"], result["generator"]) == ("bm25", "symbolic")
    assert (result["num_queries"], result["seed"]) == (40, 3)
    assert {"python", "rulerag", "numpy", "bm25s"} <= set(result["versions"])
    metrics, seconds = result["metrics"], result["seconds"]
    # 8 of 40 queries ask for Rome; BM25 finds each person's document first; the reader reads it.
    assert metrics["answer_recall@1"] == metrics["answer_recall@3"] == metrics["exact_match"] == 0.8
    assert metrics["recall@3"] == metrics["mrr@3"] == metrics["ndcg@3"] == 1.0
    assert metrics["documents_per_query"] == 3.0
    assert all(metric(name).name == name for name in metrics)
    assert set(seconds) == {"load", "retrieve", "generate", "total"} and seconds["load"] == 1.5
    assert seconds["total"] >= seconds["load"] + seconds["retrieve"] + seconds["generate"] - 0.01
    assert load_config(tmp_path / "config.yaml") == CONFIG


def test_records_are_whole_and_the_run_file_gives_the_same_measures(
    make_pipeline: Make, dataset: RuleQADataset, tmp_path: Path
) -> None:
    result: Any = run(make_pipeline, dataset, tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    assert [row["query_id"] for row in rows] == [f"q{n}" for n in range(40)]
    assert (rows[1]["answer"], rows[1]["documents"][0]["id"]) == ("Ely", "d1")
    assert rows[1]["metrics"]["exact_match"] == 1.0 and rows[1]["union"] == []
    trec = ir_measures.read_trec_run(str(tmp_path / "run.trec"))
    found = ir_measures.calc_aggregate([ir_measures.nDCG @ 3], dataset.qrels(), trec)
    assert found[ir_measures.nDCG @ 3] == result["metrics"]["ndcg@3"]
    # "Person 1" and every other person tie on the second place; trec_eval would sort ties by id.
    scores = [document["score"] for document in rows[1]["documents"]]
    assert scores[1] == scores[2]
    lines = [line.split() for line in (tmp_path / "run.trec").read_text().splitlines()]
    assert lines[0][:4] == ["q0", "Q0", "d0", "1"] and lines[0][5] == "plain-BM25"
    assert [line[2] for line in lines[3:6]] == [one["id"] for one in rows[1]["documents"]]
    assert [float(line[4]) for line in lines[3:6]] == [3.0, 2.0, 1.0]


@pytest.mark.parametrize("lost", [0, 1, 5000])
def test_a_stopped_run_goes_on_where_it_stopped(
    make_pipeline: Make, dataset: RuleQADataset, tmp_path: Path, lost: int
) -> None:
    """After a failing provider, or a kill that cut the last line of the records."""
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    first = run(make_pipeline, dataset, whole)
    with pytest.raises(GenerationError):
        run(lambda: Watched(make_pipeline(), 2), dataset, stopped)
    assert not (stopped / "metrics.json").exists()
    assert json.loads((stopped / "run.json").read_text())["complete"] is False
    predictions = stopped / "predictions.jsonl"
    content = predictions.read_bytes()
    predictions.write_bytes(content[: len(content) - lost])
    kept = predictions.read_bytes().count(b"\n")
    watched = Watched(make_pipeline())
    run(lambda: watched, dataset, stopped)
    assert watched.asked == [f"q{number}" for number in range(kept, 40)]
    assert files(stopped) == files(whole)
    # A finished run asks nothing again, whatever it is called and expected to give.
    watched = Watched(make_pipeline())
    assert run(lambda: watched, dataset, whole) == first and watched.asked == []
    changed = CONFIG.to_dict() | {
        "metadata": {"benchmark": "people", "method": "another name"},
        "expected": {"exact_match": {"value": 0.8, "tolerance": 0.0, "source": "by hand"}},
    }
    assert run(make_pipeline, dataset, whole, config=changed)["method"] == "another name"


def test_a_folder_of_another_run_is_refused(
    make_pipeline: Make, dataset: RuleQADataset, tmp_path: Path
) -> None:
    run(make_pipeline, dataset, tmp_path)
    before = files(tmp_path)
    guided = {"type": "guided", "merge": "evidence", "retriever": {"type": "bm25"}}
    other: dict[str, Any] = {"config": CONFIG.to_dict() | {"retriever": guided}}
    less = RuleQADataset(corpus=dataset.corpus[:-1], queries=dataset.queries)
    for what, data, changes in (
        ("other config", dataset, other),
        ("other config", dataset, {"seed": 1}),
        ("other queries", dataset, {"queries": dataset.query_set("balanced")}),
        (r"other data \(", less, {}),
    ):
        with pytest.raises(FingerprintError, match=f"holds a run with {what}.* --overwrite"):
            run(make_pipeline, data, tmp_path, **changes)
    assert files(tmp_path) == before
    for options in ({"overwrite": True}, {}):
        result = run(make_pipeline, dataset, tmp_path, **options, **other)
        assert (result["num_queries"], result["retriever"]) == (40, "bm25-guided")


def test_wrong_arguments(make_pipeline: Make, dataset: RuleQADataset, tmp_path: Path) -> None:
    with pytest.raises(EmptyDataError, match="there is no query to run"):
        run(make_pipeline, dataset, tmp_path, queries=[])
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match="cannot be written"):
        run(make_pipeline, dataset, tmp_path / "file" / "run")

    class Forgetful(Watched):
        def answer(self, queries: Sequence[Query]) -> list[Answer]:
            return super().answer(queries)[1:]

    with pytest.raises(GenerationError, match="are not those of its queries"):
        run(lambda: Forgetful(make_pipeline()), dataset, tmp_path / "run")


def test_damaged_folders_are_told(
    make_pipeline: Make, dataset: RuleQADataset, tmp_path: Path
) -> None:
    run(make_pipeline, dataset, tmp_path)
    predictions = tmp_path / "predictions.jsonl"
    lines = predictions.read_text().splitlines()
    predictions.write_text("\n".join([lines[0], "{}", *lines[2:]]) + "\n")
    with pytest.raises(
        DataFormatError, match=r"predictions.jsonl, line 2: is no record of an answ"
    ):
        run(make_pipeline, dataset, tmp_path)
    (tmp_path / "run.json").write_text("[]")
    with pytest.raises(DataFormatError, match=r"run\.json: is no record of a run"):
        run(make_pipeline, dataset, tmp_path)
    (tmp_path / "run.json").unlink()
    with pytest.raises(FingerprintError, match="predictions of an unknown run"):
        run(make_pipeline, dataset, tmp_path)
    assert run(make_pipeline, dataset, tmp_path, overwrite=True)["num_queries"] == 40


SCRIPT = """
import sys, time
from pathlib import Path
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.evaluation.runner import run_experiment
from rulerag.types import Answer, Completion

class Slow:
    seconds = {}

    def answer(self, queries):
        print("batch", flush=True)
        time.sleep(float(sys.argv[3]))
        return [Answer(query, Completion("Bath")) for query in queries]

dataset = RuleQADataset.load(Path(sys.argv[1]))
run_experiment(Slow(), dataset, dataset.query_set("full"), sys.argv[2], batch_size=4)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_process_that_is_stopped_can_be_started_again(
    dataset: RuleQADataset, tmp_path: Path, number: signal.Signals
) -> None:
    dataset.save(tmp_path / "data")
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def command(out: str, seconds: str) -> list[str]:
        return [sys.executable, str(script), str(tmp_path / "data"), str(tmp_path / out), seconds]

    subprocess.run(command("whole", "0"), env=environment, check=True, stdout=subprocess.DEVNULL)
    with subprocess.Popen(
        command("stopped", "0.3"),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        for _ in range(3):
            process.stdout.readline()
        process.send_signal(number)
        process.wait(timeout=20)
    stands = (tmp_path / "stopped" / "predictions.jsonl").read_bytes().count(b"\n")
    assert 4 <= stands < 40
    assert not (tmp_path / "stopped" / "metrics.json").exists()
    subprocess.run(command("stopped", "0"), env=environment, check=True, stdout=subprocess.DEVNULL)
    assert files(tmp_path / "stopped") == files(tmp_path / "whole")
