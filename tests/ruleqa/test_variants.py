"""Variants and options of a benchmark: validation variant, degenerate queries, the open choices."""

from __future__ import annotations

import pytest

from rulerag.errors import DataError
from rulerag.kg.graph import KnowledgeGraph
from rulerag.ruleqa import DatasetInfo
from rulerag.ruleqa.builder import RuleQASettings, build
from rulerag.ruleqa.check import check_leakage
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.ruleqa.validation_split import validation_graph, with_held_out
from rulerag.types import Document, Fact
from tests.ruleqa.worlds import KINDS, SMALL, make

# --- the validation variant -----------------------------------------------------------------------


@KINDS
def test_a_validation_variant_never_sees_a_test_fact(
    kind: str, graphs: dict[str, KnowledgeGraph]
) -> None:
    graph, variant = graphs[kind], make(graphs, kind, "validation")
    assert variant.name == f"{SMALL[kind][0]}-validation"
    asked = {(f.subject, f.relation, f.timestamp) for f in graph.valid}
    assert {(q.subject, q.relation, q.timestamp) for q in variant.query_set("full")} == asked
    known = {fact for document in variant.corpus for fact in document.facts}
    assert known < set(graph.train)
    trained = {(f.subject, f.relation, f.timestamp) for f in graph.train}
    for split in ("f_r", "f_g"):
        assert {(q.subject, q.relation, q.timestamp) for q in variant.queries[split]} <= trained
    assert any("before every query" in line for line in check_leakage(variant)) == (
        kind == "temporal"
    )


def test_pairs_that_no_fact_links_stay_unlinked_in_the_validation_variant() -> None:
    """As in FB15K-237, whose validation and test pairs no training fact links."""
    train = [(f"e{n}", r, f"e{n + 1}") for n in range(300) for r in ("r", "s")]
    train += [(f"e{n + 1}", "t", f"e{n}") for n in range(300)]
    ends = [("e0", "r", "e9")], [("e1", "r", "e8")]
    variant = validation_graph(KnowledgeGraph.from_facts(train, valid=ends[0], test=ends[1]))
    linked = {frozenset((f.subject, f.object)) for f in variant.train}
    held = {frozenset((f.subject, f.object)) for f in variant.valid}
    assert held and not held & linked
    assert len(variant.valid) == 3 * len(held)


def test_held_out_facts_join_the_validation_facts(graphs: dict[str, KnowledgeGraph]) -> None:
    graph = graphs["static"]
    smaller = with_held_out(graph, 100)
    assert len(smaller.train) == len(graph.train) - 100
    assert list(smaller.valid)[: len(graph.valid)] == list(graph.valid)
    assert sorted([*smaller.train, *smaller.valid]) == sorted([*graph.train, *graph.valid])
    assert list(smaller.valid) != list(with_held_out(graph, 100, seed=1).valid)
    assert with_held_out(graph, 0) is graph
    dataset = make(graphs, "static", hold_out=100)
    assert len(dataset.corpus) == len(smaller.train)


# --- degenerate queries ------------------------------------------------------------------------


@KINDS
def test_degenerate_queries_are_answered_directly(
    kind: str, graphs: dict[str, KnowledgeGraph], built: dict[str, RuleQADataset]
) -> None:
    original = {query.id: query for query in built[kind].query_set("full")}
    dataset = make(graphs, kind, "degenerate")
    assert dataset.query_set("balanced")
    assert dataset.query_sets["balanced"] <= built[kind].query_sets["balanced"]
    label = dataset.labels["entities"]
    for query in dataset.query_set("full"):
        before = original[query.id]
        # Answers and guiding rules stay; only the question is another one.
        assert (query.answers, query.relation) == (before.answers, before.relation)
        assert query.text != before.text
        # What is asked stands in the question's data too: a prompt without rules shows it.
        assert query.text.endswith(f"what does {query.subject_words} {query.relation_words} ?")
        documents = [dataset.documents[i] for i in dataset.qrels("test")[query.id]]
        for document in documents:
            (fact,) = document.facts
            assert fact.subject == query.subject
            assert label.get(fact.object, fact.object) in query.answers
            assert fact.timestamp == query.timestamp
            # Word for word: "what does SUBJECT RELATION ?" asks for what the document states.
            words = query.text.removesuffix(" ?").replace("what does ", "")
            assert document.text.startswith(words)
    assert dataset.corpus == built[kind].corpus
    assert dataset.rules.fingerprint == built[kind].rules.fingerprint
    assert check_leakage(dataset) == dataset.statistics["leakage"]


