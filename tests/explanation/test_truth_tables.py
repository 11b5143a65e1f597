from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulerag.explanation import lattice as tables
from rulerag.explanation.lattice import SubsetFamily, indices_of, level


def as_masks(members: set[int]) -> np.ndarray:
    return np.array(sorted(members), dtype=np.int64)


@given(
    st.integers(0, 7).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, 2**n - 1))))
)
def test_tables_and_masks_are_inverse(case: tuple[int, set[int]]) -> None:
    num_sources, members = case
    table = tables.table_of(as_masks(members), num_sources)
    assert table == sum(1 << m for m in members)
    assert tables.masks_of(table, num_sources).tolist() == sorted(members)


@pytest.mark.parametrize("num_sources", range(1, 8))
def test_one_level_down_against_sets(num_sources: int) -> None:
    chance = random.Random(num_sources)
    for size in range(num_sources + 1):
        whole = list(level(num_sources, size))
        for _ in range(20):
            parents = {m for m in whole if chance.random() < 0.7}
            below = {
                m
                for m in (level(num_sources, size - 1) if size else ())
                if all(m | 1 << i in parents for i in range(num_sources) if not m >> i & 1)
            }
            table = tables.table_of(as_masks(parents), num_sources)
            found = tables.children(table, num_sources)
            assert set(tables.masks_of(found, num_sources).tolist()) == below
            some = {m for m in below if chance.random() < 0.5}
            left = tables.without_child(
                table, tables.table_of(as_masks(some), num_sources), num_sources
            )
            assert set(tables.masks_of(left, num_sources).tolist()) == {
                p for p in parents if not any(p ^ 1 << i in some for i in indices_of(p))
            }


@pytest.mark.parametrize("num_sources", [0, 1, 5, 16, 18, 33, 70])
def test_kept_indices_ascend(num_sources: int) -> None:
    chance = random.Random(0)
    masks = [chance.randrange(1 << num_sources) for _ in range(50)]
    assert tables.kept_indices(masks, num_sources) == [indices_of(m) for m in masks]


def test_a_family_is_a_set_of_frozensets() -> None:
    members = [0b101, 0b010, 0]
    family = SubsetFamily(np.array(members))
    plain = {frozenset({0, 2}), frozenset({1}), frozenset()}
    assert family == plain and plain == family and len(family) == 3
    assert set(family) == plain and family == SubsetFamily(as_masks(set(members)))
    assert frozenset({1}) in family and {1} in family
    assert frozenset({0}) not in family and "x" not in family and frozenset({99}) not in family
    assert family != {frozenset({1})} and family == SubsetFamily(np.array(members[::-1]))
    assert plain <= family <= plain and {frozenset({1})} < family
    assert family - {frozenset()} == {frozenset({0, 2}), frozenset({1})}
    assert family & {frozenset({1}), frozenset({7})} == {frozenset({1})}
    assert "{0, 2}" in repr(family)
