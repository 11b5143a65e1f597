"""One stage of an experiment alone: retrieval, or reading from a saved run.

A run is three files that share a path::

    PLACE.json         identity, metrics, seconds, and what the caller says about the run
    PLACE.npz          retrieval: the documents found (:class:`SearchResults`)
    PLACE.values.npz   one value a query of each measure

The identity names everything that decides the numbers, but the code. A record of the same identity
is not made again; where it lacks a measure, it is measured again from what was found or answered.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.stages.answers import READING_MEASURES, Columns, reading_columns
from benchmarks.stages.own_process import in_own_process
from benchmarks.stages.search_results import (
    DEPTH,
    RETRIEVAL_MEASURES,
    UNION_K,
    SearchResults,
    mean_columns,
)
from rulerag.evaluation import peak_memory_mb, versions
from rulerag.io import atomic_write, read_json, write_json
from rulerag.pipeline import UnionRetriever
from rulerag.types import Completion, Document, GenerationRequest, Query

if TYPE_CHECKING:
    from rulerag.protocols import Guides, Retriever
    from rulerag.ruleqa import RuleQADataset


@dataclass(frozen=True)
class RunRecord:
    """The record of one run on disk.

    Args:
        place: its path without suffix; the name may contain dots.
        identity: a fingerprint of everything that decides the run's numbers.
    """

    place: Path
    identity: str

    def file(self, suffix: str) -> Path:
        """One of the run's files."""
        return self.place.parent / f"{self.place.name}{suffix}"

    def known(self) -> dict[str, Any]:
        """The record on disk; empty where there is none of this identity."""
        file = self.file(".json")
        record = dict(read_json(file)) if file.exists() else {}
        return record if record.get("identity") == self.identity else {}

    def finished(self, measures: Collection[str] = ()) -> dict[str, Any] | None:
        """The record if it has all of these measures."""
        record = self.known()
        return record if record and record["metrics"].keys() >= set(measures) else None

    def write(
        self, record: Mapping[str, Any], values: Columns, **arrays: np.ndarray[Any, Any]
    ) -> dict[str, Any]:
        """Write values and record; return the record with identity and mean metrics.

        Args:
            record: the other keys of the record.
            values: one value a query of each measure, arrays of shape (n,).
            arrays: what else is kept with the values.
        """
        self.place.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(self.file(".values.npz"), "wb") as file:
            np.savez_compressed(file, **arrays, **values)  # type: ignore[arg-type]
        made = {"identity": self.identity, **record, "metrics": mean_columns(values)}
        write_json(self.file(".json"), made)
        return made


def run_retrieval(
    record: RunRecord,
    open_retriever: Callable[[], Retriever],
    dataset: RuleQADataset,
    queries: Sequence[Query],
    *,
    about: Mapping[str, Any],
    isolate: bool,
) -> dict[str, Any]:
    """Retrieve for every query and measure what is found, unless the record is on disk.

    Args:
        record: where it goes, and what decides its numbers.
        open_retriever: makes the retriever; it is called where documents must be retrieved.
        dataset: whose corpus, labels and judgements measure what is found.
        queries: one search each.
        about: further keys of the record.
        isolate: in a process of its own, so that the peak memory is the run's.

    Returns:
        The record: ``metrics``, ``cpu_seconds`` to ``build``, ``retrieve`` and collect the
        ``union``, ``memory_mb``, and what the caller says about it.

    Raises:
        RetrievalError: the run failed in its process; says why.
    """
    if (finished := record.finished(RETRIEVAL_MEASURES)) is not None:
        return finished

    def work() -> None:
        if known := record.known():
            results = SearchResults.load(record.file(".npz"))
            cost = {key: known[key] for key in ("cpu_seconds", "memory_mb")}
        else:
            row_of = {document.id: row for row, document in enumerate(dataset.corpus)}
            results, seconds = _search(open_retriever, queries, row_of)
            cost = {"cpu_seconds": seconds, "memory_mb": round(peak_memory_mb())}
            results.save(record.file(".npz"))
        values = results.measure(queries, dataset)
        details = {**about, "num_queries": len(queries), **cost, "versions": versions()}
        record.write(details, values)

    record.place.parent.mkdir(parents=True, exist_ok=True)
    if isolate:
        in_own_process(work)
    else:
        work()
    return record.known()


def _search(
    open_retriever: Callable[[], Retriever], queries: Sequence[Query], row_of: Mapping[str, int]
) -> tuple[SearchResults, dict[str, float]]:
    """What a retriever finds, and its CPU seconds."""
    started = time.process_time()
    retriever = open_retriever()
    built = time.process_time()
    best = retriever.retrieve(queries, DEPTH)
    searched = time.process_time()
    unions = None
    if isinstance(retriever, UnionRetriever):
        unions = retriever.retrieve_union(queries, UNION_K)
    ended = time.process_time()
    if close := getattr(retriever, "close", None):
        close()
    seconds = {"build": built - started, "retrieve": searched - built, "union": ended - searched}
    results = SearchResults.collect(best, unions, row_of)
    return results, {stage: round(value, 2) for stage, value in seconds.items()}


def requests_from_rows(
    queries: Sequence[Query],
    rows: Sequence[Sequence[int]],
    rules: Guides,
    corpus: Sequence[Document],
) -> list[GenerationRequest]:
    """What a generator reads of a saved run.

    Args:
        queries: in order.
        rows: for each the corpus rows of its documents, best first, -1 where there are fewer.
        rules: for each its guiding rules.
        corpus: the documents.
    """
    return [
        GenerationRequest(query, tuple(corpus[row] for row in found if row >= 0), tuple(chosen))
        for query, found, chosen in zip(queries, rows, rules, strict=True)
    ]


def run_reading(
    record: RunRecord,
    make_requests: Callable[[], Sequence[GenerationRequest]],
    generate: Callable[[Sequence[GenerationRequest]], Sequence[Completion]],
    dataset: RuleQADataset,
    *,
    about: Mapping[str, Any],
    places: Sequence[int],
) -> dict[str, Any]:
    """Read documents that were found before and measure the answers, unless the record is on disk.

    Args:
        record: where it goes, and what decides its numbers.
        make_requests: gives what is read, from a saved run for example
            (:func:`requests_from_rows`).
        generate: reads; it is called where the answers are not on disk.
        dataset: whose labels and judgements measure the answers.
        about: further keys of the record.
        places: which queries of their set are read, for the values.

    Returns:
        The record: ``metrics``, ``answers``, ``cpu_seconds`` to ``read``, and what the
        caller says about it.
    """
    if (finished := record.finished(READING_MEASURES)) is not None:
        return finished
    known = record.known()
    started = time.process_time()
    requests = make_requests()
    if known:
        texts, seconds = known["answers"], known["cpu_seconds"]
    else:
        texts = [completion.text for completion in generate(requests)]
        seconds = {"read": round(time.process_time() - started, 2)}
    queries = [request.query for request in requests]
    judged = dataset.qrels_for(queries)
    values = reading_columns(requests, texts, dataset)
    values["supported"] = np.array([float(bool(judged.get(query.id))) for query in queries])
    details = {
        **about,
        "num_queries": len(queries),
        "cpu_seconds": seconds,
        "answers": texts,
        "versions": versions(),
    }
    return record.write(details, values, places=np.asarray(places))
