"""The command ``extract``: from texts to a graph folder with the words behind every fact."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rulerag.assembly import FACTS_ALONE, make_generator, preset
from rulerag.cli.common import GraphOptions, Output, RayOptions, say
from rulerag.cli.corpora import TextOptions, graph_names, read_documents
from rulerag.composition import Config, merged_values
from rulerag.errors import ConfigError
from rulerag.extraction import (
    ExtractionSettings,
    ModelExtractor,
    PatternBook,
    TripleExtractor,
    looks_english,
    write_graph,
)
from rulerag.folders import output_folder
from rulerag.io import check_folder
from rulerag.ruleqa import graph_labels

_SHOWN = 8


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ExtractionOptions:
    """What triples are found by, and which.

    Args:
        seeds: a graph, some of whose facts the texts state: what words mean is learned.
        patterns: patterns.yaml of an earlier extraction, maybe edited.
        generator: a language model that is asked what patterns leave open.
        min_confidence: least confidence of a triple.
        open_relations: words that mean no known relation become one of their own.
    """

    seeds: Path | None = None
    patterns: Path | None = None
    generator: str | None = None
    min_confidence: float = 0.3
    open_relations: Annotated[bool, Parameter(name="--open")] = False


def extract(
    corpus: Path,
    /,
    *,
    out: Output,
    how: ExtractionOptions = ExtractionOptions(),
    files: GraphOptions = GraphOptions(),
    cluster: RayOptions = RayOptions(),
    quiet: bool = False,
) -> None:
    """Find facts in texts: a graph folder that every other command reads, with its sentences.

    Args:
        corpus: a file or a folder of texts, as for `index`.
        out: the graph folder to write.
        how: what triples are found by, and which.
        files: how the files of the seeds are read.
        cluster: where texts are read.
        quiet: no progress bars.

    Example:
        rulerag extract notes --seeds facts.csv --out graph
    """
    settings = ExtractionSettings(how.min_confidence, how.open_relations)
    check_folder(out)
    started = time.perf_counter()
    graph = None if how.seeds is None else files.load(how.seeds)
    book = None if how.patterns is None else PatternBook.load(how.patterns)
    documents = read_documents(corpus, TextOptions())
    if not looks_english(document.text for document in documents):
        say("the texts do not look English, and only English words are understood: expect little")
    with output_folder(out):
        extractor = TripleExtractor(
            [] if graph is None else list(graph.train),
            names=None if graph is None else graph_names(graph),
            calendar=None if graph is None else graph.calendar,
            patterns=book,
            labels=None if graph is None else graph_labels(graph)["relations"],
            settings=settings,
        )
        model = None
        if how.generator is not None:
            model = _model(how.generator, out, extractor.relations)
        found = extractor.extract(documents, model=model, backend=cluster.backend())
        about = {"settings": {**vars(settings), "model": how.generator}}
        report = write_graph(out, found, extractor.calendar, extractor.patterns, about)
    seconds = time.perf_counter() - started
    say(
        f"{report['facts']:,} facts of {len(report['relations'])} relations in "
        f"{report['documents']:,} documents, {seconds:.1f} s → {out}"
    )
    for relation, count in list(report["relations"].items())[:_SHOWN]:
        one = next(t for t in found.triples if t.fact.relation == relation)
        text = found.documents[one.document_id].text
        say(f"  {count:>6,}  {relation}: {text[slice(*one.sentence)]}")
    for why, count in report["passed_over"].items():
        say(f"  passed over: {count:,} × {why}")
    doubts = report["may_contradict"]
    if doubts:
        one = doubts[0]
        what = ", ".join(one.get("objects") or one["dates"])
        named = " ".join(one[key] for key in ("subject", "relation", "object") if key in one)
        say(f"  may contradict each other: {len(doubts):,}, first {named}: {what}; all are kept")
    if found.faults:
        say(f"  not read of what the model wrote: {len(found.faults):,}, first {found.faults[0]}")
    say(f"Next: rulerag mine {out} --out rules.jsonl")
    say(f"      rulerag ruleqa build --kg {out} --out dataset")


def _model(name: str, out: Path, relations: Sequence[str]) -> ModelExtractor:
    """A language model that answers in its own words, with what it said kept beside the graph."""
    if name in FACTS_ALONE:
        raise ConfigError(
            f"{name!r} reads facts, and is no language model",
            key="generator",
            hint="name one of `rulerag models list`, a folder, or a YAML file with an endpoint",
        )
    config = preset(out, generator=name, model_settings=ModelExtractor.PROMPT)
    section = config["generator"]
    if section["type"] == "openai":
        config = Config({"generator": merged_values(ModelExtractor.endpoint(relations), section)})
    return ModelExtractor(make_generator(config), cache=out / "answers.jsonl")
