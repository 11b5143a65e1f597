"""Time-aware retrieval: nothing from after the query's time, and recent documents first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from rulerag.cache import remembered_arrays
from rulerag.composition import Settings, check_choice, check_range, register
from rulerag.errors import RetrievalError
from rulerag.io import StoredRecords, fingerprint_object
from rulerag.retrieval.base.corpus import (
    RetrievedRows,
    Rows,
    RowSearcher,
    check_top_k,
)
from rulerag.retrieval.base.deduplicate import statement_of
from rulerag.types import Document, Query, RuleHit, ScoredDocument

if TYPE_CHECKING:
    from rulerag.protocols import Retriever

_ORDERS = ("recent", "decay")
# Before every date; one above the least integer, so that its negative is still an integer.
_UNDATED = int(np.iinfo(np.int64).min) + 1
_DEEPEN = 4  # how much deeper an unsettled query is searched again


class TimeAwareSettings(Settings):
    """The settings of :class:`TimeAwareRetriever`.

    Args:
        order: ``recent`` or ``decay``.
        decay: how fast age costs, per time unit; for ``decay`` only.
        strict: also drop documents of the query's own time.
        pool: the search depth: documents that the wrapped retriever is asked for at first.
        max_pool: the largest depth.
        distinct_facts: of documents that state the same facts at different times, keep the one
            that stands first in the order.

    Raises:
        ConfigError: a setting is unknown or out of range.
    """

    order: str = "recent"
    decay: float = Field(default=0.01, ge=0)
    strict: bool = True
    pool: int = Field(default=100, ge=1)
    max_pool: int = 1600
    distinct_facts: bool = False

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_choice("order", self.order, _ORDERS)
        check_range("max_pool", self.max_pool, self.pool, hint=f"pool ({self.pool}) or more")
        return self


@register("retriever", "time_aware")
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

    The wrapped retriever searches deeper than needed. Where a document below that depth could still
    enter the first k, the query is searched again, four times as deep, up to ``max_pool``; below
    that depth the order is exact.

    Each result's hit carries the rank and score of the wrapped search; its own rank and score are
    those of the order above.

    Args:
        retriever: the retriever to wrap.
        time_unit: timestamps per unit of age, for example 24 to count hours in days.
        settings: all settings together.
        changes: settings one by one, fields of :class:`TimeAwareSettings`.

    Raises:
        ConfigError: a setting is unknown or out of range.
    """

    def __init__(
        self,
        retriever: Retriever,
        *,
        time_unit: int = 1,
        settings: TimeAwareSettings | None = None,
        **changes: Any,
    ) -> None:
        check_range("time_unit", time_unit, 1)
        self.retriever = retriever
        self.time_unit = time_unit
        self.settings = TimeAwareSettings.joined(settings, changes)

    def __repr__(self) -> str:
        return f"TimeAwareRetriever({self.retriever!r}, order={self.settings.order!r})"

    @cached_property
    def fingerprint(self) -> str:
        """Names the wrapped retriever and every setting that changes results."""
        chosen = self.settings
        settings = [chosen.order, chosen.strict, chosen.pool, chosen.max_pool]
        settings += [chosen.distinct_facts]
        if chosen.order == "decay":
            settings += [chosen.decay, self.time_unit]
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
        depth, deepest = max(self.settings.pool, top_k), max(self.settings.max_pool, top_k)
        while pending:
            unsettled = []
            deep = self._search_deep([queries[i] for i in pending], depth)
            for i, found in zip(pending, deep, strict=True):
                results[i], settled = self._best(queries[i], found, depth, top_k)
                if not settled:
                    unsettled.append(i)
            if depth >= deepest:
                break
            pending, depth = unsettled, min(depth * _DEEPEN, deepest)
        return results

    def _search_deep(self, queries: Sequence[Query], depth: int) -> Iterator[_DeepSearch]:
        """What the wrapped retriever finds, in rows where it can answer in rows."""
        searcher = row_searcher(self.retriever)
        if searcher is not None:
            rows, scores = searcher.search(queries, depth)
            documents, times = searcher.documents, self._times
            found: Sequence[Sequence[ScoredDocument]] = [()] * len(queries)
        else:
            lists = RetrievedRows(self.retriever)
            rows, scores = lists.search(queries, depth)
            documents, found = lists.documents, lists.found
            times = _times_of(documents)
        for line, listed in enumerate(found):
            kept = rows[line][rows[line] >= 0]
            yield _DeepSearch(kept, scores[line, : len(kept)], times[kept], documents, listed)

    def _best(
        self, query: Query, found: _DeepSearch, depth: int, top_k: int
    ) -> tuple[list[ScoredDocument], bool]:
        """The first k of a deep search, and whether no document below it could change them."""
        allowed = self._allowed(query, found.times)
        values, order = self._ordered(query, found.scores[allowed], found.times[allowed])
        picked: list[ScoredDocument] = []
        seen: set[object] = set()
        value = 0.0
        for value, index in zip(values.tolist(), allowed[order].tolist(), strict=True):
            document = found.documents[found.rows[index]]
            if self.settings.distinct_facts:
                key = statement_of(document)
                if key in seen:
                    continue
                seen.add(key)
            hits = found.records[index].found_by if found.records else ()
            hits = hits or (RuleHit(None, index + 1, float(found.scores[index])),)
            picked.append(ScoredDocument(document, value, len(picked) + 1, hits))
            if len(picked) == top_k:
                break
        # Below that depth no score is above its last one, and no order lifts a document
        # above its score.
        exhausted = len(found.scores) < depth
        return picked, exhausted or (len(picked) == top_k and value > found.scores[-1])

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
        searcher = row_searcher(self.retriever)
        if searcher is None:
            raise RetrievalError(
                f"{type(self.retriever).__name__} cannot answer in rows",
                hint="wrap a BM25Retriever or a LuceneRetriever",
            )
        width = min(depth, len(self._times))
        rows = np.full((len(queries), width), -1, dtype=np.int64)
        scores = np.zeros((len(queries), width), dtype=np.float64)
        pending, deepest = list(range(len(queries))), max(self.settings.max_pool, depth)
        while pending:
            short = []
            found = searcher.search([queries[i] for i in pending], depth)
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

    @cached_property
    def _times(self) -> npt.NDArray[np.int64]:
        """The times of the wrapped retriever's corpus, row by row."""
        return _times_of(self.documents)

    def _allowed(self, query: Query, times: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
        """The indices of documents that the query's time allows; all for an undated query."""
        if query.timestamp is None:
            return np.arange(len(times))
        before = times < query.timestamp if self.settings.strict else times <= query.timestamp
        return np.flatnonzero(before | (times == _UNDATED))

    def _ordered(
        self, query: Query, scores: npt.NDArray[np.float64], times: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.intp]]:
        """Values, best first, and the indices that they come from; as found for undated queries."""
        if query.timestamp is None:
            return scores, np.arange(len(scores))
        values = scores
        if self.settings.order == "decay":
            now = query.timestamp
            age = (now - np.where(times == _UNDATED, now, times)) / self.time_unit
            kept = np.exp(-self.settings.decay * age)
            # An age so great that nothing is kept of a score would divide a negative one by 0.
            values = np.where(scores >= 0, scores * kept, scores / np.maximum(kept, 1e-300))
        order = np.lexsort((-times, -values))
        return values[order], order


def row_searcher(retriever: Retriever) -> RowSearcher | None:
    """The retriever, where it can answer in rows: a wrapper can where what it wraps can."""
    inner = retriever
    while isinstance(inner, TimeAwareRetriever):
        inner = inner.retriever
    return retriever if isinstance(inner, RowSearcher) else None  # type: ignore[return-value]


class _DeepSearch(NamedTuple):
    """What one query found, best first: rows, scores and times of shape (n,).

    Args:
        rows: of the documents.
        scores: of the wrapped search.
        times: of the documents.
        documents: what the rows are of.
        records: the same as records, where the wrapped retriever gave records.
    """

    rows: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float64]
    times: npt.NDArray[np.int64]
    documents: Sequence[Document]
    records: Sequence[ScoredDocument]


def _times_of(documents: Sequence[Document]) -> npt.NDArray[np.int64]:
    """The time of each document."""
    if isinstance(documents, StoredRecords):
        key = ["times", documents.fingerprint]
        return remembered_arrays("datasets", key, lambda: {"t": _times_of(list(documents))})["t"]
    times = [document.timestamp for document in documents]
    return np.array([_UNDATED if time is None else time for time in times], dtype=np.int64)
