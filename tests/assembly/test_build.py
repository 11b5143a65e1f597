"""The composition root: every name builds, wrong settings are named, indexes are opened or made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rulerag.assembly.build import (
    Options,
    make_miner,
    make_pipeline,
    make_retriever,
    make_selector,
    open_dataset,
)
from rulerag.assembly.demo import mine_world, world_dataset
from rulerag.composition.config import Config
from rulerag.errors import ConfigError, DataError, FingerprintError, RetrievalError
from rulerag.mining.temporal import TLogicMiner
from rulerag.pipeline import RuleRAGPipeline
from rulerag.protocols import Generator, Retriever, RuleSelector
from rulerag.retrieval.base.time_aware import TimeAwareRetriever
from rulerag.retrieval.guided.retriever import RuleGuidedRetriever
from rulerag.retrieval.lexical.bm25 import BM25Retriever
from rulerag.ruleqa import DatasetInfo
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.synthetic.world import World

SYMBOLIC = {
    "selector": {"type": "head"},
    "retriever": {"type": "symbolic"},
    "generator": {"type": "symbolic"},
}
BM25 = {"retriever": {"type": "bm25"}, "generator": {"type": "symbolic"}}


def guided(inside: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """Sections of a rule-guided retriever around another."""
    return {"selector": {}, "retriever": {"type": "guided", **settings, "retriever": inside}}


@pytest.fixture(scope="module")
def dataset() -> RuleQADataset:
    world = World.generate(600, max_body_atoms=1)
    return world_dataset(world, mine_world(world)[0])


def build(dataset: RuleQADataset, *parts: dict[str, Any], **options: Any) -> RuleRAGPipeline:
    values = {key: value for part in parts for key, value in part.items()}
    return make_pipeline(Config(values, source="e.yaml"), dataset, Options(**options))


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="no miner is called 'ami' — did you mean 'amie'"):
        make_miner("ami")
    with pytest.raises(ConfigError, match="key 'lenghts': the miner 'tlogic' has no such option"):
        make_miner("tlogic", lenghts=(1,))
    miner = make_miner("tlogic", min_support=7)
    assert isinstance(miner, TLogicMiner) and miner.settings.min_support == 7


def test_a_pipeline_answers(dataset: RuleQADataset) -> None:
    queries = dataset.query_set("supported")[:5]
    for parts in (SYMBOLIC, BM25):
        pipeline = build(dataset, parts)
        assert isinstance(pipeline.retriever, Retriever)
        assert isinstance(pipeline.generator, Generator)
        assert [a.query for a in pipeline.answer(queries)] == queries
        assert pipeline.fingerprints["dataset"] == dataset.fingerprint
        assert pipeline.fingerprints["rules"] == dataset.rules.fingerprint


# --- the parts and their order -----------------------------------------------------------------


def test_wrappers_nest_as_they_are_written(dataset: RuleQADataset) -> None:
    pipeline = build(dataset, BM25, guided({"type": "time_aware", "retriever": {"type": "bm25"}}))
    outer = pipeline.retriever
    assert isinstance(outer, RuleGuidedRetriever)
    assert isinstance(outer.retriever, TimeAwareRetriever)
    assert isinstance(outer.retriever.retriever, BM25Retriever)
    assert outer.selector is pipeline.selector
    timed = {"type": "time_aware", "retriever": {"type": "guided", "retriever": {"type": "bm25"}}}
    inside_out: Any = build(dataset, BM25, {"selector": {}, "retriever": timed}).retriever
    assert isinstance(inside_out.retriever, RuleGuidedRetriever)


def test_a_selector_that_is_null_is_left_out(dataset: RuleQADataset) -> None:
    pipeline = build(dataset, BM25, {"selector": None})
    assert isinstance(pipeline.retriever, BM25Retriever)
    assert pipeline.selector is None


def test_a_retriever_may_have_rules_of_its_own(dataset: RuleQADataset) -> None:
    parts = guided({"type": "bm25"}, selector={"type": "head", "max_rules": 1})
    pipeline: Any = build(dataset, BM25, parts)
    assert pipeline.retriever.selector.max_rules == 1
    assert pipeline.selector.max_rules is None


def test_time_is_counted_in_the_steps_of_the_calendar(dataset: RuleQADataset) -> None:
    hours = RuleQADataset(
        corpus=dataset.corpus,
        queries=dataset.queries,
        rules=dataset.rules,
        info=DatasetInfo(calendar={"unit": "hour", "origin": "2014-01-01", "step": 24}),
    )
    reader: Any = build(hours, SYMBOLIC).generator
    assert reader.evidence.time_step == 24


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([{"generator": {"type": "symbolic"}}], "e.yaml, key 'retriever': is missing"),
        ([{"retriever": {"type": "bm25"}}], "e.yaml, key 'generator': is missing"),
        ([BM25, {"retriever": {}}], "e.yaml, key 'retriever.type': is missing"),
        ([BM25, {"retreiver": {}}], "e.yaml, key 'retreiver': unknown key — did you mean"),
        ([BM25, {"retriever": {"type": "bm52"}}], "no retriever is called 'bm52'"),
        ([BM25, {"retriever": {"type": "bm25", "k": 1}}], "e.yaml, key 'retriever.k': unknown"),
        ([BM25, {"retriever": {"type": "bm25", "b": 2}}], "e.yaml, key 'retriever.b': 2 is out"),
        ([BM25, {"retriever": {"type": "bm25", "documents": 1}}], "key 'retriever.documents': unk"),
        ([BM25, {"retriever": "bm25"}], "key 'retriever': expected a section of keys"),
        (
            [BM25, {"retriever": {"type": "guided", "retriever": {"type": "bm25"}}}],
            "e.yaml, key 'selector': the guided retriever needs guiding rules — add selector",
        ),
        ([BM25, {"retriever": {"type": "time_aware"}}], "'retriever.retriever': is missing"),
        ([BM25, {"retriever": {"type": "fused", "retrievers": ["a"]}}], "retrievers.0': expected"),
        ([BM25, {"selector": {"type": "tail"}}], "no selector is called 'tail'"),
        ([BM25, {"selector": {"bank": "x"}}], "key 'selector.bank': unknown key"),
        ([BM25, guided({"type": "bm25", "time_step": 3})], "'retriever.retriever.time_step': unk"),
        ([BM25, {"top_k": "ten"}], "e.yaml, key 'top_k': expected a whole number"),
        ([SYMBOLIC, {"selector": None}], "key 'selector': the symbolic retriever needs"),
        ([SYMBOLIC, {"generator": {"type": "gpt"}}], "no generator is called 'gpt'"),
        ([SYMBOLIC, {"generator": {"type": "symbolic", "labels": {}}}], "'generator.labels': unk"),
        (
            [SYMBOLIC, {"generator": {"type": "symbolic", "evidence": {"time_step": 1}}}],
            "key 'generator.evidence.time_step': unknown key",
        ),
        ([BM25, {"guided": {}}], "key 'guided': unknown key"),
    ],
)
def test_what_does_not_fit_is_named(
    parts: list[dict[str, Any]], message: str, dataset: RuleQADataset
) -> None:
    with pytest.raises(ConfigError) as caught:
        build(dataset, *parts)
    assert message in str(caught.value)


WRONG = ["word", -3, 0, 2.5, True, None, ["a", 1], {"a": 1}, float("nan"), float("inf")]
PLACES: dict[str, tuple[str, ...]] = {
    "retriever.retriever.retriever": (
        "k1",
        "b",
        "dates",
        "stopwords",
        "min_token_length",
        "threads",
    ),
    "selector": ("max_rules", "rank_by", "min_confidence", "min_support"),
    "retriever.retriever": ("strict", "pool", "max_pool", "distinct_facts"),
    "retriever": ("compose", "merge", "include_plain", "plain_weight", "pool", "power"),
    "generator.evidence": ("prior", "exponent", "decay"),
    "generator": ("rank_discount", "max_candidates"),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_value_of_any_kind_is_taken_or_refused_by_name(
    place: str, dataset: RuleQADataset
) -> None:
    """No wrong value gets as far as a traceback, neither when built nor when asked."""
    query = dataset.query_set("full")[:1]
    refused = 0
    for key in PLACES[place]:
        for value in WRONG:
            timed = {"type": "time_aware", "retriever": {"type": "bm25"}}
            values: dict[str, Any] = {**BM25, **guided(timed, merge="evidence")}
            values["generator"] = {"type": "symbolic", "evidence": {}}
            section = values
            for part in place.split("."):
                section = section[part]
            section[key] = value
            try:
                build(dataset, values).answer(query)
            except ConfigError as error:
                assert place.split(".")[0] in str(error)
                refused += 1
    assert refused >= 5 * len(PLACES[place])


# --- datasets and indexes ----------------------------------------------------------------------


def test_a_dataset_folder_is_opened_or_asked_for(dataset: RuleQADataset, tmp_path: Path) -> None:
    dataset.save(tmp_path / "data")
    config = Config({"dataset": {"path": str(tmp_path / "data"), "query_set": "full"}})
    assert open_dataset(config).fingerprint == dataset.fingerprint
    with pytest.raises(ConfigError, match=r"key 'dataset.path'.*--name ruleqa-i --kg GRAPH"):
        open_dataset(Config({"dataset": {"path": str(tmp_path / "ruleqa-i")}}))
    with pytest.raises(ConfigError, match=r"key 'dataset\.path': is missing"):
        open_dataset(Config({"dataset": {}}))
    with pytest.raises(DataError, match="no manifest"):
        open_dataset(Config({"dataset": {"path": str(tmp_path)}}))


def test_a_bm25_index_is_opened_and_checked(dataset: RuleQADataset, tmp_path: Path) -> None:
    made = BM25Retriever(dataset.corpus, k1=1.2)
    made.save(tmp_path / "index")
    opened = build(dataset, BM25, index=tmp_path / "index").retriever
    assert opened.fingerprint == made.fingerprint
    same = {"retriever": {"type": "bm25", "k1": 1.2, "threads": 1}}
    assert build(dataset, BM25, same, index=tmp_path / "index").retriever.threads == 1  # type: ignore[attr-defined]
    for key, value in (("k1", 1.5), ("dates", "split"), ("stopwords", "none")):
        other = {"retriever": {"type": "bm25", key: value}}
        with pytest.raises(ConfigError, match=f"e.yaml, key 'retriever.{key}': is .* built with"):
            build(dataset, BM25, other, index=tmp_path / "index")
    with pytest.raises(RetrievalError, match="no bm25 index here"):
        build(dataset, BM25, index=tmp_path)
    with pytest.raises(ConfigError, match="key 'index': the symbolic retriever keeps no index"):
        build(dataset, SYMBOLIC, index=tmp_path / "index")
    fewer = RuleQADataset(corpus=dataset.corpus[:-1], queries={"test": []})
    with pytest.raises(FingerprintError, match="built from another corpus"):
        build(fewer, BM25, index=tmp_path / "index")


def test_lucene_keeps_its_index_in_the_cache_and_mends_it(
    dataset: RuleQADataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyserini", reason="Lucene is not installed")
    monkeypatch.setenv("RULERAG_CACHE", str(tmp_path / "cache"))
    parts = {"retriever": {"type": "lucene", "k1": 0.8, "heap": "512m"}}
    first: Any = build(dataset, BM25, parts).retriever
    (manifest,) = (tmp_path / "cache").rglob("manifest.json")
    assert (first.k1, first.dates) == (0.8, "split")
    written = manifest.stat().st_mtime_ns
    first.close()
    again: Any = build(dataset, BM25, parts).retriever
    assert manifest.stat().st_mtime_ns == written  # opened, not built anew
    again.close()
    manifest.write_text("{")
    mended: Any = build(dataset, BM25, parts).retriever
    assert mended.retrieve(dataset.query_set("full")[:1], 3)[0]
    mended.close()
    with pytest.raises(ConfigError, match=r"e\.yaml, key 'retriever\.b': 7 is out of range"):
        build(dataset, BM25, {"retriever": {"type": "lucene", "b": 7}})
    tokens = {"retriever": {"type": "lucene", "dates": "token"}}
    with pytest.raises(ConfigError, match=r"'retriever\.dates': is 'token' here, and the index"):
        build(dataset, BM25, tokens, index=manifest.parent)


def test_selector_and_retriever_can_be_made_alone(
    dataset: RuleQADataset, listing: Callable[[RuleSelector], int]
) -> None:
    config = Config({**SYMBOLIC, "selector": {"type": "head", "max_rules": 1}})
    selector = make_selector(config, dataset.rules)
    assert selector is not None
    assert listing(selector) == 1
    assert make_retriever(config, dataset, selector).retrieve([], 3) == []


@pytest.fixture
def listing(dataset: RuleQADataset) -> Callable[[RuleSelector], int]:
    """A function that tells the most rules that a selector gives any query."""
    queries = dataset.query_set("full")
    return lambda selector: max(map(len, selector.select(queries)))
