"""Answer recall of a query encoder over a frozen corpus matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from rulerag.evaluation.metrics import AnswerMatcher
from rulerag.protocols import Encoder, RuleSelector
from rulerag.retrieval.corpus import Rows, scored_documents
from rulerag.retrieval.rule_guided import RuleGuidedRetriever
from rulerag.types import Document, Query, ScoredDocument
from training.corpus_matrix import CorpusMatrix

__all__ = ["MatrixRetriever", "answer_recall"]


class MatrixRetriever:
    """Exact search in a corpus matrix, as a retriever.

    Args:
        encoder: of queries.
        matrix: the vectors of ``documents``.
        documents: the corpus.
        device: where the search runs.
    """

    fingerprint = "corpus-matrix"

    def __init__(
        self,
        encoder: Encoder,
        matrix: CorpusMatrix,
        documents: Sequence[Document],
        device: torch.device | str = "cpu",
    ) -> None:
        self.encoder = encoder
        self.matrix = matrix
        self.documents = tuple(documents)
        self.device = device

    def search(self, queries: Sequence[Query], depth: int) -> Rows:
        """Return, for each query, the ``depth`` best corpus rows; equal texts are searched once."""
        place: dict[str, int] = {}
        for query in queries:
            place.setdefault(query.text, len(place))
        scores, rows = self.matrix.search(self.encoder.encode(list(place)), depth, self.device)
        back = [place[query.text] for query in queries]
        return Rows(rows[back], scores[back].astype(np.float64))

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return, for each query, the ``top_k`` best documents."""
        return scored_documents(self.documents, self.search(queries, top_k)) if queries else []


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
    entity_label: Callable[[str], str] = str,
) -> dict[str, float]:
    """Share of the queries whose answer stands in a retrieved document.

    With rules, each query∘rule is one search, a chain one search a hop; ``answer_recall@k`` looks
    at the k best of all searches by score, ``answer_recall@k_union`` at the whole union (RuleRAG,
    arXiv:2410.22353, section 4.3). A query without a guiding rule is searched as it stands.

    Args:
        encoder: of queries.
        matrix: the vectors of ``documents``.
        documents: the corpus.
        queries: with answers.
        selector: gives the guiding rules; plain search when None.
        top_k: k.
        device: where the search runs.
        matcher: one for many calls over the same corpus makes them fast.
        entity_label: the words of a raw entity, as the queries' texts have them.
    """
    matcher = matcher or AnswerMatcher()
    plain = MatrixRetriever(encoder, matrix, documents, device)
    if selector is None:
        found = plain.retrieve(queries, top_k)
    else:
        guided = RuleGuidedRetriever(plain, selector, merge="score", entity_label=entity_label)
        found = guided.retrieve_union(queries, top_k)
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
