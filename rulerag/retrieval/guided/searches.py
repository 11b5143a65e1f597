"""The searches behind rule-guided retrieval: one-atom rules at once, chains hop by hop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rulerag.arrays import Doubles, Longs
from rulerag.kg.grounding import Statements
from rulerag.retrieval.base import RowSearcher
from rulerag.retrieval.guided.chains import Step, Trail
from rulerag.retrieval.guided.merging import RuleSearch
from rulerag.retrieval.guided.provenance import Bound, leads_elsewhere
from rulerag.retrieval.guided.query_text import Composition
from rulerag.rules import Rule
from rulerag.types import Query

__all__ = ["RuleSearches", "Searched"]

# How many documents of a hop are looked at for entities to follow.
_LOOK = 20


@dataclass
class Searched:
    """What the searches of one query found.

    Args:
        query: the query.
        rules: its guiding rules, most trusted first.
        known: answers that are not asked for; documents that lead to these alone are left out.

    Attributes:
        searches: the searches, in rule order; that of the plain query first.
        bound: by rule id, what the variables of a chain stand for.
    """

    query: Query
    rules: Sequence[Rule]
    known: frozenset[str] = frozenset()
    searches: list[RuleSearch] = field(default_factory=list)
    bound: dict[str, Bound] = field(default_factory=dict)

    def usable(self) -> list[Rule]:
        """The rules that may lead from the query's subject to an answer that is not known."""
        return [
            rule
            for rule in self.rules
            if (rule.head.subject.startswith("?") or rule.head.subject == self.query.subject)
            and rule.head.object not in self.known
        ]

    def add(self, rule: Rule | None, weight: float, rows: Longs, scores: Doubles) -> None:
        """Add a search of a rule, or of the plain query."""
        relations = tuple(atom.relation for atom in rule.body) if rule is not None else ()
        rule_id = rule.id if rule is not None else None
        self.searches.append(RuleSearch(rule_id, weight, rows, scores, relations))


