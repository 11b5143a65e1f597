"""Retrieval by executing the guiding rules on the facts inside the documents."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from rulerag.arrays import Doubles, Longs
from rulerag.composition import check_range, register
from rulerag.errors import EmptyDataError
from rulerag.io import fingerprint_object
from rulerag.kg import corpus_facts
from rulerag.kg.grounding import (
    MAX_ROWS,
    EvidenceModel,
    RulePlans,
    Statements,
    TableIndex,
    noisy_or_exponents,
)
from rulerag.protocols import Guides, RuleSelector
from rulerag.retrieval.base import (
    check_top_k,
    corpus_fingerprint,
    group_of,
    known_answers_first,
    rank_in_group,
)
from rulerag.retrieval.symbolic.chain_completion import answer_atom
from rulerag.rules import Rule
from rulerag.types import Document, Query, RuleHit, ScoredDocument

_log = logging.getLogger(__name__)
# The latest possible time, for undated facts: they neither age nor come first.
_UNDATED = 0


@register("retriever", "symbolic")
@dataclass(eq=False, repr=False)
class SymbolicRetriever:
    """Finds the documents whose facts ground the guiding rules of a query.

    Every rule is executed from the query's subject, on facts from before the query's time. The
    groundings that bind the same answer are joined by noisy-or of their weights. Documents are
    ordered answer by answer: one document that names it for every answer first (answers by their
    joined weight, documents by weight, then most recent first), then the second ones, and so on, so
    that ``top_k`` documents speak of as many answers as they can. A chain of several facts names
    its answer at one end only: the first answers get the whole chain, the others its rest after
    every answer was named.

    What the corpus states of a query comes before all that
    (:mod:`~rulerag.retrieval.base.known_answers`), unless the query is a prediction.

    Args:
        documents: the corpus; documents without facts are never found.
        selector: chooses the guiding rules.
        evidence: how groundings are weighted.
        whole_chains: how many answers, the best first, get their best chain whole at once.
        skip_stated: of predictions, leave out answers that a document states as they are, as facts
            of the query's relation: the filtered setting of link prediction (Bordes et al. 2013),
            for questions that ask what a static graph lacks.
        max_rows: bound of the joins behind one query. A hub's groundings beyond it are counted,
            not written out, and left out only where that is not enough
            (:class:`~rulerag.kg.grounding.RulePlans`).
        progress: show a progress bar over queries.

    Raises:
        EmptyDataError: no document states a fact.
        ConfigError: a negative number of chains, or ``max_rows`` below 1.
    """

    documents: Sequence[Document]
    selector: RuleSelector
    _: KW_ONLY
    evidence: EvidenceModel = field(default_factory=EvidenceModel)
    whole_chains: int = 1
    skip_stated: bool = False
    max_rows: int = MAX_ROWS
    progress: bool = False

    def __post_init__(self) -> None:
        check_range("whole_chains", self.whole_chains, 0)
        check_range("max_rows", self.max_rows, 1)
        facts, self._owner = corpus_facts(self.documents)
        if not len(facts):
            raise EmptyDataError(
                "no document states a fact, so no rule can be executed",
                hint="use a text retriever (bm25), or documents with metadata.facts",
            )
        self._index = TableIndex(facts)
        self._compiled: dict[tuple[str, ...], _CompiledRules] = {}
        self._warned = False

    @cached_property
    def fingerprint(self) -> str:
        """Names documents, facts, rules and every setting that changes results."""
        corpus = [corpus_fingerprint(self.documents), self._index.facts.fingerprint]
        rules = getattr(self.selector, "fingerprint", None)
        settings = [self.whole_chains, self.skip_stated, self.max_rows, self.evidence.settings()]
        return fingerprint_object(["symbolic", *corpus, rules, *settings])

    def retrieve(
        self, queries: Sequence[Query], top_k: int, *, rules: Guides | None = None
    ) -> list[list[ScoredDocument]]:
        """Return, for each query, at most ``top_k`` documents that ground its guiding rules.

        A query of which nothing is stated, and whose subject is unknown or whose rules find
        nothing, gets an empty list.

        Args:
            queries: the queries.
            top_k: documents of a query.
            rules: the guiding rules of each query, where they are selected already.

        Raises:
            ConfigError: ``top_k`` below 1.
        """
        return [
            self._listed(query, hits, guiding, top_k)[:top_k]
            for query, hits, guiding in self._ground_all(queries, rules, top_k)
        ]

    def retrieve_union(
        self, queries: Sequence[Query], top_k: int, *, rules: Guides | None = None
    ) -> list[list[ScoredDocument]]:
        """Return, for each query, the union of what every rule finds first.

        Of each rule these are the documents of its ``top_k`` most recent groundings; of undated
        ones those for the ``top_k`` answers with the most evidence.

        Args:
            queries: the queries.
            top_k: groundings of a rule.
            rules: the guiding rules of each query, where they are selected already.

        Raises:
            ConfigError: ``top_k`` below 1.
        """
        lists = []
        for query, hits, guiding in self._ground_all(queries, rules, top_k):
            kept = hits.take(self._rank_in_rule(hits) < top_k)
            lists.append(self._listed(query, kept, guiding, len(kept.row)))
        return lists

    @cached_property
    def statements(self) -> Statements:
        """What the corpus states."""
        return Statements(self.documents)

    def _listed(
        self, query: Query, hits: GroundedFacts, rules: Sequence[Rule], top_k: int
    ) -> list[ScoredDocument]:
        """The best documents of some groundings, behind those that state an answer."""
        found = self._rank(hits, rules, top_k)
        return known_answers_first(query, found, self.statements)

    def _ground_all(
        self, queries: Sequence[Query], rules: Guides | None, top_k: int
    ) -> Iterator[tuple[Query, GroundedFacts, Sequence[Rule]]]:
        """One query's groundings after the other's: those of a hub are not kept."""
        check_top_k(top_k)
        selected = self.selector.select(queries) if rules is None else rules
        bar = tqdm(queries, "executing rules", disable=not self.progress, unit="query")
        for query, guiding in zip(bar, selected, strict=True):
            yield query, self._ground(query, guiding), guiding

    def _ground(self, query: Query, rules: Sequence[Rule]) -> GroundedFacts:
        """The groundings of the rules: one row for each of their facts."""
        compiled = self._compile(rules)
        found = compiled.plans.ground(query.subject, query.timestamp)
        if not found.is_complete and not self._warned:
            self._warned = True
            _log.warning(
                "the rules of %s ground too much from %s: some groundings beyond %d are left out",
                query.relation,
                query.subject,
                self.max_rows,
            )
        time, weight = self._weigh(query, compiled, found.rule, found.latest)
        # Rules of one atom come first, fact by fact; then longer ones, rule by rule.
        facts, side = len(self._index.facts), compiled.side[found.rule]
        first = np.where(side < 2, side * facts + found.rows[:, 0], 2 * facts)
        order = np.argsort(first, kind="stable")
        number, atom = np.nonzero(found.rows[order] >= 0)
        at = order[number]
        rule, row = found.rule[at], found.rows[at, atom]
        columns = time[at], weight[at], rule, atom, number, compiled.answer_atom[rule] == atom
        hits = GroundedFacts(found.answer[at], row, *columns, found.count[at])
        return self._filtered(query, hits) if self.skip_stated and query.prediction else hits

    def _filtered(self, query: Query, hits: GroundedFacts) -> GroundedFacts:
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

    def _rank_in_rule(self, hits: GroundedFacts) -> Longs:
        """The rank (from 0) of each row's grounding among those of its rule."""
        if self._index.facts.timestamp is not None:
            return hits.rank(hits.rule, -hits.time)
        group, joined = hits.evidence()
        # One grounding of every answer before the second ones.
        nth = hits.rank(group_of(hits.rule, group))
        return hits.rank(hits.rule, nth, -joined[group])

    def _weigh(
        self, query: Query, compiled: _CompiledRules, rule: Longs, latest: Longs | None
    ) -> tuple[Longs, Doubles]:
        """The time and the weight of groundings."""
        weight = compiled.confidence[rule]
        if latest is None:
            return np.full(len(rule), _UNDATED, dtype=np.int64), weight
        if query.timestamp is not None:
            weight = weight * self.evidence.time_decay(query.timestamp - latest)
        return latest, weight

    def _compile(self, rules: Sequence[Rule]) -> _CompiledRules:
        key = tuple(map(attrgetter("id"), rules))
        if key not in self._compiled:
            plans = RulePlans(rules, self._index, max_rows=self.max_rows)
            for number, reason in plans.unusable.items():
                _log.info("the rule %s cannot be executed: %s", rules[number].text, reason)
            side = np.full(len(rules), 2, dtype=np.int64)
            seen: set[tuple[str, int]] = set()
            for number, rule in enumerate(rules):
                (atom, *others), ends = rule.body, {rule.head.subject, rule.head.object}
                variables = len(ends) == 2 and all(end.startswith("?") for end in ends)
                fires = atom.relation, int(rule.is_inverse)
                if variables and not others and {atom.subject, atom.object} == ends:
                    side[number] = 2 if fires in seen else fires[1]
                    seen.add(fires)
            self._compiled[key] = _CompiledRules(
                plans,
                np.array([self.evidence.confidence(rule) for rule in rules], dtype=np.float64),
                np.array([answer_atom(rule) for rule in rules], dtype=np.int64),
                side,
            )
        return self._compiled[key]

    def _rank(self, hits: GroundedFacts, rules: Sequence[Rule], top_k: int) -> list[ScoredDocument]:
        """The first ``top_k`` distinct documents, each with all rules that found it."""
        if not len(hits.row):
            return []
        group, joined = hits.evidence()
        best = np.empty(len(joined), dtype=np.int64)
        best[np.argsort(-joined, kind="stable")] = np.arange(len(joined))
        turn = 2 * hits.rank(group, -hits.weight, -hits.time)
        completed = (turn == 0) & (best[group] < self.whole_chains)
        turn = turn + (~hits.names_answer & ~completed)
        score = -np.expm1(-joined)[group] - turn
        # Saturated noisy-ors are equal as numbers but not in evidence: order by the exponent.
        order = np.lexsort((hits.atom, hits.row, -hits.time, -joined[group], turn))
        owners = self._owner[hits.row]
        _, first = np.unique(owners[order], return_index=True)
        chosen = order[np.sort(first)[:top_k]]
        found: dict[int, list[RuleHit]] = {int(owner): [] for owner in owners[chosen]}
        rank_in_rule = self._rank_in_rule(hits)
        mine = np.flatnonzero(np.isin(owners, owners[chosen]))
        # Of many groundings of one atom that share a document, the first one is named.
        keys = owners[mine], hits.rule[mine], hits.atom[mine]
        mine = mine[rank_in_group(group_of(*keys), rank_in_rule[mine]) == 0]
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


