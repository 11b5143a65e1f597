"""Boosted trees that order the likeliest candidates of questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

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


class Forest(NamedTuple):
    """Boosted trees as plain arrays, which can be kept without running what is read back.

    The margins are those of the classifier that they are from, to the last bit: scikit-learn's
    own code walks them.

    Args:
        nodes: of all trees, one tree after the other, with the fields of scikit-learn's nodes.
        sizes: how many nodes each tree has, shape (trees,).
        start: the logarithm of the odds that trees add to, shape (1,).
        features: of a candidate, how many, shape (1,).
    """

    nodes: npt.NDArray[Any]
    sizes: Longs
    start: Doubles
    features: Longs

    @classmethod
    def of(cls, model: HistGradientBoostingClassifier) -> Forest:
        """The trees of a classifier of two classes and plain numbers."""
        trees = [tree.nodes for (tree,) in model._predictors]
        sizes = np.array([len(nodes) for nodes in trees], np.int64)
        start = np.asarray(model._baseline_prediction, np.float64).ravel()
        return cls(np.concatenate(trees), sizes, start, np.array([model.n_features_in_]))

    @classmethod
    def read(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Forest | None:
        """The trees that :meth:`_asdict` told; None where the arrays are no trees.

        What is read is walked by compiled code that checks no bounds: every step must lead on
        within its tree, to an end at last.
        """
        from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE

        try:
            made = cls(*(arrays[name] for name in cls._fields))
        except KeyError:
            return None
        kinds = [np.dtype(PREDICTOR_RECORD_DTYPE), np.dtype(np.int64), np.dtype(np.float64)]
        right = [one.dtype for one in made] == [*kinds, np.dtype(np.int64)]
        if not right or [one.ndim for one in made] != [1, 1, 1, 1]:
            return None
        if len(made.start) != 1 or len(made.features) != 1 or not (made.sizes > 0).all():
            return None
        if int(made.sizes.sum()) != len(made.nodes):
            return None
        place = np.concatenate([np.arange(size) for size in made.sizes])
        ahead = made.nodes["is_leaf"] == 0
        nodes, place = made.nodes[ahead], place[ahead]
        end = np.repeat(made.sizes, made.sizes)[ahead]
        inside = (nodes["is_categorical"] == 0) & (nodes["feature_idx"] >= 0)
        inside &= nodes["feature_idx"] < made.features[0]
        for side in ("left", "right"):
            inside &= (nodes[side] > place) & (nodes[side] < end)
        return made if inside.all() else None

    def margins(self, numbers: Floats) -> Doubles:
        """Logarithms of the odds that candidates answer, shape (n,).

        Args:
            numbers: of candidates, shape (n, features).
        """
        from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
        from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

        assert numbers.shape[1] == self.features[0]  # noqa: S101  (unchecked bounds)
        values = np.ascontiguousarray(numbers, dtype=np.float64)
        none, threads = np.zeros((0, 8), np.uint32), _openmp_effective_n_threads()
        where = np.zeros(numbers.shape[1], np.uint32)
        total = np.full(len(values), self.start[0])
        for nodes in np.split(self.nodes, np.cumsum(self.sizes)[:-1]):
            total += TreePredictor(nodes, none, none).predict(values, none, where, threads)
        return total


class Trees(NamedTuple):
    """Trees that tell answers from the other likely candidates.

    Args:
        floor: shape (s,), of each scorer the score that stands for none.
        model: the trees.
    """

    floor: Doubles
    model: Forest

    @classmethod
    def grown(
        cls,
        floor: Doubles,
        facts: CorpusFacts,
        asked: Sequence[Question],
        odds: Sequence[Doubles],
        right: Sequence[Bools],
    ) -> Trees | None:
        """Trees that learn from questions with known answers.

        Args:
            floor: shape (s,), of each scorer the score that stands for none.
            facts: what is known when they are asked.
            asked: the questions.
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
        model = HistGradientBoostingClassifier(**_TREES).fit(numbers, wanted)
        return cls(floor, Forest.of(model))

    def ordered(
        self, facts: CorpusFacts, asked: Sequence[Question], odds: Sequence[Doubles]
    ) -> list[Doubles]:
        """Logarithms of the odds of candidates, the likeliest as trees order them.

        Args:
            facts: what is known.
            asked: the questions.
            odds: of each, those of its candidates before, shape (m,).
        """
        tops = _tops(odds)
        if not sum(map(len, tops)):
            return list(odds)
        numbers = _numbers(self.floor, facts, asked, odds, tops)
        margins = np.split(self.model.margins(numbers), np.cumsum([len(t) for t in tops]))
        ordered = []
        for of, top, margin in zip(odds, tops, margins, strict=False):
            # The others stay behind, as far as they were behind the least of the likeliest.
            shift = margin.min(initial=np.inf) - of[top].min(initial=np.inf) if len(top) else 0.0
            moved = of + shift
            moved[top] = margin
            ordered.append(moved)
        return ordered


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
    said: Floats | None = None
    for moment in np.unique(time).tolist():
        at = np.flatnonzero(time == moment)
        at = at[np.argsort(relation[at], kind="stable")]
        traits = traits_of(facts, moment).of(subject[at], relation[at], entity[at])
        if said is None:
            said = np.zeros((len(entity), traits.shape[1]), np.float32)
        said[at] = traits
    return np.hstack([np.concatenate(lists), *([] if said is None else [said])])
