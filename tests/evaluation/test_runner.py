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
from rulerag.evaluation.runner import run_experiment, versions
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


def run(make: Make, dataset: RuleQADataset, out: Path, **changes: object) -> dict[str, object]:
    options: dict[str, object] = {"config": CONFIG, "top_k": 3, "batch_size": 7, **changes}
    queries = dataset.query_set("full")
    return run_experiment(make(), dataset, queries, out, **options)  # type: ignore[arg-type]


class Stopping:
    """A pipeline that stops after some batches, as Ctrl-C or a failing provider would."""

    def __init__(self, inner: RuleRAGPipeline, batches: int, error: BaseException) -> None:
        self.inner, self.left, self.error = inner, batches, error
        self.seconds = inner.seconds

    def answer(self, queries: Sequence[Query]) -> list[Answer]:
        if self.left == 0:
            raise self.error
        self.left -= 1
        return self.inner.answer(queries)


class Counting(Stopping):
    """A pipeline that remembers what it was asked."""

    def __init__(self, inner: RuleRAGPipeline) -> None:
        super().__init__(inner, -1, RuntimeError())
        self.asked: list[str] = []

    def answer(self, queries: Sequence[Query]) -> list[Answer]:
        self.asked += [query.id for query in queries]
        return super().answer(queries)


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
    result = run(make_pipeline, dataset, tmp_path / "run", seed=3, load_seconds=1.5)
    assert list(result) == [
        "benchmark",
        "method",
        "retriever",
        "generator",
        "num_queries",
        "metrics",
        "seconds",
        "seed",
        "config",
        "versions",
    ]
    assert result == json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert (result["benchmark"], result["method"]) == ("people", "plain BM25")
    assert (result["retriever"], result["generator"]) == ("bm25", "symbolic")
    assert (result["num_queries"], result["seed"]) == (40, 3)
    metrics = result["metrics"]
    assert isinstance(metrics, dict)
    # 8 of 40 queries ask for Rome; BM25 finds each person's document first; the reader reads it.
    assert metrics["answer_recall@1"] == metrics["answer_recall@3"] == metrics["exact_match"] == 0.8
    assert metrics["recall@3"] == metrics["mrr@3"] == metrics["ndcg@3"] == 1.0
    assert metrics["documents_per_query"] == 3.0
    for name in metrics:
        assert metric(name).name == name
    seconds = result["seconds"]
    assert isinstance(seconds, dict)
    assert set(seconds) == {"load", "retrieve", "generate", "total"}
    assert seconds["total"] >= seconds["load"] + seconds["retrieve"] + seconds["generate"] - 0.01
    assert seconds["load"] == 1.5
    assert load_config(tmp_path / "run" / "config.yaml") == CONFIG


def test_a_guided_retriever_is_named_so(
    make_pipeline: Make, dataset: RuleQADataset, tmp_path: Path
) -> None:
    section = {"type": "guided", "merge": "evidence", "retriever": {"type": "bm25"}}
    guided = CONFIG.to_dict() | {"retriever": section}
    assert run(make_pipeline, dataset, tmp_path, config=guided)["retriever"] == "bm25-guided"


def test_records_are_whole(make_pipeline: Make, dataset: RuleQADataset, tmp_path: Path) -> None:
    run(make_pipeline, dataset, tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    assert [row["query_id"] for row in rows] == [f"q{n}" for n in range(40)]
    assert rows[1]["answer"] == "Ely"
    assert rows[1]["documents"][0]["id"] == "d1"
    assert rows[1]["metrics"]["exact_match"] == 1.0
    assert rows[1]["union"] == []


def test_the_run_file_gives_the_same_measures(
    make_pipeline: Make, dataset: RuleQADataset, tmp_path: Path
) -> None:
    result = run(make_pipeline, dataset, tmp_path)
    qrels = dataset.qrels()
    trec = ir_measures.read_trec_run(str(tmp_path / "run.trec"))
    found = ir_measures.calc_aggregate([ir_measures.nDCG @ 3, ir_measures.RR @ 3], qrels, trec)
    assert found[ir_measures.nDCG @ 3] == result["metrics"]["ndcg@3"]  # type: ignore[index]
    first = (tmp_path / "run.trec").read_text().splitlines()[0].split()
    assert first[:4] == ["q0", "Q0", "d0", "1"] and first[5] == "plain-BM25"


def test_tied_scores_keep_their_order_in_the_run_file(
    make_pipeline: Make, dataset: RuleQADataset, tmp_path: Path
) -> None:
    # "Person 1" and every other person tie on the second place; trec_eval would sort ties by id.
    run(make_pipeline, dataset, tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    scores = [document["score"] for document in rows[1]["documents"]]
    assert scores[1] == scores[2]
    lines = [line.split() for line in (tmp_path / "run.trec").read_text().splitlines()[3:6]]
    assert [line[2] for line in lines] == [document["id"] for document in rows[1]["documents"]]
    assert [float(line[4]) for line in lines] == [3.0, 2.0, 1.0]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), GenerationError("busy", retryable=True)])
