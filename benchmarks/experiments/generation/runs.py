"""Runs the rows of the generator tables: readers fine-tuned, documents read, answers scored.

Beside what :mod:`benchmarks.experiments.retrieval.runs` keeps, a run folder holds::

    readers/<base>/<benchmark>/<method>-<seed>   LoRA adapters of fine-tuned readers
    reading/<benchmark>/<query set>/<row>.json   metrics, seconds, answers
    reading/<benchmark>/<query set>/<row>.values.npz   one value a query of each measure
"""

from __future__ import annotations

import importlib
import logging
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.answer_measures import MEASURES, of_reads
from benchmarks.experiments.generation.rows import ReadingRow, finder_training
from benchmarks.experiments.retrieval.measures import Found, means
from benchmarks.experiments.retrieval.rows import Row
from benchmarks.experiments.retrieval.rows import row as finding_row
from benchmarks.experiments.retrieval.runs import (
    CONFIGS,
    Bench,
    isolated,
    last_of,
    run_row,
    tell,
    train,
    trained_steps,
)
from rulerag.assembly import make_generator, make_pipeline, make_retriever, make_selector
from rulerag.assembly import method as named_method
from rulerag.composition import Config, load_config
from rulerag.evaluation import versions
from rulerag.generation.huggingface import NANO_LLAMA, shipped
from rulerag.io import atomic_write, fingerprint_file, fingerprint_object, read_json, write_json
from rulerag.ruleqa import RuleQADataset
from rulerag.types import Completion, GenerationRequest, Query
from training.generator.settings import GeneratorSettings

__all__ = [
    "Readers",
    "make_config",
    "requests_of",
    "run_reading",
    "settings_of",
    "train_reader",
]

_TRAINING = "training/generator-nano-lora.yaml"
_TRAINING_DATED = "training/generator-nano-lora-dated.yaml"
_FINDING = ("selector", "retriever")
Rules = Callable[[RuleQADataset], RuleQADataset]


@dataclass(frozen=True)
class Readers:
    """The language model that reads, and how it is fine-tuned.

    Args:
        model: a model folder; the reader that is installed when empty.
        label: tells its records apart from those of the reader that is installed.
        overrides: further changes of every training run, ``key=value``.
        sample: so many queries of a set does a language model read, drawn by seed 0; all when 0.
        weights: the hybrid reader's weight of the model, by benchmark and row.
    """

    model: str = ""
    label: str = ""
    overrides: tuple[str, ...] = ()
    sample: int = 0
    weights: tuple[tuple[str, float], ...] = ()

    @cached_property
    def base(self) -> str:
        """A fingerprint of the model's weights."""
        folder = Path(shipped(self.model or NANO_LLAMA))
        return fingerprint_object([fingerprint_file(p) for p in folder.glob("*.safetensors")])

    @property
    def tag(self) -> str:
        """What stands behind a row's name in the names of its records."""
        return f"@{self.label}" if self.label else ""

    def folder(self, bench: Bench, method: str, seed: int) -> Path:
        """Where a fine-tuned reader stands; another base, another folder."""
        return bench.out / "readers" / self.base[:8] / bench.name / f"{method}-{seed}"


def train_reader(
    bench: Bench,
    readers: Readers,
    method: str,
    seed: int,
    *,
    bank: str = "",
    overrides: Sequence[str] = (),
) -> Path:
    """Fine-tune a reader unless it stands; return its folder.

    RGFT reads what the RGFT retriever finds and sees rules, SSFT what the SSFT retriever finds;
    both are merged as learned, equally deep.

    Args:
        bench: the benchmark.
        readers: the base.
        method: ``rgft`` or ``ssft``.
        seed: of retriever and reader.
        bank: for a reader of one rule bank, its name; the retriever is that bank's, and stands.
        overrides: changes of the training run.

    Raises:
        ConfigError: it stands, and was trained with other settings.
    """
    name = f"{method}-{bank}" if bank else method
    out = readers.folder(bench, name, seed)
    settings = settings_of(bench, readers, method, seed, bank=bank, overrides=overrides)
    from training.common.checkpoint import (
        RunFolder,  # here: it loads torch, which most rows do not need
    )

    if RunFolder(out, settings.fingerprint).finished:  # one of other settings is refused
        return out
    if not bank:  # :func:`run_bank_training` trained that one
        train(bench, name, seed)

    def work() -> None:
        from training.generator.run import train_generator

        started = time.process_time()
        metrics = train_generator(settings)
        seconds = round(time.process_time() - started, 1)
        write_json(out / "cost.json", {"cpu_seconds": seconds})
        before, best = metrics["before"]["exact_match"], metrics["best"]["exact_match"]
        tell(f"  EM {before:.3f} -> {best:.3f}, {metrics['examples']} examples, {seconds} s")

    tell(f"training the reader, {bench.name} {name} {seed} {readers.label}")
    with _quiet():
        isolated(work, bench.isolate)
    return out


