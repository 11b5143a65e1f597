"""The corpus as a matrix: encoded once by the frozen document encoder, kept on disk, searched."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from rulerag.retrieval.dense_embeddings import embed_corpus
from rulerag.types import Document

if TYPE_CHECKING:
    from rulerag.retrieval.encoders import SentenceEncoder

__all__ = ["CorpusMatrix", "unit"]

Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]
_BLOCK = 2**25
"""Scores computed at once in a search."""


def unit(vectors: Floats) -> Floats:
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
        folder: Path | None = None,
        progress: bool = False,
    ) -> CorpusMatrix:
        """Encode a corpus, or read what the same encoder made of it; a killed run goes on.

        Args:
            documents: the corpus.
            encoder: the document encoder.
            cache: keep the matrix on disk, where dense retrieval finds it too.
            folder: another folder than rulerag's cache.
            progress: show a progress bar.

        Raises:
            EmptyDataError: there is no document, or an empty one.
        """
        made = embed_corpus(documents, encoder, cache=cache, cache_dir=folder, progress=progress)
        return cls(made.vectors, made.truncated)

    def __len__(self) -> int:
        return len(self.vectors)

    def take(self, rows: Rows, device: torch.device | str = "cpu") -> torch.Tensor:
        """The vectors of some rows, shape (len(rows), dim)."""
        return torch.from_numpy(np.array(self.vectors[rows])).to(device)

    def search(
        self, queries: Floats, top_k: int, device: torch.device | str = "cpu"
    ) -> tuple[Floats, Rows]:
        """Exact search by cosine.

        Args:
            queries: shape (q, dim).
            top_k: documents for each query; fewer where the corpus is smaller.
            device: where the products are computed.

        Returns:
            Scores and rows, both of shape (q, top_k), best first.
        """
        left = torch.from_numpy(unit(queries)).to(device)
        top_k = min(top_k, len(self))
        scores = torch.empty((len(left), 0), device=device)
        rows = torch.empty((len(left), 0), dtype=torch.long, device=device)
        step = max(top_k, _BLOCK // max(1, len(left)))
        for start in range(0, len(self), step):
            block = torch.from_numpy(unit(self.vectors[start : start + step])).to(device)
            best = (left @ block.T).topk(min(top_k, len(block)), dim=1)
            scores = torch.cat([scores, best.values], dim=1)
            rows = torch.cat([rows, best.indices + start], dim=1)
            kept = scores.topk(min(top_k, scores.shape[1]), dim=1)
            scores, rows = kept.values, rows.gather(1, kept.indices)
        return scores.cpu().numpy(), rows.cpu().numpy()
