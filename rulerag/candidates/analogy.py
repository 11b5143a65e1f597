"""Candidates by analogy: subjects that are like the asked one, by facts or name, vote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from rulerag.arrays import Doubles, Floats, Longs
from rulerag.candidates.base import DECAY, FactScorer
from rulerag.candidates.facts import NO_TIME, CorpusFacts
from rulerag.composition import check_range, register
from rulerag.errors import needs_package
from rulerag.types import Query, Support

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer

    Words = npt.NDArray[np.str_]

# Analogues and shared features that an explanation names.
_ANALOGUES, _SHARED = 3, 3
# Cosines that are kept: some 64 MB.
_LIKE = 2**24
# Names of unknown subjects that are remembered, so that reasons can be given for them.
_UNKNOWN = 65_536


@register("scorer", "analogy")
class Analogy(FactScorer):
    """Subjects like the asked one vote with their objects of the relation.

    An entity is described by its facts: the relation, which end of it the entity is, and what
    stands at the other end. A description weighs the logarithm of one over the fraction of
    entities that have it (inverse document frequency), and two entities are as alike as the cosine
    of their descriptions. Every subject of the relation gives its objects the power of that
    likeness; the votes are divided by their sum, and a little of the relation's prior is added, so
    that there is an order where nothing is alike. On dated facts both descriptions and votes fade
    with age, and the past of the subject itself votes too.

    Args:
        facts: the facts.
        power: how much the likest subjects count beyond others; at least 0.
        prior: how much of the relation's prior is added to votes that sum to 1.
        decay: fading of dated facts per time step, as in ``exp(-decay * age)``.
        time_step: the distance of two neighbouring times in timestamps.
        best: score a candidate by the likest subject that votes for it, not by all.

    Raises:
        ConfigError: a setting is out of range.

    References:
        Memory-based collaborative filtering: Breese, Heckerman and Kadie 1998 (Empirical Analysis
        of Predictive Algorithms for Collaborative Filtering, section 2.1), with its inverse user
        frequency and case amplification (the power).
    """

    kind = "analogy"
    power: float
    prior: float
    decay: float
    time_step: int
    best: bool

    def __init__(
        self,
        facts: CorpusFacts,
        *,
        power: float = 2.0,
        prior: float = 0.05,
        decay: float = DECAY,
        time_step: int = 1,
        best: bool = False,
    ) -> None:
        for key, value in (("power", power), ("prior", prior), ("decay", decay)):
            check_range(key, value, 0)
        settings: dict[str, Any] = {"power": power, "prior": prior, "decay": decay}
        super().__init__(facts, **settings, time_step=time_step, best=best)

    @property
    def title(self) -> str:
        """What the scorer is called where it explains itself."""
        name = f"{self.kind}-best" if self.best else f"{self.kind}-{self.power:g}"
        return name + self.fading(self.decay)

    def candidates(self, relation: int, time: int, subject: Longs) -> tuple[Longs, Doubles]:
        """See :meth:`FactScorer.candidates`."""
        answers, counts = self.facts.answers(relation, time)
        voters, votes = self._votes(relation, time)
        like = self._shared_likeness(relation, time, subject, voters)
        if self.best:
            return answers, _strongest(like, votes)
        shared = (votes.T @ (like**self.power).T).T
        total = shared.sum(axis=1, keepdims=True)
        prior = counts / max(1.0, counts.sum())
        return answers, shared / np.where(total > 0, total, 1.0) + self.prior * prior

    def support(self, relation: int, time: int, subject: int, entity: int) -> tuple[Support, ...]:
        """The likest subjects that have the candidate, and what they share with the asked one."""
        table = self.facts.table
        rows, every = self.last(self._like_rows, relation, time, subject)
        fits = table.object[rows] == entity
        rows, like = rows[fits], every[fits]
        if not len(rows):
            return ()
        reasons: list[Support] = []
        told: set[int] = set()
        for place in np.lexsort((-self.facts.times[rows], -like)).tolist():
            other = int(table.subject[rows[place]])
            if other in told:
                continue
            told.add(other)
            named = self.facts.answer(relation, entity)
            if like[place] <= 0:
                if not reasons:  # the prior alone speaks for it
                    why = f"{self.facts.entity(other)} {named}, as others do"
                    reasons.append(self.reason(why, [int(rows[place])]))
                break
            if other == subject:
                reasons.append(self.reason(f"{named} before", [int(rows[place])]))
            else:
                shared, words = self._shared(time, subject, other)
                why = f"{self.facts.entity(other)}, like the subject, {words}: {named}"
                reasons.append(self.reason(why, [int(rows[place]), *shared]))
            if len(reasons) == _ANALOGUES:
                break
        return tuple(reasons)

    def _like_rows(self, relation: int, time: int, subject: int) -> tuple[Longs, Floats]:
        """The relation's facts, and how alike the subject and that of each are."""
        rows = self.facts.rows(relation, time)
        voters, _ = self._votes(relation, time)
        like = self._likeness(time, np.array([subject]), voters)[0]
        return rows, like[np.searchsorted(voters, self.facts.table.subject[rows])]

    def _shared(self, time: int, one: int, other: int) -> tuple[list[int], str]:
        """Facts of another entity that describe the first one too, and these in words."""
        features = self._features(time)
        mine, its = features.of(one), features.of(other)
        both, at, there = np.intersect1d(mine[0], its[0], return_indices=True)
        order = np.argsort(-mine[1][at] * its[1][there], kind="stable")[:_SHARED]
        rows, words = [], []
        around = self.facts.around(other)
        for number in both[order].tolist():
            said, fits = feature_of(self.facts, other, int(features.codes[number]), around)
            words.append(said)
            rows += fits[self.facts.times[fits] < time][-1:].tolist()
        return rows, " and ".join(words)

    def _shared_likeness(self, relation: int, time: int, subject: Longs, voters: Longs) -> Floats:
        """The same for scorers that differ in how they use it, which are asked in turn."""
        kind = "likeness", self.decay, self.time_step
        known: dict[Any, Floats] = self.facts.remembered.setdefault(kind, {})
        sizes = self.facts.remembered.setdefault((*kind, "size"), {"all": 0})
        key = relation, time, subject.tobytes()
        if key not in known:
            if sizes["all"] > _LIKE:
                known.clear()
                sizes["all"] = 0
            known[key] = self._likeness(time, subject, voters)
            sizes["all"] += known[key].size
        return known[key]

    def _likeness(self, time: int, subject: Longs, voters: Longs) -> Floats:
        """Cosines of subjects and voters, shape (b, v); 0 for unknown subjects."""
        matrix = self._features(time).matrix
        known = np.maximum(subject, 0)
        like: Floats = (matrix[known] @ matrix[voters].T).toarray()
        like[subject < 0] = 0
        if not self.facts.is_dated:
            like[subject[:, None] == voters[None, :]] = 0
        return like

    def _votes(self, relation: int, time: int) -> tuple[Longs, sparse.csr_matrix]:
        """The subjects of a relation, shape (v,), and their weights for its answers, (v, m)."""

        def counted() -> tuple[Longs, sparse.csr_matrix]:
            table = self.facts.table
            rows = self.facts.rows(relation, time)
            answers, _ = self.facts.answers(relation, time)
            column = np.zeros(len(self.names), np.int64)
            column[answers] = np.arange(len(answers))
            voters, line = np.unique(table.subject[rows], return_inverse=True)
            fresh = self.facts.fresh(rows, time, self.decay / self.time_step)
            shape = len(voters), len(answers)
            votes = strongest_entries(line, column[table.object[rows]], fresh, shape)
            return voters.astype(np.int64), votes

        kind = "votes", self.decay, self.time_step
        return self.facts.remember(kind, (relation, time), counted, most=512)

    def _features(self, time: int) -> Descriptions:
        """What is known of every entity before a time."""
        kind = "described", self.decay, self.time_step
        decay = self.decay / self.time_step
        return self.facts.remember(kind, time, lambda: describe(self.facts, time, decay))


