"""The experiment runner: queries in batches through a pipeline, records on disk, then metrics.

The folder of a run::

    predictions.jsonl  one answered query a line, with its metrics; grows batch by batch
    run.json           fingerprints, stage seconds so far, whether the run is complete
    metrics.json       the result; appears when every query is answered
    run.trec           the documents that the reader saw, six TREC columns
    config.yaml        the configuration
"""

from __future__ import annotations

import logging
import os
import platform
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from tqdm import tqdm

from rulerag import __version__
from rulerag.cache import code_fingerprint
from rulerag.composition import Config, retriever_name
from rulerag.errors import (
    DataFormatError,
    EmptyDataError,
    FingerprintError,
    GenerationError,
    OutputError,
)
from rulerag.evaluation.metrics import (
    AnswerCoverage,
    AnswerMatcher,
    answer_metrics,
    mean_metrics,
    qrels_metrics,
)
from rulerag.folders import output_folder
from rulerag.io import (
    fingerprint_object,
    read_json,
    read_jsonl,
    to_json,
    write_json,
    write_text,
)
from rulerag.retrieval.base import write_run
from rulerag.types import Document, ScoredDocument

if TYPE_CHECKING:
    from rulerag.ruleqa import RuleQADataset
    from rulerag.types import Answer, Query

_LOG = logging.getLogger(__name__)

PREDICTIONS, RUN, METRICS, TREC, CONFIG = (
    "predictions.jsonl",
    "run.json",
    "metrics.json",
    "run.trec",
    "config.yaml",
)
BATCH = 512
"""Queries between two writes to disk."""
_STAGES = ("load", "retrieve", "generate", "total")
# Keys that describe an experiment; changing them does not change what it computes.
_DESCRIPTIVE = ("metadata", "expected")
# What the system counts resident memory in.
_UNITS_OF_A_MB = 1024 * 1024 if sys.platform == "darwin" else 1024
_PACKAGES = (
    "bm25s",
    "faiss-cpu",
    "ir_measures",
    "numba",
    "numpy",
    "openai",
    "pyserini",
    "scipy",
    "sentence-transformers",
    "torch",
    "transformers",
)


class AnsweringPipeline(Protocol):
    """What the runner needs of a pipeline."""

    @property
    def seconds(self) -> Mapping[str, float]:
        """Seconds spent so far by stage: ``retrieve``, ``generate``."""
        ...

    def answer(self, queries: Sequence[Query]) -> list[Answer]:
        """Answer queries in order."""
        ...


def run_experiment(
    pipeline: AnsweringPipeline,
    dataset: RuleQADataset,
    queries: Sequence[Query],
    out: str | Path,
    *,
    config: Mapping[str, Any] | None = None,
    top_k: int = 10,
    seed: int = 0,
    batch_size: int = BATCH,
    overwrite: bool = False,
    progress: bool = False,
    load_seconds: float = 0.0,
) -> dict[str, Any]:
    """Answer every query, score it, and write ``metrics.json``; return its content.

    A run that was stopped, by Ctrl-C or by a kill, goes on where it stopped when it is started
    again with the same configuration, data and code. While it goes, nobody else may write to its
    folder.

    Args:
        pipeline: answers the queries.
        dataset: whose queries they are; its judgements are used where there are any.
        queries: what to ask.
        out: the folder of the run.
        config: the experiment; its ``metadata``, ``retriever`` and ``generator.type`` name the run
            in ``metrics.json``.
        top_k: the k of the pipeline.
        seed: the seed of the run, for the record.
        batch_size: queries between two writes to disk.
        overwrite: throw away what another run left in the folder.
        progress: show a progress bar.
        load_seconds: what building the pipeline took, for the record.

    Raises:
        OutputError: the folder cannot be written, or another run writes there.
        EmptyDataError: there is no query.
        FingerprintError: the folder holds a run of another configuration, data or code.
        DataFormatError: a record of the run in the folder cannot be read.
        GenerationError: the pipeline's answers do not fit its queries.
    """
    if not queries:
        raise EmptyDataError("there is no query to run", hint="choose a query set that holds some")
    settings = config if isinstance(config, Config) else Config(config or {})
    fingerprints = {
        "config": fingerprint_object([settings.without(*_DESCRIPTIVE).to_dict(), top_k, seed]),
        "data": dataset.fingerprint,
        "queries": fingerprint_object([[q.to_json(), q.prediction] for q in queries]),
        "code": code_fingerprint(),
    }
    with output_folder(out) as folder:
        state = _State(folder, fingerprints)
        rows = state.begin(overwrite=overwrite)
        state.seconds["load"] += load_seconds
        _fill(rows, pipeline, queries, state, top_k=top_k, batch_size=batch_size, progress=progress)
        ordered = [rows[query.id] for query in queries]
        result = _result(settings, dataset, queries, ordered, state, top_k=top_k, seed=seed)
        rankings = {row["query_id"]: _ranking(row) for row in ordered}
        write_run(folder / TREC, rankings, "-".join(str(result["method"]).split()) or "rulerag")
        write_text(folder / CONFIG, settings.to_yaml())
        write_json(folder / METRICS, result)
        state.save(complete=True)
    return result


