"""Retrieval by executing the guiding rules on the facts inside the documents."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from rulerag.errors import ConfigError, EmptyDataError
from rulerag.io import fingerprint_object
from rulerag.kg.evidence import EvidenceModel
from rulerag.kg.graph import KnowledgeGraph
from rulerag.kg.grounding import TableIndex
from rulerag.kg.grounding_table import MAX_ROWS, RulePlans
from rulerag.kg.statements import Statements
from rulerag.protocols import RuleSelector
from rulerag.retrieval.corpus import check_top_k
from rulerag.retrieval.stated import stated_first
from rulerag.retrieval.symbolic_hits import Hits, group_of, place_in_group
from rulerag.retrieval.whole_chains import naming_atom
from rulerag.rules import Rule
from rulerag.types import Document, Fact, Query, RuleHit, ScoredDocument

__all__ = ["SymbolicRetriever"]

Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_log = logging.getLogger(__name__)
# The latest possible place in time, for undated facts: they neither age nor come first.
_UNDATED = 0


class SymbolicRetriever:
    """Finds the documents whose facts ground the guiding rules of a query.

    Every rule is executed from the query's subject, on facts from before the query's time. The
    groundings that bind the same answer are joined by noisy-or of their weights. Documents are
    ordered answer by answer: one document that names it for every answer first (answers by their
    joined weight, documents by weight, then most recent first), then the second ones, and so on, so
    that ``top_k`` documents speak of as many answers as they can. A chain of several facts names
    its answer at one end only: the first answers get the whole chain, the others its rest after
    every answer was named.

    What the corpus states of a query comes before all that (:mod:`~rulerag.retrieval.stated`),
    unless the query is a prediction or ``skip_stated`` says that it is known.

    Args:
        documents: the corpus; documents without facts are never found.
        selector: chooses the guiding rules.
        evidence: how groundings are weighted.
        order: ``evidence`` as described, or ``recent``: all groundings, most recent first.
        whole_chains: how many answers, the best first, get their best chain whole at once.
        skip_stated: leave out answers that a document states as they are, as facts of the asked
            relation: the filtered setting of link prediction (Bordes et al. 2013), for questions
            that ask what a static graph lacks.
        max_rows: bound of the joins behind one query. A hub's groundings beyond it are counted,
            not written out, and left out only where that is not enough
            (:class:`~rulerag.kg.grounding_table.RulePlans`).
        progress: show a progress bar over queries.

    Raises:
        EmptyDataError: no document states a fact.
        ConfigError: an unknown order, a negative number of chains, or ``max_rows`` below 1.
    """

    def __init__(
        self,
        documents: Sequence[Document],
        selector: RuleSelector,
        *,
        evidence: EvidenceModel | None = None,
        order: str = "evidence",
        whole_chains: int = 1,
        skip_stated: bool = False,
        max_rows: int = MAX_ROWS,
        progress: bool = False,
    ) -> None:
        if order not in ("evidence", "recent"):
            raise ConfigError(f"unknown order {order!r}", key="order", hint="evidence or recent")
        if whole_chains < 0:
            raise ConfigError(f"{whole_chains} is negative", key="whole_chains", hint="say 1")
        if max_rows < 1:
            raise ConfigError(f"{max_rows} is below 1", key="max_rows", hint=f"say {MAX_ROWS}")
        facts: list[Fact] = []
        owner: list[int] = []
        for number, document in enumerate(documents):
            facts.extend(document.facts)
            owner.extend([number] * len(document.facts))
        if not facts:
            raise EmptyDataError(
                "no document states a fact, so no rule can be executed",
                hint="use a text retriever (bm25), or documents with metadata.facts",
            )
        self.documents = documents
        self.selector = selector
        self.evidence = evidence or EvidenceModel()
        self.order = order
        self.whole_chains = whole_chains
        self.skip_stated = skip_stated
        self.max_rows = max_rows
        self.progress = progress
        self._owner = np.array(owner, dtype=np.int64)
        self._index = TableIndex(KnowledgeGraph.from_facts(facts, name="corpus").train)
        self._plans: dict[tuple[str, ...], _Plan] = {}
        self._told = False

    @property
    def fingerprint(self) -> str:
        """Names the facts and every setting that changes results."""
        facts = self._index.facts
        chains = [self.whole_chains, self.skip_stated, self.max_rows]
        settings = [self.order, *chains, self.evidence.settings()]
        return fingerprint_object(["symbolic", facts.fingerprint, *settings])

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return, for each query, at most ``top_k`` documents that ground its guiding rules.

        A query of which nothing is stated, and whose subject is unknown or whose rules find
        nothing, gets an empty list.

        Raises:
            ConfigError: ``top_k`` below 1.
        """
        found = (self._rank(*item, top_k) for item in self._ground_all(queries, top_k))
        return [
            self._with_stated(q, listed)[:top_k] for q, listed in zip(queries, found, strict=True)
        ]

    def retrieve_union(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return, for each query, the union of what every rule finds first.

        Of each rule these are the documents of its ``top_k`` most recent groundings; of undated
        ones those for the ``top_k`` answers with the most evidence.

        Raises:
            ConfigError: ``top_k`` below 1.
        """
        lists = []
        for hits, rules in self._ground_all(queries, top_k):
            keep = hits.take(self._rank_in_rule(hits) < top_k)
            lists.append(self._rank(keep, rules, len(keep.row)))
        return [
            self._with_stated(query, listed) for query, listed in zip(queries, lists, strict=True)
        ]

    @cached_property
    def statements(self) -> Statements:
        """What the corpus states."""
        return Statements(self.documents)

    def _with_stated(self, query: Query, found: list[ScoredDocument]) -> list[ScoredDocument]:
        return found if self.skip_stated else stated_first(query, found, self.statements)

    def _ground_all(
        self, queries: Sequence[Query], top_k: int
    ) -> Iterator[tuple[Hits, list[Rule]]]:
        """One query's groundings after the other's: those of a hub are not kept."""
        check_top_k(top_k)
        selected = self.selector.select(queries)
        bar = tqdm(queries, "executing rules", disable=not self.progress, unit="query")
        for query, rules in zip(bar, selected, strict=True):
            yield self._ground(query, rules), rules

    def _ground(self, query: Query, rules: list[Rule]) -> Hits:
        facts = self._index.facts
        if query.subject not in facts.entities:
            return Hits.none()
        plan = self._plan(rules)
        around = self._index.neighbours(facts.entities.id(query.subject))
        rule = plan.by_relation[around.relation]
        keep = rule >= 0
        time = around.timestamp
        if query.timestamp is not None and time is not None:
            keep &= time < query.timestamp
        rule = rule[keep]
        time, weight = self._weigh(query, plan, rule, None if time is None else time[keep])
        number = np.arange(len(rule))
        columns = around.other[keep], around.row[keep], time, weight, rule
        ones = np.ones(len(rule), dtype=np.int64)
        hits = Hits(*columns, np.zeros_like(rule), number, ones > 0, ones)
        if plan.chains is not None:
            hits = hits.join(self._chains(query, plan, plan.chains))
        return self._unstated(query, hits) if self.skip_stated else hits

    def _unstated(self, query: Query, hits: Hits) -> Hits:
        """The groundings whose answers no document states before the time of the query."""
        facts = self._index.facts
        if query.relation not in facts.relations or not len(hits.row):
            return hits
        subject = np.array([facts.entities.id(query.subject)], dtype=np.int64)
        relation = np.array([facts.relations.id(query.relation)], dtype=np.int64)
        _, stated, _, time = self._index.at(*self._index.spans(subject, relation))
        if query.timestamp is not None and time is not None:
            stated = stated[time < query.timestamp]
        return hits.take(~np.isin(hits.answer, stated))

    def _rank_in_rule(self, hits: Hits) -> Longs:
        """The place (from 0) of each row's grounding among those of its rule."""
        if self._index.facts.timestamp is not None:
            return hits.place(hits.rule, -hits.time)
        group, joined = hits.evidence()
        # One grounding of every answer before the second ones.
        nth = hits.place(group_of(hits.rule, group))
        return hits.place(hits.rule, nth, -joined[group])

    def _chains(self, query: Query, plan: _Plan, chains: RulePlans) -> Hits:
        """The groundings of the longer bodies: one row for each of their facts."""
        found = chains.ground(query.subject, query.timestamp)
        rule = plan.longer[found.rule]
        time, weight = self._weigh(query, plan, rule, found.latest)
        number, atom = np.nonzero(found.rows >= 0)
        row = found.rows[number, atom]
        lead = plan.lead[found.rule][number] == atom
        if not found.is_complete:
            self._tell(query)
        columns = time[number], weight[number], rule[number], atom, number, lead
        return Hits(found.answer[number], row, *columns, found.count[number])

    def _tell(self, query: Query) -> None:
        if not self._told:
            self._told = True
            _log.warning(
                "the rules of %s ground too much from %s: some groundings beyond %d are left out",
                query.relation,
                query.subject,
                self.max_rows,
            )

    def _weigh(
        self, query: Query, plan: _Plan, rule: Longs, latest: Longs | None
    ) -> tuple[Longs, Floats]:
        """The time and the weight of groundings."""
        weight = plan.confidence[rule]
        if latest is None:
            return np.full(len(rule), _UNDATED, dtype=np.int64), weight
        if query.timestamp is not None:
            weight = weight * self.evidence.fade(query.timestamp - latest)
        return latest, weight

    def _plan(self, rules: list[Rule]) -> _Plan:
        key = tuple(rule.id for rule in rules)
        if key not in self._plans:
            relations = self._index.facts.relations
            by_relation = np.full(2 * len(relations), -1, dtype=np.int64)
            longer = []
            for number, rule in enumerate(rules):
                atom = rule.body[0]
                plain = len(rule.body) == 1 and {atom.subject, atom.object} == {
                    rule.head.subject,
                    rule.head.object,
                }
                variables = rule.head.subject.startswith("?") and rule.head.object.startswith("?")
                at = -1
                if plain and variables and rule.head.subject != rule.head.object:
                    if atom.relation not in relations:
                        continue
                    at = relations.id(atom.relation) + len(relations) * rule.is_inverse
                if at >= 0 and by_relation[at] < 0:
                    by_relation[at] = number
                else:
                    longer.append(number)
            chains = [rules[number] for number in longer]
            plans = RulePlans(chains, self._index, max_rows=self.max_rows) if chains else None
            for number, reason in (plans.unusable if plans is not None else {}).items():
                _log.info("the rule %s cannot be executed: %s", chains[number].text, reason)
            self._plans[key] = _Plan(
                by_relation,
                np.array([self.evidence.confidence(r) for r in rules] or [0.0]),
                np.array(longer, dtype=np.int64),
                np.array([naming_atom(rule) for rule in chains], dtype=np.int64),
                plans,
            )
        return self._plans[key]

    def _rank(self, hits: Hits, rules: list[Rule], top_k: int) -> list[ScoredDocument]:
        if not len(hits.row):
            return []
        if self.order == "recent":
            score = hits.time.astype(np.float64)
            order = np.lexsort((hits.row, -hits.weight, -hits.time))
        else:
            group, joined = hits.evidence()
            best = np.empty(len(joined), dtype=np.int64)
            best[np.argsort(-joined, kind="stable")] = np.arange(len(joined))
            layer = 2 * hits.place(group, -hits.weight, -hits.time)
            whole = (layer == 0) & (best[group] < self.whole_chains)
            stage = layer + (~hits.lead & ~whole)
            score = -np.expm1(-joined)[group] - stage
            # Saturated noisy-ors are equal as numbers but not in evidence: order by the exponent.
            order = np.lexsort((hits.atom, hits.row, -hits.time, -joined[group], stage))
        return self._documents(hits, rules, order, score, top_k)

    def _documents(
        self,
        hits: Hits,
        rules: list[Rule],
        order: Longs,
        score: Floats,
        top_k: int,
    ) -> list[ScoredDocument]:
        """The first ``top_k`` distinct documents of an order, each with all rules that found it."""
        owners = self._owner[hits.row]
        _, first = np.unique(owners[order], return_index=True)
        chosen = order[np.sort(first)[:top_k]]
        found: dict[int, list[RuleHit]] = {int(owner): [] for owner in owners[chosen]}
        rank_in_rule = self._rank_in_rule(hits)
        mine = np.flatnonzero(np.isin(owners, owners[chosen]))
        # Of many groundings of one atom that share a document, the first one tells of it.
        keys = owners[mine], hits.rule[mine], hits.atom[mine]
        mine = mine[place_in_group(group_of(*keys), rank_in_rule[mine]) == 0]
        for i in mine.tolist():
            rule, atom = rules[int(hits.rule[i])], int(hits.atom[i])
            hit = RuleHit(rule.id, int(rank_in_rule[i]) + 1, float(hits.weight[i]), atom)
            found[int(owners[i])].append(hit)
        return [
            ScoredDocument(
                self.documents[owner],
                float(score[i]),
                rank,
                tuple(sorted(found[owner], key=lambda h: (-h.score, h.rank))),
            )
            for rank, (owner, i) in enumerate(
                zip(owners[chosen].tolist(), chosen.tolist(), strict=True), start=1
            )
        ]


class _Plan(NamedTuple):
    """Rules ready to be executed.

    Args:
        by_relation: int64 array of shape (2 R,), the rule that each directed relation around the
            subject fires; -1: none.
        confidence: float64 array of shape (rules,), smoothed and sharpened.
        longer: int64 array, the rules that need a join.
        lead: int64 array, the body atom that names the answer, for each of these.
        chains: these rules, ready for the join; None where there are none.
    """

    by_relation: Longs
    confidence: Floats
    longer: Longs
    lead: Longs
    chains: RulePlans | None
