"""How faithful an attribution is: scores of any ranking or prediction of the same engine.

References:
    DeYoung et al. 2020 (ERASER, arXiv:1911.03429), section 4: comprehensiveness, sufficiency.
    Park et al. 2023 (TRAK, arXiv:2303.14186): the linear datamodeling score, used for sources by
    Cohen-Wang et al. 2024 (ContextCite, arXiv:2409.00729), section 4, with the top-k drop.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence

import numpy as np

from rulerag.composition import check_range
from rulerag.errors import ConfigError
from rulerag.explanation.attribution import Attribution
from rulerag.explanation.lattice import mask_of, random_masks
from rulerag.explanation.probing import SetValue


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

    check_range("samples", samples, 2)
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