@register("scorer", "names")
class Names(Analogy):
    """Subjects whose names are like the asked one's vote with their objects of the relation.

    Two names are as alike as the cosine of their words, each weighing its inverse document
    frequency; the raw name and the readable one both count. It is asked of subjects, too, of which
    no fact is known. The subject itself does not vote. Votes are as those of
    :class:`Analogy`, without a prior: where no name is alike, there is no candidate.

    Args:
        facts: the facts.
        power: how much the likest names count beyond others; at least 0.
        decay: fading of dated facts per time step, as in ``exp(-decay * age)``.
        time_step: the distance of two neighbouring times in timestamps.

    Raises:
        ConfigError: a setting is out of range.

    References:
        Salton and Buckley 1988 (Term-weighting approaches in automatic text retrieval).
    """

    kind = "names"
    prior = 0.0
    best = False

    def __init__(
        self, facts: CorpusFacts, *, power: float = 2.0, decay: float = DECAY, time_step: int = 1
    ) -> None:
        for key, value in (("power", power), ("decay", decay)):
            check_range(key, value, 0)
        FactScorer.__init__(self, facts, power=power, decay=decay, time_step=time_step)
        self._unknown: dict[str, int] = {}

    def _coded(self, queries: Sequence[Query]) -> tuple[Longs, Longs, Longs]:
        """An unknown subject gets an id beyond those of the facts, by its name."""
        subject, relation, time = self.facts.coded(queries)
        if len(self._unknown) > _UNKNOWN:
            self._unknown.clear()
        for place in np.flatnonzero(subject < 0).tolist():
            name = _full_name(queries[place].subject, queries[place].subject_label)
            known = len(self.names) + len(self._unknown)
            subject[place] = self._unknown.setdefault(name, known)
        return subject, relation, time

    def _shared_likeness(self, relation: int, time: int, subject: Longs, voters: Longs) -> Floats:
        del relation
        return self._likeness(time, subject, voters)

    def _likeness(self, time: int, subject: Longs, voters: Longs) -> Floats:
        """Cosines of the names of subjects and voters, shape (b, v)."""
        del time
        like: Floats = (self._words_of(subject) @ self._words[1][voters].T).toarray()
        like[subject[:, None] == voters[None, :]] = 0
        return like.astype(np.float32)

    def _shared(self, time: int, one: int, other: int) -> tuple[list[int], str]:
        """The words that two names share, the rarest first."""
        del time
        both = self._words_of(np.array([one])).multiply(self._words[1][[other]]).tocsr()
        order = np.argsort(-both.data, kind="stable")[:_SHARED]
        words = self._words[2][both.indices[order]].tolist()
        return [], f"has {' and '.join(map(repr, words))} in the name"

    def _words_of(self, subject: Longs) -> sparse.csr_matrix:
        """The words of names, known or not, shape (b, words)."""
        vectorizer, known, _ = self._words
        found = known[np.minimum(subject, len(self.names) - 1)]
        strange = np.flatnonzero(subject >= len(self.names))
        if not len(strange):
            return found
        names = {number: name for name, number in self._unknown.items()}
        asked = vectorizer.transform([names[int(subject[place])] for place in strange])
        order = np.arange(len(subject))
        order[strange] = len(subject) + np.arange(len(strange))
        return sparse.vstack([found, asked]).tocsr()[order]

    @property
    def _words(self) -> tuple[TfidfVectorizer, sparse.csr_matrix, Words]:
        """What counts words, those of the known names, rows of length 1, and the words."""

        def counted() -> tuple[TfidfVectorizer, sparse.csr_matrix, Words]:
            with needs_package("scikit-learn", "learn"):
                from sklearn.feature_extraction.text import TfidfVectorizer

            vectorizer = TfidfVectorizer(token_pattern=r"[^\W_]+", dtype=np.float32)
            names = [
                _full_name(name, self.facts.entity(entity))
                for entity, name in enumerate(self.names)
            ]
            counts = vectorizer.fit_transform(names).tocsr()
            return vectorizer, counts, vectorizer.get_feature_names_out()

        return self.facts.remember(("names",), None, counted)