def test_a_stopped_run_goes_on_where_it_stopped(
    make_pipeline: Make, dataset: RuleQADataset, tmp_path: Path, error: BaseException
) -> None:
    run(make_pipeline, dataset, tmp_path / "whole")
    with pytest.raises(type(error)):
        run(lambda: Stopping(make_pipeline(), 2, error), dataset, tmp_path / "stopped")  # type: ignore[arg-type, return-value]
    assert not (tmp_path / "stopped" / "metrics.json").exists()
    assert json.loads((tmp_path / "stopped" / "run.json").read_text())["complete"] is False
    counting = Counting(make_pipeline())
    run(lambda: counting, dataset, tmp_path / "stopped")  # type: ignore[arg-type, return-value]
    assert counting.asked == [f"q{number}" for number in range(14, 40)]
    assert files(tmp_path / "stopped") == files(tmp_path / "whole")


@pytest.mark.parametrize("lost", [1, 30, 5000])
def test_a_killed_writer_is_forgiven(
    make_pipeline: Make, dataset: RuleQADataset, tmp_path: Path, lost: int
) -> None:
    run(make_pipeline, dataset, tmp_path / "whole")
    run(make_pipeline, dataset, tmp_path / "killed")
    predictions = tmp_path / "killed" / "predictions.jsonl"
    predictions.write_bytes(predictions.read_bytes()[:-lost])
    (tmp_path / "killed" / "metrics.json").unlink()
    run(make_pipeline, dataset, tmp_path / "killed")
    assert files(tmp_path / "killed") == files(tmp_path / "whole")


def test_a_finished_run_asks_nothing_again(
    make_pipeline: Make, dataset: RuleQADataset, tmp_path: Path
) -> None:
    first = run(make_pipeline, dataset, tmp_path)
    counting = Counting(make_pipeline())
    again = run(lambda: counting, dataset, tmp_path)  # type: ignore[arg-type, return-value]
    assert counting.asked == []
    assert again == first


def test_descriptions_and_expected_numbers_do_not_change_a_run(
    make_pipeline: Make, dataset: RuleQADataset, tmp_path: Path
) -> None:
    run(make_pipeline, dataset, tmp_path)
    told = CONFIG.to_dict() | {
        "metadata": {"benchmark": "people", "method": "told better"},
        "expected": {"exact_match": {"value": 0.8, "tolerance": 0.0, "source": "by hand"}},
    }
    assert run(make_pipeline, dataset, tmp_path, config=told)["method"] == "told better"


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"config": CONFIG.to_dict() | {"retriever": {"type": "lucene"}}}, "other config"),
        ({"seed": 1}, "other config"),
    ],
)
def test_a_folder_of_another_run_is_refused(
    make_pipeline: Make,
    dataset: RuleQADataset,
    tmp_path: Path,
    changes: dict[str, object],
    what: str,
) -> None:
    run(make_pipeline, dataset, tmp_path)
    before = files(tmp_path)
    with pytest.raises(FingerprintError, match=f"holds a run with {what} .* --overwrite"):
        run(make_pipeline, dataset, tmp_path, **changes)
    assert files(tmp_path) == before
    assert run(make_pipeline, dataset, tmp_path, overwrite=True, **changes)["num_queries"] == 40
    assert run(make_pipeline, dataset, tmp_path, **changes)["num_queries"] == 40


def test_other_queries_and_other_data_are_another_run(
    make_pipeline: Make, dataset: RuleQADataset, tmp_path: Path
) -> None:
    run(make_pipeline, dataset, tmp_path)
    balanced = dataset.query_set("balanced")
    with pytest.raises(FingerprintError, match="other queries"):
        run_experiment(make_pipeline(), dataset, balanced, tmp_path, config=CONFIG, top_k=3)
    other = RuleQADataset(corpus=dataset.corpus[:-1], queries=dataset.queries)
    with pytest.raises(FingerprintError, match=r"other data \("):
        run(make_pipeline, other, tmp_path)


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


def test_wrong_arguments(make_pipeline: Make, dataset: RuleQADataset, tmp_path: Path) -> None:
    with pytest.raises(EmptyDataError, match="there is no query to run"):
        run_experiment(make_pipeline(), dataset, [], tmp_path)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match="cannot be written"):
        run(make_pipeline, dataset, tmp_path / "file" / "run")

    class Forgetful(Counting):
        def answer(self, queries: Sequence[Query]) -> list[Answer]:
            return super().answer(queries)[1:]

    with pytest.raises(GenerationError, match="are not those of its queries"):
        run(lambda: Forgetful(make_pipeline()), dataset, tmp_path / "run")  # type: ignore[arg-type, return-value]


def test_versions_name_what_decides_results() -> None:
    assert {"python", "rulerag", "numpy", "bm25s"} <= set(versions())


def test_progress_is_shown_on_request(
    make_pipeline: Make,
    dataset: RuleQADataset,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(make_pipeline, dataset, tmp_path / "quiet")
    assert capsys.readouterr().err == ""
    run(make_pipeline, dataset, tmp_path / "loud", progress=True)
    assert "answering" in capsys.readouterr().err


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