def _fill(
    rows: dict[str, dict[str, Any]],
    pipeline: AnsweringPipeline,
    queries: Sequence[Query],
    state: _State,
    *,
    top_k: int,
    batch_size: int,
    progress: bool,
) -> None:
    """Answer the queries that have no row yet; every batch is on disk before the next begins."""
    missing = [query for query in queries if query.id not in rows]
    done = len(queries) - len(missing)
    if done:
        _LOG.info("%d of %d queries stand already", done, len(queries))
    matcher, coverage = AnswerMatcher(), AnswerCoverage()
    with tqdm(
        total=len(queries), initial=done, desc="answering", unit="query", disable=not progress
    ) as bar:
        for start in range(0, len(missing), batch_size):
            batch = missing[start : start + batch_size]
            before, started = dict(pipeline.seconds), time.perf_counter()
            answers = _answer(pipeline, batch)
            fresh = [
                {
                    **answer.to_json(),
                    "union": [scored.document.id for scored in answer.union],
                    "metrics": answer_metrics(
                        answer, top_k=top_k, matcher=matcher, coverage=coverage
                    ),
                }
                for answer in answers
            ]
            seconds = {
                stage: pipeline.seconds.get(stage, 0.0) - before.get(stage, 0.0)
                for stage in ("retrieve", "generate")
            }
            state.append(fresh, {**seconds, "total": time.perf_counter() - started})
            rows.update((row["query_id"], row) for row in fresh)
            bar.update(len(batch))


@dataclass
class _State:
    """What is on disk of a run."""

    folder: Path
    fingerprints: dict[str, str]
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_STAGES, 0.0))

    def begin(self, *, overwrite: bool) -> dict[str, dict[str, Any]]:
        """Check whose run is in the folder; return its rows by query id."""
        stands = self.folder / RUN
        if stands.exists() and not overwrite:
            self._compare(read_json(stands), stands)
            rows = _read_rows(self.folder / PREDICTIONS)
        else:
            if (self.folder / PREDICTIONS).exists() and not overwrite:
                raise FingerprintError(
                    f"holds predictions of an unknown run (it has no {RUN})",
                    path=self.folder,
                    hint="choose another folder, or start afresh with --overwrite",
                )
            for name in (METRICS, TREC, CONFIG, PREDICTIONS):
                (self.folder / name).unlink(missing_ok=True)
            rows = {}
        self.save(complete=False)
        return rows

    def _compare(self, run: Any, path: Path) -> None:
        known = run.get("fingerprints") if isinstance(run, dict) else None
        if not isinstance(known, dict) or not isinstance(run.get("seconds"), dict):
            raise DataFormatError(
                "is no record of a run", path=path, hint="start afresh with --overwrite"
            )
        other = [name for name, value in self.fingerprints.items() if known.get(name) != value]
        if other:
            raise FingerprintError(
                f"holds a run with other {' and '.join(other)} (fingerprints differ)",
                path=self.folder,
                hint="choose another folder with --out, or start afresh with --overwrite",
            )
        self.seconds.update({stage: float(run["seconds"].get(stage, 0.0)) for stage in _STAGES})

    def append(self, rows: Sequence[Mapping[str, Any]], seconds: Mapping[str, float]) -> None:
        """Add the records of one batch; they are on disk when this returns."""
        try:
            with open(self.folder / PREDICTIONS, "a", encoding="utf-8", newline="\n") as file:
                file.write("".join(to_json(row) + "\n" for row in rows))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise OutputError(
                f"cannot be written ({error.strerror})", path=self.folder / PREDICTIONS
            ) from error
        for stage, value in seconds.items():
            self.seconds[stage] += value
        self.save(complete=False)

    def save(self, *, complete: bool) -> None:
        """Write the record of the run."""
        write_json(
            self.folder / RUN,
            {"complete": complete, "fingerprints": self.fingerprints, "seconds": self.seconds},
        )


