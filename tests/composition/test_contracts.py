"""Every registered component keeps its family's contract."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from rulerag.assembly.build import Builder, resources
from rulerag.assembly.presets import CONFIGS
from rulerag.candidates.embeddings import Vectors
from rulerag.composition import FAMILIES, Config, find, names
from rulerag.generation.huggingface import NANO_LLAMA
from rulerag.ruleqa import RuleQADataset
from rulerag.synthetic.world import World
from tests.contracts import CONTRACTS, Ground
from tests.endpoints import Server

ALL = [(family, name) for family in FAMILIES for name in names(family)]
WEIGHTS = str(CONFIGS / "merging" / "ruleqa-i" / "bm25-guided.json")
SYMBOLIC, BM25, ANALOGY = {"type": "symbolic"}, {"type": "bm25"}, {"type": "analogy"}
MODEL = {"type": "huggingface", "model": NANO_LLAMA, "max_new_tokens": 4}
THOUGHT = {"reader": {**MODEL, "template": "plain"}, "retriever": BM25, "samples": 2}
NEEDS: Mapping[tuple[str, str], dict[str, Any]] = {
    ("retriever", "guided"): {"retriever": BM25},
    ("retriever", "pooled"): {"retriever": BM25},
    ("retriever", "time_aware"): {"retriever": BM25},
    ("retriever", "scored"): {"retriever": BM25, "scorer": ANALOGY},
    ("scorer", "learned"): {"scorers": [ANALOGY, {"type": "walks"}]},
    ("generator", "candidate-scorer"): {"scorer": ANALOGY},
    ("retriever", "fused"): {"retrievers": [BM25, SYMBOLIC]},
    ("merge", "learned"): {"weights": WEIGHTS},
    ("miner", "tlogic"): {"lengths": [1]},
    ("generator", "huggingface"): MODEL,
    ("generator", "hybrid"): {"symbolic": SYMBOLIC, "model": MODEL},
    ("generator", "chain-of-knowledge"): THOUGHT,
    ("generator", "verify-and-edit"): THOUGHT,
}
"""What a component cannot be made without."""

SLOW = {"lucene", "dense", "huggingface", "hybrid", "chain-of-knowledge", "verify-and-edit"}
"""Those that start Java or load a model."""


@pytest.fixture(scope="module")
def grounds() -> dict[str, Ground]:
    return {kind: Ground(World.generate(600, kind=kind)) for kind in ("temporal", "static")}


@pytest.fixture(autouse=True)
def cached(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RULERAG_CACHE", str(tmp_path_factory.getbasetemp() / "contracts"))
        yield


def builder(ground: Ground) -> Builder:
    """What makes components over a small world."""
    rows = {"test": ground.queries}
    dataset = RuleQADataset(corpus=ground.corpus, queries=rows, rules=ground.bank)
    shared = resources(dataset)
    selector = Builder(shared).make("selector", Config({"type": "head", "max_rules": 4}))
    return Builder(shared, {"selector": selector})


def component(family: str, name: str, ground: Ground, settings: Mapping[str, Any]) -> Any:
    """The component itself, or what it is a part of."""
    if family in ("prompt", "explainer"):
        return name if family == "prompt" else find(family, name).component
    section = {"type": name, **settings}
    if family == "merge":
        section = {"type": "guided", "retriever": BM25, "merge": name, **settings}
        family = "retriever"
    return builder(ground).make(family, Config({family: section}).section(family))


@pytest.mark.parametrize(
    ("family", "name"),
    [pytest.param(*one, marks=[pytest.mark.slow] if one[1] in SLOW else []) for one in ALL],
)
def test_it_keeps_the_contract(
    family: str, name: str, grounds: dict[str, Ground], request: pytest.FixtureRequest
) -> None:
    ground = grounds["static" if name == "amie" else "temporal"]
    settings = dict(NEEDS.get((family, name), {}))
    if (family, name) == ("dataset", "folder"):
        settings["path"] = str(request.getfixturevalue("tmp_path") / "towns")
        rows = {"test": ground.queries}
        made = RuleQADataset(corpus=ground.corpus, queries=rows, rules=ground.bank)
        made.save(settings["path"])
    if name == "embeddings":
        settings["folder"] = str(request.getfixturevalue("tmp_path"))
        table, random = ground.facts.table, np.random.default_rng(0)
        named = tuple(table.entities.names), tuple(table.relations.names)
        sizes = len(named[0]), 2 * len(named[1])
        vectors = [random.normal(size=(size, 8)).astype(np.float32) for size in sizes]
        Vectors(*named, *vectors, ground.facts.fingerprint).save(settings["folder"])
    if name == "openai":
        server: Server = request.getfixturevalue("server")
        settings |= {"base_url": server.url, "model": "m", "api_key": "k"}
    if name == "ray-batch":
        pytest.importorskip("vllm", reason="no vLLM here; tests/generation/…/test_vllm.py has one")
        settings["model"] = "smollm2-135m-instruct"
    CONTRACTS[family](lambda: component(family, name, ground, settings), ground)


def test_every_family_has_a_contract() -> None:
    assert set(FAMILIES) <= set(CONTRACTS)
    assert {key for key in NEEDS if key[0] in FAMILIES} <= set(ALL)


def test_every_component_says_what_it_is() -> None:
    for entry in (find(*one) for one in ALL):
        assert (entry.component.__doc__ or "").strip()
        assert {part.removesuffix("*") for part in entry.holds.values()} <= set(FAMILIES)
        assert len(set(entry.keys)) == len(entry.keys), "no key is a setting and a part"
