"""How faithful an explanation is: scores of any attribution or set of rules on the same engine.

References:
    DeYoung et al. 2020 (ERASER, arXiv:1911.03429), section 4: comprehensiveness, sufficiency.
    Petsiuk, Das, Saenko 2018 (RISE, arXiv:1806.07421): deletion and insertion curves.
    Park et al. 2023 (TRAK, arXiv:2303.14186): the linear datamodeling score, used for sources by
    Cohen-Wang et al. 2024 (ContextCite, arXiv:2409.00729), section 4, with the top-k drop.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from rulerag.arrays import Doubles
from rulerag.errors import ConfigError
from rulerag.explanation.attribution import Attribution
from rulerag.explanation.lattice import mask_of, random_masks
from rulerag.explanation.probing import SetValue


class SetScores(NamedTuple):
    """Precision, recall and F1 of what was found against what is true."""

    precision: float
    recall: float
    f1: float


def rule_scores(found: Iterable[Iterable[int]], truth: Iterable[Iterable[int]]) -> SetScores:
    """Scores of minimal rules: a rule counts when it has exactly the sources of a true one.

    Nothing found has the precision 1, nothing to find the recall 1.
    """
    one, other = set(map(frozenset, found)), set(map(frozenset, truth))
    both = len(one & other)
    precision = both / len(one) if one else 1.0
    recall = both / len(other) if other else 1.0
    return SetScores(precision, recall, 2 * precision * recall / ((precision + recall) or 1.0))


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


def deletion_curve(value: SetValue, ranking: Sequence[int]) -> Doubles:
    """The score with the first 0, 1, 2 … sources removed, of shape (num_sources + 1,).

    Its mean is the area under it, low for a good ranking.
    """
    return value([value.full & ~mask_of(ranking[:n]) for n in range(len(ranking) + 1)])


def insertion_curve(value: SetValue, ranking: Sequence[int]) -> Doubles:
    """The score with only the first 0, 1, 2 … sources kept, of shape (num_sources + 1,).

    Its mean is the area under it, high for a good ranking.
    """
    return value([mask_of(ranking[:n]) for n in range(len(ranking) + 1)])


def unasked_subsets(
    num_sources: int, samples: int, *, seed: int = 0, asked: Collection[int] = ()
) -> list[int]:
    """Distinct random subsets that no explainer has seen, each equally likely.

    Args:
        num_sources: how many sources the masks run over.
        samples: how many, at most; fewer where fewer are left.
        seed: of the subsets.
        asked: masks that are left out.
    """
    rng = random.Random(seed)
    return random_masks(num_sources, samples, rng, frozenset(asked), listed=16)


def linear_datamodeling_score(
    value: SetValue,
    explanation: Attribution | Callable[[int], float],
    *,
    samples: int = 64,
    seed: int = 0,
    asked: Collection[int] = (),
) -> float:
    """How well a prediction ranks distinct random subsets by their score: Spearman's rho.

    Args:
        value: the score that was explained.
        explanation: what predicts the score of a mask, or an attribution, which does.
        samples: how many random subsets, each source kept with the probability one half; all that
            are left where there are fewer.
        seed: of the subsets.
        asked: the masks that the explanation was made from, and those of others that it is
            compared with; none of them is used. What was fitted to them says little about others.

    Returns:
        From -1 to 1; 0.0 where the prediction is the same for every subset and the score is not,
        1.0 where neither differs.

    Raises:
        ConfigError: fewer than 2 samples are wanted, or fewer than 2 subsets were not asked.
    """
    from scipy.stats import spearmanr

    if samples < 2:
        raise ConfigError(f"expected 2 or more, found {samples}", key="samples")
    masks = unasked_subsets(value.num_sources, samples, seed=seed, asked=asked)
    if len(masks) < 2:
        what = f"{len(masks)} of {1 << value.num_sources} subsets were not asked"
        hint = "explain with fewer probes, or leave this score out"
        raise ConfigError(what, key="asked", hint=hint)
    predict = explanation.predict if isinstance(explanation, Attribution) else explanation
    actual = value(masks)
    predicted = np.array([predict(mask) for mask in masks])
    # Differences in the last digits are ties.
    first, second = np.round(predicted, 9), np.round(actual, 9)
    flat = [bool(np.ptp(values) == 0) for values in (first, second)]
    return float(all(flat) if any(flat) else spearmanr(first, second).statistic)
