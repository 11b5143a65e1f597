"""How alike the words of two clauses are, by a thesaurus and by how words are defined.

A word is a vector over words: those that share a sense with it, or a more general sense, or one
derived from it, and those that define these (gloss vectors: Patwardhan and Pedersen 2006, section
3). "Is the wife of" is like "married", because a wife is defined as a married woman. Two clauses
are as alike as their words are, each with the most alike one of the other; prepositions count
little. ``definitions.txt.gz`` is made from WordNet by ``python -m training.shipped.definitions``.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rulerag.arrays import Doubles
from rulerag.extraction.clauses import ARTICLES, BE, BEFORE, PREPOSITIONS, bare, verb_stem
from rulerag.io import read_text
from rulerag.linking import Thesaurus

if TYPE_CHECKING:
    from scipy.sparse import csr_array

FILE = "definitions.txt.gz"
# Chosen on wordings of generated worlds: what words of a sense count, and those that define it.
_SYNONYM, _DEFINING = 0.8, 0.5
# How much less the second, third, … sense of a word counts: its number to the power of this.
_USUAL = 0.7
# What other prepositions take from the likeness of the words beside them.
_PREPOSITION = 0.2
_MOST_KEPT = 100_000
_WORD = re.compile(r"[^\W\d_][\w'\u2019-]*")
_EMPTY = ARTICLES | BE | BEFORE | {"who", "which", "that", "it", "and", "then"}


class Likeness:
    """Compares words with those of patterns.

    Args:
        patterns: the words of each.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        rows = [tokens(one) for one in patterns]
        self._known = sorted({token for row in rows for token in row})
        self._joins = np.array([token in PREPOSITIONS for token in self._known], dtype=bool)
        self._stems = np.array([verb_stem(token) for token in self._known])
        self._matrix = meanings().matrix(self._known)
        self._size = len(patterns)
        place = {token: n for n, token in enumerate(self._known)}
        places = [[place[token] for token in row] for row in rows]
        self._content = _Rows([[n for n in row if not self._joins[n]] for row in places])
        self._joining = _Rows([[n for n in row if self._joins[n]] for row in places])
        self._rows: dict[str, Doubles] = {}

    def of(self, said: str) -> Doubles:
        """How alike some words are to those of each pattern, from 0 to 1: shape (patterns).

        Args:
            said: the words of a clause.
        """
        own = tokens(said)
        content = [self._row(token) for token in own if token not in PREPOSITIONS]
        joining = [self._row(token) for token in own if token in PREPOSITIONS]
        agree = self._joining.alike(joining)
        return self._content.alike(content) * (1 - _PREPOSITION * (1 - agree))

    def _row(self, token: str) -> Doubles:
        if token not in self._rows:
            row = np.minimum(self._matrix @ meanings().dense(token, self._matrix.shape[1]), 1.0)
            row[self._joins != (token in PREPOSITIONS)] = 0.0
            row[self._stems == verb_stem(token)] = 1.0
            if len(self._rows) >= _MOST_KEPT:
                self._rows.clear()
            self._rows[token] = row
        return self._rows[token]


def tokens(said: str) -> list[str]:
    """The words of a clause that are compared; fixed phrases ("take over") are one.

    Args:
        said: the words as they are written.
    """
    source = Thesaurus.shipped()
    words: list[str] = []
    for word in _WORD.findall(bare(said).casefold().replace("\u2019", "'")):
        parts = word.split("-") if "-" in word and word not in source else [word]
        words += (one for one in parts if one and one not in _EMPTY)
    return [token for token, *_ in source.tokens(words)]


class _Rows:
    """Rows of words, given by their places."""

    def __init__(self, rows: Sequence[Sequence[int]]) -> None:
        sizes = np.array([len(row) for row in rows], dtype=np.int64)
        self._flat = np.array([place for row in rows for place in row], dtype=np.int64)
        self._filled = np.flatnonzero(sizes)
        self._starts = np.cumsum([0, *sizes[self._filled][:-1].tolist()])
        self._sizes = sizes[self._filled]
        self._size = len(rows)

    def alike(self, words: Sequence[Doubles]) -> Doubles:
        """How alike words are to those of each row, each with the most alike one of the others.

        Args:
            words: for each, how alike it is to the word of every place.

        Returns:
            The mean over the words, and over those of the row: shape (rows). Two that have no words
            are alike, one with words and one without them are not.
        """
        found = np.full(self._size, float(not words))
        found[self._filled] = 0.0
        if words and len(self._flat):
            pairs = np.stack(words)[:, self._flat]
            theirs = np.add.reduceat(pairs.max(axis=0), self._starts) / self._sizes
            mine = np.maximum.reduceat(pairs, self._starts, axis=1).mean(axis=0)
            found[self._filled] = (theirs + mine) / 2
        return found


class WordMeanings:
    """Words as vectors over words.

    Args:
        lines: senses and the words that define them, as in ``definitions.txt.gz``.
        source: the senses of words.
    """

    def __init__(self, lines: Sequence[str], source: Thesaurus) -> None:
        self._source = source
        self._defined = dict(line.split("\t") for line in lines if not line.startswith("#"))
        self._vectors: dict[str, dict[int, float]] = {}
        self._places: dict[str, int] = {}

    @cached_property
    def _rare(self) -> dict[str, float]:
        """How rare each word is in definitions, from 0 to 1."""
        seen = Counter(word for said in self._defined.values() for word in said.split())
        most = math.log(len(self._defined) + 2)
        return {word: 1 - math.log(count + 1) / most for word, count in seen.items()}

    def matrix(self, words: Sequence[str]) -> csr_array:
        """A unit vector for each word, zero for an unknown one: shape (words, dimensions so far).

        Args:
            words: words or fixed phrases.
        """
        from scipy.sparse import csr_array

        rows = [self._vector(word) for word in words]
        data = [value for row in rows for value in row.values()]
        columns = [place for row in rows for place in row]
        starts = np.cumsum([0, *map(len, rows)])
        return csr_array((data, columns, starts), shape=(len(words), len(self._places)))

    def dense(self, word: str, size: int) -> Doubles:
        """The vector of a word in the first dimensions, as many as a matrix has.

        Args:
            word: a word or fixed phrase.
            size: how many.
        """
        found = np.zeros(size)
        for place, value in self._vector(word).items():
            if place < size:
                found[place] = value
        return found

    def _vector(self, word: str) -> dict[int, float]:
        if word in self._vectors:
            return self._vectors[word]
        found: dict[str, float] = {}

        def add(other: str, share: float) -> None:
            found[other] = max(found.get(other, 0.0), share * self._rare.get(other, 1.0))

        for base in self._source.bases(word):
            if self._source.has(base):
                add(base, 1.0)
        for number, sense in self._source.senses(word):
            for near, share in self._source.near(sense):
                share /= number**_USUAL
                words = self._source.words(near)
                for one in words:
                    add(one[:-1], _SYNONYM * share)
                for one in self._defined.get(words[0], "").split() if words else ():
                    add(one, _DEFINING * share)
        size = math.sqrt(sum(value * value for value in found.values()))
        places = self._places
        vector = {places.setdefault(o, len(places)): value / size for o, value in found.items()}
        if len(self._vectors) >= _MOST_KEPT:
            self._vectors.clear()
        self._vectors[word] = vector
        return vector


@cache
def meanings() -> WordMeanings:
    """Those that are shipped, read once."""
    lines = read_text(Path(__file__).with_name(FILE)).splitlines()
    return WordMeanings(lines, Thesaurus.shipped())