def _read_rows(path: Path) -> dict[str, dict[str, Any]]:
    """The records by query id; a last line that a kill left unfinished is cut off."""
    if not path.exists():
        return {}
    size = path.stat().st_size
    with open(path, "rb+") as file:
        content = file.read()
        end = content.rfind(b"\n") + 1
        if end < size:
            file.truncate(end)
    rows: dict[str, dict[str, Any]] = {}
    for number, row in enumerate(read_jsonl(path), start=1):
        if not isinstance(row.get("query_id"), str) or not isinstance(row.get("metrics"), dict):
            raise DataFormatError(
                "is no record of an answered query",
                path=path,
                line=number,
                hint="start afresh with --overwrite",
            )
        rows[row["query_id"]] = row
    return rows


def _answer(pipeline: AnsweringPipeline, batch: Sequence[Query]) -> list[Answer]:
    answers = pipeline.answer(batch)
    if [answer.query.id for answer in answers] != [query.id for query in batch]:
        raise GenerationError("the pipeline's answers are not those of its queries, in order")
    return answers


def _result(
    config: Config,
    dataset: RuleQADataset,
    queries: Sequence[Query],
    rows: Sequence[Mapping[str, Any]],
    state: _State,
    *,
    top_k: int,
    seed: int,
) -> dict[str, Any]:
    rankings = {row["query_id"]: [doc["id"] for doc in row["documents"]] for row in rows}
    judged = qrels_metrics(dataset.qrels_for(queries), rankings, top_k=top_k)
    answered = [row["metrics"]["exact_match"] for row in rows if "refused" not in row]
    if len(answered) < len(rows):
        judged["refused"] = 1 - len(answered) / len(rows)
        judged["exact_match_answered"] = sum(answered) / max(len(answered), 1)
    seconds = dict(state.seconds)
    seconds["total"] += seconds["load"]
    return {
        "benchmark": config.read("metadata.benchmark", str, dataset.name),
        "method": config.read("metadata.method", str, ""),
        "retriever": retriever_name(config.section("retriever")),
        "generator": config.read("generator.type", str, ""),
        "num_queries": len(queries),
        "metrics": {**mean_metrics([row["metrics"] for row in rows]), **judged},
        "seconds": {stage: round(seconds[stage], 3) for stage in _STAGES},
        "seed": seed,
        "config": config.to_dict(),
        "versions": versions(),
    }


def _ranking(row: Mapping[str, Any]) -> list[ScoredDocument]:
    """The documents of a record, with scores that every tool sorts as the reader saw them.

    Tools sort a run by score, in single precision, and break ties by document id. Where the
    scores do not fall strictly in that precision, they count down the ranks instead.
    """
    scores = [float(document["score"]) for document in row["documents"]]
    if not (np.diff(np.array(scores, dtype=np.float32)) < 0).all():
        scores = [float(len(scores) - place) for place in range(len(scores))]
    return [
        ScoredDocument(Document(document["id"], document["text"]), score, rank)
        for rank, (document, score) in enumerate(zip(row["documents"], scores, strict=True), 1)
    ]


def versions() -> dict[str, str]:
    """Versions of Python, of rulerag and of the installed packages that decide results."""
    installed = {"python": platform.python_version(), "rulerag": __version__}
    for package in _PACKAGES:
        try:
            installed[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return installed


def peak_memory_mb() -> float:
    """The largest resident size of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _UNITS_OF_A_MB
