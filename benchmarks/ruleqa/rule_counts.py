"""How many rules a graph has under several thresholds, beside the published rule banks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rulerag.errors import DataFormatError
from rulerag.io import prepare_folder, read_json, write_json, write_text
from rulerag.kg import KnowledgeGraph
from rulerag.ruleqa import (
    GRAPHS,
    PUBLISHED,
    RuleQASettings,
    check_settings,
    known_settings,
    mine,
)
from rulerag.rules import RuleBank

#: Longest rule, least support and least confidence of each count, by miner; the loosest of a
#: length come first, so that its number is all that the graph can give.
GRIDS: Mapping[str, Sequence[tuple[int, int, float]]] = {
    "tlogic": [(2, 1, 0.0), (2, 2, 0.01), (2, 10, 0.1), (3, 1, 0.01), (4, 1, 0.01)],
    "amie": [(2, 2, 0.01), (2, 20, 0.2), (3, 2, 0.01), (3, 2, 0.1), (3, 10, 0.01), (3, 18, 0.1)],
}


def count_rules(name: str, graph: KnowledgeGraph) -> list[dict[str, Any]]:
    """Mine the training facts of a benchmark's graph under every thresholds of its grid.

    Args:
        name: the benchmark.
        graph: its graph.

    Returns:
        For each: ``max_atoms``, ``min_support``, ``min_confidence``, the number of ``rules``, how
        many of them have one, two, three body atoms (``by_body``), and ``guided``, the share of
        test facts whose relation is the head of one.
    """
    settings = known_settings(name)
    check_settings(name, graph, settings.model_copy(update={"hold_out": 0}), 0, "test")
    counts = []
    for atoms, support, confidence in GRIDS[settings.miner]:
        thresholds = {"max_atoms": atoms, "min_support": support, "min_confidence": confidence}
        chosen = settings.model_copy(update={**thresholds, "num_rules": None})
        counts.append(_row(chosen, mine(graph, chosen), graph))
    return counts


def _row(settings: RuleQASettings, rules: RuleBank, graph: KnowledgeGraph) -> dict[str, Any]:
    heads = [graph.relations.id(relation) for relation in rules.head_relations]
    return {
        "max_atoms": settings.max_atoms,
        "min_support": settings.min_support,
        "min_confidence": settings.min_confidence,
        "rules": len(rules),
        "by_body": [sum(len(rule.body) == length for rule in rules) for length in (1, 2, 3)],
        "guided": round(float(np.isin(graph.test.relation, heads).mean()), 6),
    }


def write_rule_counts(name: str, graph: KnowledgeGraph, out: Path) -> list[Path]:
    """Add a benchmark's counts to ``rules.json`` and write ``rules.md`` anew.

    Raises:
        DataFormatError: ``rules.json`` is there and is none of ours.
    """
    path = prepare_folder(out) / "rules.json"
    counts: dict[str, Any] = read_json(path) if path.exists() else {}
    if not isinstance(counts, dict) or not counts.keys() <= GRAPHS.keys():
        raise DataFormatError("holds no counts of rules", path=path, hint="remove it")
    counts[name] = count_rules(name, graph)
    write_json(path, {key: counts[key] for key in GRAPHS if key in counts})
    write_text(out / "rules.md", "\n".join(_lines(counts)) + "\n")
    return [path, out / "rules.md"]


def _lines(counts: Mapping[str, Any]) -> Iterator[str]:
    yield "Written by `python -m benchmarks.ruleqa rules`, over all training facts of each graph."
    yield ""
    yield "Paper: |R| in its two published versions. Confidence: PCA confidence for static graphs."
    yield ""
    columns = ["benchmark", "paper", "longest rule", "support ≥", "confidence ≥", "rules"]
    columns += ["1 / 2 / 3 body atoms", "test facts guided"]
    yield "| " + " | ".join(columns) + " |"
    yield "| --- |" + " ---: |" * (len(columns) - 1)
    for name in filter(counts.__contains__, GRAPHS):
        theirs = f"{PUBLISHED[name]['rules_v1']:,} / {PUBLISHED[name]['rules_v2']:,}"
        for row in counts[name]:
            bodies = " / ".join(f"{number:,}" for number in row["by_body"])
            cells = [name, theirs, row["max_atoms"], row["min_support"], row["min_confidence"]]
            cells += [f"{row['rules']:,}", bodies, f"{row['guided']:.1%}"]
            yield "| " + " | ".join(map(str, cells)) + " |"
