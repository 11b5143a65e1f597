"""The corpus as a matrix that is encoded once, and the answer recall of a query encoder over it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from rulerag.arrays import Floats
from rulerag.evaluation import AnswerMatcher
from rulerag.protocols import Encoder, RuleSelector
from rulerag.retrieval.base import Rows, known_answers_first, scored_documents
from rulerag.retrieval.dense import embed_corpus
from rulerag.retrieval.guided import RuleGuidedRetriever
from rulerag.retrieval.symbolic import complete_chains
from rulerag.types import Document, Query, ScoredDocument

if TYPE_CHECKING:
    from rulerag.retrieval.dense.encoders import SentenceEncoder


Places = npt.NDArray[np.int64]
_BLOCK = 2**25
"""Scores computed at once in a search."""


def _unit(vectors: Floats) -> Floats:
    """Vectors of length one."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    made: Floats = vectors / np.maximum(lengths, 1e-12)
    return made


class CorpusMatrix:
    """Document vectors that are never trained.

    Args:
        vectors: float32 array of shape (documents, dim), of any length; may be memory-mapped.
        truncated: documents longer than the encoder's window.
    """

    def __init__(self, vectors: Floats, truncated: int = 0) -> None:
        self.vectors = vectors
        self.truncated = truncated

    @classmethod
    def encode(
        cls,
        documents: Sequence[Document],
        encoder: SentenceEncoder,
        *,
        cache: bool = True,
        progress: bool = False,
    ) -> CorpusMatrix:
        """Encode a corpus, or read what the same encoder made of it; a killed run goes on.

        Args:
            documents: the corpus.
            encoder: the document encoder.
            cache: keep the matrix on disk, where dense retrieval finds it too.
            progress: show a progress bar.

        Raises:
            EmptyDataError: there is no document, or an empty one.
        """
        made = embed_corpus(documents, encoder, cache=cache, progress=progress)
        return cls(made.vectors, made.truncated)

    def __len__(self) -> int:
        return len(self.vectors)

    def take(self, rows: Places, device: torch.device | str = "cpu") -> torch.Tensor:
        """The vectors of some rows, shape (len(rows), dim)."""
        return torch.from_numpy(np.array(self.vectors[rows])).to(device)

    def search(
        self, queries: Floats, top_k: int, device: torch.device | str = "cpu"
    ) -> tuple[Floats, Places]:
        """Exact search by cosine.

        Args:
            queries: shape (q, dim).
            top_k: documents for each query; fewer where the corpus is smaller.
            device: where the products are computed.

        Returns:
            Scores and rows, both of shape (q, top_k), best first.
        """
        left = torch.from_numpy(_unit(queries)).to(device)
        top_k = min(top_k, len(self))
        scores = torch.empty((len(left), 0), device=device)
        rows = torch.empty((len(left), 0), dtype=torch.long, device=device)
        step = max(top_k, _BLOCK // max(1, len(left)))
        for start in range(0, len(self), step):
            block = torch.from_numpy(_unit(self.vectors[start : start + step])).to(device)
            best = (left @ block.T).topk(min(top_k, len(block)), dim=1)
            scores = torch.cat([scores, best.values], dim=1)
            rows = torch.cat([rows, best.indices + start], dim=1)
            kept = scores.topk(min(top_k, scores.shape[1]), dim=1)
            scores, rows = kept.values, rows.gather(1, kept.indices)
        return scores.cpu().numpy(), rows.cpu().numpy()


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
    arXiv:2410.22353, section 4.3). A query without a guiding rule is searched alone.

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
        found = _by_score(plain, selector, queries, top_k, entity_label)
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
    plain: MatrixRetriever,
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
