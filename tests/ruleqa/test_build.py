"""RuleQA built from a world that knows its truth, and from ICEWS14 at the published sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.ruleqa.__main__ import main
from rulerag.errors import ConfigError, DataError, EmptyDataError
from rulerag.kg.graph import KnowledgeGraph
from rulerag.kg.grounding.bindings import FactIndex, ground
from rulerag.ruleqa import DatasetInfo, RuleQASettings, build
from rulerag.ruleqa.check import check_leakage
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.synthetic.world import World
from rulerag.types import Document, Fact, Query

SMALL = {
    "temporal": (
        "ruleqa-i",
        RuleQASettings(num_queries=40, miner="tlogic", min_support=20, min_confidence=0.3),
    ),
    "static": (
        "ruleqa-f",
        RuleQASettings(num_queries=40, miner="amie", max_atoms=3, min_confidence=0.3),
    ),
}


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, KnowledgeGraph]:
    """One small graph of each kind, saved and loaded as a user's would be."""
    loaded = {}
    for kind in SMALL:
        folder = tmp_path_factory.mktemp("worlds") / kind
        World.generate(3000, kind=kind).save(folder)
        loaded[kind] = KnowledgeGraph.load(folder)
    return loaded


@pytest.fixture(scope="module")
def built(graphs: dict[str, KnowledgeGraph]) -> dict[str, RuleQADataset]:
    return {kind: make(graphs[kind], kind) for kind in SMALL}


def make(graph: KnowledgeGraph, kind: str, **options: Any) -> RuleQADataset:
    name, settings = SMALL[kind]
    return build(name, graph, **{"settings": settings, **options})


@pytest.fixture(scope="module")
def icews14(graph_folder: Callable[[str], Path]) -> KnowledgeGraph:
    return KnowledgeGraph.load(graph_folder("icews14"))


@pytest.fixture(scope="module")
def ruleqa_i(icews14: KnowledgeGraph) -> RuleQADataset:
    return build("ruleqa-i", icews14)


KINDS = pytest.mark.parametrize("kind", SMALL)


# --- what is built -----------------------------------------------------------------------------


def test_the_published_sizes(ruleqa_i: RuleQADataset) -> None:
    counts = ruleqa_i.manifest["counts"]
    assert counts["documents"] == 74_845  # one for each training fact
    assert counts["rules"] == 11_221
    assert counts["queries"]["test"] == 6_656
    assert counts["query_sets"]["balanced"] == 1_559  # the paper's |Q|
    assert counts["entities"] + counts["relations"] > 0


def test_the_words_are_the_papers(ruleqa_i: RuleQADataset) -> None:
    assert ruleqa_i.corpus[0].text.startswith("Time 2014-01-01 ")
    assert all(document.text.endswith(".") for document in ruleqa_i.corpus[:100])
    query = ruleqa_i.query_set("full")[0]
    assert query.text.startswith("Time 2014-12-01 what does ") and query.text.endswith(" ?")


@KINDS
def test_the_corpus_is_the_training_facts(
    kind: str, graphs: dict[str, KnowledgeGraph], built: dict[str, RuleQADataset]
) -> None:
    facts = [fact for document in built[kind].corpus for fact in document.facts]
    assert facts == list(graphs[kind].train)
    assert len(built[kind].corpus) == len(facts)


@KINDS
def test_every_acceptable_answer_is_listed(
    kind: str, graphs: dict[str, KnowledgeGraph], built: dict[str, RuleQADataset]
) -> None:
    graph = graphs[kind]
    wanted: dict[tuple[str, str, int | None], set[str]] = {}
    for fact in graph.test:
        asked = (fact.subject, fact.relation, fact.timestamp)
        wanted.setdefault(asked, set()).add(graph.entities.label(fact.object))
    queries = built[kind].query_set("full")
    assert {(q.subject, q.relation, q.timestamp): set(q.answers) for q in queries} == wanted
    assert len(queries) == len(wanted)


def test_icews14_lists_every_acceptable_answer(
    icews14: KnowledgeGraph, ruleqa_i: RuleQADataset
) -> None:
    asked = {(f.subject, f.relation, f.object, f.timestamp) for f in icews14.test}
    answers = sum(len(query.answers) for query in ruleqa_i.query_set("full"))
    assert answers == len(asked)
    assert max(len(query.answers) for query in ruleqa_i.query_set("full")) > 5


