"""Retrievers from configurations: dense on its index, fusion of whole chains, what does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rulerag.assembly.build import Options, make_retriever, make_selector
from rulerag.assembly.demo import mine_world, world_dataset
from rulerag.composition.config import Config
from rulerag.errors import ConfigError, FingerprintError, RetrievalError
from rulerag.protocols import Retriever
from rulerag.retrieval.base.fusion import FusedRetriever
from rulerag.retrieval.base.time_aware import TimeAwareRetriever
from rulerag.retrieval.dense.retriever import DenseRetriever
from rulerag.retrieval.guided.retriever import RuleGuidedRetriever
from rulerag.retrieval.lexical.bm25 import BM25Retriever
from rulerag.retrieval.symbolic.retriever import SymbolicRetriever
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.synthetic.world import World

DENSE = {"retriever": {"type": "dense"}}
BM25 = {"retriever": {"type": "bm25"}}
GUIDED: dict[str, Any] = {"type": "guided", "retriever": {"type": "bm25"}}


def fused(*retrievers: Any, **settings: Any) -> dict[str, Any]:
    """The sections of a fusion."""
    section = {"type": "fused", "retrievers": list(retrievers), **settings}
    return {"selector": {}, "retriever": section}


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
    timed = {"type": "time_aware", **DENSE}
    section = {"type": "guided", "retriever": timed}
    guided = build(dataset, {"selector": {}, "retriever": section})
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
    for key, value in (("index", "SQ8"), ("similarity", "dot")):
        other = {"retriever": {"type": "dense", key: value}}
        with pytest.raises(ConfigError, match=f"e.yaml, key 'retriever.{key}': is .* built with"):
            build(dataset, other, index=tmp_path / "index")
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
        ({"index": "flot"}, "e.yaml, key 'retriever.index': FAISS cannot make"),
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
    both = build(dataset, fused(GUIDED, {"type": "bm25"}))
    assert isinstance(both, FusedRetriever)
    guided, plain = both.retrievers
    assert isinstance(guided, RuleGuidedRetriever)
    assert isinstance(plain, BM25Retriever)
    assert guided.retriever is plain, "equal settings are one object"
    assert both.method == "rrf"
    queries = dataset.query_set("full")[:12]
    for union, whole in zip(
        both.retrieve_union(queries, 5), guided.retrieve_union(queries, 5), strict=True
    ):
        assert {s.document.id for s in whole} <= {s.document.id for s in union}
        assert [s.rank for s in union] == list(range(1, len(union) + 1))


def test_an_index_is_that_of_the_first_retriever(dataset: RuleQADataset, tmp_path: Path) -> None:
    BM25Retriever(dataset.corpus, k1=1.2).save(tmp_path / "index")
    sections = fused({"type": "bm25"}, {"type": "bm25", "k1": 0.9})
    both: Any = build(dataset, sections, index=tmp_path / "index")
    assert [retriever.k1 for retriever in both.retrievers] == [1.2, 0.9]


def test_one_weight_alone_leaves_one_list(dataset: RuleQADataset) -> None:
    sections = fused(GUIDED, {"type": "bm25"}, method="weighted", weights=[0, 1.0])
    both = build(dataset, sections)
    plain = build(dataset, BM25)
    queries = dataset.query_set("full")[:12]
    for found, known in zip(both.retrieve(queries, 5), plain.retrieve(queries, 100), strict=True):
        scores = {scored.document.id: scored.score for scored in known}
        told = [scores[scored.document.id] for scored in found if scored.score > 0]
        # Documents with one score may change places: the other list settles ties.
        assert told and told == [scored.score for scored in known[: len(told)]]


def test_whole_chains_of_other_retrievers_are_fused(dataset: RuleQADataset) -> None:
    dense = {"type": "guided", "merge": "rank", "retriever": {"type": "time_aware", **DENSE}}
    sections = fused(GUIDED, {"type": "bm25"}, {"type": "symbolic"}, dense, depth=20)
    whole = build(dataset, sections)
    assert isinstance(whole, FusedRetriever)
    kinds = [type(retriever) for retriever in whole.retrievers]
    assert kinds == [RuleGuidedRetriever, BM25Retriever, SymbolicRetriever, RuleGuidedRetriever]
    assert isinstance(whole.retrievers[3].retriever, TimeAwareRetriever)  # type: ignore[attr-defined]
    assert all(len(row) == 5 for row in ids(whole, dataset))


PLAIN = {"type": "bm25"}


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        (fused(GUIDED, PLAIN, method="rff"), "key 'retriever.method': unknown method 'rff'"),
        (fused(GUIDED, PLAIN, weights=[1]), "key 'retriever.weights': [1] cannot weigh"),
        (fused(GUIDED, PLAIN, weights=["a"]), "key 'retriever.weights': expected a list of num"),
        (fused(GUIDED, "bm25"), "'retriever.retrievers.1': expected a section of keys — write {t"),
        (fused(GUIDED, {"b": 1}), "key 'retriever.retrievers.1.type': is missing"),
        (fused(GUIDED, {"type": "bm52"}), "no retriever is called 'bm52'"),
    ],
)
def test_what_cannot_be_fused_is_named(
    sections: dict[str, Any], message: str, dataset: RuleQADataset
) -> None:
    with pytest.raises(ConfigError) as caught:
        build(dataset, sections)
    assert message in str(caught.value)