def _full_name(name: str, label: str | None) -> str:
    """A name as it stands, and its readable form where that has other words."""
    return name if not label or label == name else f"{name} {label}"


class Descriptions(NamedTuple):
    """Descriptions of entities.

    Args:
        matrix: rows of length 1, shape (entities, features).
        codes: of each feature ``(relation + is object * R) * E + other end``.
    """

    matrix: sparse.csr_matrix
    codes: Longs

    def of(self, entity: int) -> tuple[Longs, Floats]:
        """The features of an entity and their weights."""
        part = slice(self.matrix.indptr[entity], self.matrix.indptr[entity + 1])
        return self.matrix.indices[part], self.matrix.data[part]


def describe(facts: CorpusFacts, time: int, decay: float) -> Descriptions:
    """What is known of every entity before a time.

    Args:
        facts: the facts.
        time: as coded.
        decay: fading of dated facts per timestamp.
    """
    table = facts.table
    rows = np.arange(len(facts)) if time == NO_TIME else np.flatnonzero(facts.times < time)
    size, relations = len(facts.names), len(table.relations)
    subject, object_ = table.subject[rows].astype(np.int64), table.object[rows].astype(np.int64)
    relation = table.relation[rows].astype(np.int64)
    entity = np.concatenate([subject, object_])
    code = np.concatenate([relation * size + object_, (relation + relations) * size + subject])
    codes, column = np.unique(code, return_inverse=True)
    fresh = np.tile(facts.fresh(rows, time, decay), 2)
    matrix = strongest_entries(entity, column, fresh, (size, len(codes)))
    holders = np.bincount(matrix.indices, minlength=len(codes))
    rare = np.log(size / np.maximum(holders, 1)).astype(np.float32)
    matrix.data *= rare[matrix.indices]
    squares = np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel()
    length = np.sqrt(np.where(squares > 0, squares, 1.0)).astype(np.float32)
    matrix.data /= np.repeat(length, np.diff(matrix.indptr))
    return Descriptions(matrix, codes)


