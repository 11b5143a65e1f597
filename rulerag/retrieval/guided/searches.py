"""The searches behind rule-guided retrieval: one-atom rules at once, chains hop by hop."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rulerag.arrays import Doubles, Longs
from rulerag.kg.grounding import Statements
from rulerag.retrieval.base import RowSearcher
from rulerag.retrieval.guided.chains import PathStep, RulePath, mentions
from rulerag.retrieval.guided.merging import RuleSearch
from rulerag.retrieval.guided.provenance import Bound, may_answer
from rulerag.retrieval.guided.query_text import Composition
from rulerag.retrieval.guided.settings import GuidedSettings
from rulerag.rules import Rule
from rulerag.types import Query

_log = logging.getLogger(__name__)

# How many documents of a hop are looked at for entities to follow.
_LOOK = 20


@dataclass
class QuerySearches:
    """The searches of one query, with the rules that they are for and what they found.

    Args:
        query: the query.
        rules: its guiding rules, most trusted first.
        known: known answers; documents that lead to these alone are left out.

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
class RuleSearcher:
    """Searches for queries under their guiding rules, equal searches once.

    Args:
        searcher: what searches.
        depth: documents of a search.
        composition: how a query and a rule become texts.
        settings: which searches there are, and how much they count.
        statements: what the corpus states, where known answers are left out.
    """

    searcher: RowSearcher
    depth: int
    composition: Composition
    settings: GuidedSettings
    statements: Statements | None

    def search(
        self, queries: Sequence[Query], rules: Sequence[Sequence[Rule]]
    ) -> list[QuerySearches]:
        """The plain searches, and those of rules that are searched as one text.

        Args:
            queries: the queries.
            rules: the guiding rules of each.
        """
        results: list[QuerySearches] = []
        pending: list[tuple[QuerySearches, Rule | None, float, Query]] = []
        for query, guiding in zip(queries, rules, strict=True):
            known: frozenset[str] = frozenset()
            if self.statements is not None and query.prediction:
                known = self.statements.before(query)
            one = QuerySearches(query, guiding, known)
            results.append(one)
            usable = one.usable()
            if usable and self.settings.include_plain:
                pending.append((one, None, self.settings.plain_weight, query))
            for rule in usable:
                for text in () if self._is_followed(rule) else self.composition.texts(query, rule):
                    pair = replace(query, id=f"{query.id}|{rule.id}", text=text)
                    pending.append((one, rule, rule.ranking_confidence, pair))
        found = self._find([query for *_, query in pending])
        for (one, of_rule, weight, _), (rows, scores) in zip(pending, found, strict=True):
            if one.known and of_rule is not None and len(of_rule.body) == 1:
                rows, scores = self._filtered(one, of_rule, rows, scores)
            one.add(of_rule, weight, rows, scores)
        return results

    def follow_chains(self, results: Sequence[QuerySearches]) -> Sequence[QuerySearches]:
        """Add the searches of longer bodies, those of all queries hop by hop together.

        Args:
            results: what :meth:`search` gave; added to.

        Returns:
            The same.
        """
        paths = [
            (one, RulePath(one.query, rule, self.settings.beam_width))
            for one in results
            for rule in one.usable()
            if self._is_followed(rule)
        ]
        for hop in range(max((len(path.rule.body) for _, path in paths), default=0)):
            pending = [
                (one, path, step, query)
                for one, path in paths
                for step in path.steps(hop)
                for query in self._questions(path, step)
            ]
            found = self._find([query for *_, query in pending])
            for (one, path, step, _), (rows, scores) in zip(pending, found, strict=True):
                rows, scores = self._followed(one, path, step, rows, scores)
                names_answer = path.names_answer(step)
                weight = step.weight * (1.0 if names_answer else self.settings.bridge_weight)
                weight *= path.rule.ranking_confidence
                one.add(path.rule, weight, rows, scores)
        for one, path in paths:
            one.bound[path.rule.id] = path.bound
        for one in results:
            if one.bound:
                order = {rule.id: number for number, rule in enumerate(one.rules)}
                one.searches.sort(key=lambda s: order.get(s.rule_id or "", -1))
        return results

    def _is_followed(self, rule: Rule) -> bool:
        return self.settings.beam_width > 0 and 1 < len(rule.body) <= self.settings.max_hops

    def _questions(self, path: RulePath, step: PathStep) -> Iterator[Query]:
        """What is searched for a step of a chain."""
        words = self.composition.entity_label
        about, rule = path.question(step, (words(path.query.subject), words(step.entity)))
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
        index = {key: number for number, key in enumerate(batch)}
        for key in keys:
            yield found.rows[index[key]], found.scores[index[key]]

    def _filtered(
        self, one: QuerySearches, rule: Rule, rows: Longs, scores: Doubles
    ) -> tuple[Longs, Doubles]:
        """The search of a one-atom rule without what leads to known answers alone."""
        documents, bound = self.searcher.documents, {rule.head.subject: (one.query.subject,)}
        keep = [
            row >= 0 and may_answer(documents[row], rule, 0, bound, one.known)
            for row in rows.tolist()
        ]
        return _only(rows, scores, keep)

    def _followed(
        self, one: QuerySearches, path: RulePath, step: PathStep, rows: Longs, scores: Doubles
    ) -> tuple[Longs, Doubles]:
        """What may be kept of a step's search; its best documents bind the path's variables.

        What a first hop finds is kept as that of any rule. A later one is about an entity that may
        be of no use, and its best documents may be about something else: they are kept where they
        ground the step's atom, or are texts without facts that mention the entity.
        """
        documents, bound = self.searcher.documents, path.known(step)
        words = self.composition.entity_label(step.entity)
        keep = [False] * len(rows)
        best: list[tuple[int, list[str]]] = []
        for rank, row in enumerate(rows.tolist()):
            if row < 0:
                continue
            document = documents[row]
            if one.known and not may_answer(document, path.rule, step.atom, bound, one.known):
                continue
            if step.hop or len(best) < _LOOK:
                ends = path.far_ends(step, document, bound)
                if step.hop and not ends and not mentions(document, step.entity, words):
                    continue
                if len(best) < _LOOK:
                    best.append((rank, ends))
            keep[rank] = True
        lost = sum(
            row >= 0 and not (kept or documents[row].facts)
            for row, kept in zip(rows.tolist(), keep, strict=True)
        )
        if lost:
            _log.info(
                "%s: %d texts of hop %d are left out, for they do not mention %s",
                one.query.id,
                lost,
                step.hop + 1,
                words,
            )
        rows, scores = _only(rows, scores, keep)
        top = max(float(scores.max(initial=0.0)), 1e-12)
        path.bind(step, [(ends, min(max(float(scores[n]), 0.0) / top, 1.0)) for n, ends in best])
        return rows, scores


def _only(rows: Longs, scores: Doubles, keep: Sequence[bool]) -> tuple[Longs, Doubles]:
    """A search without some of its documents; the others keep their ranks."""
    kept = np.array(keep, dtype=bool)
    return np.where(kept, rows, -1), np.where(kept, scores, 0.0)
