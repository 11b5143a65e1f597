from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulerag.explanation import lattice


@given(st.sets(st.integers(0, 200)))
def test_mask_and_indices_are_inverse(indices: set[int]) -> None:
    assert lattice.indices_of(lattice.mask_of(indices)) == tuple(sorted(indices))


@pytest.mark.parametrize("size", range(-1, 8))
def test_a_level_holds_every_subset_of_its_size_in_order(size: int) -> None:
    masks = list(lattice.level(6, size))
    assert masks == sorted(m for m in range(64) if m.bit_count() == size)
    assert len(masks) == (math.comb(6, size) if size >= 0 else 0)


def test_levels_of_large_lattices_are_lazy_and_exact() -> None:
    first = next(lattice.level(100, 40))
    assert first == (1 << 40) - 1


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
