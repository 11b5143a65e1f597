"""Runs the rows of the retrieval tables: query encoders fine-tuned, documents retrieved."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.bench import Bench, tell
from benchmarks.experiments.matrix.rows import Row
from benchmarks.stages.own_process import in_own_process
from benchmarks.stages.records import RunRecord, run_retrieval
from benchmarks.stages.search_results import RETRIEVAL_MEASURES
from rulerag.assembly import CONFIGS, make_retriever, make_selector, method
from rulerag.composition import Config, innermost, load_config
from rulerag.evaluation import peak_memory_mb
from rulerag.io import fingerprint_file, fingerprint_object, read_json, write_json
from rulerag.protocols import Retriever
from rulerag.retrieval.base import Rows, RowSearcher, scored_documents
from rulerag.retrieval.dense import DenseRetriever
from rulerag.retrieval.dense.encoders import NANO_ENCODER
from rulerag.retrieval.guided import RuleGuidedRetriever
from rulerag.ruleqa import RuleQADataset
from rulerag.types import Document, Query, ScoredDocument

_TRAINING = "training/retriever-nano.yaml"
# Any other is fine-tuned with rules and still reads plain queries, which are one of its searches.
_METHODS = {"ssft": "ssft", "paper": "rgft"}
Rules = Callable[[RuleQADataset], RuleQADataset]


def last_of(overrides: Sequence[str]) -> list[str]:
    """Overrides, of those of one key the last."""
    return list({override.partition("=")[0]: override for override in overrides}.values())


def row_config(bench: Bench, row: Row, seed: int = 0, overrides: Sequence[str] = ()) -> Config:
    """The experiment of a row, pointed at a dataset and at the checkpoint of a seed."""
    changes = [f"dataset.path={bench.folder}"]
    if row.dense and bench.encoder:
        changes.append(f"encoder={bench.encoder}")
    if row.training:
        folder = bench.checkpoint(row.training, seed)
        changes += [f"query_encoder={folder}", f"seed={seed}"]
    return method(f"{row.name}__symbolic", bench.name, last_of([*changes, *overrides]))


def train(bench: Bench, training: str, seed: int, overrides: Sequence[str] = ()) -> Path:
    """Fine-tune a query encoder unless its folder is finished; return the folder.

    Raises:
        ConfigError: it was trained with other settings.
    """
    out = bench.checkpoint(training, seed)
    section = innermost(method("dense-guided__symbolic", bench.name).section("retriever"))
    encoder = bench.encoder or section.read("encoder", str, NANO_ENCODER)
    latest = section.read("latest", bool, False)
    changes = [
        f"dataset.path={bench.folder}",
        f"model.query={encoder}",
        f"data.method={_METHODS.get(training, 'mixed')}",
        f"data.latest={str(latest).lower()}",
        f"out={out}",
        f"seed={seed}",
        *bench.overrides,
        *overrides,
    ]

    from training.common.checkpoint import RunFolder
    from training.retriever.settings import RetrieverSettings

    settings = RetrieverSettings.from_config(load_config(CONFIGS / _TRAINING, last_of(changes)))
    if RunFolder(out, settings.fingerprint).finished:  # one of other settings is refused
        return out

    def work() -> None:
        from training.retriever.run import train_retriever

        started = time.process_time()
        metrics = train_retriever(settings, dataset=None if overrides else bench.dataset)
        cost = {
            "cpu_seconds": round(time.process_time() - started, 1),
            "memory_mb": round(peak_memory_mb()),
        }
        write_json(out / "cost.json", cost)
        name = settings.validation.metric
        tell(f"  {name} {metrics['before'][name]:.3f} -> {metrics['best'][name]:.3f}, {cost}")

    tell(f"training {bench.name} {training} {seed}")
    _ = bench.dataset  # before the fork
    _import_heavy()
    if bench.isolate:
        in_own_process(work)
    else:
        work()
    return out


def run_row(
    bench: Bench,
    row: Row,
    query_set: str,
    *,
    seed: int = 0,
    overrides: Sequence[str] = (),
    tag: str = "",
    rules: Rules | None = None,
    open_retriever: Callable[[Config, RuleQADataset], Retriever] | None = None,
) -> dict[str, Any]:
    """Retrieve for every query of a set, unless the run is finished; return the record.

    Args:
        bench: the benchmark.
        row: the row.
        query_set: ``balanced``, ``full`` or a split.
        seed: of the fine-tuned encoder.
        overrides: changes of the experiment.
        tag: tells apart what differs in overrides or rules.
        rules: gives the dataset to retrieve with other rules.
        open_retriever: opens the retriever of an experiment, in place of
            :func:`retriever_of`.
    """
    config = row_config(bench, row, seed, overrides)
    record = RunRecord(
        bench.place(row.name, query_set, seed, tag),
        _identity(bench, config, query_set, row, seed, tag),
    )
    if (finished := record.finished(RETRIEVAL_MEASURES)) is not None:
        return finished
    known = record.known()
    name = record.place.name
    tell(f"{bench.name} {query_set} {name}" + (", measured again" if known else ""))
    dataset, queries = bench.dataset, bench.queries(query_set)  # before the fork
    if row.dense and not known:
        _import_heavy()
    used = rules(dataset) if rules is not None else dataset
    folder = row.training and bench.checkpoint(row.training, seed)
    made = run_retrieval(
        record,
        partial(open_retriever or retriever_of, config, used),
        dataset,
        queries,
        about={
            "benchmark": bench.name,
            "row": row.name,
            "title": row.title,
            "query_set": query_set,
            "seed": seed,
            "training": trained_steps(retriever=folder),
            "about": _about(bench),
            "config": config.to_dict(),
        },
        isolate=bench.isolate,
    )
    ten, union = (made["metrics"][f"answer_recall@10{part}"] for part in ("", "_union"))
    tell(f"  R@10 {ten:.3f}, union {union:.3f}, {made['cpu_seconds']}, {made['memory_mb']} MB")
    return made


def retriever_of(config: Config, dataset: RuleQADataset) -> Retriever:
    """The retriever of an experiment."""
    retriever = make_retriever(config, dataset, make_selector(config, dataset.rules))
    if isinstance(retriever, RuleGuidedRetriever) and isinstance(
        retriever.retriever, DenseRetriever
    ):
        # The best documents and the union are merged from the same searches.
        retriever.retriever = MemoizedRetriever(retriever.retriever)
    return retriever


class MemoizedRetriever:
    """A retriever that searches for each text once.

    Args:
        retriever: what searches.
        depth: documents kept of each search; a smaller depth is cut from them.
    """

    fingerprint = "remembered"

    def __init__(self, retriever: RowSearcher, depth: int = 200) -> None:
        self.retriever = retriever
        self.documents: Sequence[Document] = retriever.documents
        self.depth = depth
        self._known: dict[str, tuple[Any, Any]] = {}

    def search(self, queries: Sequence[Query], depth: int) -> Rows:
        """As the wrapped retriever, up to the depth that is kept."""
        fresh = {query.text: query for query in queries if query.text not in self._known}
        if fresh:
            found = self.retriever.search(list(fresh.values()), self.depth)
            self._known.update(zip(fresh, zip(found.rows, found.scores, strict=True), strict=True))
        depth = min(depth, self.depth)
        rows = np.stack([self._known[query.text][0][:depth] for query in queries])
        scores = np.stack([self._known[query.text][1][:depth] for query in queries])
        return Rows(rows, scores)

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """As the wrapped retriever."""
        return scored_documents(self.documents, self.search(queries, top_k)) if queries else []


def _identity(bench: Bench, config: Config, query_set: str, row: Row, seed: int, tag: str) -> str:
    """Names everything that decides a row's numbers, but the code."""
    parts: list[Any] = [config.without("metadata", "expected").to_dict(), query_set, bench.sample]
    parts += [bench.dataset.fingerprint, tag, bench.base if row.dense else ""]
    if row.training:
        parts.append(read_json(bench.checkpoint(row.training, seed) / "metrics.json"))
    if weights := config.section("retriever").get("weights"):
        parts.append(fingerprint_file(weights))
    return fingerprint_object(parts)


