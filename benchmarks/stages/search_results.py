"""What a retriever found for every query, as arrays, and the measures of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.stages.answers import EntityMatcher
from rulerag.arrays import Doubles, Ints
from rulerag.errors import DataFormatError
from rulerag.evaluation import AnswerMatcher
from rulerag.io import atomic_write
from rulerag.ruleqa import RuleQADataset
from rulerag.types import Query, ScoredDocument

SEARCH_CUTOFFS = (1, 2, 5, 10, 50)
"""The k of answer recall among the k best documents; up to 10 for the union."""
DEPTH = 50
"""Documents kept of each query's best."""
UNION_K = 10
"""Documents of each search of the union: the paper's k."""
_WITHIN = tuple(k for k in SEARCH_CUTOFFS if k <= UNION_K)
_KINDS = ("answer_recall", "entity_recall")
RETRIEVAL_MEASURES = frozenset(
    {
        "recall@10",
        *(f"{kind}@{k}" for kind in _KINDS for k in SEARCH_CUTOFFS),
        *(f"{name}@{k}_union" for name in (*_KINDS, "documents") for k in _WITHIN),
    }
)
"""What :meth:`SearchResults.measure` gives; a record that lacks one is measured again."""


@dataclass(frozen=True)
class SearchResults:
    """The results of one retriever for n queries.

    Args:
        best: shape (n, :data:`DEPTH`), corpus rows of the best documents, -1 where there are fewer.
        union: corpus rows of every query's union, one query after another.
        depth: for each row of the union its best rank, from 1, in any search that found it.
        ends: shape (n + 1,), where each query's part of the union begins and ends.
    """

    best: Ints
    union: Ints
    depth: Ints
    ends: npt.NDArray[np.int64]

    @classmethod
    def collect(
        cls,
        best: Sequence[Sequence[ScoredDocument]],
        unions: Sequence[Sequence[ScoredDocument]] | None,
        row_of: Mapping[str, int],
    ) -> SearchResults:
        """From the lists of a retriever; plain retrieval has no union but its first ten.

        Args:
            best: the best documents of each query.
            unions: the whole union of each query; None for plain retrieval.
            row_of: the corpus row of a document id.
        """
        rows = np.full((len(best), DEPTH), -1, dtype=np.int32)
        for place, documents in enumerate(best):
            documents_rows = [row_of[scored.document.id] for scored in documents[:DEPTH]]
            rows[place, : len(documents_rows)] = documents_rows
        union: list[int] = []
        depth: list[int] = []
        ends = [0]
        for documents in unions if unions is not None else [d[:UNION_K] for d in best]:
            plain = unions is None
            for scored in documents:
                union.append(row_of[scored.document.id])
                ranks = () if plain else [hit.rank for hit in scored.found_by]
                depth.append(min(ranks) if ranks else scored.rank)
            ends.append(len(union))
        return cls(
            rows,
            np.array(union, dtype=np.int32),
            np.array(depth, dtype=np.int32),
            np.array(ends, dtype=np.int64),
        )

    def save(self, path: str | Path) -> None:
        """Write a compressed NumPy archive, whole or not at all."""
        with atomic_write(path, "wb") as file:
            np.savez_compressed(
                file, best=self.best, union=self.union, depth=self.depth, ends=self.ends
            )

    @classmethod
    def load(cls, path: str | Path) -> SearchResults:
        """Read what :meth:`save` wrote.

        Raises:
            DataFormatError: the file is something else.
        """
        try:
            with np.load(path) as held:
                return cls(held["best"], held["union"], held["depth"], held["ends"])
        except (OSError, KeyError, ValueError) as error:
            raise DataFormatError(
                f"holds no results ({error})", path=path, hint="remove it and run the row again"
            ) from error

    def measure(self, queries: Sequence[Query], dataset: RuleQADataset) -> dict[str, Doubles]:
        """One value a query of each measure, arrays of shape (n,).

        ``answer_recall@k`` at equal budget; ``answer_recall@k_union`` over the untrimmed union of
        every search's first k (RuleRAG, arXiv:2410.22353, section 4.3), with
        ``documents@k_union``, its size; ``entity_recall@k`` and ``entity_recall@k_union``, the
        same by the facts that documents state; ``recall@10`` against the judgements, not a number
        where a query has none.

        Args:
            queries: in order.
            dataset: whose corpus the rows are of.
        """
        corpus = dataset.corpus
        by_entity = EntityMatcher(dataset.labels["entities"])
        matchers: tuple[AnswerMatcher | EntityMatcher, ...] = (AnswerMatcher(), by_entity)
        first = np.full((len(matchers), len(queries)), np.inf)
        deepest = np.full((len(matchers), len(queries)), np.inf)
        judged = np.full(len(queries), np.nan)
        qrels = dataset.qrels_for(queries)
        for place, query in enumerate(queries):
            rows = self.best[place][self.best[place] >= 0].tolist()
            union, depth = self.union_of(place)
            order = np.argsort(depth, kind="stable")
            for kind, one in enumerate(matchers):
                rank = one.first_rank((corpus[row] for row in rows), query.answers)
                first[kind, place] = np.inf if rank is None else rank
                rank = one.first_rank((corpus[row] for row in union[order]), query.answers)
                deepest[kind, place] = np.inf if rank is None else depth[order][rank - 1]
            wanted = {one for one, grade in qrels.get(query.id, {}).items() if grade > 0}
            if wanted:
                ten = {corpus[row].id for row in rows[:10]}
                judged[place] = len(ten & wanted) / len(wanted)
        values: dict[str, Doubles] = {}
        for kind, name in enumerate(_KINDS):
            for k in SEARCH_CUTOFFS:
                values[f"{name}@{k}"] = (first[kind] <= k).astype(float)
            for k in _WITHIN:
                values[f"{name}@{k}_union"] = (deepest[kind] <= k).astype(float)
        for k in _WITHIN:
            inside = np.concatenate([[0], np.cumsum(self.depth <= k)])[self.ends]
            values[f"documents@{k}_union"] = np.diff(inside).astype(float)
        values["recall@10"] = judged
        return values

    def union_of(self, place: int) -> tuple[Ints, Ints]:
        """Rows and depths of one query's union."""
        part = slice(int(self.ends[place]), int(self.ends[place + 1]))
        return self.union[part], self.depth[part]


def mean_columns(values: Mapping[str, Doubles]) -> dict[str, float]:
    """The mean of every measure over the queries that have a value."""
    return {
        name: float(np.nanmean(column)) if not np.isnan(column).all() else float("nan")
        for name, column in values.items()
    }
