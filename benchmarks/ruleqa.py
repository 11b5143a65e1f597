"""Builds RuleQA from a knowledge graph (RuleRAG, arXiv:2410.22353, section 2).

The corpus D linearises the training facts; queries come from test facts, popular and long-tail
entities in balance; F_R and F_G come from two disjoint halves of the validation facts, with
oracle documents found by entity and relation; the rule bank R is mined from the training facts.
What the paper leaves open is an option of :class:`RuleQASettings` with a stated default.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from benchmarks.ruleqa_ceilings import ceilings
from benchmarks.ruleqa_check import check_leakage
from benchmarks.ruleqa_oracle import Oracle
from benchmarks.ruleqa_queries import balanced, fine_tuning_halves
from benchmarks.ruleqa_settings import (
    BENCHMARKS,
    PUBLISHED,
    VARIANTS,
    RuleQASettings,
    check_settings,
    known_settings,
)
from benchmarks.validation import joined, validation_graph, with_held_out
from rulerag.dataset import RuleQADataset
from rulerag.kg.graph import KnowledgeGraph
from rulerag.kg.questions import graph_labels, queries_from_facts
from rulerag.kg.verbalization import Verbalizer
from rulerag.rules import Rule, RuleBank
from rulerag.types import Query

__all__ = ["BENCHMARKS", "VARIANTS", "RuleQASettings", "build", "main", "mine"]


def build(
    name: str,
    graph: KnowledgeGraph,
    *,
    seed: int = 0,
    settings: RuleQASettings | None = None,
    variant: str = "test",
    progress: bool = False,
) -> RuleQADataset:
    """Build one benchmark and prove that it does not leak.

    Args:
        name: one of :data:`BENCHMARKS`.
        graph: its knowledge graph, with the splits train, valid and test.
        seed: decides the balanced sample, the two halves of the validation facts and the facts
            that are held out.
        settings: the open choices; the benchmark's own when None.
        variant: one of :data:`VARIANTS`.
        progress: show progress bars.

    Raises:
        ConfigError: an unknown name, a graph of the other kind, a setting out of range.
        EmptyDataError: a split is empty, or no query has a guiding rule.
        DataError: it leaks.
    """
    known = known_settings(name)
    settings = settings or known
    check_settings(name, graph, settings, seed, variant)
    described = {
        **asdict(settings),
        "graph": graph.name,
        "graph_fingerprint": graph.fingerprint,
        "variant": variant,
    }
    graph = with_held_out(graph, settings.hold_out, seed=seed)
    if variant == "validation":
        graph = validation_graph(graph, seed=seed)
    words = Verbalizer(graph)
    full = queries_from_facts(graph.test, words, "test")
    train = queries_from_facts(graph.valid, words, "valid")
    rules = mine(graph, settings, progress=progress)
    facts = graph.train
    if settings.corpus == "train+valid":
        facts = joined(facts, graph.valid, "train")
    corpus = words.corpus(facts)
    random = np.random.default_rng(seed)
    halves = fine_tuning_halves(train, rules, full, random)
    oracle = Oracle(graph, facts, corpus, rules, settings.oracle_rules, progress=progress)
    queries, qrels = {"test": full}, {"test": oracle.qrels(full)}
    pool = [
        query
        for query in full
        if (query.id in qrels["test"] or settings.balance_from == "guided")
        and rules.for_head(query.relation)
    ]
    chosen = balanced(pool, graph, settings.num_queries, random)
    if variant == "degenerate":
        made, qrels["test"] = oracle.degenerate(full, words, settings.degenerate_time)
        queries["test"] = made
        chosen = [i for i in chosen if i in qrels["test"]]
    else:
        _add_fine_tuning(queries, qrels, halves, oracle, settings.pairs_per_query)
    dataset = RuleQADataset(
        corpus=corpus,
        queries=queries,
        qrels=qrels,
        rules=rules,
        query_sets={"balanced": chosen},
        labels=graph_labels(graph),
        calendar=asdict(graph.calendar) if graph.is_temporal else None,
        name=name if variant == "test" else f"{name}-{variant}",
        settings=described,
        seed=seed,
    )
    dataset.statistics = _statistics(name, dataset, check_leakage(dataset))
    return dataset


def _add_fine_tuning(
    queries: dict[str, list[Query]],
    qrels: dict[str, dict[str, dict[str, int]]],
    halves: tuple[list[Query], list[Query]],
    oracle: Oracle,
    pairs_per_query: int | None,
) -> None:
    for split, half in zip(("f_r", "f_g"), halves, strict=True):
        limit = pairs_per_query if split == "f_r" else None
        qrels[split] = oracle.qrels(half, limit=limit)
        # F_R is made of query-document pairs: a query without an oracle document gives none.
        queries[split] = [q for q in half if split == "f_g" or q.id in qrels[split]]


def mine(graph: KnowledgeGraph, settings: RuleQASettings, *, progress: bool = False) -> RuleBank:
    """The rule bank R of a graph's training facts under a benchmark's settings."""
    if settings.miner == "tlogic":
        from rulerag.mining.tlogic import TLogicMiner

        bank = TLogicMiner(
            lengths=range(1, settings.max_atoms),
            min_support=settings.min_support,
            min_confidence=settings.min_confidence,
            progress=progress,
        ).mine(graph.train)
    else:
        from rulerag.mining.amie import AmieMiner

        bank = AmieMiner(
            max_atoms=settings.max_atoms,
            min_head_coverage=settings.min_head_coverage,
            min_pca_confidence=settings.min_confidence,
            progress=progress,
        ).mine(graph.train)
        bank = bank.filter(min_support=settings.min_support)
    if settings.num_rules is None or len(bank) <= settings.num_rules:
        return bank
    best = {rule.id for rule in sorted(bank, key=_smoothed, reverse=True)[: settings.num_rules]}
    return RuleBank(rule for rule in bank if rule.id in best)


def _smoothed(rule: Rule) -> float:
    """AnyBURL's confidence: a rule seen twice must not come before one seen a thousand times."""
    support = rule.quality.support or 0
    confidence = rule.ranking_confidence
    return support / (support / confidence + 5) if confidence else 0.0


def _statistics(name: str, dataset: RuleQADataset, proof: Sequence[str]) -> dict[str, Any]:
    """What was measured: sizes in the paper's terms, ceilings of answer recall, the proof."""
    queries, judged = dataset.queries, dataset.qrels("f_r")
    return {
        "sizes": {
            "rules": len(dataset.rules),
            "documents": len(dataset.corpus),
            "f_r": sum(map(len, judged.values())),
            "f_r_queries": len(queries.get("f_r", ())),
            "f_r_three_latest": sum(min(len(grades), 3) for grades in judged.values()),
            "f_g": sum(len(query.answers) for query in queries.get("f_g", ())),
            "f_g_queries": len(queries.get("f_g", ())),
            "queries": len(dataset.query_sets["balanced"]),
            "queries_full": len(queries["test"]),
        },
        "published": dict(PUBLISHED[name]),
        "ceilings": ceilings(dataset),
        "leakage": list(proof),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; see :mod:`benchmarks.ruleqa_commands`."""
    from benchmarks.ruleqa_commands import run

    return run(argv)


if __name__ == "__main__":
    sys.exit(main())
