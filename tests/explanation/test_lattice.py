from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, strategies as st

from rulerag.explanation import lattice


@given(st.sets(st.integers(0, 200)))
def test_mask_and_indices_are_inverse(indices: set[int]) -> None:
    assert lattice.indices_of(lattice.mask_of(indices)) == tuple(sorted(indices))


@pytest.mark.parametrize("num_sources", [0, 1, 5, 16, 18, 33, 70])
def test_bits_and_kept_indices_are_those_of_the_masks(num_sources: int) -> None:
    chance = random.Random(0)
    masks = [chance.randrange(1 << num_sources) for _ in range(50)]
    assert lattice.kept_indices(masks, num_sources) == [lattice.indices_of(m) for m in masks]
    table = lattice.bits(masks, num_sources)
    assert [tuple(np.flatnonzero(row)) for row in table] == [lattice.indices_of(m) for m in masks]


@given(st.sets(st.integers(0, 63), max_size=12))
def test_minimal_elements_hold_no_other_and_lie_in_all(masks: set[int]) -> None:
    minimal = lattice.minimal_elements(masks)
    assert minimal <= masks
    assert minimal == {m for m in masks if not any(o != m and o & m == o for o in masks)}


def hitting_sets(edges: set[int], num_sources: int) -> set[int]:
    hits = [m for m in range(1 << num_sources) if all(m & edge for edge in edges)]
    return {m for m in hits if not any(h != m and h & m == h for h in hits)}


def test_minimal_transversals_against_brute_force() -> None:
    chance = random.Random(0)
    for _ in range(1000):
        edges = {chance.randrange(64) for _ in range(chance.randrange(12))}
        found = list(lattice.minimal_transversals(edges))
        assert len(found) == len(set(found)) and set(found) == hitting_sets(edges, 6)


def test_minimal_transversals_at_the_edges() -> None:
    assert set(lattice.minimal_transversals([])) == {0}
    assert set(lattice.minimal_transversals([0])) == set()
    assert set(lattice.minimal_transversals([0b101, 0])) == set()


@given(st.sets(st.integers(1, 127), max_size=10))
def test_transversals_of_transversals_are_the_minimal_edges(edges: set[int]) -> None:
    back = lattice.minimal_transversals(lattice.minimal_transversals(edges))
    assert set(back) == lattice.minimal_elements(edges)


@pytest.mark.parametrize("count", [6, 20])
def test_random_masks_are_new_and_as_many_as_there_are(count: int) -> None:
    known = set(range(0, 64, 2))
    found = lattice.random_masks(count, 40, random.Random(1), known, listed=16)
    assert len(found) == len(set(found)) == (32 if count == 6 else 40)
    assert not known & set(found) and max(found) < 1 << count


# --- truth tables ------------------------------------------------------------------------------


def as_masks(members: set[int]) -> np.ndarray:
    return np.array(sorted(members), dtype=np.int64)


@given(
    st.integers(0, 7).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, 2**n - 1))))
)
def test_tables_and_masks_are_inverse(case: tuple[int, set[int]]) -> None:
    num_sources, members = case
    table = lattice.table_of(as_masks(members), num_sources)
    assert table == sum(1 << m for m in members)
    assert lattice.masks_of(table, num_sources).tolist() == sorted(members)


@pytest.mark.parametrize("num_sources", range(1, 8))
def test_one_level_down_against_sets(num_sources: int) -> None:
    chance = random.Random(num_sources)
    for size in range(num_sources + 1):
        whole = [m for m in range(1 << num_sources) if m.bit_count() == size]
        for _ in range(20):
            parents = {m for m in whole if chance.random() < 0.7}
            below = {
                m
                for m in range(1 << num_sources)
                if m.bit_count() == size - 1
                and all(m | 1 << i in parents for i in range(num_sources) if not m >> i & 1)
            }
            table = lattice.table_of(as_masks(parents), num_sources)
            found = lattice.children(table, num_sources)
            assert set(lattice.masks_of(found, num_sources).tolist()) == below
            some = {m for m in below if chance.random() < 0.5}
            left = lattice.without_child(
                table, lattice.table_of(as_masks(some), num_sources), num_sources
            )
            assert set(lattice.masks_of(left, num_sources).tolist()) == {
                p for p in parents if not any(p ^ 1 << i in some for i in lattice.indices_of(p))
            }
