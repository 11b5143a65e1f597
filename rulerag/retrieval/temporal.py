"""Time-aware retrieval: nothing from after the query's time, and recent documents first."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from rulerag.errors import ConfigError, RetrievalError
from rulerag.io import fingerprint_object
from rulerag.retrieval.corpus import Rows, RowSearcher, check_top_k
from rulerag.types import Document, Query, RuleHit, ScoredDocument

if TYPE_CHECKING:
    from rulerag.protocols import Retriever

__all__ = ["TimeAwareRetriever"]

_log = logging.getLogger(__name__)
_ORDERS = ("recent", "decay")
# Before every date; one above the least integer, so that its negative is still an integer.
_UNDATED = int(np.iinfo(np.int64).min) + 1
_DEEPEN = 4  # how much deeper an unsettled query is asked again


class _Pool(NamedTuple):
    """What one query found, best first; ``item`` builds the result at a place."""

    scores: npt.NDArray[np.float64]
    times: npt.NDArray[np.int64]
    item: Callable[[int], ScoredDocument]


class TimeAwareRetriever:
    """Wraps any retriever and follows the dates of queries and documents.

    A dated query never gets a document from its own time or later (``strict=False`` allows its
    own time; a document's time is its latest fact's). What remains is ordered by

    - ``recent``: the wrapped retriever's score; documents with one score most recent first;
    - ``decay``: ``score · exp(−decay · age)``, with ``age = (query time − document time) /
      time_unit``; a negative score is divided instead, so that age never helps. Ties most recent
      first.

    Undated documents keep their score and follow dated ones with the same score; an undated query
    gets what the wrapped retriever gives, unchanged. Last ties keep the wrapped order.

    The wrapped retriever is asked for a pool deeper than needed. Where a document outside the pool
    could still enter the first k, the query is asked again, four times as deep, up to
    ``max_pool``; below that depth the order is exact.

    Each result's hit carries the rank and score of the wrapped search; its own rank and score are
    those of the order above.

    Args:
        retriever: the retriever to wrap.
        order: ``recent`` or ``decay``.
        decay: how fast age costs, per time unit; for ``decay`` only.
        time_unit: timestamps per unit of age, for example 24 to count hours in days.
        strict: also drop documents of the query's own time.
        pool: documents asked for at first.
        max_pool: documents asked for at most.
        distinct_facts: of documents that state the same facts at different times, keep the one
            that stands first in the order.

    Raises:
        ConfigError: an option is out of range.
    """

    def __init__(
        self,
        retriever: Retriever,
        *,
        order: str = "recent",
        decay: float = 0.01,
        time_unit: int = 1,
        strict: bool = True,
        pool: int = 100,
        max_pool: int = 1600,
        distinct_facts: bool = False,
    ) -> None:
        if order not in _ORDERS:
            raise ConfigError(
                f"unknown order {order!r}", key="order", hint=f"one of {', '.join(_ORDERS)}"
            )
        if decay < 0:
            raise ConfigError(f"{decay} is negative", key="decay", hint="0 or more")
        if time_unit < 1:
            raise ConfigError(f"{time_unit} is no unit of time", key="time_unit", hint="1 or more")
        check_top_k(pool, "pool")
        if max_pool < pool:
            raise ConfigError(
                f"{max_pool} is below pool ({pool})", key="max_pool", hint="pool or more"
            )
        self.retriever = retriever
        self.order = order
        self.decay = float(decay)
        self.time_unit = time_unit
        self.strict = strict
        self.pool = pool
        self.max_pool = max_pool
        self.distinct_facts = distinct_facts

    def __repr__(self) -> str:
        return f"TimeAwareRetriever({self.retriever!r}, order={self.order!r})"

    @cached_property
    def fingerprint(self) -> str:
        """Names the wrapped retriever and every setting that changes results."""
        settings = [self.order, self.strict, self.pool, self.max_pool, self.distinct_facts]
        if self.order == "decay":
            settings += [self.decay, self.time_unit]
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
        pending = [i for i, query in enumerate(queries) if query.timestamp is not None]
        depth, deepest = max(self.pool, top_k), max(self.max_pool, top_k)
        while pending:
            unsettled = []
            pools = self._pools([queries[i] for i in pending], depth)
            for i, pool in zip(pending, pools, strict=True):
                results[i], settled = self._best(queries[i], pool, depth, top_k)
                if not settled:
                    unsettled.append(i)
            if depth >= deepest:
                if unsettled:
                    _log.debug("%d queries are cut at max_pool %d", len(unsettled), deepest)
                break
            pending, depth = unsettled, min(depth * _DEEPEN, deepest)
        return results

    @property
    def documents(self) -> tuple[Document, ...]:
        """The wrapped retriever's corpus."""
        return tuple(getattr(self.retriever, "documents", ()))

    def search(self, queries: Sequence[Query], depth: int) -> Rows:
        """The first ``depth`` rows that the wrapped retriever finds and time allows, in order.

        Every copy of a fact is kept, whatever ``distinct_facts`` says: who asks for rows wants
        all the evidence. A query that loses rows to its time is asked again, deeper, as in
        :meth:`retrieve`.

        Raises:
            RetrievalError: the wrapped retriever cannot answer in rows.
        """
        if not isinstance(self.retriever, RowSearcher):
            raise RetrievalError(
                f"{type(self.retriever).__name__} cannot answer in rows",
                hint="wrap a BM25Retriever or a LuceneRetriever",
            )
        width = min(depth, len(self._times))
        rows = np.full((len(queries), width), -1, dtype=np.int64)
        scores = np.zeros((len(queries), width), dtype=np.float64)
        pending, deepest = list(range(len(queries))), max(self.max_pool, depth)
        while pending:
            short = []
            found = self.retriever.search([queries[i] for i in pending], depth)
            for i, found_rows, found_scores in zip(pending, *found, strict=True):
                size = int(np.count_nonzero(found_rows >= 0))
                allowed = self._allowed(queries[i], self._times[found_rows[:size]])[:width]
                kept = found_rows[allowed]
                values, order = self._ordered(queries[i], found_scores[allowed], self._times[kept])
                rows[i, : len(order)], scores[i, : len(order)] = kept[order], values
                if len(allowed) < width and size == depth:
                    short.append(i)
            if depth >= deepest:
                break
            pending, depth = short, min(depth * _DEEPEN, deepest)
        return Rows(rows, scores)

    def _pools(self, queries: Sequence[Query], depth: int) -> Iterator[_Pool]:
        """The wrapped retriever's results, as rows where it can answer in rows."""
        if not isinstance(self.retriever, RowSearcher):
            for found in self.retriever.retrieve(queries, depth):
                scores = np.array([scored.score for scored in found], dtype=np.float64)
                times = [_time(scored.document) for scored in found]
                yield _Pool(scores, np.array(times, dtype=np.int64), found.__getitem__)
            return
        documents = self.retriever.documents
        for rows, scores in zip(*self.retriever.search(queries, depth), strict=True):
            size = int(np.count_nonzero(rows >= 0))
            yield _Pool(scores[:size], self._times[rows[:size]], _RowItem(documents, rows, scores))

    @cached_property
    def _times(self) -> npt.NDArray[np.int64]:
        """The times of the wrapped retriever's corpus, row by row."""
        assert isinstance(self.retriever, RowSearcher)  # noqa: S101  (asked by _pools alone)
        return np.array([_time(document) for document in self.retriever.documents], dtype=np.int64)

    def _best(
        self, query: Query, pool: _Pool, depth: int, top_k: int
    ) -> tuple[list[ScoredDocument], bool]:
        """The first k of a pool, and whether no document outside of it could change them."""
        allowed = self._allowed(query, pool.times)
        values, order = self._ordered(query, pool.scores[allowed], pool.times[allowed])
        places = allowed[order]
        picked: list[ScoredDocument] = []
        seen: set[object] = set()
        value = 0.0
        for value, place in zip(values.tolist(), places.tolist(), strict=True):
            item = pool.item(place)
            if self.distinct_facts:
                key = _undated(item.document)
                if key in seen:
                    continue
                seen.add(key)
            found_by = item.found_by or (RuleHit(None, place + 1, item.score),)
            picked.append(ScoredDocument(item.document, value, len(picked) + 1, found_by))
            if len(picked) == top_k:
                break
        # Outside of the pool no score is above its last one, and no order lifts a document
        # above its score.
        exhausted = len(pool.scores) < depth
        return picked, exhausted or (len(picked) == top_k and value > pool.scores[-1])

    def _allowed(self, query: Query, times: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
        """The places of documents that the query's time allows; all for an undated query."""
        if query.timestamp is None:
            return np.arange(len(times))
        before = times < query.timestamp if self.strict else times <= query.timestamp
        return np.flatnonzero(before | (times == _UNDATED))

    def _ordered(
        self, query: Query, scores: npt.NDArray[np.float64], times: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.intp]]:
        """Values, best first, and the places that they come from; as found for undated queries."""
        if query.timestamp is None:
            return scores, np.arange(len(scores))
        values = scores
        if self.order == "decay":
            now = query.timestamp
            age = (now - np.where(times == _UNDATED, now, times)) / self.time_unit
            kept = np.exp(-self.decay * age)
            # An age so great that nothing is kept of a score would divide a negative one by 0.
            values = np.where(scores >= 0, scores * kept, scores / np.maximum(kept, 1e-300))
        order = np.lexsort((-times, -values))
        return values[order], order


class _RowItem:
    """Builds the results of one query from rows, only those that are asked for."""

    __slots__ = ("_documents", "_rows", "_scores")

    def __init__(
        self,
        documents: Sequence[Document],
        rows: npt.NDArray[np.int64],
        scores: npt.NDArray[np.float64],
    ) -> None:
        self._documents, self._rows, self._scores = documents, rows, scores

    def __call__(self, place: int) -> ScoredDocument:
        score = float(self._scores[place])
        hit = RuleHit(None, place + 1, score)
        return ScoredDocument(self._documents[self._rows[place]], score, place + 1, (hit,))


def _time(document: Document) -> int:
    time = document.timestamp
    return _UNDATED if time is None else time


def _undated(document: Document) -> object:
    """What makes two documents the same but for their time; unknown content is its own kind."""
    if not document.facts:
        return document.id
    return frozenset((fact.subject, fact.relation, fact.object) for fact in document.facts)
