"""The pages of docs/adding: the component of each is registered and does its work.

Those of a retriever and a generator are run by :mod:`tests.test_third_parties`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from rulerag import (
    GenerationRequest,
    HeadRelationSelector,
    ProbeEngine,
    PromptTemplate,
    Query,
    Rule,
    RuleBank,
    RuleQADataset,
    TLogicMiner,
    Verbalizer,
    World,
    queries_from_facts,
)
from rulerag.assembly import make_miner, open_dataset
from rulerag.assembly.build import Builder
from rulerag.composition import Config, registry
from rulerag.explanation.attribution import attributions

PAGES = Path(__file__).parents[1] / "docs" / "adding"


@pytest.fixture(autouse=True)
def own_components() -> Iterator[None]:
    """What a page registers is gone after its test."""
    known = dict(registry._REGISTERED)
    yield
    registry._REGISTERED.clear()
    registry._REGISTERED.update(known)


@pytest.fixture(scope="module")
def world() -> World:
    return World.generate(2000, seed=0)


def run(page: str) -> ModuleType:
    """The page's Python as a module."""
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    module = ModuleType(f"page_{page}")
    sys.modules[module.__name__] = module
    exec(compile("\n".join(blocks), f"{page}.md", "exec"), module.__dict__)
    return module


def asked(world: World) -> list[Query]:
    return queries_from_facts(world.graph.test, Verbalizer(world.graph), "q")[:20]


def test_a_prompt() -> None:
    run("prompt")
    prompt = PromptTemplate.of("terse").render(GenerationRequest(Query("q", "who ?"), (), ()))
    assert prompt.text.endswith("who ?\n=")


def test_a_miner(world: World) -> None:
    run("miner")
    bank = make_miner("symmetric", min_confidence=0.0).mine(world.graph.train)
    assert len(bank) == len({fact.relation for fact in world.graph.train})


def test_a_selector(world: World) -> None:
    run("selector")
    bank = TLogicMiner(min_support=5).mine(world.graph.train)
    made = Builder({"bank": lambda: bank}).make(
        "selector", Config({"type": "surest", "max_rules": 2})
    )
    queries = asked(world)
    chosen: list[list[Rule]] = made.select(queries)
    every = HeadRelationSelector(RuleBank(bank)).select(queries)
    for query, some, rules in zip(queries, chosen, every, strict=True):
        assert len(some) <= 2 and {rule.head.relation for rule in some} <= {query.relation}
        assert {rule.id for rule in some} <= {rule.id for rule in rules}


def test_an_explainer() -> None:
    run("explainer")
    engine = ProbeEngine.from_function(
        lambda kept: ["yes" if 1 in sources else "no" for sources in kept], num_sources=3
    )
    (found,), complete = attributions(engine, lambda output: output == "yes", ["alone"])
    assert complete and found.values == (0.0, 1.0, 0.0)
    assert found.num_probes == 5


def test_a_dataset(tmp_path: Path) -> None:
    dataset = run("dataset").dataset
    (tmp_path / "towns.csv").write_text("ann,bath\nbob,ely\n")
    section = {"dataset": {"type": "table", "path": str(tmp_path / "towns.csv")}}
    assert open_dataset(Config(section)).queries["test"][1].answers == ("bob",)
    dataset.save(tmp_path / "mine")
    again = RuleQADataset.load(tmp_path / "mine")
    assert again.queries["test"] == dataset.queries["test"]
    assert [document.text for document in again.corpus] == ["ann visits bath"]
