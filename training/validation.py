"""Answer recall of a query encoder over a frozen corpus matrix."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rulerag.evaluation.metrics import AnswerMatcher
from rulerag.protocols import Encoder, RuleSelector
from rulerag.retrieval.composition import append_rule
from rulerag.types import Document, Query
from training.corpus_matrix import CorpusMatrix

__all__ = ["answer_recall"]


def answer_recall(
    encoder: Encoder,
    matrix: CorpusMatrix,
    documents: Sequence[Document],
    queries: Sequence[Query],
    selector: RuleSelector | None,
    *,
    top_k: int = 10,
    device: torch.device | str = "cpu",
    matcher: AnswerMatcher | None = None,
) -> dict[str, float]:
    """Share of the queries whose answer stands in a retrieved document.

    With rules, each query∘rule is one search; ``answer_recall@k`` looks at the k best of all
    searches by score, ``answer_recall@k_union`` at the whole union (RuleRAG, arXiv:2410.22353,
    section 4.3). A query without a guiding rule is searched as it stands.

    Args:
        encoder: of queries.
        matrix: the vectors of ``documents``.
        documents: the corpus.
        queries: with answers.
        selector: gives the guiding rules; plain search when None.
        top_k: k.
        device: where the search runs.
        matcher: one for many calls over the same corpus makes them fast.
    """
    matcher = matcher or AnswerMatcher()
    guides = selector.select(queries) if selector is not None else [[] for _ in queries]
    texts = [
        [append_rule(query, rule) for rule in rules] or [query.text]
        for query, rules in zip(queries, guides, strict=True)
    ]
    flat = dict.fromkeys(text for group in texts for text in group)
    place = {text: n for n, text in enumerate(flat)}
    scores, rows = matrix.search(encoder.encode(list(flat)), top_k, device)
    best, union, sizes = 0, 0, 0
    for query, group in zip(queries, texts, strict=True):
        found: dict[int, float] = {}
        for n in (place[text] for text in group):
            for row, score in zip(rows[n].tolist(), scores[n].tolist(), strict=True):
                found[row] = max(score, found.get(row, score))
        ranked = sorted(found, key=lambda row: (-found[row], row))
        rank = matcher.first_rank((documents[row] for row in ranked), query.answers)
        union += rank is not None
        best += rank is not None and rank <= top_k
        sizes += len(ranked)
    total = max(1, len(queries))
    return {
        f"answer_recall@{top_k}": best / total,
        f"answer_recall@{top_k}_union": union / total,
        "documents_per_query_union": sizes / total,
    }