@dataclass(frozen=True)
class RuleSearches:
    """Searches for queries under their guiding rules, equal searches once.

    Args:
        searcher: what searches.
        depth: documents of a search.
        composition: how a query and a rule become texts.
        plain_weight: the confidence of a search for the plain query; None: there is none.
        known: what the corpus states, where its answers are to be left out.
        bridges: how many entities of a hop the next one asks about.
        bridge_weight: how much a search counts whose atom does not name the answer.
        max_hops: the longest body that is followed; longer ones are searched as one text.
    """

    searcher: RowSearcher
    depth: int
    composition: Composition
    plain_weight: float | None
    known: Statements | None
    bridges: int
    bridge_weight: float
    max_hops: int

    def search(self, queries: Sequence[Query], rules: Sequence[Sequence[Rule]]) -> list[Searched]:
        """The plain searches, and those of rules that are searched as one text.

        Args:
            queries: the queries.
            rules: the guiding rules of each.
        """
        results: list[Searched] = []
        asked: list[tuple[Searched, Rule | None, float, Query]] = []
        for query, guiding in zip(queries, rules, strict=True):
            one = Searched(query, guiding, self.known.before(query) if self.known else frozenset())
            results.append(one)
            usable = one.usable()
            if usable and self.plain_weight is not None:
                asked.append((one, None, self.plain_weight, query))
            for rule in usable:
                for text in () if self._is_followed(rule) else self.composition.texts(query, rule):
                    pair = replace(query, id=f"{query.id}|{rule.id}", text=text)
                    asked.append((one, rule, rule.ranking_confidence, pair))
        found = self._find([query for *_, query in asked])
        for (one, of_rule, weight, _), (rows, scores) in zip(asked, found, strict=True):
            if one.known and of_rule is not None and len(of_rule.body) == 1:
                rows, scores = self._elsewhere(one, of_rule, rows, scores)
            one.add(of_rule, weight, rows, scores)
        return results

    def follow_chains(self, results: Sequence[Searched]) -> None:
        """Add the searches of longer bodies, those of all queries hop by hop together.

        Args:
            results: what :meth:`search` gave; added to.
        """
        trails = [
            (one, Trail(one.query, rule, self.bridges))
            for one in results
            for rule in one.usable()
            if self._is_followed(rule)
        ]
        for hop in range(max((len(trail.rule.body) for _, trail in trails), default=0)):
            asked = [
                (one, trail, step, query)
                for one, trail in trails
                for step in trail.steps(hop)
                for query in self._queries(trail, step)
            ]
            found = self._find([query for *_, query in asked])
            for (one, trail, step, _), (rows, scores) in zip(asked, found, strict=True):
                rows, scores = self._followed(one, trail, step, rows, scores)
                weight = step.weight * (1.0 if trail.names_answer(step) else self.bridge_weight)
                weight *= trail.rule.ranking_confidence
                one.add(trail.rule, weight, rows, scores)
        for one, trail in trails:
            one.bound[trail.rule.id] = trail.bound
        for one in results:
            if one.bound:
                order = {rule.id: number for number, rule in enumerate(one.rules)}
                one.searches.sort(key=lambda s: order.get(s.rule_id or "", -1))

    def _is_followed(self, rule: Rule) -> bool:
        return self.bridges > 0 and 1 < len(rule.body) <= self.max_hops

    def _queries(self, trail: Trail, step: Step) -> Iterator[Query]:
        """What is asked of a step of a chain."""
        words = self.composition.entity_label
        names = words(trail.query.subject), words(step.entity)
        about, rule = trail.asked(step, names)
        for text in self.composition.texts(about, rule):
            yield replace(about, text=text)

    def _find(self, queries: Sequence[Query]) -> Iterator[tuple[Longs, Doubles]]:
        """What each query finds: rows and scores of shape (depth,)."""
        # The structure counts too: a wrapped retriever may read the time or the subject.
        keys = [(q.text, q.subject, q.relation, q.timestamp) for q in queries]
        batch: dict[tuple[object, ...], Query] = {}
        for key, query in zip(keys, queries, strict=True):
            batch.setdefault(key, query)
        if not batch:
            return
        found = self.searcher.search(list(batch.values()), self.depth)
        place = {key: number for number, key in enumerate(batch)}
        for key in keys:
            yield found.rows[place[key]], found.scores[place[key]]

    def _elsewhere(
        self, one: Searched, rule: Rule, rows: Longs, scores: Doubles
    ) -> tuple[Longs, Doubles]:
        """The search of a one-atom rule without what leads to known answers alone."""
        documents, bound = self.searcher.documents, {rule.head.subject: (one.query.subject,)}
        keep = [
            row >= 0 and leads_elsewhere(documents[row], rule, 0, bound, one.known)
            for row in rows.tolist()
        ]
        return _only(rows, scores, keep)

    def _followed(
        self, one: Searched, trail: Trail, step: Step, rows: Longs, scores: Doubles
    ) -> tuple[Longs, Doubles]:
        """What may be kept of a step's search; the trail learns what its best documents bind.

        What a first hop finds is kept as that of any rule. A later one asks about an entity that
        may be of no use, and its best documents may be about something else: they are kept where
        they ground the step's atom.
        """
        documents, known = self.searcher.documents, trail.known(step)
        keep = [False] * len(rows)
        best: list[tuple[int, list[str]]] = []
        for place, row in enumerate(rows.tolist()):
            if row < 0:
                continue
            if one.known and not leads_elsewhere(
                documents[row], trail.rule, step.atom, known, one.known
            ):
                continue
            if step.hop or len(best) < _LOOK:
                ends = trail.far_ends(step, documents[row], known)
                if step.hop and not ends:
                    continue
                if len(best) < _LOOK:
                    best.append((place, ends))
            keep[place] = True
        rows, scores = _only(rows, scores, keep)
        top = max(float(scores.max(initial=0.0)), 1e-12)
        trail.learn(step, [(ends, min(max(float(scores[n]), 0.0) / top, 1.0)) for n, ends in best])
        return rows, scores


def _only(rows: Longs, scores: Doubles, keep: Sequence[bool]) -> tuple[Longs, Doubles]:
    """A search without some of its documents; the others keep their places."""
    kept = np.array(keep, dtype=bool)
    return np.where(kept, rows, -1), np.where(kept, scores, 0.0)
