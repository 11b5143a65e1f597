"""Runs the rows of the retrieval tables: each in a process of its own, resumable, measured.

A run folder holds::

    checkpoints/<base>/<benchmark>/<method>-<seed>   fine-tuned query encoders
    rows/<benchmark>/<query set>/<row>.json   metrics, seconds, peak memory
    rows/<benchmark>/<query set>/<row>.npz    what was found; <row>.values.npz, one value a query
"""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import rulerag
from benchmarks.process_cost import peak_memory_mb
from benchmarks.retrieval_measures import DEPTH, MEASURES, UNION_K, Found, means
from benchmarks.retrieval_rows import Row
from benchmarks.retrieval_searches import Remembered
from rulerag.assembly import CONFIGS, make_retriever, make_selector
from rulerag.assembly import method as named_method
from rulerag.composition import Config, innermost, load_config
from rulerag.errors import RetrievalError, RuleRAGError
from rulerag.evaluation import versions
from rulerag.io import (
    atomic_write,
    fingerprint_file,
    fingerprint_object,
    read_json,
    write_json,
)
from rulerag.pipeline import UnionRetriever
from rulerag.retrieval.base import latest_of
from rulerag.retrieval.dense import DenseRetriever
from rulerag.retrieval.dense.encoders import NANO_ENCODER
from rulerag.retrieval.guided import RuleGuidedRetriever
from rulerag.ruleqa import RuleQADataset
from rulerag.types import Query

__all__ = [
    "CONFIGS",
    "Bench",
    "isolated",
    "last_of",
    "run_row",
    "tell",
    "train",
    "trained_steps",
]

SHIPPED = Path(rulerag.__file__).parent / "models" / "nano-encoder"
_TRAINING = "training/retriever-nano.yaml"
# Any other is fine-tuned with rules and still reads plain queries, which are one of its searches.
_METHODS = {"ssft": "ssft", "paper": "rgft"}


@dataclass
class Bench:
    """One benchmark, loaded once, and the folder of its runs.

    Args:
        name: ``ruleqa-i`` for example.
        folder: its dataset folder.
        out: the folder of the runs.
        encoder: the encoder to use instead of the one that the experiment files name.
        overrides: further changes of every training run, ``key=value``.
        isolate: run every row in a process of its own, which tells its peak memory.
        sample: so many of the queries at most, drawn by seed 0; all when 0.
        variant: of the dataset, ``degenerate`` for example; its rows stand apart.
    """

    name: str
    folder: Path
    out: Path
    encoder: str = ""
    overrides: tuple[str, ...] = ()
    isolate: bool = True
    sample: int = 0
    variant: str = ""
    _queries: dict[str, list[Query]] = field(default_factory=dict)

    @cached_property
    def dataset(self) -> RuleQADataset:
        """The dataset, read when it is first needed."""
        return RuleQADataset.load(self.folder)

    @cached_property
    def row_of(self) -> dict[str, int]:
        """The corpus row of a document id."""
        return {document.id: row for row, document in enumerate(self.dataset.corpus)}

    @cached_property
    def statements(self) -> list[int]:
        """For each corpus row the row that states the same facts last."""
        return latest_of(self.dataset.corpus)

    def queries(self, query_set: str) -> list[Query]:
        """The queries of a set."""
        if query_set not in self._queries:
            queries = self.dataset.query_set(query_set)
            if self.sample and len(queries) > self.sample:
                chosen = np.random.default_rng(0).permutation(len(queries))[: self.sample]
                queries = [queries[n] for n in np.sort(chosen)]
            self._queries[query_set] = queries
        return self._queries[query_set]

    def config(self, row: Row, seed: int = 0, overrides: Sequence[str] = ()) -> Config:
        """The experiment of a row, pointed at this dataset and at the checkpoint of a seed."""
        changes = [f"dataset.path={self.folder}"]
        if row.dense and self.encoder:
            changes.append(f"encoder={self.encoder}")
        if row.training:
            place = self.checkpoint(row.training, seed)
            changes += [f"query_encoder={place}", f"seed={seed}"]
        return named_method(f"{row.name}__symbolic", self.name, last_of([*changes, *overrides]))

    @cached_property
    def base(self) -> str:
        """A fingerprint of the weights that every dense row starts from."""
        folder = SHIPPED if not self.encoder else Path(self.encoder)
        weights = sorted(folder.rglob("*.safetensors"))
        return fingerprint_object([fingerprint_file(place) for place in weights] or self.encoder)

    def checkpoint(self, method: str, seed: int) -> Path:
        """The folder of a fine-tuned query encoder; another base, another folder."""
        return self.out / "checkpoints" / self.base[:8] / self.name / f"{method}-{seed}"

    def place(self, row: str, query_set: str, seed: int = 0, tag: str = "") -> Path:
        """Where a row's record stands: a file name without its suffix."""
        asked = self.variant or query_set
        return self.out / "rows" / self.name / asked / f"{row}{tag}-{seed}"


