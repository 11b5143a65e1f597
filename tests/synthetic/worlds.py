"""Worlds that several tests look at, each made once."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from rulerag.synthetic.world import World

KINDS = ("static", "temporal")


@cache
def world_of(kind: str, size: int, seed: int) -> World:
    return World.generate(size, kind=kind, seed=seed)


def cases(sizes: Iterable[int], seeds: Iterable[int]) -> list[tuple[str, int, int]]:
    return [(kind, size, seed) for kind in KINDS for size in sizes for seed in seeds]
