"""Tokens that are read where whole blocks of beginnings are kept."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from benchmarks.models.probes import _search_subsets, read_tokens


def test_only_whole_blocks_of_a_beginning_are_kept() -> None:
    one, other = list(range(10)), [*range(6), 99, 98]
    assert read_tokens([one], 4) == 10
    assert read_tokens([one, other], 4) == 10 + 4, "the first block is known, the second is not"
    assert read_tokens([one, one], 4) == 10 + 2, "what lies behind the last whole block is read"
    assert read_tokens([one, other], 16) == 18 and read_tokens([[1] * 8, [1] * 8], 4) == 8 + 4


def test_the_subsets_of_a_search_are_those_that_it_asks() -> None:
    asked = _search_subsets(50)
    assert tuple(range(50)) in asked and () in asked and 60 < len(asked) < 130
