"""Similarity by words: the cosine of tf-idf vectors, and BM25.

Both are a few lines over one sparse table of counts: scikit-learn and bm25s, whose numbers these
are, take longer to import than a thousand sentences take to compare.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from rulerag.arrays import Doubles

_K1, _B = 1.5, 0.75
# Scripts that put no space between words: Thai, Lao, Myanmar, Khmer, kana, Han, by code points.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_LUCENE_STOPWORDS = (  # as in retrieval
    "a an and are as at be but by for if in into is it no not of on or such that the their then "
    "there these they this to was will with"
)
_STOP = frozenset(_LUCENE_STOPWORDS.split())


def words_of(text: str) -> list[str]:
    """The words of a text without case and English function words, in order, repeats kept.

    Where a script puts no space between words, each pair of neighbouring letters counts as one,
    as in Lucene's analyser of Chinese, Japanese and Korean.
    """
    plain = unicodedata.normalize("NFKC", text).casefold()
    return [word for word in _words(plain) if word not in _STOP]


def _words(text: str) -> Iterator[str]:
    for match in _pattern().finditer(text):
        unspaced, word = match.groups()
        if word is not None:
            yield word
        elif len(unspaced) == 1:
            yield unspaced
        else:
            yield from map("".join, pairwise(unspaced))


@cache
def _pattern() -> re.Pattern[str]:
    """Runs of letters and digits with their marks, which belong to Indic words."""
    marks = "".join(
        char for char in map(chr, range(0x300, 0x10000)) if unicodedata.category(char)[0] == "M"
    )
    word = rf"(?:(?![{_UNSPACED}])[^\W_]|[{marks}])+"
    return re.compile(rf"([{_UNSPACED}]+)|({word})")


def tfidf_scores(answers: Sequence[str], units: Sequence[str]) -> Doubles:
    """The cosines of tf-idf vectors; those of scikit-learn's ``TfidfVectorizer`` over all texts.

    Args:
        answers: sentences of an answer.
        units: what they are compared with.

    Returns:
        Shape (len(answers), len(units)), from 0 to 1.
    """
    counts = _counts([*answers, *units])
    found = np.diff(counts.tocsc().indptr)
    weighted = counts.multiply(np.log((1 + counts.shape[0]) / (1 + found)) + 1).tocsr()
    norms = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())
    scaled = weighted.multiply(1 / np.where(norms > 0, norms, 1.0)[:, None]).tocsr()
    return _dense(scaled[: len(answers)] @ scaled[len(answers) :].T)


def bm25_scores(answers: Sequence[str], units: Sequence[str]) -> Doubles:
    """BM25 of each sentence of the answer as a query, in the variant that Lucene and bm25s use.

    Args:
        answers: sentences of an answer.
        units: what they are compared with, the corpus.

    Returns:
        Shape (len(answers), len(units)), from 0 without an upper bound.

    References:
        Robertson and Zaragoza 2009; Kamphuis et al. 2020 for the variant.
    """
    counts = _counts([*answers, *units])
    asked, held = counts[: len(answers)], counts[len(answers) :].tocsr()
    found, total = np.diff(held.tocsc().indptr), held.shape[0]
    lengths = np.asarray(held.sum(axis=1)).ravel()
    factor = _K1 * (1 - _B + _B * lengths / (lengths.mean() or 1.0))
    held.data /= held.data + np.repeat(factor, np.diff(held.indptr))
    weights = np.log(1 + (total - found + 0.5) / (found + 0.5))
    return _dense(asked.multiply(weights).tocsr() @ held.T)


def _counts(texts: Sequence[str]) -> Any:
    """How often each word stands in each text, as a sparse table (texts × words)."""
    from scipy.sparse import csr_matrix

    vocabulary: dict[str, int] = {}
    columns: list[int] = []
    bounds = [0]
    for text in texts:
        columns += [vocabulary.setdefault(word, len(vocabulary)) for word in words_of(text)]
        bounds.append(len(columns))
    shape = (len(texts), max(1, len(vocabulary)))
    table = csr_matrix((np.ones(len(columns)), columns, bounds), shape=shape)
    table.sum_duplicates()
    return table


def _dense(table: Any) -> Doubles:
    return np.asarray(table.todense(), dtype=np.float64)
