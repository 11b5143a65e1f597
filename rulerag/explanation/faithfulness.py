"""How faithful an explanation is: scores of any attribution or set of rules on the same engine.

References:
    DeYoung et al. 2020 (ERASER, arXiv:1911.03429), section 4: comprehensiveness, sufficiency.
    Petsiuk, Das, Saenko 2018 (RISE, arXiv:1806.07421): deletion and insertion curves.
    Park et al. 2023 (TRAK, arXiv:2303.14186): the linear datamodeling score, used for sources by
    Cohen-Wang et al. 2024 (ContextCite, arXiv:2409.00729), section 4, with the top-k drop.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rulerag.errors import ConfigError
from rulerag.explanation.attribution import Attribution
from rulerag.explanation.lattice import mask_of
from rulerag.explanation.surrogate import LinearSurrogate
from rulerag.explanation.values import Floats, SetValue

__all__ = [
    "SetScores",
    "comprehensiveness",
    "deletion_curve",
    "insertion_curve",
    "linear_datamodeling_score",
    "rule_scores",
    "set_scores",
    "sufficiency",
]


@dataclass(frozen=True, slots=True)
class SetScores:
    """Precision, recall and F1 of what was found against what is true."""

    precision: float
    recall: float
    f1: float


def set_scores(found: Iterable[object], truth: Iterable[object]) -> SetScores:
    """Scores of a found set; nothing found has the precision 1, nothing to find the recall 1."""
    one, other = set(found), set(truth)
    both = len(one & other)
    precision = both / len(one) if one else 1.0
    recall = both / len(other) if other else 1.0
    total = precision + recall
    return SetScores(precision, recall, 2 * precision * recall / total if total else 0.0)


def rule_scores(found: Iterable[Iterable[int]], truth: Iterable[Iterable[int]]) -> SetScores:
    """Scores of minimal rules: a rule counts when it has exactly the sources of a true one."""
    return set_scores(map(frozenset, found), map(frozenset, truth))


def comprehensiveness(value: SetValue, ranking: Sequence[int], count: int) -> float:
    """What the score loses without the first ``count`` sources; ContextCite's top-k drop.

    High when the explanation names what the answer needs.
    """
    full, rest = value([value.full, value.full & ~mask_of(ranking[:count])])
    return float(full - rest)


def sufficiency(value: SetValue, ranking: Sequence[int], count: int) -> float:
    """What the score loses with the first ``count`` sources alone; low when they are enough."""
    full, alone = value([value.full, mask_of(ranking[:count])])
    return float(full - alone)


def deletion_curve(value: SetValue, ranking: Sequence[int]) -> Floats:
    """The score with the first 0, 1, 2 … sources removed, of shape (num_sources + 1,).

    Its mean is the area under it, low for a good ranking.
    """
    return value([value.full & ~mask_of(ranking[:n]) for n in range(len(ranking) + 1)])


def insertion_curve(value: SetValue, ranking: Sequence[int]) -> Floats:
    """The score with only the first 0, 1, 2 … sources kept, of shape (num_sources + 1,).

    Its mean is the area under it, high for a good ranking.
    """
    return value([mask_of(ranking[:n]) for n in range(len(ranking) + 1)])


def linear_datamodeling_score(
    value: SetValue,
    explanation: Attribution | Callable[[int], float],
    *,
    samples: int = 64,
    seed: int = 0,
) -> float:
    """How well the sum of the kept sources' values ranks random subsets: Spearman's rho.

    Args:
        value: the score that was explained.
        explanation: a value for each source, or the score that a surrogate predicts for a mask.
        samples: how many random subsets, each source kept with the probability one half.
        seed: of the subsets; take another one than the attribution was made with.

    Returns:
        From -1 to 1; 0.0 where the prediction is the same for every subset and the score is not,
        1.0 where neither differs.

    Raises:
        ConfigError: fewer than 2 samples.
    """
    if samples < 2:
        raise ConfigError(f"expected 2 or more, found {samples}", key="samples")
    predict: Callable[[int], float]
    if isinstance(explanation, Attribution):
        predict = LinearSurrogate(explanation.values, 0.0)
    else:
        predict = explanation
    chance = random.Random(seed)
    masks = [chance.getrandbits(max(1, value.num_sources)) & value.full for _ in range(samples)]
    actual = value(masks)
    predicted = np.array([predict(mask) for mask in masks])
    return _spearman(predicted, actual)


def _spearman(one: Floats, other: Floats) -> float:
    first, second = _ranks(one), _ranks(other)
    flat = [float(ranks.std()) == 0 for ranks in (first, second)]
    if any(flat):
        return float(all(flat))
    return float(np.corrcoef(first, second)[0, 1])


def _ranks(values: Floats) -> Floats:
    """Ranks from 0, ties at their mean; differences in the last digits are ties."""
    rounded = np.round(values, 9)
    _, places, counts = np.unique(rounded, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: Floats = (ends - (counts + 1) / 2)[places]
    return ranks
