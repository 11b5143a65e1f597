"""The loss against numbers computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from training.retriever.loss import contrastive_loss, negatives_mask


def test_the_loss_by_hand_with_a_masked_positive() -> None:
    # Vectors of any length: cosines count. Query 0 sees document 0 (its positive, cosine 1) and
    # document 1 (cosine 0); document 2, as good as the positive, is one of its oracle documents
    # and left out. Query 1 sees all: cosines 0.6, 0.8 (positive) and 0.6.
    queries = torch.tensor([[2.0, 0.0], [3.0, 4.0]])
    documents = torch.tensor([[5.0, 0.0], [0.0, 1.0], [0.1, 0.0]])
    excluded = torch.tensor([[False, False, True], [False, False, False]])
    loss = contrastive_loss(queries, documents, torch.tensor([0, 1]), excluded, temperature=0.5)
    first = -math.log(math.exp(2.0) / (math.exp(2.0) + math.exp(0.0)))
    second = -math.log(math.exp(1.6) / (2 * math.exp(1.2) + math.exp(1.6)))
    assert float(loss) == pytest.approx((first + second) / 2, abs=1e-6)


def test_gradients_reach_the_queries_alone() -> None:
    queries = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    documents = torch.randn(3, 4, generator=torch.Generator().manual_seed(1)).requires_grad_()
    free = torch.zeros(3, 3, dtype=torch.bool)
    contrastive_loss(queries, documents, torch.arange(3), free).backward()
    assert queries.grad is not None and bool(queries.grad.abs().sum() > 0)
    assert documents.grad is None


def test_the_mask_keeps_oracle_documents_out_and_the_positive_in() -> None:
    random = np.random.default_rng(0)
    for _ in range(50):
        documents = random.integers(0, 12, 9)
        positive = random.integers(0, 9, 4)
        oracle = [np.unique(np.append(random.integers(0, 12, 3), documents[p])) for p in positive]
        expected = [
            [place != p and document in wanted for place, document in enumerate(documents)]
            for p, wanted in zip(positive, oracle, strict=True)
        ]
        assert negatives_mask(documents, positive, oracle).tolist() == expected
