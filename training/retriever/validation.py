"""The answer recall of a query encoder over a corpus, as rule-guided retrieval measures it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rulerag.evaluation import AnswerMatcher
from rulerag.protocols import RuleSelector
from rulerag.retrieval.base import known_answers_first
from rulerag.retrieval.dense import DenseRetriever
from rulerag.retrieval.guided import RuleGuidedRetriever
from rulerag.retrieval.symbolic import complete_chains
from rulerag.types import Query, ScoredDocument


def answer_recall(
    retriever: DenseRetriever,
    queries: Sequence[Query],
    selector: RuleSelector | None,
    *,
    top_k: int = 10,
    matcher: AnswerMatcher | None = None,
    entity_label: Callable[[str], str] = str,
) -> dict[str, float]:
    """Share of the queries whose answer stands in a retrieved document.

    With rules, each query∘rule is one search, a chain one search a hop; ``answer_recall@k`` looks
    at the k best of all searches by score, ``answer_recall@k_union`` at the whole union (RuleRAG,
    arXiv:2410.22353, section 4.3). A query without a guiding rule is searched alone.

    Args:
        retriever: over the vectors of the corpus, with the encoder of the queries.
        queries: with answers.
        selector: gives the guiding rules; plain search when None.
        top_k: k.
        matcher: one for many calls over the same corpus makes them fast.
        entity_label: the words of a raw entity, as the queries' texts have them.
    """
    matcher = matcher or AnswerMatcher()
    if selector is None:
        found = retriever.retrieve(queries, top_k)
    else:
        found = _by_score(retriever, selector, queries, top_k, entity_label)
    ranks = [
        matcher.first_rank((scored.document for scored in listed), query.answers)
        for query, listed in zip(queries, found, strict=True)
    ]
    total = max(1, len(queries))
    return {
        f"answer_recall@{top_k}": sum(rank is not None and rank <= top_k for rank in ranks) / total,
        f"answer_recall@{top_k}_union": sum(rank is not None for rank in ranks) / total,
        "documents_per_query_union": sum(map(len, found)) / total,
    }


def _by_score(
    plain: DenseRetriever,
    selector: RuleSelector,
    queries: Sequence[Query],
    top_k: int,
    entity_label: Callable[[str], str],
) -> list[list[ScoredDocument]]:
    """The union of every rule's search, best score first; what is stated comes before all."""
    guided = RuleGuidedRetriever(plain, selector, entity_label=entity_label)
    unions = guided.retrieve_union([replace(q, prediction=True) for q in queries], top_k)
    ordered = []
    for query, rules, union in zip(queries, selector.select(queries), unions, strict=True):
        ranked = sorted(union, key=lambda one: -max(hit.score for hit in one.found_by))
        whole = complete_chains(query, rules, ranked, guided.settings.whole_chains)
        ordered.append(known_answers_first(query, whole, guided.statements))
    return ordered
