"""Runs the rows of the generator tables: readers fine-tuned, documents read, answers scored."""

from __future__ import annotations

import importlib
import logging
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.bench import Bench, tell
from benchmarks.experiments.matrix.rows import ReadingRow, row as retrieval_row
from benchmarks.experiments.retrieval.runs import Rules, last_of, run_row, train, trained_steps
from benchmarks.stages.answers import EM, F1, READING_MEASURES
from benchmarks.stages.own_process import in_own_process
from benchmarks.stages.records import RunRecord, requests_from_rows, run_reading
from benchmarks.stages.search_results import SearchResults
from rulerag.assembly import (
    CONFIGS,
    make_generator,
    make_pipeline,
    make_retriever,
    make_selector,
    method,
)
from rulerag.composition import Config, load_config
from rulerag.generation.huggingface import NANO_LLAMA, shipped
from rulerag.io import fingerprint_file, fingerprint_object, read_json, write_json
from rulerag.ruleqa import RuleQADataset
from rulerag.types import Completion, GenerationRequest, Query
from training.generator.settings import GeneratorSettings

_TRAINING = "training/generator-nano-lora.yaml"
_TRAINING_DATED = "training/generator-nano-lora-dated.yaml"
_RETRIEVAL = ("selector", "retriever")
Generate = Callable[[Config, RuleQADataset, Sequence[GenerationRequest]], list[Completion]]


@dataclass(frozen=True)
class Readers:
    """The language model that reads, and how it is fine-tuned.

    Args:
        model: a model folder; the reader that is installed when empty.
        label: tells its records apart from those of the reader that is installed.
        training: the configuration of its fine-tuning, retrieval included; that of the small
            reader, on what the row's retriever finds, when empty.
        reading: changes of every generator of it, ``key=value``.
        overrides: further changes of every training run, ``key=value``.
        sample: so many queries of a set does a language model read, drawn by seed 0; all when 0.
        weights: the hybrid reader's weight of the model, by benchmark and row.
    """

    model: str = ""
    label: str = ""
    training: str = ""
    reading: tuple[str, ...] = ()
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
        """What follows a row's name in the names of its records."""
        return f"@{self.label}" if self.label else ""

    def folder(self, bench: Bench, training: str, seed: int) -> Path:
        """The folder of a fine-tuned reader; another base, another folder."""
        return bench.out / "readers" / self.base[:8] / bench.name / f"{training}-{seed}"


@dataclass(frozen=True)
class Banks:
    """Two rule banks.

    Args:
        learned: the name of that of fine-tuning.
        used: the name of that of retrieval and reading.
        rules: gives a dataset with the rules of the second alone.
    """

    learned: str
    used: str
    rules: Rules

    @property
    def tag(self) -> str:
        """What follows a row's name in the names of its records."""
        return f"-{self.learned}-{self.used}"


def train_reader(
    bench: Bench,
    readers: Readers,
    training: str,
    seed: int,
    *,
    bank: str = "",
    overrides: Sequence[str] = (),
) -> Path:
    """Fine-tune a reader unless its folder is finished; return the folder.

    RGFT reads what the RGFT retriever finds and sees rules, SSFT what the SSFT retriever finds;
    both are merged as learned, equally deep. A reader with a configuration of its own reads what
    that one finds.

    Args:
        bench: the benchmark.
        readers: the base.
        training: ``rgft`` or ``ssft``.
        seed: of retriever and reader.
        bank: for a reader of one rule bank, its name; the retriever is that bank's, trained before.
        overrides: changes of the training run.

    Raises:
        ConfigError: it was trained with other settings.
    """
    name = f"{training}-{bank}" if bank else training
    out = readers.folder(bench, name, seed)
    settings = settings_of(bench, readers, training, seed, bank=bank, overrides=overrides)
    from training.common.checkpoint import (
        RunFolder,  # here: it loads torch, which most rows do not need
    )

    if RunFolder(out, settings.fingerprint).finished:  # one of other settings is refused
        return out
    if (
        not bank and not readers.training
    ):  # :func:`~benchmarks.experiments.retrieval.plan.train_bank` trained that one
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
        if bench.isolate:
            in_own_process(work)
        else:
            work()
    return out


