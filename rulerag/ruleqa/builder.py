"""Builds RuleQA from a knowledge graph (RuleRAG, arXiv:2410.22353, section 2).

The corpus D linearises the training facts; queries come from test facts, popular and long-tail
entities in balance; F_R and F_G come from two disjoint halves of the validation facts, with
oracle documents found by entity and relation; the rule bank R is mined from the training facts.
What the paper leaves open is an option of :class:`RuleQASettings` with a stated default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rulerag.kg import FactTable, KnowledgeGraph, Verbalizer
from rulerag.ruleqa.ceilings import ceilings
from rulerag.ruleqa.check import check_leakage
from rulerag.ruleqa.dataset import DatasetInfo, RuleQADataset
from rulerag.ruleqa.missing import complete_facts, inferable_rows, without
from rulerag.ruleqa.oracle import Oracle
from rulerag.ruleqa.queries import balanced, fine_tuning_halves
from rulerag.ruleqa.questions import graph_labels, queries_from_facts
from rulerag.ruleqa.settings import (
    PUBLISHED,
    RuleQASettings,
    check_settings,
    known_settings,
    missing_settings,
    settings_to_try,
)
from rulerag.ruleqa.validation_split import joined, validation_graph, with_held_out, with_splits
from rulerag.rules import Rule, RuleBank
from rulerag.types import Document, Query

if TYPE_CHECKING:
    from rulerag.mining.temporal import TLogicMiner


def build(
    name: str | None,
    graph: KnowledgeGraph,
    *,
    seed: int = 0,
    settings: RuleQASettings | None = None,
    changes: Mapping[str, Any] | None = None,
    variant: str = "test",
    sources: Sequence[Document] = (),
    progress: bool = False,
) -> RuleQADataset:
    """Build one benchmark, or a dataset from a graph of one's own, and prove that it does not leak.

    Without a name, a graph that lacks splits gets some
    (:func:`~rulerag.ruleqa.validation_split.with_splits`), questions that no rule guides are drawn
    where there are no others, and the strictest of a few thresholds
    under which rules guide half of the test queries are taken
    (:func:`~rulerag.ruleqa.settings.settings_to_try`); ``settings`` of the dataset say which.

    Args:
        name: one of :data:`BENCHMARKS`; None for a graph of one's own.
        graph: the knowledge graph; a benchmark's has the splits train, valid and test.
        seed: decides the balanced sample, the two halves of the validation facts, the facts that
            are held out, and the splits of a static graph without any.
        settings: the open choices; the benchmark's own, or what suits the graph, when None.
        changes: single settings that differ from these.
        variant: one of :data:`VARIANTS`.
        sources: documents that state one fact each, in place of the sentences that are made of
            facts: the words of the texts that a graph was extracted from.
        progress: show progress bars.

    Raises:
        ConfigError: an unknown name, a graph of the other kind, a setting out of range.
        EmptyDataError: a split is empty, or no query of a benchmark has a guiding rule.
        DataError: it leaks.
    """
    described = {"graph": graph.name, "graph_fingerprint": graph.fingerprint, "variant": variant}
    if name is None:
        graph, described["splits"] = with_splits(graph, seed=seed)
    if settings is None and name is None:
        tried = settings_to_try(graph, changes or {})
    else:
        known = settings or known_settings(str(name))
        tried = [RuleQASettings.joined(known, changes or {})]
    for settings in tried:
        check_settings(name or "the dataset", graph, settings, seed, variant)
    graph = with_held_out(graph, tried[0].hold_out, seed=seed)
    if variant == "validation":
        graph = validation_graph(graph, seed=seed)
    words = Verbalizer(graph)
    full = queries_from_facts(graph.test, words, "test")
    train = queries_from_facts(graph.valid, words, "valid")
    settings, rules = _mine_enough(graph, tried, full, progress=progress)
    return _assembled(
        name, graph, settings, rules, (full, train), described, seed, sources, progress=progress
    )


def build_missing(
    graph: KnowledgeGraph,
    *,
    seed: int = 0,
    changes: Mapping[str, Any] | None = None,
    sources: Sequence[Document] = (),
    progress: bool = False,
) -> dict[str, RuleQADataset]:
    """Build datasets whose questions ask for facts that rules infer (BRINK, arXiv:2508.08344).

    The first answer of a query is the one whose fact was removed; facts that stay give further
    ones. Its judged documents prove that answer, by rules of the complete graph.

    Args:
        graph: the complete graph.
        seed: decides which facts are removed, and which of them are asked in tests.
        changes: settings that differ from :data:`~rulerag.ruleqa.settings.MISSING`; ``num_queries``
            facts are removed.
        sources: as in :func:`build`.
        progress: show progress bars.

    Returns:
        By name: ``incomplete`` with rules mined from what is left, ``complete`` with the removed
        facts and rules mined from all, and ``validation``, incomplete with other questions.

    Raises:
        ConfigError: a setting out of range.
        EmptyDataError: no fact can be inferred from the others.
    """
    settings = RuleQASettings.joined(missing_settings(graph), changes or {})
    check_settings("the dataset", graph, settings, seed, "test")
    complete = complete_facts(graph)
    proving = mine(complete, settings, progress=progress)
    rows = inferable_rows(complete, proving, settings.num_queries, seed=seed, progress=progress)
    made, left = dict[str, RuleQADataset](), None
    for name in ("incomplete", "complete", "validation"):
        parts = without(graph, complete, rows, name)
        if name != "complete" and left is None:
            left = mine(parts.train, settings, progress=progress)
        words = Verbalizer(parts)
        test, train = (
            queries_from_facts(parts.splits[split], words, split, complete)
            for split in ("test", "valid")
        )
        described = {
            "graph": graph.name,
            "graph_fingerprint": graph.fingerprint,
            "variant": f"missing-{name}",
            "splits": f"{len(rows):,} facts removed, a fifth asked in tests, a fifth in validation",
        }
        rules = proving if name == "complete" or left is None else left
        given = parts, settings, rules, (test, train), described, seed, sources
        made[name] = _assembled(None, *given, proving=proving, progress=progress)
    return made


def _assembled(
    name: str | None,
    graph: KnowledgeGraph,
    settings: RuleQASettings,
    rules: RuleBank,
    asked: tuple[list[Query], list[Query]],
    described: Mapping[str, str],
    seed: int,
    sources: Sequence[Document],
    *,
    proving: RuleBank | None = None,
    progress: bool,
) -> RuleQADataset:
    """The dataset of test and training queries over the training facts of a graph.

    Args:
        name: of a benchmark.
        graph: whose splits are as the queries need them.
        settings: the choices.
        rules: the rule bank.
        asked: test and training queries.
        described: what the settings of the dataset state besides.
        seed: of what is drawn.
        sources: as in :func:`build`.
        proving: rules whose documents are judged, for the first answer of each query; those of the
            bank, for every answer, when None.
        progress: show progress bars.
    """
    (full, train), variant = asked, described["variant"]
    base, words = name or described["graph"], Verbalizer(graph)
    facts = graph.train
    if settings.corpus == "train+valid":
        facts = joined((facts, graph.valid), "train")
    document_of = {document.facts[0]: document for document in sources}
    corpus = [document_of.get(one.facts[0], one) for one in words.corpus(facts)]
    random = np.random.default_rng(seed)
    halves = fine_tuning_halves(train, rules, full, random)
    judges = rules if proving is None else proving
    oracle = Oracle(graph, facts, corpus, judges, settings.oracle_rules, progress=progress)
    queries, qrels = {"test": full}, {"test": oracle.qrels(_judged(full, proving))}
    pool = [
        query
        for query in full
        if (query.id in qrels["test"] or settings.balance_from == "guided")
        and rules.for_head(query.relation)
    ]
    if not pool and name is None:
        pool = full  # of a small graph of one's own; the facts can be asked without rules
    chosen = balanced(pool, graph, settings.num_queries, random)
    if variant == "degenerate":
        made, qrels["test"] = oracle.degenerate(full, words, settings.degenerate_time)
        queries["test"] = made
        chosen = [i for i in chosen if i in qrels["test"]]
    else:
        limits = {"f_r": settings.pairs_per_query, "f_g": None}
        for (split, limit), half in zip(limits.items(), halves, strict=True):
            qrels[split] = oracle.qrels(_judged(half, proving), limit=limit)
            # F_R is made of query-document pairs: a query without an oracle document gives none.
            queries[split] = [q for q in half if split == "f_g" or q.id in qrels[split]]
    dataset = RuleQADataset(
        corpus=corpus,
        queries=queries,
        qrels=qrels,
        rules=rules,
        query_sets={"balanced": chosen},
        labels=graph_labels(graph),
        info=DatasetInfo(
            name=base if variant == "test" else f"{base}-{variant}",
            calendar=asdict(graph.calendar) if graph.is_temporal else None,
            seed=seed,
            settings={**settings.stated(), **described},
        ),
    )
    dataset.statistics = _statistics(dataset, PUBLISHED[name] if name else {})
    return dataset


def _judged(queries: Sequence[Query], proving: RuleBank | None) -> Sequence[Query]:
    """The queries whose documents are judged: for a missing fact alone, where one is missing."""
    if proving is None:
        return queries
    return [replace(query, answers=query.answers[:1]) for query in queries]


def _mine_enough(
    graph: KnowledgeGraph,
    tried: Sequence[RuleQASettings],
    queries: Sequence[Query],
    *,
    progress: bool,
) -> tuple[RuleQASettings, RuleBank]:
    """The first settings whose rules guide half of the queries, or the last, and the rules."""
    for settings in tried:
        rules = mine(graph.train, settings, progress=progress)
        guided = sum(bool(rules.for_head(query.relation)) for query in queries)
        if 2 * guided >= len(queries):
            break
    return settings, rules


def mine(facts: FactTable, settings: RuleQASettings, *, progress: bool = False) -> RuleBank:
    """The rule bank R of training facts under a benchmark's settings."""
    if settings.miner == "tlogic":
        bank = temporal_miner(settings, progress=progress).mine(facts)
    else:
        from rulerag.mining.amie import AmieMiner

        bank = AmieMiner(
            max_atoms=settings.max_atoms,
            min_head_coverage=settings.min_head_coverage,
            min_pca_confidence=settings.min_confidence,
            min_head_size=settings.min_head_size or 100,
            min_support=settings.min_support,
            min_standard_confidence=settings.min_standard_confidence,
            progress=progress,
        ).mine(facts)
    if settings.num_rules is None or len(bank) <= settings.num_rules:
        return bank
    best = {rule.id for rule in sorted(bank, key=_smoothed, reverse=True)[: settings.num_rules]}
    return RuleBank(rule for rule in bank if rule.id in best)


def temporal_miner(settings: RuleQASettings, *, progress: bool = False) -> TLogicMiner:
    """The miner of a temporal benchmark."""
    from rulerag.mining.temporal import TLogicMiner

    return TLogicMiner(
        lengths=range(1, settings.max_atoms),
        min_support=settings.min_support,
        min_confidence=settings.min_confidence,
        progress=progress,
    )


def _smoothed(rule: Rule) -> float:
    """AnyBURL's confidence: a rule seen twice must not come before one seen a thousand times."""
    support = rule.quality.support or 0
    confidence = rule.ranking_confidence
    return support / (support / confidence + 5) if confidence else 0.0


def _statistics(dataset: RuleQADataset, published: Mapping[str, int]) -> dict[str, Any]:
    """What was measured: sizes in the paper's terms, ceilings of answer recall, the proof."""
    proof = check_leakage(dataset)
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
        "published": dict(published),
        "ceilings": ceilings(dataset),
        "leakage": proof,
    }
