"""The composition root: sections become objects, wrong ones are named, indexes are opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rulerag.assembly import (
    make_generator,
    make_miner,
    make_pipeline,
    make_retriever,
    make_scorer,
    make_selector,
    open_dataset,
)
from rulerag.composition import Config
from rulerag.errors import ConfigError, DataError, RetrievalError
from rulerag.kg.phrases import FILE
from rulerag.mining.temporal import TLogicMiner
from rulerag.pipeline import RuleRAGPipeline
from rulerag.retrieval.base import FusedRetriever, TimeAwareRetriever
from rulerag.retrieval.dense import DenseRetriever
from rulerag.retrieval.guided import RuleGuidedRetriever
from rulerag.retrieval.lexical import BM25Retriever
from rulerag.ruleqa import DatasetInfo, RuleQADataset

Section = dict[str, Any]
PLAIN: Section = {"type": "bm25"}
SYMBOLIC: Section = {
    "selector": {"type": "head"},
    "retriever": {"type": "symbolic"},
    "generator": {"type": "symbolic"},
}
BM25: Section = {"retriever": PLAIN, "generator": {"type": "symbolic"}}
GUIDED: Section = {"type": "guided", "retriever": PLAIN}


def guided(inside: Section, **settings: Any) -> Section:
    """Sections of a rule-guided retriever around another."""
    return {"selector": {}, "retriever": {"type": "guided", **settings, "retriever": inside}}


def fused(*retrievers: Any, **settings: Any) -> Section:
    """The sections of a fusion."""
    section = {"type": "fused", "retrievers": list(retrievers), **settings}
    return {"selector": {}, "retriever": section}


def build(dataset: RuleQADataset, *parts: Section, **options: Any) -> RuleRAGPipeline:
    values = {key: value for part in (BM25, *parts) for key, value in part.items()}
    return make_pipeline(Config(values, source="e.yaml"), dataset, **options)


def ids(retriever: Any, dataset: RuleQADataset) -> list[list[str]]:
    rows = retriever.retrieve(dataset.query_set("full")[:12], 5)
    return [[scored.document.id for scored in row] for row in rows]


# --- the parts and their order -------------------------------------------------------------------


def test_a_miner_by_name() -> None:
    miner = make_miner("tlogic", min_support=7, backend=None)
    assert isinstance(miner, TLogicMiner) and miner.settings.min_support == 7
    with pytest.raises(ConfigError, match="no miner is called 'ami' — did you mean 'amie'"):
        make_miner("ami")
    with pytest.raises(ConfigError, match="key 'lenghts': unknown key — did you mean 'lengths'"):
        make_miner("tlogic", lenghts=(1,))


def test_wrappers_nest_as_they_are_written(dataset: RuleQADataset) -> None:
    timed = {"type": "time_aware", "retriever": PLAIN}
    pipeline = build(dataset, guided(timed))
    outer: Any = pipeline.retriever
    assert isinstance(outer, RuleGuidedRetriever) and outer.selector is pipeline.selector
    assert isinstance(outer.retriever, TimeAwareRetriever)
    assert isinstance(outer.retriever.retriever, BM25Retriever)
    assert pipeline.fingerprints["dataset"] == dataset.fingerprint
    assert pipeline.fingerprints["rules"] == dataset.rules.fingerprint
    queries = dataset.query_set("supported")[:5]
    assert [answer.query for answer in pipeline.answer(queries)] == queries
    inside_out: Any = build(
        dataset, {"selector": {}, "retriever": {"type": "time_aware", "retriever": GUIDED}}
    )
    assert isinstance(inside_out.retriever.retriever, RuleGuidedRetriever)
    own: Any = build(dataset, guided(PLAIN, selector={"type": "head", "max_rules": 1}))
    assert (own.retriever.selector.max_rules, own.selector.max_rules) == (1, None)
    none = build(dataset, {"selector": None, "top_k": None})
    assert (none.selector, none.top_k) == (None, 10)


def test_parts_can_be_made_alone(dataset: RuleQADataset) -> None:
    config = Config({**SYMBOLIC, "selector": {"type": "head", "max_rules": 1}})
    selector = make_selector(config, dataset.rules)
    assert selector is not None
    assert max(map(len, selector.select(dataset.query_set("full")))) == 1
    assert make_retriever(config, dataset, selector).retrieve([], 3) == []
    assert make_generator(config, dataset).generate([]) == []
    scored = Config({"retriever": {"type": "scored", "scorer": {"type": "analogy", "power": 3.0}}})
    assert make_scorer(scored, dataset).power == 3.0  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"'retriever\.scorer': is missing — name a method with"):
        make_scorer(config, dataset)


def test_time_is_counted_in_the_steps_of_the_calendar(dataset: RuleQADataset) -> None:
    calendar = {"unit": "hour", "origin": "2014-01-01", "step": 24}
    rows = {"corpus": dataset.corpus, "queries": dataset.queries, "rules": dataset.rules}
    hours = RuleQADataset(**rows, info=DatasetInfo(calendar=calendar))  # type: ignore[arg-type]
    made: Any = build(hours, {"retriever": PLAIN})
    assert made.generator.evidence.time_step == 24


def test_fused_lists_share_one_index(dataset: RuleQADataset) -> None:
    both: Any = build(dataset, fused(GUIDED, PLAIN, {"type": "symbolic"}, depth=20)).retriever
    assert isinstance(both, FusedRetriever) and len(both.retrievers) == 3
    assert both.retrievers[0].retriever is both.retrievers[1], "equal settings are one object"
    assert all(len(row) == 5 for row in ids(both, dataset))


def test_a_dataset_s_own_templates_word_its_rules(dataset: RuleQADataset, tmp_path: Path) -> None:
    dataset.save(tmp_path)
    heads = {rule.head.relation for rule in dataset.rules}
    lines = [f'"{head}": "{{x}} has business with {{y}}"\n' for head in heads]
    (tmp_path / FILE).write_text("".join(lines))
    opened = RuleQADataset.load(tmp_path)
    pipelines = [build(one, guided(PLAIN)) for one in (dataset, opened)]
    plain, worded = (pipeline.answer(dataset.query_set("full")) for pipeline in pipelines)
    assert [answer.text for answer in plain] == [answer.text for answer in worded]
    texts = [[rule.text for one in answers for rule in one.rules] for answers in (plain, worded)]
    assert len(texts[0]) == len(texts[1]) > 0 and all(one.startswith("[E") for one in texts[0])
    assert all(one.endswith("then later X has business with Y") for one in texts[1])


# --- what is wrong -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"retriever": None}, "e.yaml, key 'retriever': is missing"),
        ({"generator": None}, "e.yaml, key 'generator': is missing"),
        ({"retreiver": {}}, "e.yaml, key 'retreiver': unknown key — did you mean"),
        ({"top_k": "ten"}, "e.yaml, key 'top_k': expected a whole number"),
        ({"retriever": {}}, "e.yaml, key 'retriever.type': is missing — one of bm25"),
        ({"retriever": {"type": "bm25", "b": 2}}, "e.yaml, key 'retriever.b': 2 is out"),
        ({"retriever": "bm25"}, "key 'retriever': expected a section of keys"),
        ({"retriever": GUIDED}, "key 'selector': the guided retriever needs guiding rules — add"),
        ({"retriever": {"type": "time_aware"}}, "'retriever.retriever': is missing — write retr"),
        (guided({"type": "bm25", "time_step": 3}), "'retriever.retriever.time_step': unk"),
        (fused(GUIDED, PLAIN, method="rff"), "key 'retriever.method': unknown method 'rff'"),
        (fused(GUIDED, PLAIN, weights=[1]), "key 'retriever.weights': [1] cannot weigh"),
        (fused(GUIDED, "bm25"), "'retriever.retrievers.1': expected a section of keys"),
        (fused(GUIDED, {"b": 1}), "key 'retriever.retrievers.1.type': is missing"),
        ({"retriever": {"type": "dense", "index": "flot"}}, "'retriever.index': FAISS cannot make"),
    ],
)
def test_what_does_not_fit_is_named(part: Section, message: str, dataset: RuleQADataset) -> None:
    with pytest.raises(ConfigError) as caught:
        build(dataset, part)
    assert message in str(caught.value)


WRONG = ["word", -3, 0, 2.5, True, None, ["a", 1], {"a": 1}, float("nan"), float("inf")]
PLACES: dict[str, str] = {
    "retriever.retriever.retriever": "k1 b dates stopwords min_token_length threads",
    "selector": "max_rules rank_by min_confidence min_support",
    "retriever.retriever": "strict pool max_pool distinct_facts",
    "retriever": "compose merge include_plain plain_weight pool power",
    "generator.evidence": "prior exponent decay",
    "generator": "rank_discount max_candidates",
}


@pytest.mark.parametrize("place", PLACES)
def test_a_value_of_any_kind_is_taken_or_refused_by_name(
    place: str, dataset: RuleQADataset
) -> None:
    """No wrong value gets as far as a traceback, neither when built nor when asked."""
    query = dataset.query_set("full")[:1]
    refused = 0
    keys = PLACES[place].split()
    for key, value in ((key, value) for key in keys for value in WRONG):
        timed = {"type": "time_aware", "retriever": {"type": "bm25"}}
        values: Section = guided(timed, merge="evidence")
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
    assert refused >= 5 * len(keys)


# --- datasets and indexes ------------------------------------------------------------------------


def test_a_dataset_folder_is_opened_or_its_making_is_explained(
    dataset: RuleQADataset, tmp_path: Path
) -> None:
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
    index = tmp_path / "index"
    made = BM25Retriever(dataset.corpus, k1=1.2)
    made.save(index)
    assert build(dataset, index=index).retriever.fingerprint == made.fingerprint
    same: Any = {"retriever": {"type": "bm25", "k1": 1.2, "threads": 1}}
    assert build(dataset, same, index=index).retriever.threads == 1  # type: ignore[attr-defined]
    for key, value in (("k1", 1.5), ("dates", "split"), ("stopwords", "none")):
        other = {"retriever": {"type": "bm25", key: value}}
        with pytest.raises(ConfigError, match=f"e.yaml, key 'retriever.{key}': is .* built with"):
            build(dataset, other, index=index)
    first: Any = build(dataset, fused(PLAIN, {"type": "bm25", "k1": 0.9}), index=index).retriever
    assert [one.k1 for one in first.retrievers] == [1.2, 0.9], "that of the first retriever"
    with pytest.raises(RetrievalError, match="no bm25 index here"):
        build(dataset, index=tmp_path)
    with pytest.raises(ConfigError, match="key 'index': the symbolic retriever keeps no index"):
        build(dataset, SYMBOLIC, index=index)


def test_a_dense_index_is_opened_and_checked(dataset: RuleQADataset, tmp_path: Path) -> None:
    dense = {"retriever": {"type": "dense"}}
    made: Any = build(dataset, dense).retriever
    assert isinstance(made, DenseRetriever) and made.similarity == "cosine"
    assert made.query_encoder.name.endswith("nano-encoder")  # type: ignore[attr-defined]
    made.save(tmp_path / "index")
    opened = build(dataset, dense, index=tmp_path / "index").retriever
    assert opened.fingerprint == made.fingerprint and ids(opened, dataset) == ids(made, dataset)
    with pytest.raises(RetrievalError, match="holds an index of kind 'dense'"):
        build(dataset, index=tmp_path / "index")


@pytest.mark.slow
def test_lucene_keeps_its_index_in_the_cache_and_mends_it(
    dataset: RuleQADataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyserini", reason="Lucene is not installed")
    monkeypatch.setenv("RULERAG_CACHE", str(tmp_path))
    part: Section = {"retriever": {"type": "lucene", "k1": 0.8, "heap": "512m"}}
    times = []
    for damaged in (False, False, True):
        if damaged:
            next(tmp_path.rglob("manifest.json")).write_text("{")
        made: Any = build(dataset, part).retriever
        assert made.k1 == 0.8 and made.retrieve(dataset.query_set("full")[:1], 3)[0]
        made.close()
        (manifest,) = tmp_path.rglob("manifest.json")
        times.append(manifest.stat().st_mtime_ns)
    assert times[0] == times[1] < times[2], "opened, not built anew, until it is damaged"
