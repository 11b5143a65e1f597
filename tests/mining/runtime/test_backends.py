"""The same rules from any backend and any number of workers: threads, Ray, nodes that die."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rulerag.kg.graph import FactTable
from rulerag.mining.amie.miner import AmieMiner
from rulerag.mining.temporal.miner import TLogicMiner
from rulerag.parallel import Backend, RayBackend, SerialBackend, ThreadBackend
from rulerag.rules import RuleBank
from rulerag.synthetic.world import World

Mine = Callable[..., RuleBank]


def static(**settings: object) -> RuleBank:
    return AmieMiner(min_head_size=1, **settings).mine(facts("static"))


def temporal(**settings: object) -> RuleBank:
    miner = TLogicMiner(lengths=(1, 2, 3), num_walks=40, num_bodies=40, **settings)
    return miner.mine(facts("temporal"))


def facts(kind: str) -> FactTable:
    return World.generate(1000, kind=kind).graph.train


@pytest.fixture(scope="module")
def expected() -> dict[Mine, str]:
    """What one process finds without any backend named."""
    banks = {mine: mine() for mine in (static, temporal)}
    assert all(len(bank) > 5 for bank in banks.values())
    return {mine: bank.fingerprint for mine, bank in banks.items()}


def agree(workers: Backend, expected: dict[Mine, str]) -> None:
    for mine, fingerprint in expected.items():
        assert mine(backend=workers).fingerprint == fingerprint


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_threads(workers: int, expected: dict[Mine, str]) -> None:
    agree(ThreadBackend(workers), expected)
    assert static(threads=workers).fingerprint == expected[static]
    assert temporal(threads=workers).fingerprint == expected[temporal]


def test_one_after_the_other(expected: dict[Mine, str]) -> None:
    agree(SerialBackend(), expected)


@pytest.mark.usefixtures("ray_cluster")
def test_a_ray_cluster(expected: dict[Mine, str]) -> None:
    for workers in (1, 3):
        agree(RayBackend(workers), expected)
