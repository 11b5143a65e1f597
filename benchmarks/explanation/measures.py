"""What an explanation of one answer is measured by: people's marks, and the model itself.

The model's part needs a line between an answer that is kept and one that has changed: it changes
where it is less than a tenth as probable as with every document. Where a set
of documents is judged, naming all of them would change any answer; so the two measures of the model
give every explainer the same number of documents, the least with which it can be done at all.

References:
    DeYoung et al. 2020 (ERASER, arXiv:1911.03429): comprehensiveness, sufficiency, people's marks.
    Cohen-Wang et al. 2024 (ContextCite, arXiv:2409.00729), section 4: top-k drop.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise

import numpy as np

from benchmarks.explanation.cases import Case
from benchmarks.explanation.explainers import Ranking
from rulerag.explanation.lattice import mask_of

MEASURES: Mapping[str, tuple[str, str]] = {
    "average_precision": (
        "marked on top",
        "average precision of the documents that people marked, in the order of the values",
    ),
    "changed": (
        "answer changes",
        "share of questions whose answer changes when the first k documents are removed, k being "
        "the least number of documents without which this answer can change",
    ),
    "kept": (
        "answer stands",
        "share of questions whose answer stands on the first k documents alone, k being the least "
        "number that is enough for it",
    ),
    "drop": (
        "drop",
        "what the log-probability loses without the first two documents, in nats",
    ),
    "precision": ("precision", "share of the named documents that are marked"),
    "recall": ("recall", "share of the marked documents that are named"),
    "f1": ("F1", "the harmonic mean of the two"),
    "named": ("named", "how many documents are named"),
    "named_changed": (
        "without named",
        "share of questions whose answer changes without all that is named",
    ),
    "named_kept": (
        "named alone",
        "share of questions whose answer stands on what is named alone",
    ),
}
"""Headings of the board, and what they mean."""

_DROPPED = 2


def ranking(values: Sequence[float], seed: int) -> list[int]:
    """The documents, the one that counts most first; equal ones in a random order.

    In the order of the documents a value of 0 for all of them would be the ranking of retrieval.
    """
    rng = random.Random(seed)
    return sorted(range(len(values)), key=lambda place: (-values[place], rng.random()))


def named(found: Ranking) -> frozenset[int]:
    """What an explainer names; where it does not say, what stands above the widest gap.

    The same rule for all that give values alone, between two neighbours in the order of their
    values; of equal values none is named.
    """
    values = found.values
    if found.named is not None:
        return found.named
    if max(values) - min(values) <= 0:
        return frozenset()
    order = sorted(range(len(values)), key=lambda i: (-values[i], i))
    gaps = [values[one] - values[other] for one, other in pairwise(order)]
    cut = max(range(len(gaps)), key=lambda i: (gaps[i], -i))
    return frozenset(order[: cut + 1])


def average_precision(order: Sequence[int], truth: Collection[int]) -> float:
    """The mean of the precision at each place where a document of the truth stands."""
    hits = [place for place, index in enumerate(order, 1) if index in truth]
    return sum(number / place for number, place in enumerate(hits, 1)) / len(truth)


def measured(case: Case, found: Ranking, seed: int) -> dict[str, float]:
    """Every measure of one explanation.

    Args:
        case: what was explained.
        found: the explanation.
        seed: of the order of documents with equal values.
    """
    order = ranking(found.values, seed)
    removals = order if found.removals is None else found.removals
    truth, names, full, kept = set(case.lattice.truth), named(found), case.full, case.kept
    hits = len(names & truth)
    precision, recall = hits / len(names) if names else 0.0, hits / len(truth)

    def first_removed(count: int) -> int:
        return full & ~mask_of(removals[:count])

    change = least_changing(case)
    enough = least(full, lambda chosen: kept[chosen])
    return {
        "average_precision": average_precision(order, truth),
        "changed": float(not kept[first_removed(change)]),
        "kept": float(kept[mask_of(order[:enough])]),
        "drop": float(case.values[full] - case.values[first_removed(_DROPPED)]),
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / ((precision + recall) or 1.0),
        "named": float(len(names)),
        "named_changed": float(not kept[full & ~mask_of(names)]),
        "named_kept": float(kept[mask_of(names)]),
    }


def least_changing(case: Case) -> int:
    """How many documents have to be removed, at least, for another answer."""
    return least(case.full, lambda removed: not case.kept[case.full & ~removed])


def least(full: int, holds: Callable[[int], bool]) -> int:
    """The size of the smallest sets for which something holds; it does for all documents."""
    return min(mask.bit_count() for mask in range(full + 1) if holds(mask))


def agreement(one: Ranking, other: Ranking) -> tuple[float | None, float]:
    """How alike two explanations are.

    Returns:
        Spearman's rank correlation of their values, None where one has the same value for all; and
        the share of what either names that both do (Jaccard), 1 where neither names anything.
    """
    from scipy.stats import spearmanr

    values = [np.round(np.asarray(found.values, dtype=float), 9) for found in (one, other)]
    flat = any(float(np.ptp(some)) == 0 for some in values)
    rho = None if flat else float(spearmanr(*values).statistic)
    first, second = named(one), named(other)
    either = first | second
    return rho, len(first & second) / len(either) if either else 1.0
