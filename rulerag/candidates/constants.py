"""Candidates by rules with constants: what those that have a feature of the subject have."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from rulerag.arrays import Doubles, Longs
from rulerag.candidates.analogy import described, feature_of, strongest_entries
from rulerag.candidates.base import DECAY, FactScorer
from rulerag.candidates.facts import CorpusFacts
from rulerag.composition import check_range, register
from rulerag.types import Support

# A rule counts with this many subjects that fulfil it.
_SUPPORT = 2
# Rules that are kept for the next questions, of all relations together: some 160 MB.
_KEPT = 2 * 10**7
# Rules that an explanation names.
_NAMED = 2


class _Rules(NamedTuple):
    """The rules of a relation.

    Args:
        answers: the objects of the relation, shape (m,).
        confidence: shape (features, m).
        having: how many subjects of the relation have each feature, shape (features,).
    """

    answers: Longs
    confidence: sparse.csr_matrix
    having: Longs


@register("scorer", "constants")
class ConstantRules(FactScorer):
    """Rules whose body and head name entities: who has genre folk has label Vanguard.

    A feature of an entity is a relation, which end of it the entity is, and what stands at the
    other end. The confidence of an object is the fraction of the relation's subjects with the
    feature that have it, with a constant added below. A candidate's score joins the most confident
    rules that fire for the subject by noisy-or. Rules are counted when a relation is first asked.

    Args:
        facts: the facts.
        top: how many rules are joined; 1 is the most confident one alone.
        smoothing: what is added to the number of subjects with a feature.
        decay: fading of dated facts per time step, as in ``exp(-decay * age)``.
        time_step: the distance of two neighbouring times in timestamps.

    Raises:
        ConfigError: a setting is out of range.

    References:
        Meilicke et al. 2019 (AnyBURL), sections 3 (acyclic ground path rules) and 5 (the constant
        below the fraction).
    """

    kind = "constants"
    top: int
    smoothing: float
    decay: float
    time_step: int

    def __init__(
        self,
        facts: CorpusFacts,
        *,
        top: int = 5,
        smoothing: float = 5.0,
        decay: float = DECAY,
        time_step: int = 1,
    ) -> None:
        check_range("top", top, 1)
        for key, value in (("smoothing", smoothing), ("decay", decay)):
            check_range(key, value, 0)
        settings: dict[str, Any] = {"top": top, "smoothing": smoothing, "decay": decay}
        super().__init__(facts, **settings, time_step=time_step)

    @property
    def title(self) -> str:
        """What the scorer is called where it explains itself."""
        return f"{self.kind}-{self.top}"

    def scored(self, relation: int, time: int, subject: Longs) -> tuple[Longs, Doubles]:
        """See :meth:`FactScorer.scored`."""
        rules = self._rules(relation, time)
        score = np.zeros((len(subject), len(rules.answers)))
        features = self._features(time).matrix
        for line, one in enumerate(subject.tolist()):
            if one < 0:
                continue
            fired = rules.confidence[
                features.indices[features.indptr[one] : features.indptr[one + 1]]
            ]
            column, value = fired.indices, fired.data
            order = np.lexsort((-value, column))
            column, value = column[order], value[order]
            # The place of each rule among those of its candidate.
            first = np.flatnonzero(np.r_[True, column[1:] != column[:-1]][: len(column)])
            place = np.arange(len(column)) - np.repeat(first, np.diff(np.r_[first, len(column)]))
            best = place < self.top
            no = np.bincount(column[best], np.log1p(-value[best]), minlength=len(rules.answers))
            score[line] = -np.expm1(no)
        return rules.answers, score

    def support(self, relation: int, time: int, subject: int, entity: int) -> tuple[Support, ...]:
        """The most confident rules that fire, each with a fact of one that fulfils it."""
        if subject < 0:
            return ()
        rules, features = self._rules(relation, time), self._features(time)
        mine, _ = features.of(subject)
        column = np.flatnonzero(rules.answers == entity)
        if not len(column) or not len(mine):
            return ()
        confidence = rules.confidence[mine][:, column[0]].toarray().ravel()
        rows = self.facts.rows(relation, time)
        rows = rows[self.facts.table.object[rows] == entity]
        reasons = []
        for place in np.argsort(-confidence, kind="stable")[:_NAMED].tolist():
            if confidence[place] > 0:
                reasons.append(self._reason(time, subject, int(mine[place]), rows, rules))
        return tuple(reasons)

    def _reason(self, time: int, subject: int, feature: int, rows: Longs, rules: _Rules) -> Support:
        """A rule in words, with the candidate's fact of one that fulfils it and the feature's."""
        table, features = self.facts.table, self._features(time)
        has = features.matrix[table.subject[rows]][:, feature].toarray().ravel() > 0
        rows = rows[has]
        others = len(np.unique(table.subject[rows]))
        row = int(rows[np.argmax(self.facts.times[rows])])
        around = self.facts.around(subject)
        words, own = feature_of(self.facts, subject, int(features.codes[feature]), around)
        relation, entity = int(table.relation[row]), int(table.object[row])
        why = (
            f"of {int(rules.having[feature])} that {words}, like the subject, {others} "
            f"{self.facts.relation(relation)} {self.facts.entity(entity)}"
        )
        return self.supported(why, [row, *own[self.facts.times[own] < time][-1:].tolist()])

    def _features(self, time: int) -> Any:
        return described(self.facts, time, self.decay, self.time_step)

    def _rules(self, relation: int, time: int) -> _Rules:
        kind = "constants", self.smoothing, self.decay, self.time_step
        # Scorers that differ in how rules are joined count them once.
        known: dict[Any, _Rules] = self.facts.remembered.setdefault(kind, {})
        key = relation, time
        if key not in known:
            if sum(one.confidence.nnz for one in known.values()) > _KEPT:
                known.clear()
            known[key] = self._counted(relation, time)
        return known[key]

    def _counted(self, relation: int, time: int) -> _Rules:
        facts, table = self.facts, self.facts.table
        rows = facts.rows(relation, time)
        answers, _ = facts.answers(relation, time)
        column = np.zeros(len(facts.names), np.int64)
        column[answers] = np.arange(len(answers))
        voters, line = np.unique(table.subject[rows], return_inverse=True)
        ones = np.ones(len(rows), np.float32)
        shape = len(voters), len(answers)
        votes = strongest_entries(line, column[table.object[rows]], ones, shape)
        has = self._features(time).matrix[voters]
        has = sparse.csr_matrix((np.ones_like(has.data), has.indices, has.indptr), shape=has.shape)
        fulfil = (has.T @ votes).tocsr()
        having = np.bincount(has.indices, minlength=has.shape[1])
        body = np.repeat(having, np.diff(fulfil.indptr))
        kept = fulfil.data >= _SUPPORT
        fulfil.data = np.where(kept, fulfil.data / (body + self.smoothing), 0)
        fulfil.data = np.minimum(fulfil.data, 1 - 1e-6)
        fulfil.eliminate_zeros()
        return _Rules(answers, fulfil, having)
