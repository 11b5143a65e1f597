"""Bodies of one atom by sparse matrices: no compiled code, so small graphs start at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rulerag.mining.amie.candidates import CandidateRules, Shape
from rulerag.mining.indexes import functional_on_object

if TYPE_CHECKING:
    from rulerag.arrays import Longs
    from rulerag.mining.indexes import StaticIndex


def one_atom_candidates(index: StaticIndex, min_support: Longs) -> CandidateRules:
    """Every one-atom body with enough support, counted, sorted by head and body.

    Args:
        index: the graph.
        min_support: int64 array of shape (R,), least support of each head; heads with 0 are left
            out.
    """
    from scipy.sparse import csr_array

    directed = 2 * index.num_relations
    ones = np.ones(len(index.pair_relation), np.int32)
    pairs = csr_array(
        (ones, index.pair_relation, index.pair_starts), (len(index.pair_target), directed)
    )
    heads = np.flatnonzero(min_support)
    # How many pairs of entities a head and another relation share.
    shared = (pairs.T.tocsr()[heads] @ pairs).tocoo()
    head, body = heads[shared.row], shared.col.astype(np.int64)
    enough = (shared.data >= min_support[head]) & (head != body)
    head, body, support = head[enough], body[enough], shared.data[enough].astype(np.int64)
    order = np.lexsort((body, head))
    head, body, support = head[order], body[order], support[order]

    degrees = csr_array(
        (np.diff(index.group_starts), index.group_source, index.group_bounds),
        (directed, index.num_entities),
    )
    # The body's facts whose functional end starts a fact of the head too.
    flip = functional_on_object(index)[head]
    known = np.where(flip, index.inverse(head), head), np.where(flip, index.inverse(body), body)
    heads, rows = np.unique(known[0], return_inverse=True)
    sizes = (degrees[heads].astype(bool).astype(np.int64) @ degrees.T).toarray()
    pca_body_size = sizes[rows, known[1]]
    none = np.full_like(head, -1)
    body_size = np.diff(index.relation_bounds)[body]
    shape = np.full_like(head, Shape.ATOM)
    return CandidateRules(head, shape, body, none, none, support, pca_body_size, body_size)
