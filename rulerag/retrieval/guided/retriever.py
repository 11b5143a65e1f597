"""Rule-guided retrieval: searches for each query and rule, and one list of what they find.

One way through it, batch by batch:

1. *select*: the guiding rules of each query, once; whoever selected them already hands them in, and
   they travel with what is found;
2. *search* (:meth:`RuleSearches.search`): the plain query and every rule that is one text, all
   queries in one batch, equal searches once; what they find are rows of the corpus;
3. *follow chains* (:meth:`RuleSearches.follow_chains`): longer bodies hop by hop, again in batches;
   each document is grounded once, and what it binds is what the next hop asks about;
4. *merge*: the searches of a query become one list of documents, the only place where rows become
   records; then chains are completed, each hit says which atom its document grounds, and what the
   corpus states comes first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rulerag.composition import register
from rulerag.errors import ConfigError, RetrievalError
from rulerag.io import fingerprint_object
from rulerag.kg.grounding import Statements
from rulerag.retrieval.base import (
    RetrievedRows,
    RowSearcher,
    check_range,
    check_top_k,
    stated_first,
)
from rulerag.retrieval.guided.merging import (
    GroupMerger,
    MergeWeights,
    RuleSearch,
    check_merge,
    check_pool,
    check_rows,
    make_merger,
    union_of,
)
from rulerag.retrieval.guided.provenance import with_grounded_atoms
from rulerag.retrieval.guided.query_text import Compose, Composition
from rulerag.retrieval.guided.searches import RuleSearches, Searched
from rulerag.retrieval.symbolic import with_whole_chains
from rulerag.rules import Rule, readable
from rulerag.types import Query, RuleHit, ScoredDocument

if TYPE_CHECKING:
    from rulerag.protocols import Guides, Retriever, RuleSelector

__all__ = ["RuleGuidedRetriever"]

_log = logging.getLogger(__name__)
_RANK, _LEARNED = "rank", "learned"
# Queries whose results are held at once: for 8 rules of two hops some 200 MB.
_AT_ONCE = 2000
# Documents of a list in which the parts of chains are looked for.
_DEEP = 50


@register("retriever", "guided")
@dataclass(eq=False, repr=False)
class RuleGuidedRetriever:
    """Wraps any retriever and searches once for every pair of a query and a guiding rule.

    ``D_q`` is the union over ``r in R_q`` of ``D_q^r``, the ``per_rule_k`` best documents for
    ``q∘r``. The pairs of up to 2,000 queries go to the wrapped retriever in one batch, equal ones
    once.
    :meth:`retrieve` gives the k best documents
    (:data:`~rulerag.retrieval.guided.merging.hits.MERGES`), :meth:`retrieve_union` the whole union.
    Every document carries a hit for each search that found
    it: the rule's id (None for the plain query), rank and score.

    A rule with several body atoms is followed hop by hop (:mod:`~rulerag.retrieval.guided.chains`):
    its first atom is searched from the query's subject, the next ones from what the hop before
    found. Each of these searches gives up to ``per_rule_k`` documents, and every document tells
    which atom it grounds.

    A query without guiding rules gets what the wrapped retriever gives for it. What the corpus
    states of a query comes first (:mod:`~rulerag.retrieval.base.known_answers`), unless the query
    is a prediction or ``skip_stated`` says that it is known.

    Args:
        retriever: the one to wrap; a pair keeps the query's structure, as time-aware ones need.
        selector: chooses the guiding rules of a query.
        compose: how query and rule become one text: ``append`` (``q∘r`` of the paper),
            ``substitute`` (the body relation in place of the query's), ``both`` (a search each),
            or a function of query and rule that returns one text or several.
        merge: ``rank``: the searches take turns; or ``evidence``, which looks deeper than the
            union and gives each of the k places to another pair of entities
            (:mod:`~rulerag.retrieval.guided.merging.evidence`); or ``learned``, which gives them to
            candidate answers by learned weights (:mod:`~rulerag.retrieval.guided.merging.learned`).
        weights: those of ``merge="learned"``, or their file, as ``rulerag learn-merging``
            writes it.
        per_rule_k: documents kept of each search; as many as the whole list has when None.
        skip_stated: leave out documents that lead only to answers which the corpus states as they
            are, as facts of the asked relation: the filtered setting of link prediction (Bordes
            et al. 2013), for questions that ask what a static graph lacks.
        include_plain: search the plain query as well, before its rules.
        plain_weight: the confidence that the plain search counts with.
        pool: documents that ``evidence`` and ``learned`` look at in each search.
        power: how fast evidence falls with the fraction of a search's best score.
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

    retriever: Retriever
    selector: RuleSelector
    _: KW_ONLY
    compose: str | Compose = "append"
    merge: str = "rank"
    weights: MergeWeights | str | Path | None = None
    per_rule_k: int | None = None
    skip_stated: bool = False
    include_plain: bool = False
    plain_weight: float = 1.0
    pool: int = 200
    power: float = 8.0
    bridges: int = 3
    bridge_weight: float = 0.1
    max_hops: int = 3
    whole_chains: int = 1
    rule_label: Callable[[str], str] = readable
    entity_label: Callable[[str], str] = readable

    def __post_init__(self) -> None:
        check_merge(self.merge)
        if (self.merge == _LEARNED) != (self.weights is not None):
            raise ConfigError(
                "learned merging and learned weights go together",
                key="weights",
                hint="merge: learned, weights: FILE (rulerag learn-merging makes it)",
            )
        check_pool(self.pool, self.power)
        if self.merge != _RANK:
            check_rows(self.retriever, "merge")
        if self.skip_stated:
            check_rows(self.retriever, "skip_stated")
        check_range("max_hops", self.max_hops, 1)
        check_range("whole_chains", self.whole_chains, 0)
        check_range("bridges", self.bridges, 0)
        check_range("bridge_weight", self.bridge_weight, 0, 1)
        check_range("plain_weight", self.plain_weight, 0, 1)
        if self.per_rule_k is not None:
            check_top_k(self.per_rule_k, "per_rule_k")
        self._weights = MergeWeights.of(self.weights)
        self._composition = Composition(self.compose, self.rule_label, self.entity_label)
        self._told = False

    def __repr__(self) -> str:
        return f"RuleGuidedRetriever({self.retriever!r}, {self.selector!r}, merge={self.merge!r})"

    @cached_property
    def fingerprint(self) -> str:
        """Names the wrapped retriever, the rules and every setting that changes results."""
        settings = {
            part.name: getattr(self, part.name)
            for part in fields(self)
            if part.name not in ("retriever", "selector", "rule_label", "entity_label")
        }
        settings["compose"] = _name(self.compose)
        settings["weights"] = dict(self._weights.weights) if self._weights else None
        rules = getattr(self.selector, "fingerprint", None) or _name(self.selector)
        return fingerprint_object(["rule-guided", self.retriever.fingerprint, rules, settings])

    @cached_property
    def statements(self) -> Statements:
        """What the wrapped retriever's corpus states, as far as it tells its corpus."""
        return Statements(getattr(self.retriever, "documents", ()))

    def retrieve(
        self, queries: Sequence[Query], top_k: int, *, rules: Guides | None = None
    ) -> list[list[ScoredDocument]]:
        """Return, for each query, the ``top_k`` best documents, ranks from 1.

        Args:
            queries: the queries.
            top_k: documents of a query.
            rules: the guiding rules of each query, where they are selected already.

        Raises:
            ConfigError: ``top_k`` is below 1.
        """
        found = self._run(queries, top_k, rules, union=self.merge == _RANK)
        return [documents[:top_k] for documents in found]

    def retrieve_union(
        self, queries: Sequence[Query], top_k: int, *, rules: Guides | None = None
    ) -> list[list[ScoredDocument]]:
        """Return, for each query, the whole union of its searches.

        With ``merge="rank"`` :meth:`retrieve` gives its start; else it is ordered by the best
        evidence for each document, for it has no places to share out.

        Args:
            queries: the queries.
            top_k: documents kept of each search, where ``per_rule_k`` is None.
            rules: the guiding rules of each query, where they are selected already.

        Raises:
            ConfigError: ``top_k`` is below 1.
        """
        return self._run(queries, top_k, rules, union=True)

    def searches(
        self, queries: Sequence[Query], top_k: int = 1
    ) -> Iterator[tuple[Query, list[RuleSearch]]]:
        """Each query that rules lead to a search, with its searches, in rows of the corpus.

        Args:
            queries: the queries.
            top_k: documents of a search, where they are more than ``pool``.

        Raises:
            ConfigError: ``top_k`` is below 1, or the wrapped retriever cannot answer in rows.
        """
        check_top_k(top_k)
        searcher = check_rows(self.retriever, "merge")
        for one in self._searched(queries, self._select(queries), searcher, max(self.pool, top_k)):
            if one.searches:
                yield one.query, one.searches

    def _run(
        self,
        queries: Sequence[Query],
        top_k: int,
        rules: Guides | None,
        *,
        union: bool,
    ) -> list[list[ScoredDocument]]:
        check_top_k(top_k)
        searcher: RowSearcher
        if union:
            searcher, depth = RetrievedRows(self.retriever), self.per_rule_k or top_k
        else:
            searcher, depth = check_rows(self.retriever, "merge"), max(self.pool, top_k)
        selected = self._select(queries) if rules is None else rules
        results: list[list[ScoredDocument]] = []
        plain: list[int] = []
        for one in self._searched(queries, selected, searcher, depth):
            if not one.searches:
                plain.append(len(results))
            results.append(self._merge(one, searcher, top_k, union) if one.searches else [])
        self._tell(len(plain), len(queries))
        found = self.retriever.retrieve([queries[i] for i in plain], top_k) if plain else []
        for i, documents in zip(plain, found, strict=True):
            results[i] = [_with_hit(scored) for scored in documents]
        if self.skip_stated:
            return results
        pairs = zip(queries, results, strict=True)
        return [stated_first(query, listed, self.statements) for query, listed in pairs]

    def _select(self, queries: Sequence[Query]) -> list[list[Rule]]:
        rules = self.selector.select(queries)
        if len(rules) != len(queries):
            raise RetrievalError(
                f"the selector gave {len(rules)} lists of rules for {len(queries)} queries",
                hint="a selector returns one list for each query, in order",
            )
        return rules

    def _searched(
        self,
        queries: Sequence[Query],
        rules: Guides,
        searcher: RowSearcher,
        depth: int,
    ) -> Iterator[Searched]:
        """Search and follow chains, so many queries at once that their results can be held."""
        searches = RuleSearches(
            searcher,
            depth,
            self._composition,
            self.plain_weight if self.include_plain else None,
            self.statements if self.skip_stated else None,
            self.bridges,
            self.bridge_weight,
            self.max_hops,
        )
        for start in range(0, len(queries), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            found = searches.search(queries[part], rules[part])
            searches.follow_chains(found)
            yield from found

    def _merge(
        self, one: Searched, searcher: RowSearcher, top_k: int, union: bool
    ) -> list[ScoredDocument]:
        if union:
            by_rank = self.merge == _RANK
            documents = union_of(searcher.documents, one.searches, by_rank=by_rank)
        else:
            documents = self._merger.merge(one.query, one.searches, max(top_k, _DEEP))
        if one.bound:
            documents = with_whole_chains(one.query, one.rules, documents, self.whole_chains)
        return with_grounded_atoms(one.query, one.rules, documents, one.bound)

    @cached_property
    def _merger(self) -> GroupMerger:
        documents = check_rows(self.retriever, "merge").documents
        return make_merger(documents, self.power, self._weights)

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
