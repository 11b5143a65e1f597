"""Rule-guided retrieval: one search per query and rule, and the union of what they find."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rulerag.errors import ConfigError, RetrievalError
from rulerag.io import fingerprint_object
from rulerag.kg.statements import Statements
from rulerag.retrieval.composition import Compose, composition
from rulerag.retrieval.corpus import Rows, RowSearcher, check_top_k
from rulerag.retrieval.evidence_merging import EvidenceMerger, RowSearch
from rulerag.retrieval.finders import RecordFinder, RowFinder
from rulerag.retrieval.grounded import with_grounded_atoms
from rulerag.retrieval.hops import Finder
from rulerag.retrieval.learned_merging import LearnedMerger, MergeWeights
from rulerag.retrieval.merging import Search, check_merge, merge_searches
from rulerag.retrieval.rule_searches import Found, Pair, RuleSearches
from rulerag.retrieval.stated import stated_first
from rulerag.retrieval.whole_chains import with_whole_chains
from rulerag.rules import Rule, readable
from rulerag.types import Query, RuleHit, ScoredDocument

if TYPE_CHECKING:
    from rulerag.protocols import Retriever, RuleSelector

__all__ = ["RuleGuidedRetriever"]

_log = logging.getLogger(__name__)
_EVIDENCE, _LEARNED = "evidence", "learned"
_BY_ROWS = (_EVIDENCE, _LEARNED)
Merged = list[ScoredDocument]
# Queries whose results are held at once: for 8 rules of two hops some 200 MB.
_AT_ONCE = 2000
# Documents of an evidence merge in which the parts of chains are looked for.
_DEEP = 50


class RuleGuidedRetriever:
    """Wraps any retriever and searches once for every pair of a query and a guiding rule.

    ``D_q`` is the union over ``r in R_q`` of ``D_q^r``, the ``per_rule_k`` best documents for
    ``q∘r``. The pairs of up to 2,000 queries go to the wrapped retriever in one batch, equal ones
    once.
    The union has one documented order (:data:`~rulerag.retrieval.merging.MERGES`):
    :meth:`retrieve` gives its first k, :meth:`retrieve_union` gives it whole. Every document
    carries a hit for each search that found it: the rule's id (None for the plain query), rank
    and score.

    A rule with several body atoms is followed hop by hop (:mod:`~rulerag.retrieval.hops`): its
    first atom is searched from the query's subject, the next ones from what the hop before found.
    Each of these searches gives up to ``per_rule_k`` documents, and every document tells which
    atom it grounds.

    A query without guiding rules gets what the wrapped retriever gives for it. What the corpus
    states of a query comes first (:mod:`~rulerag.retrieval.stated`), unless the query is a
    prediction or ``skip_stated`` says that it is known.

    Args:
        retriever: the one to wrap; a pair keeps the query's structure, as time-aware ones need.
        selector: chooses the guiding rules of a query.
        compose: how query and rule become one text: ``append`` (``q∘r`` of the paper),
            ``substitute`` (the body relation in place of the query's), ``both`` (a search each),
            or a function of query and rule that returns one text or several.
        merge: the order of the union: ``score``, ``rank``, ``confidence``, ``calibrated`` or
            ``noisy-or``; or ``evidence``, which looks deeper than the union and gives each of the
            k places to another pair of entities (:mod:`~rulerag.retrieval.evidence_merging`); or
            ``learned``, which gives them to candidate answers by learned weights
            (:mod:`~rulerag.retrieval.learned_merging`).
        weights: those of ``merge="learned"``, or their file, as ``python -m training.merging``
            writes it.
        per_rule_k: documents kept of each search; as many as the whole list shall have when None.
        skip_stated: leave out documents that lead only to answers which the corpus states as they
            are, as facts of the asked relation: the filtered setting of link prediction (Bordes
            et al. 2013), for questions that ask what a static graph lacks.
        include_plain: search the plain query as well, before its rules.
        plain_weight: the confidence that the plain search counts with.
        rank_constant: the constant of ``merge="confidence"``; larger lets low ranks count more.
        pool: documents that ``merge="evidence"`` looks at in each search.
        power: how fast evidence falls with the share of a search's best score.
        bridges: how many entities of a hop the next one asks about; with 0 a rule with several
            body atoms is searched as one text.
        bridge_weight: how much a document counts that leads to the next hop and does not name an
            answer itself.
        max_hops: the longest body that is followed hop by hop; longer ones are searched as one
            text.
        whole_chains: how many of the first documents that name an answer by a chain bring the
            documents that lead to it to the places behind them.
        rule_label: the words of a raw relation, as the query's text has them.
        entity_label: the words of a raw entity, as the query's text has them.

    Raises:
        ConfigError: an option is unknown or out of range.

    References: RuleRAG (arXiv:2410.22353), section 3.1, equation 1.
    """

    def __init__(
        self,
        retriever: Retriever,
        selector: RuleSelector,
        *,
        compose: str | Compose = "append",
        merge: str = "rank",
        weights: MergeWeights | str | Path | None = None,
        per_rule_k: int | None = None,
        skip_stated: bool = False,
        include_plain: bool = False,
        plain_weight: float = 1.0,
        rank_constant: float = 60.0,
        pool: int = 200,
        power: float = 8.0,
        bridges: int = 3,
        bridge_weight: float = 0.1,
        max_hops: int = 3,
        whole_chains: int = 1,
        rule_label: Callable[[str], str] = readable,
        entity_label: Callable[[str], str] = readable,
    ) -> None:
        check_merge(merge, more=_BY_ROWS)
        if (merge == _LEARNED) != (weights is not None):
            raise ConfigError(
                "learned merging and learned weights go together",
                key="weights",
                hint="merge: learned, weights: FILE (python -m training.merging makes it)",
            )
        check_top_k(pool, "pool")
        if power <= 0:
            raise ConfigError(f"{power} is not above 0", key="power", hint="say 8")
        if merge in _BY_ROWS and not isinstance(retriever, RowSearcher):
            raise ConfigError(
                f"{type(retriever).__name__} cannot answer in rows",
                key="merge",
                hint=f"{merge} merging needs BM25Retriever, LuceneRetriever or DenseRetriever",
            )
        if skip_stated and not isinstance(retriever, RowSearcher):
            raise ConfigError(
                f"{type(retriever).__name__} does not tell its documents",
                key="skip_stated",
                hint="it needs BM25Retriever, LuceneRetriever or DenseRetriever",
            )
        if max_hops < 1:
            raise ConfigError(f"{max_hops} is below 1", key="max_hops", hint="say 3")
        counts = {"whole_chains": whole_chains, "bridges": bridges, "rank_constant": rank_constant}
        for key, count in counts.items():
            if count < 0:
                raise ConfigError(f"{count} is negative", key=key, hint="0 or more")
        for key, weight in (("bridge_weight", bridge_weight), ("plain_weight", plain_weight)):
            if not 0 <= weight <= 1:
                raise ConfigError(f"{weight} is out of range", key=key, hint="from 0 to 1")
        if per_rule_k is not None:
            check_top_k(per_rule_k, "per_rule_k")
        self.retriever = retriever
        self.selector = selector
        self.compose = compose
        self.merge = merge
        self.weights = MergeWeights.of(weights)
        self.per_rule_k = per_rule_k
        self.skip_stated = skip_stated
        self.include_plain = include_plain
        self.plain_weight = float(plain_weight)
        self.rank_constant = float(rank_constant)
        self.pool = pool
        self.power = float(power)
        self.bridges = bridges
        self.bridge_weight = float(bridge_weight)
        self.max_hops = max_hops
        self.whole_chains = whole_chains
        self._words = entity_label
        self._texts = composition(compose, rule_label=rule_label, entity_label=entity_label)
        self._told = False

    def __repr__(self) -> str:
        return f"RuleGuidedRetriever({self.retriever!r}, {self.selector!r}, merge={self.merge!r})"

    @cached_property
    def fingerprint(self) -> str:
        """Names the wrapped retriever, the rules and every setting that changes results."""
        settings: list[Any] = [
            _name(self.compose),
            self.merge,
            self.per_rule_k,
            self.include_plain,
            self.plain_weight,
            self.rank_constant,
            self.pool,
            self.power,
            self.bridges,
            self.bridge_weight,
            self.max_hops,
            self.whole_chains,
            self.skip_stated,
        ]
        if self.weights is not None:
            settings.append(dict(self.weights.weights))
        rules = getattr(self.selector, "fingerprint", None) or _name(self.selector)
        return fingerprint_object(["rule-guided", self.retriever.fingerprint, rules, settings])

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return, for each query, the ``top_k`` best documents, ranks from 1.

        They are the start of the union, but for ``merge="evidence"`` and ``merge="learned"``.

        Raises:
            ConfigError: ``top_k`` is below 1.
        """
        if self.merge in _BY_ROWS:
            return self._by_rows(queries, top_k)
        return [union[:top_k] for union in self.retrieve_union(queries, top_k)]

    def _by_rows(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        deep = max(top_k, _DEEP)
        learned = self._learned if self.merge == _LEARNED else None

        def merge(query: Query, searches: Sequence[RowSearch], rows: Rows) -> Merged:
            if learned is not None:
                return learned.merge(query, searches, rows, deep)
            return self._merger.merge(searches, rows, deep)

        return [found[:top_k] for found in self.merged_rows(queries, top_k, merge)]

    def merged_rows(
        self,
        queries: Sequence[Query],
        top_k: int,
        merge: Callable[[Query, Sequence[RowSearch], Rows], Merged],
    ) -> list[Merged]:
        """What a function makes of the searches of each query, ``pool`` documents deep.

        Args:
            queries: the queries.
            top_k: documents of a query without guiding rules, which is searched as it stands.
            merge: from a query, its searches and their results to documents, best first.

        Raises:
            ConfigError: ``top_k`` is below 1.
        """
        check_top_k(top_k)
        assert isinstance(self.retriever, RowSearcher)  # noqa: S101  (checked when made)
        finder = RowFinder(self.retriever, max(self.pool, top_k))

        def merged(query: Query, plan: Sequence[Pair], found: Sequence[Rows]) -> Merged:
            searches = [
                RowSearch(
                    pair.rule.id if pair.rule else None,
                    pair.weight,
                    place,
                    tuple(atom.relation for atom in pair.rule.body) if pair.rule else (),
                )
                for place, pair in enumerate(plan)
            ]
            rows = Rows(
                np.stack([found[pair.place].rows for pair in plan]),
                np.stack([found[pair.place].scores for pair in plan]),
            )
            return merge(query, searches, rows)

        return self._guided(queries, top_k, finder, merged)

    def _guided(
        self,
        queries: Sequence[Query],
        top_k: int,
        finder: Finder[Found],
        merged: Callable[[Query, Sequence[Pair], Sequence[Found]], Merged],
    ) -> list[Merged]:
        """Search and merge, so many queries at once that their results can be held."""
        rules = self._select(queries)
        results: list[Merged] = [[] for _ in queries]
        plain: list[int] = []
        for start in range(0, len(queries), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            searched = self._searches.run(queries[part], rules[part], finder)
            for i, (plan, bound) in enumerate(
                zip(searched.plans, searched.bound, strict=True), start=start
            ):
                if plan:
                    documents = merged(queries[i], plan, searched.found)
                    if bound:
                        documents = with_whole_chains(
                            queries[i], rules[i], documents, self.whole_chains
                        )
                    results[i] = with_grounded_atoms(queries[i], rules[i], documents, bound)
                else:
                    plain.append(i)
        self._unguided(queries, plain, top_k, results)
        if self.skip_stated:
            return results
        pairs = zip(queries, results, strict=True)
        return [stated_first(query, found, self.statements) for query, found in pairs]

    @cached_property
    def _searches(self) -> RuleSearches:
        return RuleSearches(
            self._texts,
            self._words,
            self.plain_weight if self.include_plain else None,
            self.bridges,
            self.bridge_weight,
            self.max_hops,
            self.statements if self.skip_stated else None,
        )

    @cached_property
    def statements(self) -> Statements:
        """What the wrapped retriever's corpus states, as far as it tells its corpus."""
        return Statements(getattr(self.retriever, "documents", ()))

    @cached_property
    def _merger(self) -> EvidenceMerger:
        assert isinstance(self.retriever, RowSearcher)  # noqa: S101  (checked when made)
        return EvidenceMerger(self.retriever.documents, power=self.power)

    @cached_property
    def _learned(self) -> LearnedMerger:
        assert isinstance(self.retriever, RowSearcher)  # noqa: S101  (checked when made)
        assert self.weights is not None  # noqa: S101  (checked when made)
        return LearnedMerger(self.retriever.documents, self.weights)

    def retrieve_union(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return, for each query, the whole union of its searches; :meth:`retrieve` is its start.

        Args:
            queries: the queries.
            top_k: documents kept of each search, where ``per_rule_k`` is None.

        Raises:
            ConfigError: ``top_k`` is below 1.
        """
        check_top_k(top_k)
        finder = RecordFinder(self.retriever, self.per_rule_k or top_k)

        def merged(
            query: Query, plan: Sequence[Pair], found: Sequence[Sequence[ScoredDocument]]
        ) -> Merged:
            return self._merge(plan, found)

        return self._guided(queries, top_k, finder, merged)

    def _select(self, queries: Sequence[Query]) -> list[list[Rule]]:
        rules = self.selector.select(queries)
        if len(rules) != len(queries):
            raise RetrievalError(
                f"the selector gave {len(rules)} lists of rules for {len(queries)} queries",
                hint="a selector returns one list for each query, in order",
            )
        return rules

    def _unguided(
        self,
        queries: Sequence[Query],
        plain: Sequence[int],
        top_k: int,
        results: list[Merged],
    ) -> None:
        """Fill in the queries that no rule led to a search: what the wrapped retriever gives."""
        self._tell(len(plain), len(queries))
        found = self.retriever.retrieve([queries[i] for i in plain], top_k) if plain else []
        for i, documents in zip(plain, found, strict=True):
            results[i] = [_with_hit(scored) for scored in documents]

    def _merge(
        self, plan: Sequence[Pair], found: Sequence[Sequence[ScoredDocument]]
    ) -> list[ScoredDocument]:
        searches = [
            Search(pair.rule.id if pair.rule else None, pair.weight, found[pair.place])
            for pair in plan
        ]
        # The union has no places to share out: as in ``calibrated``, the best evidence counts.
        merge = "calibrated" if self.merge in _BY_ROWS else self.merge
        return merge_searches(searches, merge, rank_constant=self.rank_constant)

    def _tell(self, plain: int, total: int) -> None:
        if plain and not self._told:
            self._told = True
            _log.info(
                "%d of %d queries have no guiding rule and are searched as they are", plain, total
            )


def _with_hit(scored: ScoredDocument) -> ScoredDocument:
    """Record the plain search, where the wrapped retriever has not done so itself."""
    if scored.found_by:
        return scored
    return replace(scored, found_by=(RuleHit(None, scored.rank, scored.score),))


def _name(part: object) -> str:
    """A string as it is; a function or object by where it is defined."""
    if isinstance(part, str):
        return part
    kind: Any = part if hasattr(part, "__qualname__") else type(part)
    return f"{kind.__module__}.{kind.__qualname__}"