def feature_of(facts: CorpusFacts, entity: int, code: int, around: Longs) -> tuple[str, Longs]:
    """A feature in words, and the facts of an entity that it is from.

    Args:
        facts: the facts.
        entity: who has it.
        code: the feature, see :class:`Descriptions`.
        around: the rows of the entity's facts.
    """
    relation, end = divmod(code, len(facts.names))
    is_object, relation = divmod(relation, len(facts.table.relations))
    near, far = facts.table.subject, facts.table.object
    near, far = (far, near) if is_object else (near, far)
    fits = facts.table.relation[around] == relation
    fits &= (far[around] == end) & (near[around] == entity)
    return facts.tie(relation, end, is_object=bool(is_object)), around[fits]


def strongest_entries(
    row: Longs, column: Longs, value: Floats, shape: tuple[int, int]
) -> sparse.csr_matrix:
    """A sparse matrix in which of equal places the greatest value stands."""
    key = row.astype(np.int64) * max(1, shape[1]) + column
    order = np.lexsort((-value, key))
    first = order[np.r_[True, key[order][1:] != key[order][:-1]][: len(order)]]
    return sparse.csr_matrix(
        (value[first], (row[first], column[first])), shape=shape, dtype=np.float32
    )


def _strongest(like: Floats, votes: sparse.csr_matrix) -> Doubles:
    """For each line of likeness and each answer, the greatest weighted likeness of its voters."""
    columns = votes.tocsc()
    filled = np.flatnonzero(np.diff(columns.indptr))
    weighted = like[:, columns.indices] * columns.data
    best = np.zeros((len(like), votes.shape[1]))
    if len(filled):
        best[:, filled] = np.maximum.reduceat(weighted, columns.indptr[:-1][filled], axis=1)
    return best
