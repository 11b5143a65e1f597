"""Runs of letters against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from rulerag.linking.words import LetterVectors

text_module = pytest.importorskip("sklearn.feature_extraction.text")
texts = st.lists(st.text("abcÄß -1", max_size=12), min_size=1, max_size=6)


@given(texts, texts)
def test_vectors_are_those_of_scikit_learn(known: list[str], others: list[str]) -> None:
    known = ["born in", *known]
    theirs = text_module.TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True)
    expected = theirs.fit_transform(known).toarray()
    ours = LetterVectors(known, (2, 5))
    assert np.allclose(ours.fitted.toarray(), expected, rtol=0, atol=1e-15)
    assert np.allclose(
        ours.vectors(others).toarray(), theirs.transform(others).toarray(), rtol=0, atol=1e-15
    )
