"""Merging many searches by candidate answer, with weights learned on validation queries.

Lists of several rules compete for k ranks, and what a reader needs of them is the answer. So the
ranks go to candidate answers: the evidence of the documents for each is weighed and summed, and the
k best candidates give one document each. How much evidence a hit is (by its rule's confidence, its
fraction of the search's best score, its rank, ...) is learned by `python -m training.merging`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rulerag.arrays import Doubles, Longs
from rulerag.composition import check_choice, register
from rulerag.errors import ConfigError
from rulerag.io import read_json, write_json
from rulerag.retrieval.guided.merging.groups import GroupMerger
from rulerag.retrieval.guided.merging.hits import RuleSearch, SearchHits
from rulerag.types import Document, Query, entities_of

FEATURES = {
    "confidence": "log of the search's weight, the rule's confidence",
    "share": "log of the score's share of the best score of its search",
    "rank": "log of the rank in its search",
    "best": "log of the best score of its search",
    "plain": "1 for the search of the plain query",
    "plain_share": "share, in the search of the plain query",
    "chain": "1 for a rule with several body atoms",
    "chain_confidence": "confidence, of such a rule",
    "subject": "1 where the document speaks of the query's subject",
    "subject_share": "share, of such a document",
    "states": "1 where the document states a relation of the rule's body",
    "states_subject": "1 where it does and speaks of the query's subject",
    "asked": "1 where the document states the asked relation of the query's subject",
    "known": "1 where the corpus has the candidate as an object of the asked relation",
    "known_often": "log of how often, over 5",
    "age": "log of the steps of time from the document to the query, over 5; 0 without dates",
}
"""What is known of a hit: a document in a search. Logarithms of counts are of one more."""

_LEAST = 1e-6
_FARTHEST = 30.0


@dataclass(frozen=True)
class MergeWeights:
    """How much each feature of a hit counts: its evidence is ``exp(Σ weight · feature)``.

    Args:
        weights: by feature name; what is missing counts 0.
        about: what they were learned on, and what they reach there.

    Raises:
        ConfigError: a feature is unknown, or a weight is no finite number.
    """

    weights: Mapping[str, float]
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in self.weights.items():
            check_choice("weights", name, FEATURES, "feature")
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not np.isfinite(value):
                message = f"{value!r} is no finite number"
                raise ConfigError(message, key=f"weights.{name}", hint="0.5")

    @property
    def vector(self) -> Doubles:
        """The weights in the order of :data:`FEATURES`."""
        return np.array([float(self.weights.get(name, 0.0)) for name in FEATURES])

    def save(self, path: str | Path) -> None:
        """Write them as JSON."""
        write_json(path, {"weights": dict(self.weights), "about": dict(self.about)})

    @classmethod
    def of(cls, weights: MergeWeights | str | Path) -> MergeWeights:
        """Weights as they are, or from their file."""
        return cls.load(weights) if isinstance(weights, str | Path) else weights

    @classmethod
    def load(cls, path: str | Path) -> MergeWeights:
        """Read a file of :meth:`save`.

        Raises:
            DataError: the file is missing or no JSON.
            ConfigError: it holds no weights.
        """
        values = read_json(path)
        weights = values.get("weights") if isinstance(values, dict) else None
        if not isinstance(weights, dict):
            raise ConfigError(
                f"{path} holds no merge weights",
                key="weights",
                hint="python -m training.merging writes such a file",
            )
        return cls(weights, values.get("about") or {})


@register("merge", "learned")
class LearnedMerger(GroupMerger):
    """Orders the documents of several searches by their evidence for candidate answers.

    A document's candidate is the entity in it, other than the query's subject, that the corpus has
    most often as an object of the asked relation. Documents of one candidate form a group, whose
    value is its fraction of all evidence.

    Args:
        documents: the corpus.
        weights: of the features, or their file.

    Raises:
        ConfigError: see :class:`MergeWeights`.
    """

    def __init__(
        self, documents: Sequence[Document], *, weights: MergeWeights | str | Path
    ) -> None:
        super().__init__(documents)
        self._vector = MergeWeights.of(weights).vector
        self._entities, self._relations = _Codes(), _Codes()
        ends: list[list[int]] = []
        relations: list[list[int]] = []
        stated: list[tuple[int, int]] = []
        for document in documents:
            facts = document.facts
            coded = [self._entities[end] for fact in facts for end in (fact.subject, fact.object)]
            of_facts = [self._relations[fact.relation] for fact in facts]
            ends.append([self._entities[name] for name in entities_of(document)])
            relations.append(list(dict.fromkeys(of_facts)))
            stated.extend(zip(of_facts, coded[1::2], strict=True))
        times = [document.timestamp for document in documents]
        self._time = np.array([np.nan if time is None else time for time in times])
        self._ends, self._stated = _padded(ends), _padded(relations)
        pairs = np.array(stated, dtype=np.int64).reshape(-1, 2)
        codes = pairs[:, 0] * max(1, len(self._entities)) + pairs[:, 1]
        self._codes, self._counts = np.unique(codes, return_counts=True)

    def weigh(
        self, query: Query, searches: Sequence[RuleSearch], hits: SearchHits
    ) -> tuple[Doubles, Doubles, Longs]:
        """The evidence of each hit, grouped by the candidate answer of its document."""
        features, candidate = self.features(query, searches, hits)
        logarithm = features @ self._vector
        evidence = np.exp(logarithm - logarithm.max(initial=-np.inf))  # fractions alone count
        return evidence, np.exp(features[:, _SHARE]), candidate

    def value(self, joined: Doubles, total: float) -> Doubles:
        """The fraction of all evidence."""
        return joined / total

    def features(
        self, query: Query, searches: Sequence[RuleSearch], hits: SearchHits
    ) -> tuple[Doubles, Longs]:
        """What is known of the hits, and which candidate each speaks of.

        Args:
            query: the query.
            searches: its searches, in rule order.
            hits: theirs, n of them.

        Returns:
            An array of shape (n, number of :data:`FEATURES`), and candidates from 0, shape (n,).
        """
        row = hits.row
        plain = np.array([s.rule_id is None for s in searches], dtype=np.float64)[hits.search]
        chain = np.array([len(s.relations) > 1 for s in searches], dtype=np.float64)[hits.search]
        candidate, known, subject = self._candidates(query, row)
        states = np.zeros(len(row))
        for number, one in enumerate(searches):
            mine = hits.search == number
            states[mine] = self._states(row[mine], one.relations)
        confidence = np.log(np.maximum(hits.weight, 1e-4))
        fraction = np.log(np.clip(hits.score / hits.best, _LEAST, 1.0))
        features = {
            "confidence": confidence,
            "share": fraction,
            "rank": np.log1p(hits.rank),
            "best": np.log(np.maximum(hits.best, 1e-3)),
            "plain": plain,
            "plain_share": plain * fraction,
            "chain": chain,
            "chain_confidence": chain * confidence,
            "subject": subject,
            "subject_share": subject * fraction,
            "states": states,
            "states_subject": states * subject,
            "asked": self._states(row, (query.relation,)) * subject,
            "known": (known > 0).astype(np.float64),
            "known_often": np.log1p(known) / 5,
            "age": self._age(query, row),
        }
        columns = np.stack([features[name] for name in FEATURES], axis=1)
        _, numbered = np.unique(candidate, return_inverse=True)
        return np.clip(columns, -_FARTHEST, _FARTHEST), numbered

    def _candidates(self, query: Query, row: Longs) -> tuple[Longs, Longs, Doubles]:
        """Of each hit the candidate, how often it is known, and whether the subject is there."""
        subject = self._entities.get(query.subject, -2)
        relation = self._relations.get(query.relation, -1)
        ends = self._ends[row]
        codes = relation * max(1, len(self._entities)) + ends
        at = np.minimum(np.searchsorted(self._codes, codes), max(0, len(self._codes) - 1))
        known = np.zeros(ends.shape, dtype=np.int64)
        if relation >= 0 and len(self._codes):
            known = np.where(self._codes[at] == codes, self._counts[at], 0)
        fits = (ends >= 0) & (ends != subject)
        known = np.where(fits, known, -1)
        chosen = known.argmax(axis=1)
        line = np.arange(len(row))
        alone = ~fits[line, chosen]
        # A document of unknown content, or of the subject alone, is its own candidate.
        candidate = np.where(alone, -2 - row, ends[line, chosen])
        often = np.where(alone, 0, known[line, chosen])
        return candidate, often, (ends == subject).any(axis=1).astype(np.float64)

    def _states(self, row: Longs, relations: Sequence[str]) -> Doubles:
        """1 for each row that states one of some relations."""
        codes = [self._relations[name] for name in relations if name in self._relations]
        stated = np.isin(self._stated[row], codes)
        return np.asarray(stated.any(axis=1), dtype=np.float64)

    def _age(self, query: Query, row: Longs) -> Doubles:
        if query.timestamp is None:
            return np.zeros(len(row))
        age: Doubles = np.log1p(np.maximum(query.timestamp - self._time[row], 0.0)) / 5
        return np.nan_to_num(age)


class _Codes(dict[str, int]):
    """Numbers names in the order in which they come up."""

    def __missing__(self, name: str) -> int:
        return self.setdefault(name, len(self))


def _padded(lists: Sequence[Sequence[int]]) -> Longs:
    """Lists as the rows of one array, behind them -1."""
    array = np.full((len(lists), max(map(len, lists), default=0) or 1), -1, dtype=np.int64)
    for row, values in enumerate(lists):
        array[row, : len(values)] = values
    return array


_SHARE = list(FEATURES).index("share")
