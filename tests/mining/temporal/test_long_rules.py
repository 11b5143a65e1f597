"""Temporal rules of up to three atoms: what is mined, for any workers, resumed, refused."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from rulerag.errors import MiningError
from rulerag.kg.graph import KnowledgeGraph
from rulerag.mining.temporal.miner import TLogicMiner
from rulerag.parallel import ProcessBackend
from rulerag.rules import Atom, Rule, RuleBank
from rulerag.types import Fact


def chain_graph(people: int = 40) -> KnowledgeGraph:
    """Who is asked by somebody calls a third; then the first meets the third, and meets again."""
    facts = []
    for i in range(people):
        a, b, c = f"a{i}", f"b{i % 7}", f"c{i}"
        facts += [Fact(a, "asks", b, 2 * i), Fact(b, "calls", c, 2 * i + 1)]
        facts += [Fact(a, "meets", c, 2 * i + 3), Fact(a, "meets", c, 2 * i + 5)]
    return KnowledgeGraph.from_facts(facts)


def random_graph() -> KnowledgeGraph:
    """Facts by chance: many rules of every length hold now and then."""
    rng = random.Random(0)
    names = [[f"{kind}{i}" for i in range(9)] for kind in "ere"]
    facts = [Fact(*map(rng.choice, names), rng.randrange(50)) for _ in range(600)]
    return KnowledgeGraph.from_facts(facts)


def find(bank: RuleBank, text: str) -> Rule:
    (rule,) = [rule for rule in bank if rule.text == text]
    return rule


CHAIN = "[Entity 1, asks, Entity 3] and [Entity 3, calls, Entity 2] leads to " + (
    "[Entity 1, meets, Entity 2]"
)
AGAIN = "[Entity 1, meets, Entity 2] leads to [Entity 1, meets, Entity 2]"


def test_a_chain_is_found_with_its_counts() -> None:
    bank = TLogicMiner(lengths=(1, 2, 3)).mine(chain_graph().train)
    again = find(bank, AGAIN)
    assert (again.quality.support, again.quality.body_size) == (40, 80)
    chain = find(bank, CHAIN)
    assert [(atom.subject, atom.object) for atom in chain.body] == [("?x", "?z"), ("?z", "?y")]
    # Every call of b after it was asked is a body; the one that answers leads to a meeting. Of the
    # seven b five are asked six times and two five times: 5 · (1 + … + 6) + 2 · (1 + … + 5).
    assert (chain.quality.support, chain.quality.body_size) == (40, 135)
    assert chain.quality.confidence == chain.quality.support / chain.quality.body_size
    for rule in bank:
        assert rule.temporal
        assert rule.miner == "tlogic"
        assert {rule.head.subject, rule.head.object} == {"?x", "?y"}


def test_a_returning_variable() -> None:
    facts = []
    for i in range(30):
        a, b = f"a{i}", f"b{i}"
        facts += [Fact(a, "asks", b, 4 * i), Fact(b, "answers", a, 4 * i + 1)]
        facts += [Fact(a, "thanks", b, 4 * i + 2)]
    bank = TLogicMiner(lengths=(3,)).mine(KnowledgeGraph.from_facts(facts * 1).train)
    assert len(bank) == 0  # three facts lead to none that is left
    facts += [Fact(f"a{i}", "meets", f"b{i}", 4 * i + 3) for i in range(30)]
    bank = TLogicMiner(lengths=(3,)).mine(KnowledgeGraph.from_facts(facts).train)
    body = (Atom("asks", "?x", "?y"), Atom("answers", "?y", "?x"), Atom("thanks", "?x", "?y"))
    (rule,) = [rule for rule in bank if rule.body == body]
    assert rule.head == Atom("meets", "?x", "?y")
    assert (rule.quality.support, rule.quality.body_size) == (30, 30)


def test_only_the_asked_lengths_and_thresholds() -> None:
    train = chain_graph().train
    assert {len(rule.body) for rule in TLogicMiner(lengths=(2,)).mine(train)} == {2}
    assert {len(rule.body) for rule in TLogicMiner(lengths=(2, 1, 2)).mine(train)} == {1, 2}
    bank = TLogicMiner(lengths=(1, 2, 3), min_confidence=0.4, min_support=5).mine(train)
    assert 0 < len(bank) < len(TLogicMiner(lengths=(1, 2, 3)).mine(train))
    for rule in bank:
        assert rule.quality.confidence >= 0.4
        assert rule.quality.support >= 5


def test_walks_suggest_some_of_the_rules_of_one_atom() -> None:
    train = random_graph().train
    every = TLogicMiner(min_support=1, min_confidence=0.0).mine(train)
    longer = TLogicMiner(lengths=(1, 2), num_walks=3, min_support=1, min_confidence=0.0).mine(train)
    some = longer.filter(max_body_atoms=1)
    assert len(some) > 10
    assert {rule.id for rule in some} < {rule.id for rule in every}
    assert all(rule.quality == every.get(rule.id).quality for rule in some)


def test_the_seed_decides_and_threads_do_not() -> None:
    train = random_graph().train

    def mined(**settings: object) -> str:
        miner = TLogicMiner(lengths=(1, 2, 3), num_walks=9, num_bodies=9, **settings)
        return miner.mine(train).fingerprint

    assert mined() == mined(threads=2) == mined(backend=ProcessBackend(2))
    assert mined() != mined(seed=1)
    assert mined() != mined(transition="uniform")


def test_an_interrupted_run_resumes(tmp_path: Path) -> None:
    train = chain_graph().train
    whole = TLogicMiner(lengths=(1, 2, 3), checkpoint=tmp_path).mine(train)
    kept = sorted(tmp_path.rglob("*.npz"))
    assert any(path.name.startswith("walks-") for path in kept)
    assert any(path.name.startswith("bodies-") for path in kept)
    kept[0].unlink()
    kept[-1].write_bytes(b"half a file")
    stamps = {path: path.stat().st_mtime_ns for path in kept[1:-1]}
    again = TLogicMiner(lengths=(1, 2, 3), checkpoint=tmp_path).mine(train)
    assert again.fingerprint == whole.fingerprint
    assert {path: path.stat().st_mtime_ns for path in kept[1:-1]} == stamps
    TLogicMiner(lengths=(1, 2, 3), checkpoint=tmp_path, seed=1).mine(train)
    assert len(list(tmp_path.iterdir())) == 2


def test_bad_input(toy_graph: KnowledgeGraph) -> None:
    with pytest.raises(MiningError, match="AmieMiner"):
        TLogicMiner(lengths=(1, 2, 3)).mine(toy_graph.train)
    with pytest.raises(MiningError, match=r"0\.06 GB and 0\.00 GB is allowed"):
        TLogicMiner(lengths=(2,), max_memory_gb=1e-6).mine(chain_graph().train)
    one = KnowledgeGraph.from_facts([Fact("a", "r", "b", 1)]).train
    assert len(TLogicMiner(lengths=(1, 2, 3)).mine(one)) == 0
    loop = KnowledgeGraph.from_facts([Fact("a", "r", "a", t) for t in range(5)]).train
    assert len(TLogicMiner(lengths=(1, 2, 3)).mine(loop)) > 0


@pytest.mark.slow
def test_icews14_lengths_one_to_three_in_seconds(graph_folder) -> None:
    TLogicMiner(lengths=(1, 2, 3)).mine(random_graph().train)  # every kernel is compiled now
    train = KnowledgeGraph.load(graph_folder("icews14_forecasting")).train
    started = time.process_time()
    bank = TLogicMiner(lengths=(1, 2, 3)).mine(train)
    assert time.process_time() - started < 8
    # TLogic learned 26,823 rules, 20,798 of them at its thresholds; ours count a rule of one atom
    # once for both directions.
    sizes = [sum(len(rule.body) == length for rule in bank) for length in (1, 2, 3)]
    assert sizes == pytest.approx([3700, 4750, 10_500], rel=0.1)