class _CompiledRules(NamedTuple):
    """Rules ready to be executed.

    Args:
        plans: their joins.
        confidence: float64 array of shape (rules,), smoothed, with its exponent.
        answer_atom: int64 array of shape (rules,), the body atom that names the answer.
        side: int64 array of shape (rules,): 0 for the first rule whose body is one fact of the
            query's subject, 1 where it is one about it; 2 for longer bodies and further rules.
    """

    plans: RulePlans
    confidence: Doubles
    answer_atom: Longs
    side: Longs


class GroundedFacts(NamedTuple):
    """GroundedFacts of one query as columns of shape (n,): one row is one fact of one grounding.

    Args:
        answer: entity ids.
        row: the fact's row.
        time: the latest time of the grounding.
        weight: the weight of the grounding.
        rule: which rule.
        atom: the body atom that the fact grounds.
        grounding: which grounding.
        names_answer: whether the fact names the answer; one row of each grounding does.
        ways: how many groundings this one stands for.
    """

    answer: Longs
    row: Longs
    time: Longs
    weight: Doubles
    rule: Longs
    atom: Longs
    grounding: Longs
    names_answer: npt.NDArray[np.bool_]
    ways: Longs

    def take(self, keep: npt.NDArray[np.bool_]) -> GroundedFacts:
        """The rows where ``keep`` is true."""
        return GroundedFacts._make(column[keep] for column in self)

    def rank(self, group: Longs, *keys: npt.NDArray[np.generic]) -> Longs:
        """The rank (from 0) of each row's grounding among those of its group, ordered by keys."""
        answers = np.flatnonzero(self.names_answer)
        rank = np.zeros(int(self.grounding.max(initial=-1)) + 1, dtype=np.int64)
        among = rank_in_group(group[answers], *(key[answers] for key in keys))
        rank[self.grounding[answers]] = among
        return rank[self.grounding]

    def evidence(self) -> tuple[Longs, Doubles]:
        """The group of each row's answer, and for each group the sum of ``-log(1 - w)``."""
        _, group = np.unique(self.answer, return_inverse=True)
        named = self.names_answer
        exponents = noisy_or_exponents(self.weight[named]) * self.ways[named]
        return group.astype(np.int64), np.bincount(group[named], exponents).astype(np.float64)