def test_the_time_of_a_degenerate_query_can_stay(
    graphs: dict[str, KnowledgeGraph], built: dict[str, RuleQADataset]
) -> None:
    original = {query.id: query for query in built["temporal"].query_set("full")}
    dataset = make(graphs, "temporal", "degenerate", degenerate_time="keep")
    for query in dataset.query_set("full"):
        assert query.timestamp == original[query.id].timestamp
        times = [dataset.documents[i].timestamp for i in dataset.qrels("test")[query.id]]
        assert all(time is not None and time < (query.timestamp or 0) for time in times)


def test_a_chain_is_asked_from_the_entity_before_the_answer() -> None:
    """``a(x, z) ∧ b(z, y) => c(x, y)``: in place of c of x, b of z is asked."""
    train = [(f"x{n}", "a", f"z{n}") for n in range(140)]
    train += [(f"z{n}", "b", f"y{n}") for n in range(140)]
    train += [(f"x{n}", "c", f"y{n}") for n in range(120)]
    graph = KnowledgeGraph.from_facts(
        train, valid=[("x130", "c", "y130")], test=[("x139", "c", "y139")]
    )
    settings = RuleQASettings(num_queries=1, miner="amie", max_atoms=3, min_confidence=0.3)
    dataset = build("ruleqa-f", graph, settings=settings, variant="degenerate")
    (query,) = dataset.query_set("full")
    assert (query.text, query.subject, query.relation) == ("what does z139 b ?", "z139", "c")
    (document,) = dataset.qrels("test")[query.id]
    assert dataset.documents[document].text == "z139 b y139."


def test_a_degenerate_query_without_its_document_is_refused(
    graphs: dict[str, KnowledgeGraph],
) -> None:
    dataset = make(graphs, "static", "degenerate")
    query = dataset.query_set("full")[0]
    other = Document("other", "told", (Fact("nobody", "r", query.answers[0]),))
    damaged = RuleQADataset(
        corpus=[other],
        queries={"test": [query]},
        qrels={"test": {query.id: {"other": 1}}},
        info=DatasetInfo(settings=dataset.settings),
    )
    with pytest.raises(DataError, match=f"answers the degenerate query {query.id} directly"):
        check_leakage(damaged)


# --- options -----------------------------------------------------------------------------------


@KINDS
def test_num_rules_keeps_the_best(kind: str, graphs: dict[str, KnowledgeGraph]) -> None:
    everything = list(make(graphs, kind).rules)
    kept = list(make(graphs, kind, num_rules=3).rules)
    assert len(kept) == 3
    # Nothing that was left out is at once more confident and better supported.
    for rule in everything:
        if rule not in kept:
            assert not all(
                rule.ranking_confidence > best.ranking_confidence
                and (rule.quality.support or 0) >= (best.quality.support or 0)
                for best in kept
            )


def test_validation_facts_may_be_documents(graphs: dict[str, KnowledgeGraph]) -> None:
    graph, dataset = graphs["temporal"], make(graphs, "temporal", corpus="train+valid")
    facts = [fact for document in dataset.corpus for fact in document.facts]
    assert facts == [*graph.train, *graph.valid]
    test = len(dataset.query_set("full"))
    assert dataset.statistics["leakage"][0].endswith(f"of {test:,} queries")
    for query in dataset.query_set("f_r"):  # asked of what was known before
        times = [dataset.documents[i].timestamp for i in dataset.qrels("f_r")[query.id]]
        assert all(time is not None and time < (query.timestamp or 0) for time in times)


def test_pairs_per_query_keeps_the_latest(
    graphs: dict[str, KnowledgeGraph], built: dict[str, RuleQADataset]
) -> None:
    dataset = make(graphs, "temporal", pairs_per_query=1)
    everything = built["temporal"].qrels("f_r")
    assert max(map(len, everything.values())) > 1
    documents = dataset.documents
    for query, kept in dataset.qrels("f_r").items():
        (only,) = kept
        latest = max(documents[i].timestamp or 0 for i in everything[query])
        assert documents[only].timestamp == latest
    assert dataset.qrels("test") == built["temporal"].qrels("test")


@KINDS
def test_the_balanced_set_can_ask_for_support(kind: str, graphs: dict[str, KnowledgeGraph]) -> None:
    dataset = make(graphs, kind, balance_from="supported")
    assert dataset.query_sets["balanced"] <= set(dataset.qrels("test"))
    assert dataset.statistics["ceilings"]["balanced"]["oracle"] == 1.0
