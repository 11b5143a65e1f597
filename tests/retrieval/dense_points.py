"""Vectors as texts, for dense retrieval that can be checked by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rulerag.retrieval.dense.retriever import DenseRetriever
from rulerag.types import Document, Query, ScoredDocument

Floats = npt.NDArray[np.float32]


class Points:
    """Encodes texts that are vectors already: "3 4" is (3, 4)."""

    def __init__(self, fingerprint: str | None = "points") -> None:
        self.batches: list[list[str]] = []
        if fingerprint is not None:
            self.fingerprint = fingerprint

    def encode(self, texts: Sequence[str]) -> Floats:
        self.batches.append(list(texts))
        return np.array([[float(x) for x in text.split()] for text in texts], dtype=np.float32)


def text_of(vector: Sequence[float]) -> str:
    return " ".join(repr(float(x)) for x in vector)


def corpus_of(vectors: Any) -> list[Document]:
    return [Document(f"d{i}", text_of(vector)) for i, vector in enumerate(vectors)]


def queries_of(vectors: Any) -> list[Query]:
    return [Query(f"q{i}", text_of(vector)) for i, vector in enumerate(vectors)]


def dense(documents: Sequence[Document], **options: Any) -> DenseRetriever:
    return DenseRetriever(documents, Points(), **{"cache": False, **options})


def ids(results: Sequence[ScoredDocument]) -> list[str]:
    return [scored.document.id for scored in results]


def cloud(size: int, dimension: int = 8, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal((size, dimension)).astype(np.float32)


SQUARE = corpus_of([(1, 0), (0, 2), (3, 3), (-1, 0)])
SQUARE = corpus_of([(1, 0), (0, 2), (3, 3), (-1, 0)])
