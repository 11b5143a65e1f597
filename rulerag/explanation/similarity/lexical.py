"""Similarity by words: the cosine of tf-idf vectors by scikit-learn, and BM25 by bm25s."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import numpy as np

from rulerag.arrays import Doubles
from rulerag.text import UNSPACED

_K1, _B = 1.5, 0.75


def words_of(text: str) -> list[str]:
    """The words of a text without case and English function words, in order, repeats kept.

    Where a script puts no space between words, each pair of neighbouring letters counts as one,
    as in Lucene's analyser of Chinese, Japanese and Korean.
    """
    from bm25s.stopwords import STOPWORDS_EN  # Lucene's

    words: list[str] = []
    for unspaced, word in _pattern().findall(unicodedata.normalize("NFKC", text).casefold()):
        words += [word or unspaced] if len(unspaced) < 2 else map("".join, pairwise(unspaced))
    return [word for word in words if word not in STOPWORDS_EN]


@cache
def _pattern() -> re.Pattern[str]:
    """Runs of letters and digits with their marks, which belong to Indic words."""
    marks = "".join(
        char for char in map(chr, range(0x300, 0x10000)) if unicodedata.category(char)[0] == "M"
    )
    word = rf"(?:(?![{UNSPACED}])[^\W_]|[{marks}])+"
    return re.compile(rf"([{UNSPACED}]+)|({word})")


def tfidf_scores(answers: Sequence[str], units: Sequence[str]) -> Doubles:
    """The cosines of tf-idf vectors, those of scikit-learn's ``TfidfVectorizer`` over all texts.

    Args:
        answers: sentences of an answer.
        units: what they are compared with.

    Returns:
        Shape (len(answers), len(units)), from 0 to 1.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts, count = [words_of(text) for text in (*answers, *units)], len(answers)
    if not any(texts):
        return np.zeros((count, len(units)))
    vectors = TfidfVectorizer(analyzer=iter).fit_transform(texts)
    return np.asarray((vectors[:count] @ vectors[count:].T).toarray())


def bm25_scores(answers: Sequence[str], units: Sequence[str]) -> Doubles:
    """BM25 of each sentence of the answer as a query, in the variant that Lucene uses.

    Args:
        answers: sentences of an answer.
        units: what they are compared with, the corpus.

    Returns:
        Shape (len(answers), len(units)), from 0 without an upper bound.

    References:
        Robertson and Zaragoza 2009; Kamphuis et al. 2020 for the variant; bm25s.
    """
    from bm25s import BM25

    corpus = [words_of(unit) for unit in units]
    if not any(corpus):
        return np.zeros((len(answers), len(units)))
    index = BM25(k1=_K1, b=_B, method="lucene", dtype="float64")
    index.index(corpus, create_empty_token=False, show_progress=False)
    return np.array([index.get_scores(words_of(answer) or [""]) for answer in answers])
