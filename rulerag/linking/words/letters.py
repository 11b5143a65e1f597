"""Texts as the runs of letters in their words, weighed by how rare they are."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class LetterVectors:
    """Tf-idf of runs of letters within words, their ends included.

    The numbers are those of scikit-learn's ``TfidfVectorizer`` with ``analyzer="char_wb"`` and
    ``sublinear_tf``, which is too large a package for this alone.

    Args:
        texts: what the weights are learned from.
        sizes: the shortest and the longest run.

    Attributes:
        fitted: unit vectors of the texts, shape (texts, runs).
    """

    def __init__(self, texts: Sequence[str], sizes: tuple[int, int]) -> None:
        self._sizes = sizes
        rows = [Counter(self._runs(text)) for text in texts]
        found = Counter(run for row in rows for run in row)
        self._places = {run: place for place, run in enumerate(sorted(found))}
        self._weights = [math.log((1 + len(texts)) / (1 + found[run])) + 1 for run in self._places]
        self.fitted = self._vectors(rows)

    def vectors(self, texts: Sequence[str]) -> csr_array:
        """Unit vectors of other texts, shape (texts, runs); unknown runs count nothing."""
        return self._vectors([Counter(self._runs(text)) for text in texts])

    def _runs(self, text: str) -> Iterator[str]:
        shortest, longest = self._sizes
        for word in text.lower().split():
            padded = f" {word} "
            for size in range(shortest, longest + 1):
                yield padded[:size]
                for start in range(1, len(padded) - size + 1):
                    yield padded[start : start + size]
                if size >= len(padded):
                    break

    def _vectors(self, rows: Sequence[Counter[str]]) -> csr_array:
        from scipy.sparse import csr_array

        data, columns, starts = list[float](), list[int](), [0]
        for row in rows:
            places = sorted(
                (self._places[run], count) for run, count in row.items() if run in self._places
            )
            values = np.array([(math.log(count) + 1) * self._weights[at] for at, count in places])
            data += (values / (np.linalg.norm(values) or 1.0)).tolist()
            columns += [at for at, _ in places]
            starts.append(len(columns))
        return csr_array((data, columns, starts), shape=(len(rows), len(self._places)))
