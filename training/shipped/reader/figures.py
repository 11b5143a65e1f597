"""What the nano reader gets right on what it never saw, beside the symbolic reader."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rulerag.assembly import make_pipeline, preset
from rulerag.composition import Config
from rulerag.console import guarded
from rulerag.generation.huggingface import HuggingFaceGenerator
from rulerag.generation.prompts import Citation, CompactTemplate
from rulerag.io import write_json, write_text
from rulerag.kg import KnowledgeGraph
from rulerag.kg.grounding import FactIndex, ground
from rulerag.ruleqa import BENCHMARKS, RuleQADataset, RuleQASettings, build, validation_graph
from rulerag.synthetic import World
from rulerag.text import exact_match
from rulerag.types import Document, GenerationRequest
from training.shipped.reader.episodes import Stage, make_episode
from training.shipped.reader.names import NameSource, Random

HELD_OUT = 10_000
"""Worlds from this seed on are never trained on; nor are episodes of ``held-out``."""

_DOCUMENTS = (1, 2, 4, 8, 10)
_RULES = (0, 1, 3, 8)

Row = dict[str, float]


def episode_figures(reader: HuggingFaceGenerator, *, episodes: int = 200) -> dict[str, Row]:
    """Invented episodes by number of documents and rules, right by construction.

    Args:
        reader: the reader.
        episodes: of each cell.

    Returns:
        by ``"N documents, M rules"``: ``exact_match``, and ``citation``, the share of completions
        that cite the first document on which a rule fires.
    """
    names, template = NameSource(), CompactTemplate()
    rows = {}
    for documents in _DOCUMENTS:
        for rules in _RULES:
            rng = Random(f"held-out-{documents}-{rules}")
            stage = Stage((documents, documents), (rules, rules), 0.3)
            made = [make_episode(rng, names, stage) for _ in range(episodes)]
            said = reader.write([episode.request for episode in made])
            told = [
                (
                    template.parse(s, e.request) == e.answer,
                    template.cited(s)
                    == template.cited(template.completion(e.answer, Citation(*e.fact, e.inverse))),
                )
                for s, e in zip(said, made, strict=True)
            ]
            rows[f"{documents} documents, {rules} rules"] = {
                "exact_match": sum(t[0] for t in told) / episodes,
                "citation": sum(t[1] for t in told) / episodes,
            }
    return rows


def dataset_figures(
    reader: HuggingFaceGenerator, dataset: RuleQADataset, *, most: int = 1600
) -> Row:
    """Both readers on the same ten documents of rule-guided BM25.

    Args:
        reader: the reader.
        dataset: its balanced queries are asked.
        most: queries at most.

    Returns:
        ``exact_match`` of the nano reader, ``symbolic`` that of the symbolic reader, ``ratio`` of
        the two, ``same`` the share of equal answers among queries that the symbolic reader
        answers, ``citation`` the share of completions there that cite, word for word, a given
        document on which a guiding rule fires.
    """
    queries = dataset.query_set("balanced")[:most]
    pipeline = make_pipeline(Config(preset("held-out", rules="guided").to_dict()), dataset)
    answers = pipeline.answer(queries)
    requests = [answer.request() for answer in answers]
    said = reader.write(requests)
    template = CompactTemplate()
    count = dict.fromkeys(("exact_match", "symbolic", "same", "citation"), 0.0)
    answered = 0
    for answer, request, text in zip(answers, requests, said, strict=True):
        given = template.parse(text, request)
        truth = answer.query.answers
        count["exact_match"] += exact_match(given, truth)
        count["symbolic"] += exact_match(answer.text, truth)
        if answer.text:
            answered += 1
            count["same"] += given == answer.text
            count["citation"] += " ".join(template.cited(text)) in _firing(request)
    total = len(queries)
    return {
        "queries": float(total),
        "documents": 10.0,
        "rules": sum(len(r.rules) for r in requests) / total,
        "exact_match": count["exact_match"] / total,
        "symbolic": count["symbolic"] / total,
        "ratio": count["exact_match"] / max(1, count["symbolic"]),
        "same": count["same"] / max(1, answered),
        "citation": count["citation"] / max(1, answered),
    }


def _firing(request: GenerationRequest) -> set[str]:
    """The lines of the documents on which a guiding rule, or the asked relation, fires."""
    return {CompactTemplate().line(d, request) for d in request.documents if _fires(request, d)}


def _fires(request: GenerationRequest, document: Document) -> bool:
    query, index = request.query, FactIndex(enumerate(document.facts))
    if not request.rules:
        return any(True for _ in index.match(query.relation, query.subject, None))
    return any(
        True for rule in request.rules for _ in ground(rule, query.subject, index, query.timestamp)
    )


def figures(
    reader: HuggingFaceGenerator, twins: Sequence[tuple[str, Path]] = (), *, episodes: int = 200
) -> dict[str, Any]:
    """Everything: invented episodes, unseen worlds, and validation twins of real benchmarks.

    Args:
        reader: the reader.
        twins: benchmark names with their graph folders.
        episodes: of each cell of the first table.
    """
    told: dict[str, Any] = {
        "episodes": episode_figures(reader, episodes=episodes),
        "same_documents": {},
    }
    for number, (kind, name) in enumerate((("temporal", "ruleqa-i"), ("static", "ruleqa-n"))):
        world = World.generate(20_000, kind=kind, seed=HELD_OUT + number)
        settings = RuleQASettings(
            num_queries=500, miner=BENCHMARKS[name].miner, min_support=20, min_confidence=0.3
        )
        row = dataset_figures(reader, build(name, world.graph, settings=settings))
        told["same_documents"][f"unseen {kind} world"] = row
    for name, folder in twins:
        twin = build(name, validation_graph(KnowledgeGraph.load(folder)))
        told["same_documents"][f"validation twin of {name}"] = dataset_figures(reader, twin)
    return told


def tables(told: dict[str, Any]) -> str:
    """The figures as two Markdown tables, in percent."""
    lines = ["| | " + " | ".join(f"{r} rules" for r in _RULES) + " |"]
    lines.append("| --- |" + " ---: |" * len(_RULES))
    for documents in _DOCUMENTS:
        cells = [told["episodes"][f"{documents} documents, {r} rules"] for r in _RULES]
        shown = [f"{100 * c['exact_match']:.0f} ({100 * c['citation']:.0f})" for c in cells]
        lines.append(f"| {documents} documents | {' | '.join(shown)} |")
    lines += ["", "| | queries | nano | symbolic | ratio | same answer | citation |"]
    lines.append("| --- |" + " ---: |" * 6)
    for name, row in told["same_documents"].items():
        keys = ("exact_match", "symbolic", "ratio", "same", "citation")
        cells = [f"{row['queries']:,.0f}", *(f"{100 * row[key]:.1f}" for key in keys)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m training.shipped.reader.figures",
        description="Held-out figures of the nano reader.",
        epilog="example: python -m training.shipped.reader.figures "
        "--model rulerag/models/nano-llama --twin ruleqa-i=../shared/data/icews14 "
        "--out benchmarks/results/nano-llama",
    )
    parser.add_argument("--model", type=Path, required=True, help="the model folder")
    parser.add_argument(
        "--twin", action="append", default=[], help="BENCHMARK=GRAPH, its validation twin"
    )
    parser.add_argument("--episodes", type=int, default=200, help="invented ones per cell (200)")
    parser.add_argument("--out", type=Path, required=True, help="folder of metrics.json, table.md")
    arguments = parser.parse_args(argv)

    def work() -> None:
        reader = HuggingFaceGenerator(arguments.model, max_new_tokens=48, local_files_only=True)
        twins = [
            (name, Path(folder)) for name, _, folder in (t.partition("=") for t in arguments.twin)
        ]
        told = figures(reader, twins, episodes=arguments.episodes)
        write_json(arguments.out / "metrics.json", told)
        write_text(arguments.out / "table.md", tables(told))
        sys.stdout.write(tables(told))

    return guarded(work)


if __name__ == "__main__":
    sys.exit(main())
