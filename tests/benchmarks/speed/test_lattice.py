from __future__ import annotations

import random

import pytest

from benchmarks.speed.lattice import CASES, algorithm_1, is_yes, measure
from tests.fakes import brute_force, subset_of


def test_the_transcription_is_the_algorithm() -> None:
    chance = random.Random(0)
    for _ in range(100):
        num_sources = chance.randrange(6)
        truth = {subset_of(m): chance.random() < 0.8 for m in range(1 << num_sources)}
        found = algorithm_1(
            range(num_sources), is_yes, lambda kept, t=truth: "yes" if t[kept] else "no"
        )
        valid, _ = brute_force(num_sources, lambda m, t=truth: t[subset_of(m)], "retention")
        assert found == valid


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_case_is_measured_and_compared(case: str) -> None:
    row = measure(case, 10, baseline=True, repeats=1)
    assert row["wall_ratio"] > 0 and row["probes"] >= row["valid"]
