"""Similarity by words: the numbers of scikit-learn and bm25s, in every script."""

from __future__ import annotations

import numpy as np
import pytest

from rulerag.explanation.similarity.scorers import bm25_scores, tfidf_scores, words_of


def test_a_cosine_of_tf_idf_by_hand() -> None:
    # Three texts; "red" stands in two of them, "fox" and "hat" in one: idf ln(4/3)+1, ln(4/2)+1.
    red, one = np.log(4 / 3) + 1, np.log(4 / 2) + 1
    expected = red * red / (red * red + one * one)
    found = tfidf_scores(["red fox"], ["red hat", "sky"])
    np.testing.assert_allclose(found, [[expected, 0.0]], atol=1e-12)


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
