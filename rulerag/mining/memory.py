"""Memory of a join, estimated before it starts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rulerag.errors import MiningError

if TYPE_CHECKING:
    from rulerag.mining.amie_index import DirectedIndex, Longs

__all__ = [
    "Parts",
    "available_memory",
    "check_join_memory",
    "check_memory",
    "check_pairs_memory",
    "check_rules_memory",
    "check_three_memory",
    "estimate_memory",
]

# Bytes, measured on random graphs of up to ten million facts and rounded up.
_PER_DIRECTED_FACT = 80
_PER_ENTITY = 24
_PER_TABLE_SLOT = 24
_PER_CANDIDATE = 200
_PER_PAIR_OF_RELATIONS = 60
_PER_RULE = 1_000
_PER_ROW = 50
_PER_DATED_FACT = 200
_BLOCKS = 100_000_000  # the blocks of joins by columns, and the compiler


def estimate_memory(index: DirectedIndex, min_support: Longs, max_atoms: int, threads: int) -> int:
    """An upper estimate of the bytes that a run needs beyond what is in use.

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
    scratch = threads * index.num_entities * _PER_ENTITY
    if max_atoms > 3:
        # Of the three-atom bodies themselves more is known once their parts are counted.
        scratch += threads * (2 * index.num_relations) ** 2 * _PER_PAIR_OF_RELATIONS
    return total + int(tables) + int(kept) * _PER_CANDIDATE + scratch


def available_memory() -> int | None:
    """Bytes that can be used without swapping; None where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def check_memory(
    index: DirectedIndex,
    min_support: Longs,
    max_atoms: int,
    threads: int,
    max_memory_gb: float | None,
) -> None:
    """Refuse a run whose estimate is above what it may use.

    Raises:
        MiningError: with both numbers and what would help.
    """
    needed = estimate_memory(index, min_support, max_atoms, threads)
    _allow(
        needed,
        max_memory_gb,
        f"mining {index.num_facts:,} facts with {index.num_relations:,} relations needs",
    )


class Parts(NamedTuple):
    """What the three-atom bodies of one head could be made of.

    Args:
        bodies: how many bodies the parts with enough support allow.
        facts: the head's facts.
        min_support: least support of the head.
    """

    bodies: int
    facts: int
    min_support: int

    @classmethod
    def of(cls, bodies: Longs, facts: Longs) -> Parts:
        """From the bodies of each shape, and the facts and least support of the head."""
        return cls(int(bodies.sum()), int(facts[0]), int(facts[1]))


def check_three_memory(parts: list[Parts], threads: int, max_memory_gb: float | None) -> None:
    """Refuse the join of three-atom bodies when their tables would not fit.

    Raises:
        MiningError: with both numbers and what would help.
    """
    bodies = sorted((part.bodies for part in parts), reverse=True)
    needed = sum(bodies[:threads]) * 4 * _PER_TABLE_SLOT + sum(bodies) * _PER_CANDIDATE
    _allow(needed, max_memory_gb, f"counting up to {sum(bodies):,} bodies of three atoms needs")


def check_rules_memory(rules: int, max_memory_gb: float | None) -> None:
    """Refuse to make more rules than the memory holds.

    Raises:
        MiningError: with both numbers and what would help.
    """
    _allow(rules * _PER_RULE, max_memory_gb, f"holding {rules:,} rules needs")


def check_pairs_memory(facts: int, relations: int, max_memory_gb: float | None) -> None:
    """Refuse a count of temporal rules with one body atom that would not fit.

    Args:
        facts: dated facts.
        relations: R; support is counted in a table of 2 R rows and R columns.
        max_memory_gb: what is allowed; the free memory when None.

    Raises:
        MiningError: with both numbers and what would help.
    """
    needed = _BLOCKS + facts * _PER_DATED_FACT + 2 * relations * relations * 16
    _allow(
        needed,
        max_memory_gb,
        f"joining {facts:,} facts of {relations:,} relations needs",
        "raise max_memory_gb, or mine fewer facts (a time window)",
    )


_LESS_STATIC = "raise max_memory_gb or min_head_coverage, lower max_atoms or threads"


def _allow(needed: int, max_memory_gb: float | None, what: str, hint: str = _LESS_STATIC) -> None:
    allowed = available_memory() if max_memory_gb is None else max_memory_gb * 1e9
    if allowed is None or needed <= allowed:
        return
    source = "is free" if max_memory_gb is None else "is allowed (max_memory_gb)"
    raise MiningError(
        f"{what} about {needed / 1e9:.2f} GB and {allowed / 1e9:.2f} GB {source}", hint=hint
    )


def check_join_memory(rows: int, results: int, max_memory_gb: float | None) -> None:
    """Refuse a join of columns that would not fit.

    Args:
        rows: rows to join.
        results: the most that can come of them.
        max_memory_gb: what is allowed; the free memory when None.

    Raises:
        MiningError: with both numbers and what would help.
    """
    needed = rows * _PER_ROW + results * _PER_CANDIDATE
    _allow(needed, max_memory_gb, f"joining {rows:,} rows to up to {results:,} bodies needs")
