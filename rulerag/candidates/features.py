"""Candidates as numbers: their places in the lists of scorers, and what facts say of them.

What facts say is how often and how lately those of the question and of the candidate were stated,
and whether the candidate is of a kind that the relation has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from rulerag.arrays import Bools, Doubles, Floats, Longs
from rulerag.candidates.facts import NO_TIME, CorpusFacts

# Time steps in which what a dated fact counts falls to 1/e.
_SPANS = (5.0, 30.0, 150.0)


# Stands for the logarithm of a place behind all others.
_LAST = 6.0


def list_features(total: Doubles, logs: Doubles, named: Bools) -> Floats:
    """Where candidates of one question stand, shape (m, 4 + 3 s).

    The joined score below the best, its logarithm as a probability, the logarithm of its place,
    and how many scorers name the candidate; then of each scorer the logarithm of its score, that
    below its best, and the logarithm of its place.

    Args:
        total: joined scores, logarithms of odds, shape (m,).
        logs: logarithms of the scores, shape (m, s).
        named: whether a scorer names a candidate, shape (m, s).
    """
    below = total - total.max(initial=-np.inf)
    probability = below - np.log(np.exp(below).sum())
    places = np.where(named, np.log1p(_places(logs)), _LAST)
    whole = np.stack([below, probability, np.log1p(_places(total[:, None])[:, 0])], axis=1)
    parts = whole, named.sum(axis=1, keepdims=True), logs, logs - logs.max(axis=0), places
    return np.hstack(parts).astype(np.float32)


def _places(score: Doubles) -> Doubles:
    """The place of each line in each column, from 0, shape (m, c); of equal ones the first."""
    place = np.empty(score.shape)
    order = np.argsort(-score, axis=0, kind="stable")
    np.put_along_axis(place, order, np.arange(len(score), dtype=np.float64)[:, None], axis=0)
    return place


class Traits:
    """Counts of the facts before a time, asked by question and candidate.

    Of the facts with the question's subject, its relation, the candidate, and each two or all three
    of them (the subject and the candidate in both directions): how many they are, and of dated ones
    how many time steps ago the last and the first is, and their number where each fades over 5, 30
    and 150 steps. Further: with how many different objects the subject has the relation, and how
    many different subjects have it with the candidate; of the relation, its facts for each pair,
    its objects for each subject and its subjects for each object; and how much the candidate's
    facts are like those of the relation's objects, by relation and end (cosine).

    Numbers are logarithms, so that more or later is greater.

    Args:
        facts: the facts.
        time: those before it count; see :meth:`CorpusFacts.coded`.
    """

    def __init__(self, facts: CorpusFacts, time: int) -> None:
        table = facts.table
        rows = np.arange(len(table)) if time == NO_TIME else np.flatnonzero(facts.times < time)
        columns = table.subject[rows], table.relation[rows], table.object[rows]
        subject, relation, object_ = (one.astype(np.int64) for one in columns)
        size, relations = len(facts.names), len(table.relations)
        age = (facts.now(time) - facts.times[rows]) / facts.time_step if facts.is_dated else None
        pair = subject * relations + relation
        self._entities, self._relations = size, relations
        self._stated = _counted(pair * size + object_, age)
        self._linked = _counted(subject * size + object_, age)
        self._asked = _counted(pair, age)
        self._answers = _counted(relation * size + object_, age)
        self._as_subject, self._as_object = _counted(subject, age), _counted(object_, age)
        self._of_relation = _counted(relation, age)
        # Different objects of a subject and a relation, different subjects of these and an object.
        self._objects = _counted(self._stated.key // size)
        pair, object_known = np.divmod(self._stated.key, size)
        self._subjects = _counted(pair % relations * size + object_known)
        self._habits = self._of_relations(relation)
        self._kinds = self._by_end(subject, relation, object_)
        self._alike: dict[int, Doubles] = {}

    def of(self, subject: Longs, relation: Longs, entity: Longs) -> Floats:
        """The traits of n candidates, each with its question, shape (n, traits).

        Args:
            subject: ids, shape (n,); those that are no entity of the facts are unknown.
            relation: known ids, shape (n,).
            entity: the candidates' ids, shape (n,).
        """
        size, relations = self._entities, self._relations
        known = (subject >= 0) & (subject < size)

        def key(of: Longs) -> Longs:
            """What is unknown has no key, whatever it is joined with."""
            return np.where(known, of, -1)

        pair = subject * relations + relation
        parts: list[Floats | Doubles] = [
            self._stated.of(key(pair * size + entity)),
            self._stated.of(key((entity * relations + relation) * size + subject)),
            self._linked.of(key(subject * size + entity)),
            self._linked.of(key(entity * size + subject)),
            self._asked.of(key(pair)),
            self._answers.of(relation * size + entity),
            self._as_subject.of(key(subject)),
            self._as_subject.of(entity),
            self._as_object.of(entity),
            self._of_relation.of(relation),
            self._objects.of(key(pair)),
            self._subjects.of(relation * size + entity),
            self._habits[relation],
            np.concatenate(
                [np.zeros(0)]
                + [self._likeness(one)[entity[start:end]] for one, start, end in _runs(relation)]
            )[:, None],
        ]
        return np.hstack(parts).astype(np.float32)

    def _of_relations(self, relation: Longs) -> Doubles:
        """Of each relation, facts by pair, objects by subject, subjects by object."""

        def number(relation: Longs) -> Doubles:
            return np.bincount(relation, minlength=self._relations).astype(np.float64)

        pairs = number(self._stated.key // self._entities % self._relations)
        subjects = number(self._objects.key % self._relations)
        objects = number(self._subjects.key // self._entities)
        ratios = number(relation) / np.maximum(pairs, 1), pairs / np.maximum(subjects, 1)
        return np.log1p(np.stack([*ratios, pairs / np.maximum(objects, 1)], axis=1))

    def _likeness(self, relation: int) -> Doubles:
        """How much each entity is like the relation's objects, shape (entities,)."""
        if relation not in self._alike:
            objects = self._subjects.key[self._subjects.key // self._entities == relation]
            common = np.asarray(self._kinds[objects % self._entities].sum(axis=0)).ravel()
            # That they are objects of the relation is what is asked, not what tells.
            common[relation + self._relations] = 0
            length = np.linalg.norm(common)
            self._alike[relation] = self._kinds @ (common / length if length > 0 else common)
        return self._alike[relation]

    def _by_end(self, subject: Longs, relation: Longs, object_: Longs) -> sparse.csr_matrix:
        """How often each entity stands at which end of which relation, rows of length 1."""
        row = np.concatenate([subject, object_])
        column = np.concatenate([relation, relation + self._relations])
        shape = self._entities, 2 * self._relations
        kinds = sparse.csr_matrix((np.ones(len(row)), (row, column)), shape=shape)
        kinds.data = np.log1p(kinds.data)
        length = np.sqrt(np.asarray(kinds.multiply(kinds).sum(axis=1)).ravel())
        kinds.data /= np.repeat(length, np.diff(kinds.indptr))
        return kinds


class _Counts(NamedTuple):
    """Numbers by key.

    Args:
        key: ascending, shape (k,).
        value: shape (k, c).
        nothing: of a key that is not there, shape (c,).
    """

    key: Longs
    value: Floats
    nothing: Floats

    def of(self, key: Longs) -> Floats:
        """The numbers of some keys, shape (n, c)."""
        if not len(self.key):
            return np.tile(self.nothing, (len(key), 1))
        at = np.minimum(np.searchsorted(self.key, key), len(self.key) - 1)
        return np.where((self.key[at] == key)[:, None], self.value[at], self.nothing)


def _counted(key: Longs, age: Doubles | None = None) -> _Counts:
    """How many facts have a key, and of dated ones when."""
    found, where, counts = np.unique(key, return_inverse=True, return_counts=True)
    values, nothing = [np.log1p(counts)], [0.0]
    if age is not None:
        latest, earliest = np.full(len(found), np.inf), np.zeros(len(found))
        np.minimum.at(latest, where, age)
        np.maximum.at(earliest, where, age)
        values += [-np.log1p(latest), -np.log1p(earliest)]
        nothing += [-50.0, -50.0]  # before everything
        for span in _SPANS:
            faded = np.bincount(where, np.exp(-age / span), len(found))
            values.append(np.log1p(faded))
            nothing.append(0.0)
    value = np.stack(values, axis=1).astype(np.float32)
    return _Counts(found, value, np.array(nothing, dtype=np.float32))


def _runs(relation: Longs) -> list[tuple[int, int, int]]:
    """Relations that stand together, with the places where they start and end."""
    starts = np.flatnonzero(np.r_[True, relation[1:] != relation[:-1]][: len(relation)])
    ends = [*starts[1:].tolist(), len(relation)]
    return [(int(relation[a]), a, b) for a, b in zip(starts.tolist(), ends, strict=True)]


def traits_of(facts: CorpusFacts, time: int) -> Traits:
    """The traits at a time, kept for the last few times."""
    return facts.remember(("traits",), time, lambda: Traits(facts, time))