def settings_of(
    bench: Bench,
    readers: Readers,
    training: str,
    seed: int,
    *,
    bank: str = "",
    overrides: Sequence[str] = (),
) -> GeneratorSettings:
    """The settings of a reader's fine-tuning; arguments as those of :func:`train_reader`."""
    name = f"{training}-{bank}" if bank else training
    row = "dense-guided-rgft-learned" if training == "rgft" else "dense-pooled-ssft-learned"
    if bank:  # learned merging knows the whole of R
        row = "dense-guided-rgft"
    changes = [
        f"dataset.path={bench.folder}",
        f"query_encoder={bench.checkpoint(name, seed)}",
    ]
    if bench.encoder:
        changes.append(f"encoder={bench.encoder}")
    retrieval = method(f"{row}__symbolic", bench.name, changes).to_dict()
    settings_changes = [
        f"dataset.path={bench.folder}",
        f"data.method={training}",
        f"out={readers.folder(bench, name, seed)}",
        f"seed={seed}",
        *([f"model.base={readers.model}"] if readers.model else []),
        *readers.overrides,
        *overrides,
    ]
    if readers.training:
        own = load_config(readers.training, last_of(settings_changes), keys=GeneratorSettings.keys)
        return GeneratorSettings.from_config(own)
    dated = bench.dataset.corpus[0].timestamp is not None
    file = CONFIGS / (_TRAINING_DATED if dated else _TRAINING)
    config = load_config(file, last_of(settings_changes)).to_dict()
    config = {key: value for key, value in config.items() if key not in _RETRIEVAL}
    config |= {key: retrieval[key] for key in _RETRIEVAL if retrieval.get(key) is not None}
    return GeneratorSettings.from_config(Config(config))


def run_reading_row(
    bench: Bench,
    row: ReadingRow,
    readers: Readers,
    query_set: str = "balanced",
    *,
    seed: int = 0,
    overrides: Sequence[str] = (),
    tag: str = "",
    banks: Banks | None = None,
    generate: Generate | None = None,
) -> dict[str, Any]:
    """Read what the row's retriever found, unless the run is finished; return the record.

    Args:
        bench: the benchmark.
        row: the row.
        readers: the language model.
        query_set: ``balanced``, ``full`` or a split.
        seed: of what is fine-tuned.
        overrides: changes of the experiment.
        tag: tells apart what differs in overrides.
        banks: the rule banks of fine-tuning and of retrieval.
        generate: reads requests by an experiment, in place of :func:`read`.
    """
    bank = banks.learned if banks else ""
    crossed = banks.tag if banks else ""
    config = make_config(bench, row, readers, seed, overrides, bank)
    of_seed = seed if row.retriever_training else 0
    retrieved = _retrieve(bench, row, query_set, of_seed, banks)
    asked = bench.queries(query_set)
    reads = row.reader not in ("symbolic", "candidate")
    bounds = [most for most in (row.sample, readers.sample * reads) if most]
    chosen = _sampled(len(asked), min(bounds, default=0))
    identity = fingerprint_object(
        [
            config.without("metadata", "expected").to_dict(),
            retrieved["identity"] if retrieved else bench.dataset.fingerprint,
            readers.base if reads else "",
            _trained(bench, readers, row, seed, bank),
            chosen.tolist() if len(chosen) < len(asked) else "all",
            tag or crossed,
        ]
    )
    name = f"{row.name}{readers.tag}{tag or crossed}"
    record = RunRecord(bench.reading(name, query_set, seed), identity)
    if (finished := record.finished(READING_MEASURES)) is not None:
        return finished
    status = "measured again" if record.known() else f"{len(chosen)} queries"
    tell(f"{bench.name} {bench.variant or query_set} {record.place.name}, {status}")
    dataset = banks.rules(bench.dataset) if banks else bench.dataset
    queries = [asked[n] for n in chosen]

    def requests() -> list[GenerationRequest]:
        rows: list[list[int]] = [[] for _ in chosen]
        if retrieved is not None:
            where = bench.place(row.retriever, query_set, of_seed, crossed)
            top_k = config.read("top_k", int, 10)
            rows = SearchResults.load(f"{where}.npz").best[chosen, :top_k].tolist()
        return requests_of(config, dataset, queries, rows)

    with _quiet():
        made = run_reading(
            record,
            requests,
            partial(generate or read, config, dataset),
            bench.dataset,
            about={
                "benchmark": bench.name,
                "row": row.name,
                "title": row.title,
                "query_set": query_set,
                "variant": bench.variant,
                "seed": seed,
                "of_queries": len(asked),
                "training": _kept(bench, readers, row, seed, bank),
                "reader": readers.label or "installed",
                "ceilings": dataset.statistics.get("ceilings", {}).get(query_set, {}),
                "config": config.to_dict(),
            },
            places=chosen.tolist(),
        )
    status = ", ".join(f"{name} {made['metrics'][name]:.3f}" for name in (EM, F1))
    tell(f"  {status}, {made['cpu_seconds']['read']} s")
    return made


