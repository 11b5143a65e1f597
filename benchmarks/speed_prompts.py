"""The requests that a rule-guided pipeline makes for the queries of a built dataset."""

from __future__ import annotations

from pathlib import Path

from rulerag.assembly import make_retriever, make_selector
from rulerag.composition import Config
from rulerag.ruleqa import RuleQADataset
from rulerag.types import GenerationRequest

__all__ = ["ruleqa_requests"]

_FINDING = {
    "selector": {"type": "head", "max_rules": 8, "rank_by": "support"},
    "retriever": {
        "type": "guided",
        "compose": "substitute",
        "merge": "evidence",
        "retriever": {
            "type": "time_aware",
            "order": "recent",
            "distinct_facts": True,
            "retriever": {"type": "bm25", "dates": "token"},
        },
    },
}


def ruleqa_requests(folder: Path, number: int) -> list[GenerationRequest]:
    """Ten documents of rule-guided BM25 and up to eight rules for the first queries of F_G.

    Args:
        folder: the dataset.
        number: how many queries at most.
    """
    dataset = RuleQADataset.load(folder)
    config = Config(_FINDING)
    selector = make_selector(config, dataset.rules)
    retriever = make_retriever(config, dataset, selector)
    queries = dataset.query_set("f_g")[:number]
    found = retriever.retrieve(queries, 10)
    rules = selector.select(queries) if selector is not None else [[] for _ in queries]
    return [
        GenerationRequest(query, tuple(scored.document for scored in documents), tuple(chosen))
        for query, documents, chosen in zip(queries, found, rules, strict=True)
    ]
