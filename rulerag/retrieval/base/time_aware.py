"""Time-aware retrieval: nothing from after the query's time, and recent documents first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from rulerag.arrays import Longs
from rulerag.cache import remembered_arrays
from rulerag.composition import check_range, register
from rulerag.errors import RetrievalError
from rulerag.io import StoredRecords, fingerprint_object
from rulerag.retrieval.base.corpus import RetrievedRows, Rows, RowSearcher, check_top_k
from rulerag.retrieval.base.deduplicate import statement_of
from rulerag.types import Document, Query, RuleHit, ScoredDocument

if TYPE_CHECKING:
    from rulerag.protocols import Retriever

# Before every date; one above the least integer, so that its negative is still an integer.
_UNDATED = int(np.iinfo(np.int64).min) + 1
_DEEPEN = 4  # how much deeper an unsettled query is searched again


@register("retriever", "time_aware")
class TimeAwareRetriever:
    """Wraps any retriever and follows the dates of queries and documents.

    A dated query never gets a document from its own time or later (``strict=False`` allows its
    own time; a document's time is its latest fact's). What remains is ordered by the wrapped
    retriever's score, documents with one score most recent first, undated ones behind them; an
    undated query gets what the wrapped retriever gives, unchanged. Last ties keep the wrapped
    order.

    The wrapped retriever searches deeper than needed. Where a document below that depth could still
    enter the first k, the query is searched again, four times as deep, up to ``max_pool``; below
    that depth the order is exact.

    Each result's hit carries the rank and score of the wrapped search; its own rank and score are
    those of the order above.

    Args:
        retriever: the retriever to wrap.
        strict: also drop documents of the query's own time.
        pool: the search depth: documents that the wrapped retriever is asked for at first.
        max_pool: the largest depth.
        distinct_facts: of documents that state the same facts at different times, keep the one
            that stands first in the order.

    Raises:
        ConfigError: a setting is out of range.
    """

    def __init__(
        self,
        retriever: Retriever,
        *,
        strict: bool = True,
        pool: int = 100,
        max_pool: int = 1600,
        distinct_facts: bool = False,
    ) -> None:
        check_range("pool", pool, 1)
        check_range("max_pool", max_pool, pool, hint=f"pool ({pool}) or more")
        self.retriever = retriever
        self.strict = strict
        self.pool = pool
        self.max_pool = max_pool
        self.distinct_facts = distinct_facts

    def __repr__(self) -> str:
        return f"TimeAwareRetriever({self.retriever!r})"

    @cached_property
    def fingerprint(self) -> str:
        """Names the wrapped retriever and every setting that changes results."""
        settings = [self.strict, self.pool, self.max_pool, self.distinct_facts]
        return fingerprint_object(["time-aware", self.retriever.fingerprint, settings])

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return, for each query, at most ``top_k`` documents, best first, ranks from 1.

        Raises:
            ConfigError: ``top_k`` is below 1.
        """
        check_top_k(top_k)
        results: list[list[ScoredDocument]] = [[] for _ in queries]
        undated = [i for i, query in enumerate(queries) if query.timestamp is None]
        if undated:
            passed = self.retriever.retrieve([queries[i] for i in undated], top_k)
            for i, documents in zip(undated, passed, strict=True):
                results[i] = list(documents)
        dated = [i for i, query in enumerate(queries) if query.timestamp is not None]

        def take(i: int, found: _Found, depth: int) -> bool:
            results[i], settled = self._best(queries[i], found, depth, top_k)
            return settled

        self._deepening(queries, dated, max(self.pool, top_k), take)
        return results

    def _best(
        self, query: Query, found: _Found, depth: int, top_k: int
    ) -> tuple[list[ScoredDocument], bool]:
        """The first k of a deep search, and whether no document below it could change them."""
        picked: list[ScoredDocument] = []
        seen: set[object] = set()
        score = 0.0
        for index in self._order(query, found).tolist():
            document, score = found.documents[found.rows[index]], float(found.scores[index])
            if self.distinct_facts:
                key = statement_of(document)
                if key in seen:
                    continue
                seen.add(key)
            hits = found.records[index].found_by if found.records else ()
            hits = hits or (RuleHit(None, index + 1, score),)
            picked.append(ScoredDocument(document, score, len(picked) + 1, hits))
            if len(picked) == top_k:
                break
        # Below that depth no score is above its last one.
        exhausted = len(found.scores) < depth
        return picked, exhausted or (len(picked) == top_k and score > found.scores[-1])

    @property
    def documents(self) -> Sequence[Document]:
        """The wrapped retriever's corpus."""
        documents: Sequence[Document] = getattr(self.retriever, "documents", ())
        return documents

    def search(self, queries: Sequence[Query], depth: int) -> Rows:
        """The first ``depth`` rows that the wrapped retriever finds and time allows, in order.

        Every copy of a fact is kept, whatever ``distinct_facts`` says: who asks for rows wants
        all the evidence. A query that loses rows to its time is asked again, deeper, as in
        :meth:`retrieve`.

        Raises:
            RetrievalError: the wrapped retriever cannot answer in rows.
        """
        if row_searcher(self.retriever) is None:
            raise RetrievalError(
                f"{type(self.retriever).__name__} cannot answer in rows",
                hint="wrap a BM25Retriever or a LuceneRetriever",
            )
        width = min(depth, len(self._times))
        rows = np.full((len(queries), width), -1, dtype=np.int64)
        scores = np.zeros((len(queries), width), dtype=np.float64)

        def take(i: int, found: _Found, searched: int) -> bool:
            order = self._order(queries[i], found, width)
            rows[i, : len(order)], scores[i, : len(order)] = found.rows[order], found.scores[order]
            return len(order) == width or len(found.rows) < searched

        self._deepening(queries, range(len(queries)), depth, take)
        return Rows(rows, scores)

    def _deepening(
        self,
        queries: Sequence[Query],
        pending: Sequence[int],
        depth: int,
        take: Callable[[int, _Found, int], bool],
    ) -> None:
        """Search queries, and those that are not settled again, deeper.

        Args:
            queries: the queries.
            pending: the indices of those that are searched.
            depth: of the first search.
            take: gets the index of a query, what it found and how deep it was searched; tells
                whether it is settled.
        """
        deepest = max(self.max_pool, depth)
        while pending:
            searched = self._search([queries[i] for i in pending], depth)
            pending = [
                i for i, one in zip(pending, searched, strict=True) if not take(i, one, depth)
            ]
            if depth >= deepest:
                break
            depth = min(depth * _DEEPEN, deepest)

    def _search(self, queries: Sequence[Query], depth: int) -> Iterator[_Found]:
        """What the wrapped retriever finds, in rows where it can answer in rows."""
        searcher = row_searcher(self.retriever)
        if searcher is not None:
            # A server that knows the times leaves out what comes later, so that nothing is lost.
            filtered = getattr(searcher, "search_until", None)
            if filtered is None:
                rows, scores = searcher.search(queries, depth)
            else:
                rows, scores = filtered(queries, depth, [self._last(query) for query in queries])
            documents, times = searcher.documents, self._times
            records: Sequence[Sequence[ScoredDocument]] = [()] * len(queries)
        else:
            lists = RetrievedRows(self.retriever)
            rows, scores = lists.search(queries, depth)
            documents, records = lists.documents, lists.found
            times = document_times(documents)
        for line, listed in enumerate(records):
            found = rows[line][rows[line] >= 0]
            yield _Found(found, scores[line, : len(found)], times[found], documents, listed)

    @cached_property
    def _times(self) -> npt.NDArray[np.int64]:
        """The times of the wrapped retriever's corpus, row by row."""
        return document_times(self.documents)

    def _last(self, query: Query) -> int | None:
        """The last time that a query allows; None for an undated one."""
        return None if query.timestamp is None else query.timestamp - self.strict

    def _order(self, query: Query, found: _Found, count: int | None = None) -> Longs:
        """The indices of what the query's time allows, in order; the first ``count`` as found."""
        last = self._last(query)
        if last is None:
            return np.arange(len(found.rows))[:count]
        allowed = np.flatnonzero((found.times <= last) | (found.times == _UNDATED))[:count]
        return allowed[np.lexsort((-found.times[allowed], -found.scores[allowed]))]


def row_searcher(retriever: Retriever) -> RowSearcher | None:
    """The retriever, where it can answer in rows: a wrapper can where what it wraps can."""
    inner = retriever
    while isinstance(inner, TimeAwareRetriever):
        inner = inner.retriever
    return retriever if isinstance(inner, RowSearcher) else None  # type: ignore[return-value]


class _Found(NamedTuple):
    """What one query found, best first: rows, scores and times of shape (n,).

    Args:
        rows: of the documents.
        scores: of the wrapped search.
        times: of the documents.
        documents: what the rows are of.
        records: the same as records, where the wrapped retriever gave records.
    """

    rows: Longs
    scores: npt.NDArray[np.float64]
    times: Longs
    documents: Sequence[Document]
    records: Sequence[ScoredDocument]


def document_times(documents: Sequence[Document]) -> npt.NDArray[np.int64]:
    """The time of each document; before every date where it has none."""
    if isinstance(documents, StoredRecords):
        key = ["times", documents.fingerprint]
        return remembered_arrays("datasets", key, lambda: {"t": document_times(list(documents))})[
            "t"
        ]
    times = [document.timestamp for document in documents]
    return np.array([_UNDATED if time is None else time for time in times], dtype=np.int64)
