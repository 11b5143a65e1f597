from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulerag.explanation import lattice

MASKS = st.sets(st.integers(0, 63), max_size=12)


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


@given(MASKS)
def test_up_and_down_sets(masks: set[int]) -> None:
    everything = range(64)
    assert lattice.up_set(masks, 6) == {m for m in everything if any(x & m == x for x in masks)}
    assert lattice.down_set(masks) == {m for m in everything if any(x & m == m for x in masks)}


@given(MASKS)
def test_extremal_elements_are_antichains_that_span_the_same_sets(masks: set[int]) -> None:
    minimal, maximal = lattice.minimal_elements(masks), lattice.maximal_elements(masks)
    assert lattice.is_antichain(minimal) and lattice.is_antichain(maximal)
    assert lattice.up_set(minimal, 6) == lattice.up_set(masks, 6)
    assert lattice.down_set(maximal) == lattice.down_set(masks)
    assert lattice.is_antichain(masks) == (minimal == masks)


def hitting_sets(edges: set[int], num_sources: int) -> set[int]:
    hits = [m for m in range(1 << num_sources) if all(m & edge for edge in edges)]
    return {m for m in hits if not any(h != m and h & m == h for h in hits)}


def test_minimal_transversals_against_brute_force() -> None:
    chance = random.Random(0)
    for _ in range(1000):
        edges = {chance.randrange(64) for _ in range(chance.randrange(12))}
        assert lattice.minimal_transversals(edges) == hitting_sets(edges, 6)


def test_minimal_transversals_at_the_edges() -> None:
    assert lattice.minimal_transversals([]) == {0}
    assert lattice.minimal_transversals([0]) == set()
    assert lattice.minimal_transversals([0b101, 0]) == set()


@given(st.sets(st.integers(1, 127), max_size=10))
def test_transversals_of_transversals_are_the_minimal_edges(edges: set[int]) -> None:
    back = lattice.minimal_transversals(lattice.minimal_transversals(edges))
    assert back == lattice.minimal_elements(edges)