def last_of(overrides: Sequence[str]) -> list[str]:
    """Overrides, of those of one key the last."""
    return list({override.partition("=")[0]: override for override in overrides}.values())


def train(bench: Bench, method: str, seed: int, overrides: Sequence[str] = ()) -> Path:
    """Fine-tune a query encoder unless it stands; return its folder.

    Raises:
        ConfigError: it stands, and was trained with other settings.
    """
    out = bench.checkpoint(method, seed)
    told = innermost(named_method("dense-guided__symbolic", bench.name).section("retriever"))
    encoder = bench.encoder or told.read("encoder", str, NANO_ENCODER)
    latest = told.read("latest", bool, False)
    changes = [
        f"dataset.path={bench.folder}",
        f"model.query={encoder}",
        f"data.method={_METHODS.get(method, 'mixed')}",
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

    tell(f"training {bench.name} {method} {seed}")
    _ = bench.dataset  # before the fork
    _import_heavy()
    isolated(work, bench.isolate)
    return out


def run_row(
    bench: Bench,
    row: Row,
    query_set: str,
    *,
    seed: int = 0,
    overrides: Sequence[str] = (),
    tag: str = "",
    rules: Callable[[RuleQADataset], RuleQADataset] | None = None,
) -> dict[str, Any]:
    """Retrieve for every query of a set, unless the record stands; return the record.

    A record that stands and lacks a measure is measured again, from what was found.

    Args:
        bench: the benchmark.
        row: the row.
        query_set: ``balanced``, ``full`` or a split.
        seed: of the fine-tuned encoder.
        overrides: changes of the experiment.
        tag: tells apart what differs in overrides or rules.
        rules: gives the dataset to retrieve with other rules.
    """
    config = bench.config(row, seed, overrides)
    place = bench.place(row.name, query_set, seed, tag)
    record = place.parent / f"{place.name}.json"
    identity = _identity(bench, config, query_set, row, seed, tag)
    known = read_json(record) if record.exists() else {}
    stands = known.get("identity") == identity
    if stands and known["metrics"].keys() >= MEASURES:
        return dict(known)
    tell(f"{bench.name} {query_set} {place.name}" + (", measured again" if stands else ""))
    _, _, queries = bench.dataset, bench.row_of, bench.queries(query_set)  # before the fork
    if row.dense and not stands:
        _import_heavy()

    def work() -> None:
        dataset = rules(bench.dataset) if rules is not None else bench.dataset
        if stands:
            found = Found.load(f"{place}.npz")
            seconds, memory = known["cpu_seconds"], known["memory_mb"]
        else:
            found, seconds = _retrieve(config, dataset, queries, bench.row_of)
            memory = round(peak_memory_mb())
            found.save(f"{place}.npz")
        values = found.measure(queries, dataset)
        with atomic_write(f"{place}.values.npz", "wb") as file:
            np.savez_compressed(file, **values)  # type: ignore[arg-type]
        made: dict[str, Any] = {
            "identity": identity,
            "benchmark": bench.name,
            "row": row.name,
            "title": row.title,
            "query_set": query_set,
            "seed": seed,
            "num_queries": len(queries),
            "metrics": means(values),
            "cpu_seconds": seconds,
            "memory_mb": memory,
            "training": trained_steps(
                retriever=row.training and bench.checkpoint(row.training, seed)
            ),
            "about": _about(bench),
            "config": config.to_dict(),
            "versions": versions(),
        }
        write_json(record, made)
        ten, union = (made["metrics"][f"answer_recall@10{part}"] for part in ("", "_union"))
        tell(f"  R@10 {ten:.3f}, union {union:.3f}, {seconds}, {memory} MB")

    record.parent.mkdir(parents=True, exist_ok=True)
    isolated(work, bench.isolate)
    return dict(read_json(record))


def _retrieve(
    config: Config, dataset: RuleQADataset, queries: Sequence[Query], row_of: dict[str, int]
) -> tuple[Found, dict[str, float]]:
    started = time.process_time()
    retriever = make_retriever(config, dataset, make_selector(config, dataset.rules))
    if isinstance(retriever, RuleGuidedRetriever) and isinstance(
        retriever.retriever, DenseRetriever
    ):
        # The best documents and the union are merged from the same searches.
        retriever.retriever = Remembered(retriever.retriever)
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
    return Found.collect(best, unions, row_of), {k: round(v, 2) for k, v in seconds.items()}


def _identity(bench: Bench, config: Config, query_set: str, row: Row, seed: int, tag: str) -> str:
    """Names everything that decides a row's numbers, but the code."""
    told: list[Any] = [config.without("metadata", "expected").to_dict(), query_set, bench.sample]
    told += [bench.dataset.fingerprint, tag, bench.base if row.dense else ""]
    if row.training:
        told.append(read_json(bench.checkpoint(row.training, seed) / "metrics.json"))
    if weights := config.section("retriever").get("weights"):
        told.append(fingerprint_file(weights))
    return fingerprint_object(told)


def trained_steps(**folders: Path | str) -> dict[str, dict[str, int]]:
    """Of each fine-tuned half, the step whose weights were kept (0: the start), of how many.

    Args:
        folders: of finished trainings, by half; empty where nothing is fine-tuned.
    """
    told = {half: read_json(Path(at) / "metrics.json") for half, at in folders.items() if at}
    return {half: {key: one[key] for key in ("best_step", "steps")} for half, one in told.items()}


def _about(bench: Bench) -> dict[str, Any]:
    """What tables say beside the numbers: what the base encoder saw, and what limits recall."""
    folder = SHIPPED if not bench.encoder else Path(bench.encoder)
    saw = "not told by its folder"
    if (folder / "training.json").exists():
        told = read_json(folder / "training.json")
        graphs = ", ".join(told.get("graphs", [])) or "no graph"
        saw = (
            f"{told.get('worlds', 0)} generated worlds and the training facts of {graphs}; plain "
            "questions and questions with made-up rules about them, no mined rule, no judgement"
        )
    ceilings = bench.dataset.statistics.get("ceilings", {})
    return {"encoder_saw": saw, "ceilings": ceilings.get("balanced", {})}


def isolated(work: Callable[[], None], isolate: bool = True) -> None:
    """Do some work in a fork, which shares what is loaded and gives back all that it takes.

    Raises:
        RetrievalError: the work failed; says why.
    """
    if not isolate or not hasattr(os, "fork"):
        work()
        return
    gc.collect()
    gc.freeze()  # or the collector would copy every page that the two share
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send_errors, args=(work, sender))
    process.start()
    sender.close()
    try:
        failure = receiver.recv()
    except EOFError:
        failure = "it was killed"
    process.join()
    gc.unfreeze()
    if failure is not None:
        raise RetrievalError(f"a run failed: {failure}", hint="start again: finished runs are kept")


def _send_errors(work: Callable[[], None], sender: Any) -> None:
    try:
        work()
        sender.send(None)
    except (RuleRAGError, OSError, MemoryError) as error:
        sender.send(str(error))
    sender.close()


def _import_heavy() -> None:
    """Once for all forks; importing starts no thread that a fork would miss."""
    for module in ("torch", "sentence_transformers", "faiss"):
        importlib.import_module(module)


def tell(line: str) -> None:
    """A line about the work, beside its results."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