def _retrieve(
    bench: Bench, row: ReadingRow, query_set: str, seed: int, banks: Banks | None
) -> dict[str, Any] | None:
    """The record of the row's retrieval; None where its reader searches, or nothing does."""
    if row.retriever == "none" or row.reader in ("ve", "cok"):
        return None
    used = retrieval_row(row.retriever)
    if banks is None:
        return run_row(bench, used, query_set, seed=seed)
    used = replace(used, training=f"{used.training}-{banks.learned}")
    return run_row(bench, used, query_set, seed=seed, tag=banks.tag, rules=banks.rules)


def requests_of(
    config: Config,
    dataset: RuleQADataset,
    queries: Sequence[Query],
    documents: Sequence[Sequence[int]],
) -> list[GenerationRequest]:
    """What the reader gets, from documents found before; the pipeline's own for symbolic search.

    Args:
        config: the experiment.
        dataset: whose corpus the documents are of.
        queries: in order.
        documents: rows of the corpus for each query, -1 where there are fewer.
    """
    shown = config.read("reader_rules", str, "selected")
    if shown == "found":  # which rule found a document is not kept with the runs
        silent = config.without("generator").to_dict() | {"generator": {"type": "symbolic"}}
        answers = make_pipeline(Config(silent), dataset).answer(queries)
        return [answer.request() for answer in answers]
    selector = make_selector(config, dataset.rules) if shown == "selected" else None
    rules = selector.select(queries) if selector is not None else [[] for _ in queries]
    return requests_from_rows(queries, documents, rules, dataset.corpus)


def read(
    config: Config, dataset: RuleQADataset, requests: Sequence[GenerationRequest]
) -> list[Completion]:
    """What the generator of an experiment answers."""
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
    if row.retriever.startswith("dense") and bench.encoder:
        changes.append(f"encoder={bench.encoder}")
    if row.retriever_training:
        trained = row.retriever_training + (f"-{bank}" if bank else "")
        changes.append(f"query_encoder={bench.checkpoint(trained, seed)}")
    reader = row.reader
    place = {"hybrid": "generator.model.", "ve": "generator.reader.", "cok": "generator.reader."}
    part = place.get(reader, "generator.")
    if row.training:
        adapter = readers.folder(bench, row.training + (f"-{bank}" if bank else ""), seed)
        changes += [f"{part}adapter={adapter}", f"seed={seed}"]
    if readers.model and reader not in ("symbolic", "candidate"):
        changes.append(f"{part}model={readers.model}")
        changes += [f"{part}{change}" for change in readers.reading]
    weight = dict(readers.weights).get(f"{bench.name}/{row.name}")
    if weight is not None:
        changes.append(f"generator.weight={weight}")
    return method(row.name, bench.name, last_of([*changes, *overrides]))


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
    return trained_steps(
        retriever=row.retriever_training and bench.checkpoint(row.retriever_training + end, seed),
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