def settings_of(
    bench: Bench,
    readers: Readers,
    method: str,
    seed: int,
    *,
    bank: str = "",
    overrides: Sequence[str] = (),
) -> GeneratorSettings:
    """The settings of a reader's fine-tuning; arguments as those of :func:`train_reader`."""
    name = f"{method}-{bank}" if bank else method
    row = "dense-guided-rgft-learned" if method == "rgft" else "dense-pooled-ssft-learned"
    if bank:  # learned merging knows the whole of R
        row = "dense-guided-rgft"
    changes = [
        f"dataset.path={bench.folder}",
        f"query_encoder={bench.checkpoint(name, seed)}",
    ]
    if bench.encoder:
        changes.append(f"encoder={bench.encoder}")
    finding = named_method(f"{row}__symbolic", bench.name, changes).to_dict()
    told = [
        f"dataset.path={bench.folder}",
        f"data.method={method}",
        f"out={readers.folder(bench, name, seed)}",
        f"seed={seed}",
        *([f"model.base={readers.model}"] if readers.model else []),
        *readers.overrides,
        *overrides,
    ]
    dated = bench.dataset.corpus[0].timestamp is not None
    file = CONFIGS / (_TRAINING_DATED if dated else _TRAINING)
    config = load_config(file, last_of(told)).to_dict()
    config = {key: value for key, value in config.items() if key not in _FINDING}
    config |= {key: finding[key] for key in _FINDING if finding.get(key) is not None}
    return GeneratorSettings.from_config(Config(config))


def run_reading(
    bench: Bench,
    row: ReadingRow,
    readers: Readers,
    query_set: str = "balanced",
    *,
    seed: int = 0,
    overrides: Sequence[str] = (),
    tag: str = "",
    bank: str = "",
    found_tag: str = "",
    rules: Rules | None = None,
) -> dict[str, Any]:
    """Read for every query of a set, unless the record stands; return the record.

    What the row has fine-tuned stands already. A record that stands and lacks a measure is measured
    again, from its answers.

    Args:
        bench: the benchmark.
        row: the row.
        readers: the language model.
        query_set: ``balanced``, ``full`` or a split.
        seed: of what is fine-tuned.
        overrides: changes of the experiment.
        tag: tells apart what differs in overrides or rules.
        bank: the rule bank that the row was fine-tuned with.
        found_tag: the tag of the retrieval run, where it is not the row's own.
        rules: gives the dataset to read with other rules.
    """
    config = make_config(bench, row, readers, seed, overrides, bank)
    finding = None if row.finding == "none" else finding_row(row.finding)
    of_seed = seed if finder_training(row) else 0
    retrieved = None
    if finding is not None and "__ve" not in row.name and "__cok" not in row.name:
        used = finding if not bank else _of_bank(finding, bank)
        retrieved = run_row(bench, used, query_set, seed=of_seed, tag=found_tag, rules=rules)
    asked = bench.queries(query_set)
    reads = row.name.partition("__")[2] not in ("symbolic", "candidate")
    bounds = [most for most in (row.sample, readers.sample * reads) if most]
    chosen = _sampled(len(asked), min(bounds, default=0))
    identity = fingerprint_object(
        [
            config.without("metadata", "expected").to_dict(),
            retrieved["identity"] if retrieved else bench.dataset.fingerprint,
            readers.base if reads else "",
            _trained(bench, readers, row, seed, bank),
            chosen.tolist() if len(chosen) < len(asked) else "all",
            tag,
        ]
    )
    place = bench.out / "reading" / bench.name / (bench.variant or query_set)
    record = place / f"{row.name}{readers.tag}{tag}-{seed}.json"
    known = read_json(record) if record.exists() else {}
    stands = known.get("identity") == identity
    if stands and known["metrics"].keys() >= MEASURES:
        return dict(known)
    told = "measured again" if stands else f"{len(chosen)} queries"
    tell(f"{bench.name} {bench.variant or query_set} {record.stem}, {told}")
    started = time.process_time()
    dataset = rules(bench.dataset) if rules is not None else bench.dataset
    top_k = config.read("top_k", int, 10)
    if retrieved is not None:
        where = bench.place(row.finding, query_set, of_seed, found_tag)
        documents = Found.load(f"{where}.npz").best[chosen, :top_k].tolist()
    else:
        documents = [[] for _ in chosen]
    queries = [asked[n] for n in chosen]
    requests = requests_of(config, dataset, queries, documents)
    if stands:
        texts, seconds = known["answers"], known["cpu_seconds"]
    else:
        with _quiet():
            texts = [completion.text for completion in _read(config, dataset, requests)]
        seconds = {"read": round(time.process_time() - started, 2)}
    values: dict[str, Any] = dict(of_reads(requests, texts, dataset))
    judged = bench.dataset.qrels_for(queries)
    values["supported"] = np.array([float(bool(judged.get(q.id))) for q in queries])
    made: dict[str, Any] = {
        "identity": identity,
        "benchmark": bench.name,
        "row": row.name,
        "title": row.title,
        "query_set": query_set,
        "variant": bench.variant,
        "seed": seed,
        "num_queries": len(queries),
        "of_queries": len(asked),
        "metrics": means(values),
        "cpu_seconds": seconds,
        "training": _kept(bench, readers, row, seed, bank),
        "reader": readers.label or "installed",
        "ceilings": dataset.statistics.get("ceilings", {}).get(query_set, {}),
        "answers": texts,
        "config": config.to_dict(),
        "versions": versions(),
    }
    place.mkdir(parents=True, exist_ok=True)
    with atomic_write(place / f"{record.stem}.values.npz", "wb") as file:
        np.savez_compressed(file, places=chosen, **values)
    write_json(record, made)
    told = ", ".join(f"{name} {made['metrics'][name]:.3f}" for name in ("exact_match", "token_f1"))
    tell(f"  {told}, {made['cpu_seconds']['read']} s")
    return made


