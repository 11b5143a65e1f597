"""Generated worlds as graphs: exact sizes, time, popularity, determinism, arguments."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from rulerag.errors import ConfigError
from rulerag.synthetic.world import World
from tests.synthetic.worlds import KINDS, cases, world_of


@pytest.mark.parametrize(("kind", "size", "seed"), cases((100, 101, 5_000), (0,)))
def test_the_size_is_exact_and_no_fact_stands_twice(kind: str, size: int, seed: int) -> None:
    world = World.generate(size, kind=kind, seed=seed)
    facts = [fact for split in ("train", "valid", "test") for fact in world.graph.split(split)]
    assert len(facts) == len(set(facts)) == size == world.num_facts
    assert not any(fact.subject == fact.object for fact in facts)
    used = {end for fact in facts for end in (fact.subject, fact.object)}
    assert used == set(world.graph.entities.names)
    assert len(world.queries) > 0 and len(world.queries_of("valid")) > 0


def test_splits_follow_each_other_in_time_and_dates_read_well() -> None:
    graph = world_of("temporal", 5_000, 0).graph
    train, valid, test = (graph.split(s).timestamp for s in ("train", "valid", "test"))
    assert train.max() < valid.min() and valid.max() < test.min()
    assert all((np.diff(times) >= 0).all() for times in (train, valid, test))
    assert graph.calendar.format(int(train.min())) == "2020-01-01"
    assert graph.calendar.format(int(test.max())).startswith("2021-12")


def test_popularity_has_a_long_tail() -> None:
    world = world_of("temporal", 50_000, 0)
    ends = np.concatenate([world.graph.train.subject, world.graph.train.object])
    degrees = np.sort(np.bincount(ends, minlength=len(world.graph.entities)))[::-1]
    assert degrees[0] > 40 * np.median(degrees)
    assert (degrees <= 4).mean() > 0.25
    known = Counter(end for fact in world.graph.train for end in (fact.subject, fact.object))
    asked = {known[query.fact.subject] for query in world.queries}
    assert min(asked) <= 3 and max(asked) >= 20  # rare and popular subjects are asked about


def test_the_same_arguments_give_the_same_world_in_another_process() -> None:
    code = (
        "from rulerag.synthetic.world import World\n"
        "for kind in ('static', 'temporal'):\n"
        "    world = World.generate(1500, kind=kind, seed=7)\n"
        "    print(world.graph.fingerprint, hash(tuple(world.truth['test'].row.tolist())))\n"
        "    print([q.fact.subject for q in world.queries[:3]])\n"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    here = World.generate(1500, kind="static", seed=7).graph.fingerprint
    assert outputs[0].startswith(here)
    assert World.generate(1500, kind="static", seed=8).graph.fingerprint != here


# ---- Arguments -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_facts": 99}, "num_facts.*100 to"),
        ({"num_facts": 10**12}, "num_facts"),
        ({"num_facts": 500.0}, "no whole number"),
        ({"num_facts": True}, "no whole number"),
        ({"kind": "statik"}, "did you mean 'static'"),
        ({"seed": -1}, "seed.*0 or more"),
        ({"seed": "1"}, "no whole number"),
        ({"max_body_atoms": 3}, "max_body_atoms.*1 to 2"),
        ({"max_body_atoms": 0}, "max_body_atoms"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        World.generate(**arguments)  # type: ignore[arg-type]


def test_numpy_numbers_are_taken_and_train_has_no_queries() -> None:
    world = World.generate(np.int64(500), seed=np.int32(3))
    assert world.num_facts == 500
    with pytest.raises(ConfigError, match="holds no queries"):
        world.queries_of("train")


def test_every_small_size_works() -> None:
    for size in range(100, 600, 41):
        for kind in KINDS:
            assert World.generate(size, kind=kind, seed=size).num_facts == size