def trained_steps(**folders: Path | str) -> dict[str, dict[str, int]]:
    """Of each fine-tuned half, the step whose weights were kept (0: the start), of how many.

    Args:
        folders: of finished trainings, by half; empty where nothing is fine-tuned.
    """
    metrics = {half: read_json(Path(at) / "metrics.json") for half, at in folders.items() if at}
    return {
        half: {key: one[key] for key in ("best_step", "steps")} for half, one in metrics.items()
    }


def _about(bench: Bench) -> dict[str, Any]:
    """What tables say beside the numbers: what the base encoder saw, and what limits recall."""
    saw = "not told by its folder"
    if (bench.encoder_folder / "training.json").exists():
        card = read_json(bench.encoder_folder / "training.json")
        graphs = ", ".join(card.get("graphs", [])) or "no graph"
        saw = (
            f"{card.get('worlds', 0)} generated worlds and the training facts of {graphs}; plain "
            "questions and questions with made-up rules about them, no mined rule, no judgement"
        )
    ceilings = bench.dataset.statistics.get("ceilings", {})
    return {"encoder_saw": saw, "ceilings": ceilings.get("balanced", {})}


def _import_heavy() -> None:
    """Once for all forks; importing starts no thread that a fork would miss."""
    for module in ("torch", "sentence_transformers", "faiss"):
        importlib.import_module(module)
