"""Boosted trees that order the likeliest candidates of questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rulerag.arrays import Bools, Doubles, Floats, Longs
from rulerag.candidates.facts import CorpusFacts
from rulerag.candidates.features import list_features, traits_of
from rulerag.types import Support

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingClassifier

# The likeliest candidates of a question, which trees order.
_ORDERED = 40
# Of the trees; chosen on validation questions.
_TREES: dict[str, Any] = {
    "max_iter": 150,
    "learning_rate": 0.06,
    "max_leaf_nodes": 15,
    "min_samples_leaf": 40,
    "l2_regularization": 5.0,
    "early_stopping": False,
    "random_state": 0,
}
SETTINGS = (_ORDERED, _TREES)
"""What changes the order, besides what trees are grown from."""

Explain = Callable[[int], tuple[Support, ...]]
"""Says what speaks for a candidate, by its id."""


class Question(NamedTuple):
    """A question with the candidates that any scorer names.

    Args:
        explains: what each scorer says for a candidate that it names; None for one that failed.
        entity: the candidates, shape (m,).
        scores: theirs, shape (m, s); 0 where a scorer does not name one.
        ids: subject, relation and time, as coded.
    """

    explains: Sequence[Explain | None]
    entity: Longs
    scores: Doubles
    ids: tuple[int, int, int]

    @property
    def failed(self) -> Bools:
        """Which scorers failed."""
        return np.array([one is None for one in self.explains])


def grow_trees(
    floor: Doubles,
    facts: CorpusFacts,
    asked: Sequence[Question],
    odds: Sequence[Doubles],
    right: Sequence[Bools],
) -> HistGradientBoostingClassifier | None:
    """Trees that tell the answers of questions from the other likely candidates.

    Args:
        floor: shape (s,), of each scorer the score that stands for none.
        facts: what is known when the questions are asked.
        asked: the questions, with known answers.
        odds: of each, the logarithms of the odds of its candidates, shape (m,).
        right: of each, which candidates answer, shape (m,).

    Returns:
        None where the likeliest candidates all answer, or none does.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    tops = _tops(odds)
    wanted = np.concatenate([of[top] for of, top in zip(right, tops, strict=True)])
    if wanted.all() or not wanted.any():
        return None
    numbers = _numbers(floor, facts, asked, odds, tops)
    # A scorer that failed every question is missing everywhere, which cannot be cut into bins.
    numbers[:, np.isnan(numbers).all(axis=0)] = 0.0
    return HistGradientBoostingClassifier(**_TREES).fit(numbers, wanted)


def order_by_trees(
    trees: HistGradientBoostingClassifier,
    floor: Doubles,
    facts: CorpusFacts,
    asked: Sequence[Question],
    odds: Sequence[Doubles],
) -> list[Doubles]:
    """Logarithms of the odds of candidates, the likeliest as trees order them.

    Args:
        trees: of :func:`grow_trees`.
        floor: shape (s,), of each scorer the score that stands for none.
        facts: what is known.
        asked: the questions.
        odds: of each, those of its candidates before, shape (m,).
    """
    tops = _tops(odds)
    if not sum(map(len, tops)):
        return list(odds)
    numbers = _numbers(floor, facts, asked, odds, tops)
    margins = np.split(trees.decision_function(numbers), np.cumsum([len(top) for top in tops]))
    moved = []
    for of, top, margin in zip(odds, tops, margins, strict=False):
        # The others stay behind, as far as they were behind the least of the likeliest.
        shift = margin.min(initial=np.inf) - of[top].min(initial=np.inf) if len(top) else 0.0
        one = of + shift
        one[top] = margin
        moved.append(one)
    return moved


def _tops(odds: Sequence[Doubles]) -> list[Longs]:
    """The likeliest candidates of each question, those that trees order."""
    return [np.argsort(-of, kind="stable")[:_ORDERED] for of in odds]


def _numbers(
    floor: Doubles,
    facts: CorpusFacts,
    asked: Sequence[Question],
    odds: Sequence[Doubles],
    tops: Sequence[Longs],
) -> Floats:
    """What trees see of the likeliest candidates, those of one question after the other."""
    lists = []
    for one, of, top in zip(asked, odds, tops, strict=True):
        if not len(top):
            continue
        logs = np.log(np.maximum(one.scores, floor))
        features = list_features(of, logs, one.scores > 0)[top]
        failed = np.flatnonzero(one.failed)
        for block in range(3):  # missing, which is not the same as not naming it
            features[:, 4 + block * len(one.explains) + failed] = np.nan
        lists.append(features)
    sizes = [len(top) for top in tops]
    subject, relation, time = np.repeat([one.ids for one in asked], sizes, axis=0).T
    entity = np.concatenate([one.entity[top] for one, top in zip(asked, tops, strict=True)])
    traits_of_all: Floats | None = None
    for moment in np.unique(time).tolist():
        at = np.flatnonzero(time == moment)
        at = at[np.argsort(relation[at], kind="stable")]
        traits = traits_of(facts, moment).of(subject[at], relation[at], entity[at])
        if traits_of_all is None:
            traits_of_all = np.zeros((len(entity), traits.shape[1]), np.float32)
        traits_of_all[at] = traits
    return np.hstack([np.concatenate(lists), *([] if traits_of_all is None else [traits_of_all])])
