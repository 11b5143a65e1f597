"""Similarity by words: the numbers of scikit-learn and bm25s, in every script."""

from __future__ import annotations

import bm25s
import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from rulerag.explanation.similarity.lexical import bm25_scores, tfidf_scores, words_of

UNITS = [
    "Paris is the capital of France, and Paris is large.",
    "Lyon is a city in France.",
    "France's capital lies on the Seine.",
    "…",
]
ANSWERS = ["The capital of France is Paris, Paris, Paris!", "Lyon lies on the Rhône.", "Xyzzy."]


def test_tf_idf_is_that_of_scikit_learn() -> None:
    vectors = TfidfVectorizer(analyzer=words_of).fit_transform([*ANSWERS, *UNITS])
    expected = (vectors[: len(ANSWERS)] @ vectors[len(ANSWERS) :].T).toarray()
    np.testing.assert_allclose(tfidf_scores(ANSWERS, UNITS), expected, atol=1e-12)


def test_a_cosine_of_tf_idf_by_hand() -> None:
    # Three texts; "red" stands in two of them, "fox" and "hat" in one: idf ln(4/3)+1, ln(4/2)+1.
    red, one = np.log(4 / 3) + 1, np.log(4 / 2) + 1
    expected = red * red / (red * red + one * one)
    found = tfidf_scores(["red fox"], ["red hat", "sky"])
    np.testing.assert_allclose(found, [[expected, 0.0]], atol=1e-12)


def test_bm25_is_that_of_bm25s() -> None:
    vocabulary: dict[str, int] = {}
    corpus = [[vocabulary.setdefault(w, len(vocabulary)) for w in words_of(u)] for u in UNITS]
    index = bm25s.BM25(k1=1.5, b=0.75, method="lucene")
    index.index((corpus, vocabulary), create_empty_token=False, show_progress=False)
    found = bm25_scores(ANSWERS, UNITS)
    for row, answer in zip(found, ANSWERS, strict=True):
        asked = [word for word in words_of(answer) if word in vocabulary]
        expected = index.get_scores(asked) if asked else np.zeros(len(UNITS))
        np.testing.assert_allclose(row, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The FOX, and its 3 hats!", ["fox", "its", "3", "hats"]),
        ("नई दिल्ली", ["नई", "दिल्ली"]),
        ("東京は", ["東京", "京は"]),
        ("猫 NASA東京", ["猫", "nasa", "東京"]),
        ("Cafe\u0301 \u212bngstro\u0308m", ["café", "ångström"]),
        ("snake_case …", ["snake", "case"]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert words_of(text) == words


def test_texts_without_a_word_are_like_nothing() -> None:
    for scores in (tfidf_scores, bm25_scores):
        assert scores(["of the"], ["…", "the"]).tolist() == [[0.0, 0.0]]
