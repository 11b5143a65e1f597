"""How much memory AMIE's joins need, estimated before they start."""

from __future__ import annotations

import numpy as np

from rulerag.arrays import Longs
from rulerag.mining.indexes import StaticIndex

# Bytes, measured on random graphs of up to ten million facts and rounded up.
_PER_DIRECTED_FACT = 80
_PER_ENTITY = 24
_PER_TABLE_SLOT = 24
_PER_CANDIDATE = 200
_BLOCKS = 100_000_000  # intermediate results of joins by columns, and the compiler


def amie_memory(index: StaticIndex, min_support: Longs, max_atoms: int, threads: int) -> int:
    """An upper estimate of the bytes that AMIE's joins need beyond what is in use.

    Args:
        index: the graph.
        min_support: int64 array of shape (R,), least support by head; 0 leaves a head out.
        max_atoms: atoms of a rule with its head.
        threads: kernels that run at once; each has tables of its own.
    """
    total = _BLOCKS + 2 * index.num_facts * _PER_DIRECTED_FACT + index.num_entities * _PER_ENTITY
    if max_atoms < 3 or not min_support.any():
        return total
    # A body of a head's fact (x, y) passes an entity that x and y share, so the smaller degree
    # bounds them; and there are no more bodies than pairs of directed relations.
    degree = np.bincount(index.source, minlength=index.num_entities)
    forward = slice(0, index.num_facts)
    shared = np.minimum(degree[index.source[forward]], degree[index.target[forward]])
    visits = np.bincount(index.relation[forward], shared, index.num_relations)
    in_use = np.count_nonzero(np.diff(index.group_bounds))
    bodies = np.minimum(visits, 1.5 * in_use**2)
    tables = np.sort(bodies[min_support > 0])[-threads:].sum() * 4 * _PER_TABLE_SLOT
    kept = np.minimum(bodies, visits / np.maximum(min_support, 1))[min_support > 0].sum()
    buffers = threads * index.num_entities * _PER_ENTITY
    return total + int(tables) + int(kept) * _PER_CANDIDATE + buffers
