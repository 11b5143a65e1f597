"""Counts of words and the BM25 scores of them: bit by bit what bm25s computes."""

from __future__ import annotations

import bm25s
import numpy as np
import pytest

from rulerag.retrieval.lexical.tokenization import Tokenizer
from rulerag.retrieval.lexical.word_counts import bm25_scores, count_words

WORDS = ["red", "green", "blue", "grey", "pink"]


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize(("k1", "b"), [(1.5, 0.75), (0.0, 0.75), (1.5, 0.0)])
def test_scores_are_those_of_bm25s(seed: int, k1: float, b: float) -> None:
    random = np.random.default_rng(seed)
    texts = [" ".join(random.choice(WORDS, random.integers(7))) for _ in range(1 + seed % 17)]
    texts.append("red")
    tokenizer = Tokenizer()
    counts = count_words(texts, tokenizer)
    ids = [[counts.vocabulary[word] for word in tokenizer(text)] for text in texts]
    index = bm25s.BM25(k1=k1, b=b, method="lucene", backend="numpy")
    index.index((ids, counts.vocabulary), create_empty_token=False, show_progress=False)
    assert np.array_equal(index.scores["data"], bm25_scores(counts, len(texts), k1, b))
    assert np.array_equal(index.scores["indices"], counts.indices)
    assert np.array_equal(index.scores["indptr"], counts.starts)
