"""Retrievers from configurations: dense on its index, fusion of whole chains, what does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rulerag.build import Options, make_retriever, make_selector
from rulerag.config import Config
from rulerag.dataset import RuleQADataset
from rulerag.demo import mine_world, world_dataset
from rulerag.errors import ConfigError, FingerprintError, RetrievalError
from rulerag.kg.worlds import World
from rulerag.protocols import Retriever
from rulerag.retrieval.bm25 import BM25Retriever
from rulerag.retrieval.dense import DenseRetriever
from rulerag.retrieval.fusion import FusedRetriever
from rulerag.retrieval.rule_guided import RuleGuidedRetriever
from rulerag.retrieval.symbolic import SymbolicRetriever
from rulerag.retrieval.temporal import TimeAwareRetriever

DENSE = {"retriever": {"type": "dense"}}
BM25 = {"retriever": {"type": "bm25"}}
GUIDED: dict[str, Any] = {"selector": {}, "guided": {}}


@pytest.fixture(scope="module")
def dataset() -> RuleQADataset:
    world = World.generate(600, max_body_atoms=1)
    return world_dataset(world, mine_world(world)[0])


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One cache for the file: the corpus is encoded once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RULERAG_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def build(dataset: RuleQADataset, *parts: dict[str, Any], **options: Any) -> Retriever:
    values = {key: value for part in parts for key, value in part.items()}
    config = Config(values, source="e.yaml")
    return make_retriever(config, dataset, make_selector(config, dataset.rules), Options(**options))


def ids(retriever: Retriever, dataset: RuleQADataset, top_k: int = 5) -> list[list[str]]:
    found = retriever.retrieve(dataset.query_set("full")[:12], top_k)
    return [[scored.document.id for scored in documents] for documents in found]


# --- dense -------------------------------------------------------------------------------------


def test_dense_goes_with_what_is_installed_and_every_wrapper(dataset: RuleQADataset) -> None:
    guided = build(dataset, DENSE, GUIDED, {"time_aware": {}})
    assert isinstance(guided, RuleGuidedRetriever)
    assert isinstance(guided.retriever, TimeAwareRetriever)
    dense = guided.retriever.retriever
    assert isinstance(dense, DenseRetriever)
    assert dense.query_encoder.name.endswith("nano-encoder")  # type: ignore[attr-defined]
    assert dense.similarity == "cosine"
    assert all(len(row) == 5 for row in ids(guided, dataset))


def test_a_dense_index_is_opened_and_checked(dataset: RuleQADataset, tmp_path: Path) -> None:
    made = build(dataset, DENSE)
    made.save(tmp_path / "index")  # type: ignore[attr-defined]
    opened = build(dataset, DENSE, index=tmp_path / "index")
    assert opened.fingerprint == made.fingerprint
    assert ids(opened, dataset) == ids(made, dataset)
    for key, value in (("index", "sq8"), ("similarity", "dot")):
        other = {"retriever": {"type": "dense", key: value}}
        with pytest.raises(ConfigError, match=f"e.yaml, key 'retriever.{key}': is .* built with"):
            build(dataset, other, index=tmp_path / "index")
    # What is built once does not matter to an index that has no such part.
    links = {"retriever": {"type": "dense", "links": 64, "threads": 1}}
    assert ids(build(dataset, links, index=tmp_path / "index"), dataset) == ids(made, dataset)
    with pytest.raises(RetrievalError, match="no dense index here"):
        build(dataset, DENSE, index=tmp_path)
    with pytest.raises(RetrievalError, match="holds an index of kind 'dense'"):
        build(dataset, BM25, index=tmp_path / "index")
    fewer = RuleQADataset(corpus=dataset.corpus[:-1], queries={"test": []})
    with pytest.raises(FingerprintError, match="built from another corpus"):
        build(fewer, DENSE, index=tmp_path / "index")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"encoder": 3}, "e.yaml, key 'retriever.encoder': expected a text"),
        ({"encoders": "x"}, "e.yaml, key 'retriever.encoders': unknown key"),
        ({"index": "flot"}, "e.yaml, key 'retriever.index': unknown index"),
        ({"dtype": "int8"}, "e.yaml, key 'retriever.dtype': unknown dtype"),
        ({"documents": []}, "key 'retriever.documents': unknown key"),
    ],
)
def test_dense_settings_are_checked(
    settings: dict[str, Any], message: str, dataset: RuleQADataset
) -> None:
    with pytest.raises(ConfigError) as caught:
        build(dataset, {"retriever": {"type": "dense", **settings}})
    assert message in str(caught.value)


# --- fusion ------------------------------------------------------------------------------------


def test_guided_is_fused_with_plain_over_one_index(dataset: RuleQADataset) -> None:
    fused = build(dataset, BM25, GUIDED, {"fusion": {}})
    assert isinstance(fused, FusedRetriever)
    guided, plain = fused.retrievers
    assert isinstance(guided, RuleGuidedRetriever)
    assert isinstance(plain, BM25Retriever)
    assert guided.retriever is plain
    assert fused.method == "rrf"
    assert build(dataset, BM25, GUIDED, {"fusion": None}).fingerprint == guided.fingerprint
    queries = dataset.query_set("full")[:12]
    for union, whole in zip(
        fused.retrieve_union(queries, 5), guided.retrieve_union(queries, 5), strict=True
    ):
        assert {s.document.id for s in whole} <= {s.document.id for s in union}
        assert [s.rank for s in union] == list(range(1, len(union) + 1))


def test_one_weight_alone_leaves_one_list(dataset: RuleQADataset) -> None:
    settings = {"method": "weighted", "weights": [0, 1.0]}
    fused = build(dataset, BM25, GUIDED, {"fusion": settings})
    plain = build(dataset, BM25)
    queries = dataset.query_set("full")[:12]
    for found, known in zip(fused.retrieve(queries, 5), plain.retrieve(queries, 100), strict=True):
        scores = {scored.document.id: scored.score for scored in known}
        told = [scores[scored.document.id] for scored in found if scored.score > 0]
        # Documents with one score may change places: the other list settles ties.
        assert told and told == [scored.score for scored in known[: len(told)]]


def test_whole_chains_of_other_retrievers_are_fused(dataset: RuleQADataset) -> None:
    parts = [
        "plain",
        {"retriever": {"type": "symbolic"}},
        {"retriever": {"type": "dense"}, "time_aware": {}, "guided": {"merge": "score"}},
    ]
    fused = build(dataset, BM25, GUIDED, {"fusion": {"with": parts, "depth": 20}})
    assert isinstance(fused, FusedRetriever)
    kinds = [type(retriever) for retriever in fused.retrievers]
    assert kinds == [RuleGuidedRetriever, BM25Retriever, SymbolicRetriever, RuleGuidedRetriever]
    assert isinstance(fused.retrievers[3].retriever, TimeAwareRetriever)  # type: ignore[attr-defined]
    assert all(len(row) == 5 for row in ids(fused, dataset))
    symbolic = {"retriever": {"type": "symbolic"}, "selector": {}}
    both = build(dataset, symbolic, {"fusion": {"with": [BM25]}})
    assert [type(r) for r in both.retrievers] == [SymbolicRetriever, BM25Retriever]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([{"fusion": {}}], "e.yaml, key 'fusion.with.0': the retriever has no rules to leave out"),
        ([GUIDED, {"fusion": {"method": "rff"}}], "key 'fusion.method': unknown method 'rff'"),
        ([GUIDED, {"fusion": {"weights": [1]}}], "key 'fusion.weights': 1 weights for 2 lists"),
        ([GUIDED, {"fusion": {"weights": ["a"]}}], "key 'fusion.weights': expected a list of num"),
        ([GUIDED, {"fusion": {"retrievers": []}}], "key 'fusion.retrievers': unknown key"),
        ([GUIDED, {"fusion": {"with": "bm25"}}], "write {retriever: {type: bm25}}"),
        ([GUIDED, {"fusion": {"with": [{"type": "bm25"}]}}], "key 'fusion.with.0.type': unknown"),
        (
            [GUIDED, {"fusion": {"with": [{"retriever": {"type": "bm52"}}]}}],
            "no retriever is called 'bm52'",
        ),
    ],
)
def test_what_cannot_be_fused_is_named(
    parts: list[dict[str, Any]], message: str, dataset: RuleQADataset
) -> None:
    with pytest.raises(ConfigError) as caught:
        build(dataset, BM25, *parts)
    assert message in str(caught.value)
