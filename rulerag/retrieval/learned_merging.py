"""Merging many searches by candidate answer, with weights learned on validation queries.

Lists of several rules compete for k places, and what a reader needs of them is the answer. So the
places go to candidate answers: what the documents tell of each is weighed and summed, and the k
best candidates give one document each. How much a hit tells (its rule's confidence, its share of
the search's best score, its rank, ...) is learned by :mod:`training.merging`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rulerag.errors import ConfigError, did_you_mean
from rulerag.io import read_json, write_json
from rulerag.retrieval.corpus import Rows
from rulerag.retrieval.evidence_merging import Hits, RowSearch, in_layers
from rulerag.types import Document, Query, ScoredDocument

__all__ = ["FEATURES", "Hit", "LearnedMerger", "MergeWeights"]

Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

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
            if name not in FEATURES:
                raise ConfigError(
                    f"unknown feature {name!r}", key="weights", hint=did_you_mean(name, FEATURES)
                )
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ConfigError(f"{value!r} is no number", key=f"weights.{name}", hint="0.5")
            if not np.isfinite(value):
                raise ConfigError(f"{value} is not finite", key=f"weights.{name}", hint="0.5")

    @property
    def vector(self) -> Floats:
        """The weights in the order of :data:`FEATURES`."""
        return np.array([float(self.weights.get(name, 0.0)) for name in FEATURES])

    def save(self, path: str | Path) -> None:
        """Write them as JSON."""
        write_json(path, {"weights": dict(self.weights), "about": dict(self.about)})

    @classmethod
    def of(cls, weights: MergeWeights | str | Path | None) -> MergeWeights | None:
        """Weights as they are, or from their file; None for None."""
        return cls.load(weights) if isinstance(weights, str | Path) else weights

    @classmethod
    def load(cls, path: str | Path) -> MergeWeights:
        """Read a file of :meth:`save`.

        Raises:
            DataError: the file is missing or no JSON.
            ConfigError: it holds no weights.
        """
        told = read_json(path)
        weights = told.get("weights") if isinstance(told, dict) else None
        if not isinstance(weights, dict):
            raise ConfigError(
                f"{path} holds no merge weights",
                key="weights",
                hint="python -m training.merging writes such a file",
            )
        return cls(weights, told.get("about") or {})


class Hit(NamedTuple):
    """The hits of one query's searches as columns of length n.

    Args:
        search: the search's number.
        rank: from 0.
        row: the corpus row.
        score: as the retriever gave it.
        candidate: codes of candidate answers, from 0.
        features: shape (n, number of :data:`FEATURES`).
    """

    search: Longs
    rank: Longs
    row: Longs
    score: Floats
    candidate: Longs
    features: Floats


class LearnedMerger:
    """Orders the documents of several searches by what they tell of candidate answers.

    A document's candidate is the entity in it, other than the query's subject, that the corpus has
    most often as an object of the asked relation. A candidate's evidence is the sum over its hits;
    its value is its share of all evidence. The list takes the document with most evidence of every
    candidate, candidates by value, then every second document, and so on. The score of a document
    in round i (from 0) is its candidate's value minus i.

    Args:
        documents: the corpus.
        weights: of the features.
    """

    def __init__(self, documents: Sequence[Document], weights: MergeWeights) -> None:
        self.documents = documents
        self.weights = weights
        self._vector = weights.vector
        self._entities: dict[str, int] = {}
        self._relations: dict[str, int] = {}
        code = self._entities.setdefault
        ends: list[list[int]] = []
        relations: list[list[int]] = []
        stated: list[tuple[int, int]] = []
        self._time = np.full(len(documents), np.nan)
        for row, document in enumerate(documents):
            mine: dict[int, None] = {}
            told: dict[int, None] = {}
            for fact in document.facts:
                subject = code(fact.subject, len(self._entities))
                object_ = code(fact.object, len(self._entities))
                mine[subject] = mine[object_] = None
                relation = self._relations.setdefault(fact.relation, len(self._relations))
                told[relation] = None
                stated.append((relation, object_))
                if fact.timestamp is not None:
                    self._time[row] = np.fmax(self._time[row], fact.timestamp)
            ends.append(list(mine))
            relations.append(list(told))
        self._ends, self._told = _padded(ends), _padded(relations)
        pairs = np.array(stated, dtype=np.int64).reshape(-1, 2)
        codes = pairs[:, 0] * max(1, len(self._entities)) + pairs[:, 1]
        self._codes, self._counts = np.unique(codes, return_counts=True)

    def merge(
        self, query: Query, searches: Sequence[RowSearch], found: Rows, top_k: int
    ) -> list[ScoredDocument]:
        """The ``top_k`` best documents of a query's searches, each with the hits that tell of it.

        Args:
            query: the query.
            searches: its searches, in rule order.
            found: the results of the whole batch.
            top_k: how many documents to return at most.
        """
        hit = self.hits(query, searches, found)
        if not len(hit.row):
            return []
        told = hit.features @ self._vector
        evidence = np.exp(told - told.max())  # only shares are asked for
        documents, first, position = np.unique(hit.row, return_index=True, return_inverse=True)
        value: Floats = np.bincount(position, evidence).astype(np.float64)
        order, joined, layer = in_layers(documents, hit.candidate[first], value)
        score = joined / evidence.sum() - layer
        share = np.exp(hit.features[:, _SHARE])
        hits = Hits(hit.search, hit.rank, hit.score, share, position)
        return [
            ScoredDocument(
                self.documents[documents[i]], float(score[i]), number, hits.of(int(i), searches)
            )
            for number, i in enumerate(order[:top_k].tolist(), start=1)
        ]

    def hits(self, query: Query, searches: Sequence[RowSearch], found: Rows) -> Hit:
        """What the searches of a query found, with features and candidates."""
        places = [search.place for search in searches]
        rows, scores = found.rows[places], found.scores[places].astype(np.float64)
        search, rank = np.nonzero(rows >= 0)
        row, score = rows[search, rank], scores[search, rank]
        best = np.maximum(scores.max(axis=1, initial=0.0), _LEAST)[search]
        weight = np.array([s.weight for s in searches], dtype=np.float64)[search]
        plain = np.array([s.rule_id is None for s in searches], dtype=np.float64)[search]
        chain = np.array([len(s.relations) > 1 for s in searches], dtype=np.float64)[search]
        candidate, known, subject = self._candidates(query, row)
        states = np.zeros(len(row))
        for number, one in enumerate(searches):
            mine = search == number
            states[mine] = self._states(row[mine], one.relations)
        confidence = np.log(np.maximum(weight, 1e-4))
        share = np.log(np.clip(score / best, _LEAST, 1.0))
        features = {
            "confidence": confidence,
            "share": share,
            "rank": np.log1p(rank),
            "best": np.log(np.maximum(best, 1e-3)),
            "plain": plain,
            "plain_share": plain * share,
            "chain": chain,
            "chain_confidence": chain * confidence,
            "subject": subject,
            "subject_share": subject * share,
            "states": states,
            "states_subject": states * subject,
            "asked": self._states(row, (query.relation,)) * subject,
            "known": (known > 0).astype(np.float64),
            "known_often": np.log1p(known) / 5,
            "age": self._age(query, row),
        }
        columns = np.stack([features[name] for name in FEATURES], axis=1)
        _, place = np.unique(candidate, return_inverse=True)
        return Hit(search, rank, row, score, place, np.clip(columns, -_FARTHEST, _FARTHEST))

    def _candidates(self, query: Query, row: Longs) -> tuple[Longs, Longs, Floats]:
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

    def _states(self, row: Longs, relations: Sequence[str]) -> Floats:
        """1 for each row that states one of some relations."""
        codes = [self._relations[name] for name in relations if name in self._relations]
        stated = np.isin(self._told[row], codes)
        return np.asarray(stated.any(axis=1), dtype=np.float64)

    def _age(self, query: Query, row: Longs) -> Floats:
        if query.timestamp is None:
            return np.zeros(len(row))
        age: Floats = np.log1p(np.maximum(query.timestamp - self._time[row], 0.0)) / 5
        return np.nan_to_num(age)


def _padded(lists: Sequence[Sequence[int]]) -> Longs:
    """Lists as the rows of one array, behind them -1."""
    array = np.full((len(lists), max(map(len, lists), default=0) or 1), -1, dtype=np.int64)
    for row, values in enumerate(lists):
        array[row, : len(values)] = values
    return array


_SHARE = list(FEATURES).index("share")
