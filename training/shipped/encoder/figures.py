"""What the small encoder finds on graphs that its training never saw."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rulerag.kg import KnowledgeGraph
from rulerag.retrieval.dense import DenseRetriever
from rulerag.retrieval.guided import HeadRelationSelector
from rulerag.ruleqa import BENCHMARKS, RuleQADataset, RuleQASettings, build, validation_graph
from rulerag.synthetic import World
from training.retriever.validation import answer_recall

if TYPE_CHECKING:
    from rulerag.retrieval.dense.encoders import SentenceEncoder


HELD_OUT = 10_000
"""Worlds from this seed on are never trained on."""

_GUIDES = 8


def dataset_figures(
    encoder: SentenceEncoder, dataset: RuleQADataset, *, progress: bool = False
) -> dict[str, float]:
    """Answer recall at ten of the balanced queries, plain and with rules appended.

    Args:
        encoder: of both sides.
        dataset: the dataset.
        progress: show a progress bar.

    Returns:
        ``plain``; ``guided``, the ten best of all searches; ``guided_union``, the ten best of each
        (RuleRAG, arXiv:2410.22353, section 4.3), and its mean size ``documents_per_query_union``.
    """
    retriever = DenseRetriever(
        dataset.corpus, encoder, similarity="cosine", cache=False, progress=progress
    )
    queries = dataset.query_set("balanced")
    selector = HeadRelationSelector(dataset.rules, max_rules=_GUIDES, rank_by="support")
    plain = answer_recall(retriever, queries, None)
    guided = answer_recall(retriever, queries, selector)
    return {
        "queries": float(len(queries)),
        "documents": float(len(dataset.corpus)),
        "plain": plain["answer_recall@10"],
        "guided": guided["answer_recall@10"],
        "guided_union": guided["answer_recall@10_union"],
        "documents_per_query_union": guided["documents_per_query_union"],
    }


def world_figures(
    encoder: SentenceEncoder, *, facts: int = 20_000, queries: int = 500
) -> dict[str, dict[str, float]]:
    """A dated and a static world that no training saw.

    Args:
        encoder: of both sides.
        facts: of each world.
        queries: of each world, at most.
    """
    figures = {}
    for number, (kind, name) in enumerate((("temporal", "ruleqa-i"), ("static", "ruleqa-n"))):
        world = World.generate(facts, kind=kind, seed=HELD_OUT + number)
        settings = RuleQASettings(
            num_queries=queries,
            miner=BENCHMARKS[name].miner,
            max_atoms=BENCHMARKS[name].max_atoms,
            min_support=20,
            min_confidence=0.3,
        )
        dataset = build(name, world.graph, settings=settings)
        figures[f"unseen {kind} world"] = dataset_figures(encoder, dataset)
    return figures


def twin_figures(
    encoder: SentenceEncoder, graph: KnowledgeGraph, *, name: str = "ruleqa-i"
) -> dict[str, float]:
    """The validation twin of a benchmark: validation facts are asked, never the test's.

    Args:
        encoder: of both sides.
        graph: the benchmark's graph.
        name: of the benchmark.
    """
    return dataset_figures(encoder, build(name, validation_graph(graph)))