@KINDS
def test_the_halves_are_disjoint_and_come_from_validation_facts(
    kind: str, graphs: dict[str, KnowledgeGraph], built: dict[str, RuleQADataset]
) -> None:
    asked = {(f.subject, f.relation, f.timestamp) for f in graphs[kind].valid}
    halves = []
    for split in ("f_r", "f_g"):
        rows = built[kind].query_set(split)
        halves.append({(q.subject, q.relation, q.timestamp) for q in rows})
        assert halves[-1] <= asked
        assert all(built[kind].rules.for_head(q.relation) for q in rows)
    assert not halves[0] & halves[1]
    assert set(built[kind].qrels("f_r")) == {q.id for q in built[kind].query_set("f_r")}


def test_the_halves_of_icews14(icews14: KnowledgeGraph, ruleqa_i: RuleQADataset) -> None:
    first, second = (
        {(q.subject, q.relation, q.timestamp) for q in ruleqa_i.query_set(split)}
        for split in ("f_r", "f_g")
    )
    assert not first & second
    asked = {(f.subject, f.relation, f.timestamp) for f in icews14.valid}
    guided = [query for query in asked if ruleqa_i.rules.for_head(query[1])]
    assert len(second) == len(guided) - len(guided) // 2
    assert len(first) <= len(guided) // 2  # a query without an oracle document gives no pair


# --- oracle documents --------------------------------------------------------------------------


@KINDS
def test_oracle_documents_ground_a_rule_for_an_answer(
    kind: str, built: dict[str, RuleQADataset]
) -> None:
    """Executed anew, on the judged documents alone."""
    dataset = built[kind]
    judged = 0
    for split in ("test", "f_r", "f_g"):
        for query in dataset.query_set(split):
            documents = [dataset.documents[d] for d in dataset.qrels(split).get(query.id, {})]
            used = grounded(query, documents, dataset)
            assert used == {document.id for document in documents}
            judged += len(documents)
    assert judged > 20


def grounded(query: Query, documents: list[Document], dataset: RuleQADataset) -> set[str]:
    """The documents whose facts ground a guiding rule of the query for one of its answers."""
    owner = [document.id for document in documents for _ in document.facts]
    index = FactIndex(enumerate(fact for document in documents for fact in document.facts))
    label = dataset.labels["entities"]
    return {
        owner[row]
        for rule in dataset.rules.for_head(query.relation)
        for found in ground(rule, query.subject, index, query.timestamp)
        if label.get(found.answer, found.answer) in query.answers
        for row in found.rows
    }


def test_oracle_documents_of_icews14(ruleqa_i: RuleQADataset) -> None:
    queries = [q for q in ruleqa_i.query_set("full") if q.id in ruleqa_i.qrels("test")]
    for query in queries[::97]:
        documents = [ruleqa_i.documents[d] for d in ruleqa_i.qrels("test")[query.id]]
        assert grounded(query, documents, ruleqa_i) == {document.id for document in documents}
        assert all((document.timestamp or 0) < (query.timestamp or 0) for document in documents)


@KINDS
def test_the_worlds_own_supports_are_among_them(
    kind: str, graphs: dict[str, KnowledgeGraph], built: dict[str, RuleQADataset]
) -> None:
    dataset, world = built[kind], World.generate(3000, kind=kind)
    id_of = {fact: document.id for document in dataset.corpus for fact in document.facts}
    checked = 0
    for query in dataset.query_set("full"):
        truth = world.find(query.subject, query.relation, query.timestamp)
        assert truth is not None
        supports = zip(truth.rules, truth.supports, strict=True)
        for facts in (facts for rule, facts in supports if rule in dataset.rules):
            assert {id_of[fact] for fact in facts} <= dataset.qrels("test")[query.id].keys()
            checked += 1
    assert checked > 20


# --- the balanced set --------------------------------------------------------------------------


def cells(dataset: RuleQADataset, graph: KnowledgeGraph) -> tuple[list[int], list[int]]:
    """Sizes of the four popularity cells: of the balanced set, and of what it was drawn from."""
    degree: dict[str, int] = {}
    for fact in graph.train:
        for end in (fact.subject, fact.object):
            label = graph.entities.label(end)
            degree[label] = degree.get(label, 0) + 1
    guided = [q for q in dataset.query_set("full") if dataset.rules.for_head(q.relation)]
    subject = [degree.get(graph.entities.label(q.subject), 0) for q in guided]
    answer = [max(degree.get(a, 0) for a in q.answers) for q in guided]
    middle = (np.median(subject), np.median(answer))
    rows = zip(guided, subject, answer, strict=True)
    cell = {q.id: 2 * (s > middle[0]) + (a > middle[1]) for q, s, a in rows}
    chosen = [cell[query.id] for query in dataset.query_set("balanced")]
    return [chosen.count(c) for c in range(4)], [list(cell.values()).count(c) for c in range(4)]


