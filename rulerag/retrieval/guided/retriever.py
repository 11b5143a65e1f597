"""Rule-guided retrieval: searches for each query and rule, and one list of what they find.

One way through it, batch by batch:

1. *select*: the guiding rules of each query, once; whoever selected them already hands them in, and
   they travel with what is found (:class:`~rulerag.retrieval.guided.searches.QuerySearches`);
2. *search* (:meth:`RuleSearcher.search`): the plain query and every rule that is one text, all
   queries in one batch, equal searches once; what they find are rows of the corpus;
3. *follow chains* (:meth:`RuleSearcher.follow_chains`): longer bodies hop by hop, again in batches;
   each document is grounded once, and what it binds is what the next hop searches for;
4. *merge*: the searches of a query become one list of documents, the only step where rows become
   records; then chains are completed, each hit says which atom its document grounds, and what the
   corpus states comes first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rulerag.composition import find, register
from rulerag.errors import ConfigError, RetrievalError
from rulerag.io import fingerprint_object
from rulerag.kg.grounding import Statements
from rulerag.retrieval.base import RetrievedRows, RowSearcher, check_top_k, known_answers_first
from rulerag.retrieval.guided.merging import (
    Merger,
    MergeWeights,
    RuleSearch,
    check_rows,
    make_merger,
    union_of,
)
from rulerag.retrieval.guided.provenance import with_grounded_atoms
from rulerag.retrieval.guided.query_text import Composition
from rulerag.retrieval.guided.searches import QuerySearches, RuleSearcher
from rulerag.retrieval.guided.settings import GuidedSettings
from rulerag.retrieval.symbolic import DEPTH, complete_chains
from rulerag.rules import Rule, readable
from rulerag.types import Document, Query, RuleHit, ScoredDocument

if TYPE_CHECKING:
    from rulerag.protocols import Guides, Retriever, RuleSelector

_log = logging.getLogger(__name__)
# Queries whose results are held at once: for 8 rules of two hops some 200 MB.
_AT_ONCE = 2000


@register("retriever", "guided")
class RuleGuidedRetriever:
    """Wraps any retriever and searches once for every pair of a query and a guiding rule.

    ``D_q`` is the union over ``r in R_q`` of ``D_q^r``, the ``per_rule_k`` best documents for
    ``q∘r``. The pairs of up to 2,000 queries go to the wrapped retriever in one batch, equal ones
    once. :meth:`retrieve` gives the k best documents, as the setting ``merge`` says,
    :meth:`retrieve_union` the whole union. Every document carries a hit for each search that found
    it: the rule's id (None for the plain query), rank and score.

    A rule with several body atoms is followed hop by hop (:mod:`~rulerag.retrieval.guided.chains`):
    its first atom is searched from the query's subject, the next ones from what the hop before
    found. Each of these searches gives up to ``per_rule_k`` documents, and every document says
    which atom it grounds.

    A query without guiding rules gets what the wrapped retriever gives for it. What the corpus
    states of a query comes first (:mod:`~rulerag.retrieval.base.known_answers`), unless the query
    is a prediction.

    Args:
        retriever: the one to wrap; a pair keeps the query's structure, as time-aware ones need.
        selector: chooses the guiding rules of a query.
        rule_label: the words of a raw relation, as the query's text has them.
        entity_label: the words of a raw entity, as the query's text has them.
        settings: all settings together.
        changes: settings one by one, fields of
            :class:`~rulerag.retrieval.guided.settings.GuidedSettings`.

    Raises:
        ConfigError: a setting is unknown or out of range, or does not fit the wrapped retriever.

    References: RuleRAG (arXiv:2410.22353), section 3.1, equation 1.
    """

    def __init__(
        self,
        retriever: Retriever,
        selector: RuleSelector,
        *,
        rule_label: Callable[[str], str] = readable,
        entity_label: Callable[[str], str] = readable,
        settings: GuidedSettings | None = None,
        **changes: Any,
    ) -> None:
        self.retriever = retriever
        self.selector = selector
        self.settings = chosen = GuidedSettings.joined(settings, changes)
        merge = find("merge", chosen.merge, key="merge")
        weighs = "weights" in merge.settings.model_fields
        if weighs != (chosen.weights is not None):
            raise ConfigError(
                "learned merging and learned weights go together",
                key="weights",
                hint="merge: learned, weights: FILE (python -m training.merging makes it)",
            )
        self._deep: bool = getattr(merge.component, "deep", True)
        for key, needs_rows in {"merge": self._deep, "skip_stated": chosen.skip_stated}.items():
            if needs_rows:
                check_rows(retriever, key)
        self._weights = None if chosen.weights is None else MergeWeights.of(chosen.weights)
        self._composition = Composition(chosen.compose, rule_label, entity_label)
        self._logged = False

    def __repr__(self) -> str:
        merge = self.settings.merge
        return f"RuleGuidedRetriever({self.retriever!r}, {self.selector!r}, merge={merge!r})"

    @cached_property
    def fingerprint(self) -> str:
        """Names the wrapped retriever, the rules and every setting that changes results."""
        settings = dict(self.settings)
        settings["compose"] = _name(self.settings.compose)
        settings["weights"] = dict(self._weights.weights) if self._weights else None
        rules = getattr(self.selector, "fingerprint", None) or _name(self.selector)
        return fingerprint_object(["rule-guided", self.retriever.fingerprint, rules, settings])

    @cached_property
    def statements(self) -> Statements:
        """What the wrapped retriever's corpus states, as far as it shows its corpus."""
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
        return self._run(queries, top_k, rules, union=False)

    def retrieve_union(
        self, queries: Sequence[Query], top_k: int, *, rules: Guides | None = None
    ) -> list[list[ScoredDocument]]:
        """Return, for each query, the whole union of its searches.

        With ``merge="rank"`` :meth:`retrieve` gives its start; else it is ordered by the best
        evidence for each document, for it has no ranks to share out.

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
        searcher, depth = check_rows(self.retriever, "merge"), max(self.settings.pool, top_k)
        for one in self._searched(queries, self._select(queries), searcher, depth):
            if one.searches:
                yield one.query, one.searches

    def _run(
        self, queries: Sequence[Query], top_k: int, rules: Guides | None, *, union: bool
    ) -> list[list[ScoredDocument]]:
        check_top_k(top_k)
        searcher: RowSearcher
        if self._deep and not union:
            searcher, depth = check_rows(self.retriever, "merge"), max(self.settings.pool, top_k)
            merger: Merger | None = self._deep_merger
        else:
            searcher, depth = RetrievedRows(self.retriever), self.settings.per_rule_k or top_k
            merger = None if union else self._merger_over(searcher.documents)
        selected = self._select(queries) if rules is None else rules
        results: list[list[ScoredDocument]] = []
        plain: list[int] = []
        for one in self._searched(queries, selected, searcher, depth):
            if not one.searches:
                plain.append(len(results))
            results.append(self._merged(one, searcher, top_k, merger) if one.searches else [])
        self._log_plain(len(plain), len(queries))
        found = self.retriever.retrieve([queries[i] for i in plain], top_k) if plain else []
        for i, documents in zip(plain, found, strict=True):
            hits = [_with_hit(scored) for scored in documents]
            listed = known_answers_first(queries[i], hits, self.statements)
            results[i] = listed if union else listed[:top_k]
        return results

    def _select(self, queries: Sequence[Query]) -> list[list[Rule]]:
        rules = self.selector.select(queries)
        if len(rules) != len(queries):
            raise RetrievalError(
                f"the selector gave {len(rules)} lists of rules for {len(queries)} queries",
                hint="a selector returns one list for each query, in order",
            )
        return rules

    def _searched(
        self, queries: Sequence[Query], rules: Guides, searcher: RowSearcher, depth: int
    ) -> Iterator[QuerySearches]:
        """Search and follow chains, so many queries at once that their results can be held."""
        known = self.statements if self.settings.skip_stated else None
        rule_searcher = RuleSearcher(searcher, depth, self._composition, self.settings, known)
        for start in range(0, len(queries), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            found = rule_searcher.search(queries[part], rules[part])
            yield from rule_searcher.follow_chains(found)

    def _merged(
        self, one: QuerySearches, searcher: RowSearcher, top_k: int, merger: Merger | None
    ) -> list[ScoredDocument]:
        """One list of what the searches found; their union where nothing merges them."""
        if merger is None:
            documents = union_of(searcher.documents, one.searches, by_rank=not self._deep)
        else:
            # Chains and known answers are looked for further down than the list is long.
            stands = not one.bound and one.query.prediction
            depth = top_k if stands else max(top_k, DEPTH)
            documents = merger.merge(one.query, one.searches, depth)
        if one.bound:
            count = self.settings.whole_chains
            documents = complete_chains(one.query, one.rules, documents, count)
        listed = known_answers_first(one.query, documents, self.statements)
        kept = listed if merger is None else listed[:top_k]
        return with_grounded_atoms(one.query, one.rules, kept, one.bound)

    @cached_property
    def _deep_merger(self) -> Merger:
        return self._merger_over(check_rows(self.retriever, "merge").documents)

    def _merger_over(self, documents: Sequence[Document]) -> Merger:
        settings = {**dict(self.settings), "weights": self._weights}
        return make_merger(self.settings.merge, documents, settings)

    def _log_plain(self, plain: int, total: int) -> None:
        if plain and not self._logged:
            self._logged = True
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
