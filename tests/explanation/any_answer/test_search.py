"""Which sets decide among many documents: found and shown, together or each by itself."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from rulerag.explanation.any_answer.search import Found, SharedDraws, search_claim
from rulerag.explanation.probing import ProbeEngine

SIZES = ((1,), (2, 2), (2, 2, 3, 3))


def planted(sizes: Sequence[int], seed: int, count: int = 50) -> list[frozenset[int]]:
    places = random.Random(seed).sample(range(count), sum(sizes))
    return [frozenset(places.pop() for _ in range(size)) for size in sizes]


def searched(
    sets: Sequence[frozenset[int]], seed: int, *, count: int = 50, **changes: bool
) -> tuple[Found, int]:
    def answer(batch: Sequence[tuple[int, ...]]) -> list[str]:
        return ["yes" if any(one <= set(kept) for one in sets) else "no" for kept in batch]

    engine = ProbeEngine.from_function(answer, num_sources=count)
    draws = SharedDraws(count, 0.95, 0.95, seed, **changes)
    return search_claim(engine, lambda output: output == "yes", draws), engine.num_probes


@pytest.mark.parametrize(
    ("each", "most"), [(False, (75, 100, 165)), (True, (100, 185, 440))], ids=["together", "each"]
)
def test_planted_sets_are_found_and_shown_with_few_questions(
    each: bool, most: tuple[int, ...]
) -> None:
    for sizes, limit in zip(SIZES, most, strict=True):
        for seed in range(8):
            sets = planted(sizes, seed)
            found, asked = searched(sets, seed, each=each)
            assert set(found.retention) == set(sets) and found.complete and asked <= limit
            assert all(one.certificate.bound >= 0.95 - 1e-9 for one in found.retention)
            assert {one.certificate.samples for one in found.retention} <= set(range(59, 64))


def test_twenty_single_documents_share_their_draws() -> None:
    sets = planted([1] * 20, 4)
    found, asked = searched(sets, 4, each=True)
    _, search_alone = searched(sets, 4)
    assert set(found.retention) == set(sets) and found.complete
    assert asked - (search_alone - 63) <= 240


def test_a_set_that_does_not_always_hold_falls_and_its_spoiler_is_found() -> None:
    """D3 is enough where D7 is lacking; D3 with D9 is enough always."""

    def answer(batch: Sequence[tuple[int, ...]]) -> list[str]:
        return ["yes" if 3 in kept and (7 not in kept or 9 in kept) else "no" for kept in batch]

    for each in (False, True):
        engine = ProbeEngine.from_function(answer, num_sources=20)
        draws = SharedDraws(20, 0.95, 0.95, 0, each=each)
        found = search_claim(engine, lambda output: output == "yes", draws)
        assert [(one.documents, one.enough) for one in found.spoilers] == [((7,), (3,))]
        assert frozenset({3, 9}) in found.retention
        assert frozenset({3}) not in found.retention


def test_nothing_is_shown_about_an_answer_by_chance() -> None:
    rng = random.Random(0)
    engine = ProbeEngine.from_function(
        lambda batch: [rng.choice(["yes", "no"]) for _ in batch], num_sources=30, max_probes=2000
    )
    found = search_claim(engine, lambda output: output == "yes", SharedDraws(30, 0.95, 0.95, 0))
    assert not found.complete


def test_a_budget_keeps_what_is_certain_of_a_small_lattice() -> None:
    """Six documents: the sets are known before every subset is; a budget between loses none."""
    sets = [frozenset({0, 1, 2})]

    def answer(batch: Sequence[tuple[int, ...]]) -> list[str]:
        return ["yes" if any(one <= set(kept) for one in sets) else "no" for kept in batch]

    known = []
    for most in range(3, 65):
        engine = ProbeEngine.from_function(answer, num_sources=6, max_probes=most)
        found = search_claim(engine, lambda out: out == "yes", SharedDraws(6, 0.95, 0.95, 0))
        assert found.complete == (most == 64) and bool(found.stopped) == (most < 64)
        assert set(found.retention) <= set(sets)
        known.append(len(found.retention))
    assert known == sorted(known) and 1 in known[:-2]  # before the last subsets are made