def test_balanced_cells_are_of_one_size(ruleqa_i: RuleQADataset, icews14: KnowledgeGraph) -> None:
    sizes, pools = cells(ruleqa_i, icews14)
    assert sum(sizes) == 1_559
    assert min(pools) > max(sizes)  # every cell could have given more
    assert max(sizes) - min(sizes) <= 1


@KINDS
def test_a_cell_that_runs_dry_is_filled_up_by_the_others(
    kind: str, graphs: dict[str, KnowledgeGraph]
) -> None:
    name, settings = SMALL[kind]
    for wanted in (10, 10_000):
        dataset = build(
            name, graphs[kind], settings=RuleQASettings.joined(settings, {"num_queries": wanted})
        )
        sizes, pools = cells(dataset, graphs[kind])
        assert sum(sizes) == min(wanted, sum(pools))
        largest = max(sizes)
        assert all(s >= largest - 1 or s == p for s, p in zip(sizes, pools, strict=True))


# --- seeds -------------------------------------------------------------------------------------


@KINDS
def test_the_seed_decides_samples_and_halves_and_nothing_else(
    kind: str, graphs: dict[str, KnowledgeGraph], built: dict[str, RuleQADataset]
) -> None:
    first, again = built[kind], make(graphs[kind], kind)
    assert first.fingerprint == again.fingerprint
    other = make(graphs[kind], kind, seed=1)
    assert other.fingerprint != first.fingerprint
    assert other.query_sets["balanced"] != first.query_sets["balanced"]
    assert other.query_set("f_g") != first.query_set("f_g")
    assert other.corpus == first.corpus
    assert other.rules.fingerprint == first.rules.fingerprint
    assert other.query_set("full") == first.query_set("full")
    assert (first.seed, other.seed) == (0, 1)


def test_the_manifest_says_how_it_was_made(
    graphs: dict[str, KnowledgeGraph], built: dict[str, RuleQADataset], tmp_path: Path
) -> None:
    built["temporal"].save(tmp_path)
    loaded = RuleQADataset.load(tmp_path)
    assert loaded.fingerprint == built["temporal"].fingerprint
    settings = loaded.manifest["settings"]
    assert settings["graph_fingerprint"] == graphs["temporal"].fingerprint
    assert (settings["num_queries"], settings["min_support"]) == (40, 20)
    assert loaded.manifest["counts"] == built["temporal"].manifest["counts"]


# --- leaks -------------------------------------------------------------------------------------


def changed(dataset: RuleQADataset, **parts: Any) -> RuleQADataset:
    """The same dataset with some parts replaced."""
    kept = {
        "corpus": dataset.corpus,
        "queries": dataset.queries,
        "rules": dataset.rules,
        "labels": dataset.labels,
        "info": DatasetInfo(calendar=dataset.calendar),
    }
    return RuleQADataset(**{**kept, **parts})


@KINDS
def test_what_is_built_does_not_leak(kind: str, built: dict[str, RuleQADataset]) -> None:
    lines = check_leakage(built[kind])
    assert len(lines) == (4 if kind == "temporal" else 3)
    assert not any("before every query" in line for line in check_leakage(built["static"]))


@pytest.mark.parametrize("split", ["test", "f_r", "f_g"])
def test_a_stated_answer_is_a_leak(split: str, built: dict[str, RuleQADataset]) -> None:
    dataset = built["static"]
    query = dataset.query_set(split)[0]
    fact = Fact(query.subject, query.relation, query.answers[0])
    corpus = [*dataset.corpus, Document("leak", "told", (fact,))]
    with pytest.raises(DataError, match=f"states the answer .* of the {split} query {query.id}"):
        check_leakage(changed(dataset, corpus=corpus))


def test_a_stated_answer_is_a_leak_by_its_label_too() -> None:
    query = Query("q", "what does Ann like ?", "ann", "like", None, ("Bob B",))
    corpus = [Document("d", "told", (Fact("ann", "like", "bob"),))]
    labels = {"entities": {"bob": "Bob B"}}
    leaking = RuleQADataset(corpus=corpus, queries={"test": [query]}, labels=labels)
    with pytest.raises(DataError, match="states the answer 'Bob B' of the test query q"):
        check_leakage(leaking)


