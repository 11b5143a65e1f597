"""Attribution by similarity: the baseline that asks the model nothing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rulerag.explanation.attribution import Attribution
from rulerag.text import tokenize

if TYPE_CHECKING:
    from rulerag.explanation.sources import Source
    from rulerag.protocols import Encoder

__all__ = ["embedding_similarity", "lexical_similarity"]


def lexical_similarity(statement: str, sources: Sequence[Source]) -> Attribution:
    """The cosine of the word weights (tf-idf over the sources) of a statement and each source.

    Args:
        statement: the question and the answer, or the answer alone.
        sources: the parts of the evidence.
    """
    texts = [Counter(tokenize(source.text)) for source in sources]
    spread = Counter(token for text in texts for token in text)
    weight = {token: math.log(1 + len(texts) / count) for token, count in spread.items()}
    wanted = Counter(tokenize(statement))
    values = [_cosine(wanted, text, weight) for text in texts]
    return _attribution("lexical similarity", sources, values)


def embedding_similarity(
    statement: str, sources: Sequence[Source], encoder: Encoder
) -> Attribution:
    """The cosine of the vectors of a statement and each source."""
    vectors = np.asarray(encoder.encode([statement, *(s.text for s in sources)]), dtype=float)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(norms > 0, norms, 1.0)
    return _attribution("embedding similarity", sources, (unit[1:] @ unit[0]).tolist())


def _cosine(one: Counter[str], other: Counter[str], weight: dict[str, float]) -> float:
    def length(counts: Counter[str]) -> float:
        return math.sqrt(sum((n * weight.get(token, 0.0)) ** 2 for token, n in counts.items()))

    shared = sum(one[token] * other[token] * weight[token] ** 2 for token in one if token in other)
    lengths = length(one) * length(other)
    return shared / lengths if lengths else 0.0


def _attribution(method: str, sources: Sequence[Source], values: list[float]) -> Attribution:
    names = tuple(source.name for source in sources)
    return Attribution(method, names, tuple(values), math.nan, None, 0)
