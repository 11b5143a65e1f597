"""The contrastive loss of query vectors against frozen document vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch


def negatives_mask(
    documents: npt.NDArray[np.int64],
    positive: npt.NDArray[np.int64],
    oracle: Sequence[npt.NDArray[np.int64]],
) -> npt.NDArray[np.bool_]:
    """Which documents of a batch may not be a query's negatives.

    Args:
        documents: shape (d,), corpus rows; may repeat.
        positive: shape (q,), for each query the place of its positive in ``documents``.
        oracle: for each query the corpus rows that answer it, that of its positive among them.

    Returns:
        Shape (q, d), True where the document is left out of the query's softmax: it is one of its
        oracle documents, the positive's own document again too, and not the positive itself.
    """
    unique, place = np.unique(documents, return_inverse=True)
    hit = np.zeros((len(oracle), len(unique)), dtype=bool)
    for number, rows in enumerate(oracle):
        at = np.searchsorted(unique, rows)
        at[at == len(unique)] = 0
        hit[number, at[unique[at] == rows]] = True
    mask: npt.NDArray[np.bool_] = hit[:, place]
    mask[np.arange(len(oracle)), positive] = False
    return mask


def contrastive_loss(
    queries: torch.Tensor,
    documents: torch.Tensor,
    positive: torch.Tensor,
    excluded: torch.Tensor,
    *,
    temperature: float = 0.01,
    frozen: bool = True,
) -> torch.Tensor:
    """``-log exp(cos(q, d+)/t) / sum exp(cos(q, d)/t)`` over the positive and the negatives.

    The mean over the queries.

    Args:
        queries: shape (q, dim).
        documents: shape (d, dim).
        positive: shape (q,), the place of each query's positive in ``documents``.
        excluded: shape (q, d), True for documents that are neither positive nor negative.
        temperature: t.
        frozen: let gradients flow to the queries alone.

    References:
        RuleRAG (arXiv:2410.22353, section 3.2), equation of the RGFT-retriever.
    """
    # In single precision whatever the encoder ran in: bf16 cosines divided by 0.01 lose a digit.
    left = torch.nn.functional.normalize(queries.float(), dim=-1)
    right = torch.nn.functional.normalize(
        (documents.detach() if frozen else documents).float(), dim=-1
    )
    scores = left @ right.T / temperature
    scores = scores.masked_fill(excluded, -torch.inf)
    return torch.nn.functional.cross_entropy(scores, positive)