def test_a_late_document_is_a_leak(built: dict[str, RuleQADataset]) -> None:
    dataset = built["temporal"]
    query = min(dataset.query_set("full"), key=lambda q: q.timestamp or 0)
    late = Document("late", "told", (Fact("a", "b", "c", query.timestamp),))
    with pytest.raises(DataError, match=r"the corpus reaches \d+, the \w+ query .* asks about"):
        check_leakage(changed(dataset, corpus=[*dataset.corpus, late]))


@pytest.mark.parametrize("split", ["f_r", "f_g"])
def test_a_test_query_among_the_fine_tuning_queries_is_a_leak(
    split: str, built: dict[str, RuleQADataset]
) -> None:
    dataset = built["temporal"]
    smuggled = replace(dataset.query_set("full")[0], id="smuggled")
    queries = {**dataset.queries, split: [*dataset.queries[split], smuggled]}
    message = f"the {split} query smuggled is asked in the test set too"
    with pytest.raises(DataError, match=message):
        check_leakage(changed(dataset, queries=queries))


def test_a_query_in_both_halves_is_a_leak(built: dict[str, RuleQADataset]) -> None:
    dataset = built["temporal"]
    shared = replace(dataset.query_set("f_r")[0], id="shared")
    queries = {**dataset.queries, "f_g": [*dataset.queries["f_g"], shared]}
    with pytest.raises(DataError, match="1 queries are in both F_R and F_G"):
        check_leakage(changed(dataset, queries=queries))


# --- bad input ---------------------------------------------------------------------------------


def test_what_cannot_be_built_is_refused_by_name(graphs: dict[str, KnowledgeGraph]) -> None:
    dated, static = graphs["temporal"], graphs["static"]
    with pytest.raises(ConfigError, match="no benchmark is called 'ruleqa-j' — did you mean"):
        build("ruleqa-j", dated)
    with pytest.raises(ConfigError, match="ruleqa-i is made of dated facts, and those of"):
        build("ruleqa-i", static)
    with pytest.raises(ConfigError, match="ruleqa-n is made of static facts, and those of"):
        build("ruleqa-n", dated)
    with pytest.raises(ConfigError, match="key 'num_queries': 0 is out of range"):
        build("ruleqa-i", dated, changes={"num_queries": 0})
    with pytest.raises(ConfigError, match="key 'seed': -1 is out of range"):
        build("ruleqa-i", dated, seed=-1)
    with pytest.raises(EmptyDataError, match=r"no test query of .* has a guiding rule"):
        build("ruleqa-i", dated, settings=SMALL["temporal"][1], changes={"min_support": 10**6})
    half = KnowledgeGraph.from_facts([("a", "b", "c", 1)], name="half")
    with pytest.raises(EmptyDataError, match="the graph 'half' has no facts in its split 'test'"):
        build("ruleqa-i", half)


def test_the_command_builds_and_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    World.generate(1500, max_body_atoms=1).save(tmp_path / "kg")
    command = ["build", "--name", "ruleqa-i", "--kg", str(tmp_path / "kg"), "--quiet"]
    out = tmp_path / "new" / "data"
    assert main([*command, "--out", str(out), "--num-queries", "8"]) == 0
    told = capsys.readouterr()
    assert "|D| 1,410" in told.out and "|Q| 8 balanced" in told.out
    assert RuleQADataset.load(out).fingerprint in told.out
    assert told.err == ""
    assert main(["check", str(out)]) == 0
    assert capsys.readouterr().out.count("ok  ") == 4


def test_the_command_refuses_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    World.generate(500).save(tmp_path / "kg")
    kg, data = str(tmp_path / "kg"), str(tmp_path / "data")
    for arguments, message in (
        (["build", "--name", "ruleqa-j", "--kg", kg, "--out", data], "no benchmark is called"),
        (["build", "--name", "ruleqa-i", "--kg", "nowhere", "--out", data], "no such file"),
        (["build", "--name", "ruleqa-i", "--kg", kg, "--out", str(tmp_path / "file" / "x")], "wri"),
        (["check", "nowhere"], "no such folder"),
    ):
        assert main(arguments) == 2
        told = capsys.readouterr().err
        assert told.startswith("error: ") and message in told and told.count("\n") == 1
    assert main(["build", "--name", "ruleqa-i"]) == 2
    assert "--kg requires an argument" in capsys.readouterr().err


def test_a_built_folder_that_was_changed_is_refused(
    built: dict[str, RuleQADataset], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    built["static"].save(tmp_path / "data")
    (tmp_path / "data" / "queries.jsonl").write_text("{}\n")
    assert main(["check", str(tmp_path / "data")]) == 2
    assert "queries.jsonl: has the fingerprint" in capsys.readouterr().err
