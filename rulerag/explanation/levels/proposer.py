"""A small model of which units decide about a claim, read off their words before anything is asked.

A logistic function of a few signs: how much of what the claim and the question say stands in a
unit, by the information in the words, and where a retriever gave scores how high it is. Its
coefficients are in ``proposer.json`` and come from minimal sets that were found for questions of
RuleQA (``python -m training.proposer``). It orders what is tried; what is shown does not rest on
it.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from rulerag.arrays import Doubles
from rulerag.explanation.levels.priors import by_rank

WEIGHTS = Path(__file__).with_name("proposer.json")

_WORD = re.compile(r"\w+")


def signs_of(
    question: str, claim: str, texts: Sequence[str], scores: Sequence[float] | None = None
) -> Doubles:
    """What the model reads, of shape (len(texts), 7), with scores (len(texts), 10).

    Args:
        question: in words.
        claim: in words.
        texts: of the units.
        scores: of a retriever, the larger the better.
    """
    words = [_words(text) for text in texts]
    frequency = Counter(word for each in words for word in each)

    def held(text: str) -> Doubles:
        """The fraction of the information in a text's words that each unit holds."""
        worth = {w: math.log((1 + len(texts)) / (frequency[w] or 1)) for w in sorted(_words(text))}
        whole = math.fsum(worth.values()) or 1.0
        return np.array([math.fsum(v for w, v in worth.items() if w in e) / whole for e in words])

    said, asked = held(claim), held(question)
    whole = np.array([float(_words(claim) <= each) for each in words])
    columns = [said, whole, asked, said * asked, _ranked(said), _ranked(asked), whole * asked]
    if scores is not None:
        relative = np.array(scores, dtype=np.float64) / (max(scores, default=0.0) or 1.0)
        columns += [_ranked(relative), relative, whole * relative]
    return np.stack(columns, axis=1)


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))


def _ranked(values: Doubles) -> Doubles:
    return np.log(by_rank(values.tolist()))


@cache
def _weights(path: Path) -> dict[str, list[float]]:
    found: dict[str, list[float]] = json.loads(path.read_text(encoding="utf-8"))
    return found


def expected_weights(
    question: str, claim: str, texts: Sequence[str], scores: Sequence[float] | None = None
) -> list[float]:
    """How often each unit is expected among those that decide about a claim, 1 on average.

    Args:
        question: in words.
        claim: in words.
        texts: of the units, at least one.
        scores: of a retriever, the larger the better; None without one.
    """
    *coefficients, bias = _weights(WEIGHTS)["words" if scores is None else "scores"]
    logits = signs_of(question, claim, texts, scores) @ np.array(coefficients) + bias
    found = 1 / (1 + np.exp(-logits))
    weights: list[float] = (found * len(texts) / found.sum()).tolist()
    return weights
