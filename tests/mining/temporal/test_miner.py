"""Temporal rules of up to three atoms: counts, what is mined, for any workers, resumed, refused."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest

from rulerag.errors import ConfigError, MiningError
from rulerag.kg.graph import FactTable, KnowledgeGraph
from rulerag.mining.temporal.miner import TLogicMiner
from rulerag.rules import Atom, Rule, RuleBank
from rulerag.types import Fact

EVERYTHING: dict[str, Any] = {"min_confidence": 0.0, "min_support": 1}
ALL: dict[str, Any] = {"lengths": (1, 2, 3)}


def table(*facts: Fact) -> FactTable:
    return KnowledgeGraph.from_facts(facts).train


def random_facts(seed: int, names: int, count: int, times: int) -> list[Fact]:
    rng = random.Random(seed)
    ends = [[f"{kind}{i}" for i in range(names)] for kind in "ere"]
    return [Fact(*map(rng.choice, ends), rng.randrange(times)) for _ in range(count)]


RANDOM = random_facts(0, 9, 600, 50)  # many rules of every length hold now and then


def chain_facts(people: int = 40) -> list[Fact]:
    """Who is asked by somebody calls a third; then the first meets the third, and meets again."""
    facts = []
    for i in range(people):
        a, b, c = f"a{i}", f"b{i % 7}", f"c{i}"
        facts += [Fact(a, "asks", b, 2 * i), Fact(b, "calls", c, 2 * i + 1)]
        facts += [Fact(a, "meets", c, 2 * i + 3), Fact(a, "meets", c, 2 * i + 5)]
    return facts


def find(bank: RuleBank, text: str) -> tuple[int | None, int | None]:
    (rule,) = [rule for rule in bank if rule.text == text]
    assert rule.quality.confidence == (rule.quality.support or 0) / (rule.quality.body_size or 1)
    return rule.quality.support, rule.quality.body_size


# --- one atom ------------------------------------------------------------------------------------


def brute_force(facts: list[Fact]) -> dict[tuple[str, bool, str], tuple[int, int]]:
    """(body, inverse, head) → (support, body size), straight from the definition."""
    distinct = set(facts)
    relations = sorted({fact.relation for fact in distinct})
    counts = {}
    for body in relations:
        for inverse in (False, True):
            bodies = [(f.subject, f.object, f.timestamp) for f in distinct if f.relation == body]
            bodies = [(y, x, t) if inverse else (x, y, t) for x, y, t in bodies]
            for head in relations:
                support = sum(
                    any(f[:3] == (x, head, y) and (f.timestamp or 0) > (t or 0) for f in distinct)
                    for x, y, t in bodies
                )
                if support:
                    counts[body, inverse, head] = (support, len(bodies))
    return counts


def test_counts_equal_brute_force() -> None:
    for seed in range(40):
        facts = random_facts(seed, 4, 1 + seed % 29, 5)
        found = {
            (r.body[0].relation, r.is_inverse, r.head.relation): (
                r.quality.support,
                r.quality.body_size,
            )
            for r in TLogicMiner(**EVERYTHING).mine(table(*facts))
        }
        assert found == brute_force(facts)
    same_time = table(Fact("a", "r", "b", 1), Fact("a", "s", "b", 1))
    assert len(TLogicMiner(**EVERYTHING).mine(same_time)) == 0


def test_text_and_thresholds() -> None:
    facts = [Fact("a", "visits_often", "b", t) for t in range(4)] + [Fact("b", "hosts", "a", 9)]
    bank = TLogicMiner(**EVERYTHING).mine(table(*facts))
    inverse = "[Entity 2, visits often, Entity 1] leads to [Entity 1, hosts, Entity 2]"
    repeat = "[Entity 1, visits often, Entity 2] leads to [Entity 1, visits often, Entity 2]"
    assert (find(bank, inverse), find(bank, repeat)) == ((4, 4), (3, 4))
    assert len(TLogicMiner(min_support=4).mine(table(*facts))) == 1
    assert len(TLogicMiner(min_support=1, min_confidence=0.8).mine(table(*facts))) == 1


# --- up to three atoms ---------------------------------------------------------------------------


def test_a_chain_is_found_with_its_counts() -> None:
    bank = TLogicMiner(**ALL).mine(table(*chain_facts()))
    meets = "[Entity 1, meets, Entity 2]"
    assert find(bank, f"{meets} leads to {meets}") == (40, 80)
    # Every call of b after it was asked is a body; the one that answers leads to a meeting. Of the
    # seven b five are asked six times and two five times: 5 · (1 + … + 6) + 2 · (1 + … + 5).
    chain = "[Entity 1, asks, Entity 3] and [Entity 3, calls, Entity 2]"
    assert find(bank, f"{chain} leads to {meets}") == (40, 135)
    for rule in bank:
        assert rule.temporal and rule.miner == "tlogic"
        assert {rule.head.subject, rule.head.object} == {"?x", "?y"}


def test_a_returning_variable() -> None:
    facts = []
    for i in range(30):
        a, b = f"a{i}", f"b{i}"
        facts += [Fact(a, "asks", b, 4 * i), Fact(b, "answers", a, 4 * i + 1)]
        facts += [Fact(a, "thanks", b, 4 * i + 2)]
    miner = TLogicMiner(lengths=(3,))
    assert len(miner.mine(table(*facts))) == 0  # three facts lead to none that is left
    facts += [Fact(f"a{i}", "meets", f"b{i}", 4 * i + 3) for i in range(30)]
    body = (Atom("asks", "?x", "?y"), Atom("answers", "?y", "?x"), Atom("thanks", "?x", "?y"))
    rule = miner.mine(table(*facts)).get(Rule(Atom("meets", "?x", "?y"), body, True).id)
    assert (rule.quality.support, rule.quality.body_size) == (30, 30)


def test_only_the_asked_lengths_and_thresholds() -> None:
    train = table(*chain_facts())
    assert {len(rule.body) for rule in TLogicMiner(lengths=(2,)).mine(train)} == {2}
    assert {len(rule.body) for rule in TLogicMiner(lengths=(2, 1, 2)).mine(train)} == {1, 2}
    every = TLogicMiner(**ALL).mine(train)
    bank = TLogicMiner(**ALL, min_confidence=0.4, min_support=5).mine(train)
    assert 0 < len(bank) < len(every)
    assert len(bank) == len(bank.filter(min_confidence=0.4, min_support=5))
    # Walks suggest some of the rules of one atom.
    one = TLogicMiner(**EVERYTHING).mine(table(*RANDOM))
    longer = TLogicMiner(lengths=(1, 2), num_walks=3, **EVERYTHING).mine(table(*RANDOM))
    some = longer.filter(max_body_atoms=1)
    assert 10 < len(some) < len(one)
    assert all(rule.quality == one.get(rule.id).quality for rule in some)


def test_the_seed_decides_and_threads_do_not() -> None:
    def mined(**settings: Any) -> str:
        miner = TLogicMiner(**ALL, num_walks=9, num_bodies=9, **settings)
        return miner.mine(table(*RANDOM)).fingerprint

    assert mined() == mined(threads=2)
    assert mined() not in (mined(seed=1), mined(transition="uniform"))


def test_an_interrupted_run_resumes(tmp_path: Path) -> None:
    train, miner = table(*chain_facts()), TLogicMiner(**ALL, checkpoint=tmp_path)
    whole = miner.mine(train)
    kept = sorted(tmp_path.rglob("*.npz"))
    assert {path.name.split("-")[0] for path in kept} == {"walks", "bodies"}
    kept[0].unlink()
    kept[-1].write_bytes(b"half a file")
    stamps = {path: path.stat().st_mtime_ns for path in kept[1:-1]}
    assert miner.mine(train).fingerprint == whole.fingerprint
    assert {path: path.stat().st_mtime_ns for path in kept[1:-1]} == stamps
    TLogicMiner(**ALL, checkpoint=tmp_path, seed=1).mine(train)
    assert len(list(tmp_path.iterdir())) == 2


# --- bad input, speed ----------------------------------------------------------------------------


def test_few_facts_and_undated_ones(toy_graph: KnowledgeGraph) -> None:
    for lengths in ((1,), (1, 2, 3)):
        miner = TLogicMiner(lengths=lengths)
        with pytest.raises(MiningError, match="AmieMiner"):
            miner.mine(toy_graph.train)
        assert len(miner.mine(table(Fact("a", "r", "b", 1)))) == 0
    assert len(TLogicMiner(**ALL).mine(table(*(Fact("a", "r", "a", t) for t in range(5))))) > 0
    with pytest.raises(MiningError, match=r"0\.06 GB and 0\.00 GB is allowed"):
        TLogicMiner(lengths=(2,), max_memory_gb=1e-6).mine(table(*chain_facts()))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("min_confidence", 1.5),
        ("min_support", 0),
        ("lengths", ()),
        ("lengths", (0,)),
        ("lengths", (1, 4)),
        ("transition", "linear"),
        ("num_walks", 0),
        ("num_bodies", 0),
        ("seed", -1),
        ("threads", 0),
        ("max_memory_gb", 0.0),
    ],
)
def test_settings_out_of_range(key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=key):
        TLogicMiner(**{key: value})


def test_icews14_in_under_five_seconds(graph_folder: Any) -> None:
    train = KnowledgeGraph.load(graph_folder("icews14")).train
    started = time.process_time()
    bank = TLogicMiner().mine(train)
    assert time.process_time() - started < 5
    assert len(bank) == 11_221


@pytest.mark.slow
def test_icews14_lengths_one_to_three_in_seconds(graph_folder: Any) -> None:
    TLogicMiner(**ALL).mine(table(*RANDOM))  # every kernel is compiled now
    train = KnowledgeGraph.load(graph_folder("icews14_forecasting")).train
    started = time.process_time()
    bank = TLogicMiner(**ALL).mine(train)
    assert time.process_time() - started < 8
    # TLogic learned 26,823 rules, 20,798 of them at its thresholds; ours count a rule of one atom
    # once for both directions.
    sizes = [sum(len(rule.body) == length for rule in bank) for length in (1, 2, 3)]
    assert sizes == pytest.approx([3700, 4750, 10_500], rel=0.1)