def requests_of(
    config: Config,
    dataset: RuleQADataset,
    queries: Sequence[Query],
    documents: Sequence[Sequence[int]],
) -> list[GenerationRequest]:
    """What the reader is given, from documents that stand; the pipeline's own for symbolic search.

    Args:
        config: the experiment.
        dataset: whose corpus the documents are of.
        queries: what is asked.
        documents: rows of the corpus for each query, -1 where there are fewer.
    """
    shown = config.read("reader_rules", str, "selected")
    if shown == "found":  # which rule found a document is not kept with the runs
        silent = config.without("generator").to_dict() | {"generator": {"type": "symbolic"}}
        answers = make_pipeline(Config(silent), dataset).answer(queries)
        return [answer.request() for answer in answers]
    selector = make_selector(config, dataset.rules) if shown == "selected" else None
    rules = selector.select(queries) if selector is not None else [[] for _ in queries]
    corpus = dataset.corpus
    return [
        GenerationRequest(query, tuple(corpus[n] for n in rows if n >= 0), tuple(chosen))
        for query, rows, chosen in zip(queries, documents, rules, strict=True)
    ]


def _read(
    config: Config, dataset: RuleQADataset, requests: Sequence[GenerationRequest]
) -> list[Completion]:
    searches = config["generator.type"] in ("verify-and-edit", "chain-of-knowledge")
    retriever = make_retriever(config, dataset, None) if searches else None
    return make_generator(config, dataset, retriever=retriever).generate(requests)


def make_config(
    bench: Bench,
    row: ReadingRow,
    readers: Readers,
    seed: int,
    overrides: Sequence[str] = (),
    bank: str = "",
) -> Config:
    """The experiment of a row, pointed at this dataset and at what was fine-tuned."""
    changes = [f"dataset.path={bench.folder}"]
    finding = None if row.finding == "none" else finding_row(row.finding)
    if finding is not None and finding.dense and bench.encoder:
        changes.append(f"encoder={bench.encoder}")
    if finding is not None and finding.training:
        trained = finding.training + (f"-{bank}" if bank else "")
        changes.append(f"query_encoder={bench.checkpoint(trained, seed)}")
    reader = row.name.partition("__")[2]
    place = {"hybrid": "generator.model.", "ve": "generator.reader.", "cok": "generator.reader."}
    part = place.get(reader, "generator.")
    if row.training:
        adapter = readers.folder(bench, row.training + (f"-{bank}" if bank else ""), seed)
        changes += [f"{part}adapter={adapter}", f"seed={seed}"]
    if readers.model and reader not in ("symbolic", "candidate"):
        changes.append(f"{part}model={readers.model}")
    weight = dict(readers.weights).get(f"{bench.name}/{row.name}")
    if weight is not None:
        changes.append(f"generator.weight={weight}")
    return named_method(row.name, bench.name, last_of([*changes, *overrides]))


def _of_bank(finding: Row, bank: str) -> Row:
    return replace(finding, training=f"{finding.training}-{bank}")


def _trained(bench: Bench, readers: Readers, row: ReadingRow, seed: int, bank: str) -> Any:
    """What a fine-tuned reader's own figures say, which change with its weights."""
    if not row.training:
        return None
    name = row.training + (f"-{bank}" if bank else "")
    return read_json(readers.folder(bench, name, seed) / "metrics.json")


def _kept(
    bench: Bench, readers: Readers, row: ReadingRow, seed: int, bank: str
) -> dict[str, dict[str, int]]:
    """The steps at which the fine-tuned halves of a row were kept."""
    end = f"-{bank}" if bank else ""
    finder = finder_training(row)
    return trained_steps(
        retriever=finder and bench.checkpoint(finder + end, seed),
        reader=row.training and readers.folder(bench, row.training + end, seed),
    )


def _sampled(number: int, most: int) -> Any:
    """Which queries are read: all, or so many drawn by seed 0, in order."""
    if not most or number <= most:
        return np.arange(number)
    return np.sort(np.random.default_rng(0).permutation(number)[:most])


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the progress bars and warnings that transformers and PEFT print for every model."""
    bars: Any = importlib.import_module("transformers.utils.logging")
    library = logging.getLogger("rulerag.generation")
    level = library.level
    bars.disable_progress_bar()
    library.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=FutureWarning)
            yield
    finally:
        library.setLevel(level)
        bars.enable_progress_bar()
