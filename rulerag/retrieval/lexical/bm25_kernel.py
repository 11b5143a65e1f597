"""The compiled inner loop of BM25 search: exact best documents with ties in corpus order."""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt


@numba.njit(nogil=True, cache=True)
def best_documents(
    data: npt.NDArray[np.float32],
    indices: npt.NDArray[np.int32],
    starts: npt.NDArray[np.int64],
    tokens: npt.NDArray[np.int64],
    weights: npt.NDArray[np.float64],
    bounds: npt.NDArray[np.int64],
    num_documents: int,
    rows: npt.NDArray[np.int64],
    scores: npt.NDArray[np.float64],
) -> None:
    """Fill ``rows`` and ``scores`` with the best documents of every query.

    Scores are sums over the query's tokens of weight times the stored token-document score. Of
    documents with one score the earlier in the corpus comes first, at any depth: a heap whose
    root is the worst kept document (lowest score, then latest row) sees rows in corpus order and
    lets a new one in only when its score is strictly higher.

    Args:
        data: shape (n_entries,), token-document scores, column by column.
        indices: shape (n_entries,), the document row of each entry.
        starts: shape (n_tokens + 1,), where each token's column starts.
        tokens: shape (n_query_tokens,), distinct token ids of all queries, one after another.
        weights: shape (n_query_tokens,), how often each occurs in its query.
        bounds: shape (n_queries + 1,), where each query's tokens start.
        num_documents: the size of the corpus.
        rows: shape (n_queries, depth), filled with -1 by the caller; written.
        scores: shape (n_queries, depth), filled with 0 by the caller; written.
    """
    depth = rows.shape[1]
    total = np.zeros(num_documents, dtype=np.float64)
    heap_row = np.empty(depth, dtype=np.int64)
    heap_score = np.empty(depth, dtype=np.float64)
    for query in range(bounds.shape[0] - 1):
        first, last = bounds[query], bounds[query + 1]
        if first == last:
            continue
        for position in range(first, last):
            token, weight = tokens[position], weights[position]
            for entry in range(starts[token], starts[token + 1]):
                total[indices[entry]] += weight * data[entry]
        size = 0
        for row in range(num_documents):
            score = total[row]
            total[row] = 0.0
            if score <= 0.0:
                continue
            if size < depth:
                _sift_up(heap_row, heap_score, size, row, score)
                size += 1
            elif score > heap_score[0]:
                _sift_down(heap_row, heap_score, size, row, score)
        # The root is the worst: taking roots fills the ranks from the last to the first.
        for rank in range(size - 1, -1, -1):
            rows[query, rank] = heap_row[0]
            scores[query, rank] = heap_score[0]
            _sift_down(heap_row, heap_score, rank, heap_row[rank], heap_score[rank])


@numba.njit(nogil=True, cache=True, inline="always")
def _worse(score_a: float, row_a: int, score_b: float, row_b: int) -> bool:
    return score_a < score_b or (score_a == score_b and row_a > row_b)


@numba.njit(nogil=True, cache=True)
def _sift_up(
    heap_row: npt.NDArray[np.int64],
    heap_score: npt.NDArray[np.float64],
    node: int,
    row: int,
    score: float,
) -> None:
    while node > 0:
        parent = (node - 1) >> 1
        if not _worse(score, row, heap_score[parent], heap_row[parent]):
            break
        heap_row[node], heap_score[node] = heap_row[parent], heap_score[parent]
        node = parent
    heap_row[node], heap_score[node] = row, score


@numba.njit(nogil=True, cache=True)
def _sift_down(
    heap_row: npt.NDArray[np.int64],
    heap_score: npt.NDArray[np.float64],
    size: int,
    row: int,
    score: float,
) -> None:
    """Put an element at the root of a heap of ``size`` elements."""
    node = 0
    while True:
        child = 2 * node + 1
        if child >= size:
            break
        other = child + 1
        if other < size and _worse(
            heap_score[other], heap_row[other], heap_score[child], heap_row[child]
        ):
            child = other
        if not _worse(heap_score[child], heap_row[child], score, row):
            break
        heap_row[node], heap_score[node] = heap_row[child], heap_score[child]
        node = child
    heap_row[node], heap_score[node] = row, score
