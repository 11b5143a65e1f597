"""How much the hybrid reader heeds the model: chosen on queries of F_G kept out of fine-tuning."""

from __future__ import annotations

from typing import Any

from benchmarks.common.bench import Bench
from benchmarks.experiments.generation.runs import Readers, make_config, requests_of, settings_of
from benchmarks.experiments.matrix.rows import ReadingRow
from rulerag.assembly import make_generator, make_retriever, make_selector
from rulerag.generation import HybridReader
from rulerag.io import fingerprint_object, read_json, write_json
from training.generator.data import tuning_queries


def tuned_weight(bench: Bench, row: ReadingRow, readers: Readers, seed: int = 0) -> float:
    """The weight of the best exact match on tuning queries; 0, no model, where none helps.

    The queries are those of F_G that the reader's own run kept for tuning: validation facts, which
    neither half was fine-tuned on and no test query asks about.

    Args:
        bench: the benchmark.
        row: a hybrid row.
        readers: its language model, fine-tuned already.
        seed: of what is fine-tuned.
    """
    config = make_config(bench, row, readers, seed)
    folder = readers.folder(bench, row.training, seed)
    settings = config.without("metadata", "expected").to_dict()
    settings["generator"].pop("weight", None)  # this is what is sought
    identity = fingerprint_object(
        [
            settings,
            bench.dataset.fingerprint,
            read_json(folder / "metrics.json"),
        ]
    )
    place = bench.out / "reading" / bench.name / "weights" / f"{row.name}{readers.tag}-{seed}.json"
    if place.exists() and (known := read_json(place)).get("identity") == identity:
        return float(known["weight"])
    queries = tuning_queries(settings_of(bench, readers, row.training, seed), bench.dataset)
    retriever = make_retriever(config, bench.dataset, make_selector(config, bench.dataset.rules))
    row_of = bench.row_of
    rows = [
        [row_of[scored.document.id] for scored in documents]
        for documents in retriever.retrieve(queries, config.read("top_k", int, 10))
    ]
    requests = requests_of(config, bench.dataset, queries, rows)
    reader: Any = make_generator(config, bench.dataset)
    assert isinstance(reader, HybridReader)  # noqa: S101  (a hybrid row has one)
    found = reader.tune(requests)
    weight = reader.weight if found[reader.weight] > found[0.0] else 0.0
    write_json(
        place,
        {
            "identity": identity,
            "weight": weight,
            "queries": len(queries),
            "exact_match": {str(key): round(value, 4) for key, value in found.items()},
        },
    )
    return weight
