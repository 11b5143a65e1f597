"""RuleQA built from a world that knows its truth, and from ICEWS14 at the published sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rulerag.errors import DataError, RuleRAGError
from rulerag.kg.graph import KnowledgeGraph
from rulerag.kg.grounding.bindings import FactIndex, ground
from rulerag.ruleqa import DatasetInfo, build
from rulerag.ruleqa.check import check_leakage
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.synthetic.world import World
from rulerag.types import Document, Fact, Query
from tests.ruleqa.worlds import KINDS, SMALL, make


@pytest.fixture(scope="module")
def icews14(graph_folder: Callable[[str], Path]) -> KnowledgeGraph:
    return KnowledgeGraph.load(graph_folder("icews14"))


@pytest.fixture(scope="module")
def ruleqa_i(icews14: KnowledgeGraph) -> RuleQADataset:
    return build("ruleqa-i", icews14)


# --- what is built -----------------------------------------------------------------------------


def test_the_published_sizes_and_words(ruleqa_i: RuleQADataset) -> None:
    counts = ruleqa_i.manifest["counts"]
    assert counts["documents"] == 74_845  # one for each training fact
    assert counts["rules"] == 11_221
    assert counts["queries"]["test"] == 6_656
    assert counts["query_sets"]["balanced"] == 1_559  # the paper's |Q|
    assert ruleqa_i.corpus[0].text.startswith("Time 2014-01-01 ")
    query = ruleqa_i.query_set("full")[0]
    assert query.text.startswith("Time 2014-12-01 what does ") and query.text.endswith(" ?")


@KINDS
def test_documents_are_the_training_facts_and_queries_the_test_facts(
    kind: str, graphs: dict[str, KnowledgeGraph], built: dict[str, RuleQADataset]
) -> None:
    facts = [fact for document in built[kind].corpus for fact in document.facts]
    assert facts == list(graphs[kind].train)
    assert len(built[kind].corpus) == len(facts)
    wanted: dict[tuple[str, str, int | None], set[str]] = {}
    for fact in graphs[kind].test:
        asked = (fact.subject, fact.relation, fact.timestamp)
        wanted.setdefault(asked, set()).add(graphs[kind].entities.label(fact.object))
    queries = built[kind].query_set("full")
    assert len(queries) == len(wanted)
    assert {(q.subject, q.relation, q.timestamp): set(q.answers) for q in queries} == wanted
    settings = built[kind].manifest["settings"]
    assert settings["graph_fingerprint"] == graphs[kind].fingerprint
    assert settings["num_queries"] == 40


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
    for wanted in (10, 10_000):
        dataset = make(graphs, kind, num_queries=wanted)
        sizes, pools = cells(dataset, graphs[kind])
        assert sum(sizes) == min(wanted, sum(pools))
        largest = max(sizes)
        assert all(s >= largest - 1 or s == p for s, p in zip(sizes, pools, strict=True))


# --- seeds -------------------------------------------------------------------------------------


@KINDS
def test_the_seed_decides_samples_and_halves_and_nothing_else(
    kind: str, graphs: dict[str, KnowledgeGraph], built: dict[str, RuleQADataset]
) -> None:
    first, again = built[kind], make(graphs, kind)
    assert first.fingerprint == again.fingerprint
    other = make(graphs, kind, seed=1)
    assert other.fingerprint != first.fingerprint
    assert other.query_sets["balanced"] != first.query_sets["balanced"]
    assert other.query_set("f_g") != first.query_set("f_g")
    assert other.corpus == first.corpus
    assert other.rules.fingerprint == first.rules.fingerprint
    assert other.query_set("full") == first.query_set("full")
    assert (first.seed, other.seed) == (0, 1)


# --- leaks -------------------------------------------------------------------------------------


def leaking(dataset: RuleQADataset, how: str, split: str) -> RuleQADataset:
    """The same dataset with one leak."""
    corpus, queries = list(dataset.corpus), dict(dataset.queries)
    query = dataset.query_set(split)[0]
    if how == "stated":
        fact = Fact(query.subject, query.relation, query.answers[0])
        corpus.append(Document("leak", "told", (fact,)))
    elif how == "late":
        earliest = min(one.timestamp or 0 for one in dataset.query_set("full"))
        corpus.append(Document("leak", "told", (Fact("a", "b", "c", earliest),)))
    else:
        queries[how] = [*queries[how], replace(query, id="smuggled")]
    info = DatasetInfo(calendar=dataset.calendar)
    return RuleQADataset(
        corpus=corpus, queries=queries, rules=dataset.rules, labels=dataset.labels, info=info
    )


@pytest.mark.parametrize(
    ("kind", "how", "split", "message"),
    [
        ("static", "stated", "test", "states the answer .* of the test query test-"),
        ("static", "stated", "f_r", "states the answer .* of the f_r query valid-"),
        ("static", "stated", "f_g", "states the answer .* of the f_g query valid-"),
        ("temporal", "late", "test", r"the corpus reaches \d+, the \w+ query .* asks about"),
        ("temporal", "f_r", "test", "the f_r query smuggled is asked in the test set too"),
        ("temporal", "f_g", "test", "the f_g query smuggled is asked in the test set too"),
        ("temporal", "f_g", "f_r", "1 queries are in both F_R and F_G"),
    ],
)
def test_every_leak_is_found(
    kind: str, how: str, split: str, message: str, built: dict[str, RuleQADataset]
) -> None:
    assert len(check_leakage(built[kind])) == (4 if kind == "temporal" else 3)
    with pytest.raises(DataError, match=message):
        check_leakage(leaking(built[kind], how, split))


def test_a_stated_answer_is_a_leak_by_its_label_too() -> None:
    query = Query("q", "what does Ann like ?", "ann", "like", None, ("Bob B",))
    corpus = [Document("d", "told", (Fact("ann", "like", "bob"),))]
    labels = {"entities": {"bob": "Bob B"}}
    dataset = RuleQADataset(corpus=corpus, queries={"test": [query]}, labels=labels)
    with pytest.raises(DataError, match="states the answer 'Bob B' of the test query q"):
        check_leakage(dataset)


# --- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("temporal", {"name": "ruleqa-j"}, "no benchmark is called 'ruleqa-j' — did you mean"),
        ("static", {"name": "ruleqa-i"}, "ruleqa-i is made of dated facts, and those of"),
        ("temporal", {"name": "ruleqa-n"}, "ruleqa-n is made of static facts, and those of"),
        ("temporal", {"num_queries": 0}, "key 'num_queries': 0 is out of range"),
        ("temporal", {"seed": -1}, "key 'seed': -1 is out of range"),
        ("temporal", {"min_support": 10**6}, "no test query of .* has a guiding rule"),
        ("temporal", {"corpus": "all"}, "key 'corpus': expected .*'train.valid', found 'all'"),
        ("static", {"corpus": "train+valid"}, "undated validation facts would answer"),
        ("static", {"hold_out": 10**6}, "1,000,000 of .* training facts cannot be held out"),
        ("static", {"num_rules": 0}, "key 'num_rules': 0 is out of range"),
        ("temporal", {"variant": "validate"}, "unknown variant 'validate' — did you mean 'valid"),
    ],
)
def test_what_cannot_be_built_is_refused_by_name(
    kind: str, options: dict[str, Any], message: str, graphs: dict[str, KnowledgeGraph]
) -> None:
    changes = {k: v for k, v in options.items() if k not in ("name", "seed", "variant")}
    given = {k: v for k, v in options.items() if k in ("seed", "variant")}
    name, settings = SMALL[kind]
    if "name" in options:
        name, given["settings"] = options["name"], None
    with pytest.raises(RuleRAGError, match=message):
        build(name, graphs[kind], **{"settings": settings, "changes": changes, **given})
