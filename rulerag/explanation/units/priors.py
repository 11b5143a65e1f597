"""How probable it is that each unit decides, before anything is asked: what to try first.

Each sign orders the units; by it a unit counts as one over its rank. All signs and "any unit alike"
are mixed in equal parts, so that a sign that misleads costs at most as many questions a decisive
unit as there are doublings in the number of parts. A prior says what is asked first and never what
is believed.

References:
    Elias 1975 (IEEE Transactions on Information Theory 21, 194-203): codes for numbers whose
    distribution is not known, nearly one over the rank.
    Cesa-Bianchi and Lugosi 2006 (Prediction, Learning, and Games), chapter 9: a mixture loses the
    logarithm of a part's weight at most.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Sequence

_WORD = re.compile(r"\w+")


class Priors:
    """What is known of some units before anything is asked.

    Args:
        texts: of the units.
        signs: numbers for the units, one list a sign, the larger the more promising; such as the
            scores of a retriever.
    """

    def __init__(self, texts: Sequence[str], signs: Sequence[Sequence[float]] = ()) -> None:
        self._texts, self._signs = texts, [list(one) for one in signs]
        self._words: list[set[str]] | None = None
        self._frequency: Counter[str] = Counter()

    def weights(self, claim: str) -> list[float] | None:
        """How often each unit is expected among those that decide about a claim; 1 on average.

        Args:
            claim: in words; units that share rare words with it come first.

        Returns:
            One number a unit; None where nothing sets one above another.
        """
        signs = [one for one in (*self._signs, self._shared(claim)) if len(set(one)) > 1]
        if not signs:
            return None
        ranked = [by_rank(one) for one in signs]
        return [(1 + sum(each)) / (1 + len(signs)) for each in zip(*ranked, strict=True)]

    def _shared(self, claim: str) -> list[float]:
        """The information in the words that each unit shares with the claim."""
        if self._words is None:
            self._words = [set(_WORD.findall(text.lower())) for text in self._texts]
            self._frequency = Counter(word for words in self._words for word in words)
        count, spoken = len(self._texts), set(_WORD.findall(claim.lower()))
        worth = {
            w: math.log((1 + count) / self._frequency[w]) for w in spoken & set(self._frequency)
        }
        return [math.fsum(sorted(worth[word] for word in words & spoken)) for words in self._words]


def by_rank(values: Sequence[float]) -> list[float]:
    """One over the rank of each value, the largest first, scaled to 1 on average.

    Equal values share what their ranks have together.

    Args:
        values: the larger the more promising.
    """
    order = sorted(range(len(values)), key=lambda place: -values[place])
    scale = len(values) / math.fsum(1 / rank for rank in range(1, len(values) + 1))
    weights, rank = [0.0] * len(values), 1
    for _, tied in itertools.groupby(order, key=lambda place: values[place]):
        places = list(tied)
        share = math.fsum(1 / (rank + n) for n in range(len(places))) / len(places)
        for place in places:
            weights[place] = scale * share
        rank += len(places)
    return weights
