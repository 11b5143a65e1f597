"""Chains followed hop by hop: what is asked, what is kept, which atom a document grounds."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import pytest

from rulerag.arrays import Floats
from rulerag.generation.candidate_reader import CandidateReader
from rulerag.kg import Verbalizer
from rulerag.linking import link_mentions
from rulerag.retrieval.dense import DenseRetriever
from rulerag.retrieval.guided import HeadRelationSelector, PathStep, RuleGuidedRetriever, RulePath
from rulerag.retrieval.lexical import BM25Retriever
from rulerag.ruleqa import queries_from_facts
from rulerag.rules import Atom, Rule, RuleBank, RuleQuality
from rulerag.synthetic import World
from rulerag.types import Document, Fact, GenerationRequest, Query, ScoredDocument
from tests.retrieval.conftest import Listed, ids

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


def rule(*body: Atom) -> Rule:
    quality = RuleQuality(pca_confidence=0.8)
    return Rule(Atom("citizen of", "?x", "?y"), body, quality=quality)


CHAIN = rule(Atom("born in", "?x", "?z"), Atom("city of", "?z", "?y"))


def guided(*rules: Rule, **options: object) -> RuleGuidedRetriever:
    retriever = options.pop("retriever", None) or BM25Retriever(DOCUMENTS)
    selector = HeadRelationSelector(RuleBank(rules))
    return RuleGuidedRetriever(retriever, selector, **{"compose": "substitute", **options})  # type: ignore[arg-type]


def atoms(found: Sequence[ScoredDocument]) -> dict[str, set[int | None]]:
    return {s.document.id: {hit.atom for hit in s.found_by} for s in found}


def bind(path: RulePath, step: PathStep, *found: tuple[Document, float]) -> None:
    path.bind(step, [(path.far_ends(step, document), fraction) for document, fraction in found])


# --- rule paths ----------------------------------------------------------------------------------


def test_a_chain_asks_about_the_best_of_what_it_finds() -> None:
    path = RulePath(QUERY, CHAIN, beam_width=2)
    (first,) = path.steps(0)
    assert (first.atom, first.entity, first.weight) == (0, "ann", 1.0)
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
    births = [Document(f"b{i}", "t", (Fact("ann", "born in", f"t{i}"),)) for i in range(4)]
    bind(path, first, *zip(births, (0.2, 0.9, 0.4, 1.0), strict=True))
    assert [(s.entity, s.weight) for s in path.steps(1)] == [("t3", 1.0), ("t1", 0.9)]


def test_bodies_of_every_form_are_followed() -> None:
    backward = RulePath(QUERY, rule(Atom("city of", "?z", "?y"), Atom("born in", "?x", "?z")), 3)
    assert backward.steps(0)[0].atom == 1  # the atom with the subject, wherever it stands
    inverse = RulePath(QUERY, rule(Atom("saw", "?z", "?x"), Atom("city of", "?y", "?z")), 3)
    (first,) = inverse.steps(0)
    assert inverse.question(first, ("ann", "ann"))[1].is_inverse
    bind(inverse, first, (Document("s", "t", (Fact("bob", "saw", "ann"),)), 1.0))
    (second,) = inverse.steps(1)
    assert second.entity == "bob" and inverse.question(second, ("ann", "bob"))[1].is_inverse
    # Both atoms between the same ends: each is asked of the subject, and the second binds nothing.
    parallel = RulePath(QUERY, rule(Atom("born in", "?x", "?y"), Atom("lives in", "?x", "?y")), 3)
    bind(parallel, parallel.steps(0)[0], (DOCUMENTS[0], 1.0))
    (second,) = parallel.steps(1)
    assert second.entity == "ann"
    lives = [Document(t, t, (Fact("ann", "lives in", t),)) for t in ("Velm", "Brund")]
    assert [bool(parallel.far_ends(second, document)) for document in lives] == [True, False]
    bind(parallel, second, (lives[1], 1.0))
    assert parallel.bound["?y"] == {"Velm": 1.0}
    # A constant is asked about as it stands.
    body = Atom("born in", "?x", "?z"), Atom("city of", "?z", "Orland")
    assert RulePath(QUERY, rule(*body), 3).steps(1)[0].entity == "Orland"


@pytest.mark.parametrize(
    ("text", "subject", "expected"),
    [
        ("what does a visit ?", "a", "what does Velm visit ?"),
        ("what does C++ (language) use ?", "C++ (language)", "what does Velm use ?"),
        ("Time 2014-12-01 what does ann visit ?", "ann", "Time 2014-12-01 what does Velm visit ?"),
        ("who was it ?", "ann", "Velm who was it ?"),
    ],
)
def test_the_subject_of_a_question_is_replaced_as_a_word(
    text: str, subject: str, expected: str
) -> None:
    path = RulePath(Query("q", text, subject, "lives in"), CHAIN, 3)
    bind(path, path.steps(0)[0], (Document("d", "t", (Fact(subject, "born in", "velm"),)), 1.0))
    (step,) = path.steps(1)
    assert path.question(step, (subject, "Velm"))[0].text == expected


# --- retrieval -----------------------------------------------------------------------------------


class Words:
    """Encodes a text as a count of each word: nearness is what texts have in common."""

    fingerprint = "words"
    known = sorted({w for d in DOCUMENTS for w in d.text.lower().rstrip(".").split()})

    def encode(self, texts: Sequence[str]) -> Floats:
        split = [text.lower().rstrip(".?").split() for text in texts]
        counts = [[words.count(word) for word in self.known] for words in split]
        return np.array(counts, dtype=np.float32) + np.float32(1e-6)


@pytest.mark.parametrize("compose", ["append", "substitute", "both"])
@pytest.mark.parametrize("merge", MERGES)
def test_the_answer_of_a_chain_is_found_with_its_way(merge: str, compose: str) -> None:
    (found,) = guided(CHAIN, merge=merge, compose=compose).retrieve([QUERY], 3)
    told = atoms(found)
    assert (told["d0"], told["d2"]) == ({0}, {1})
    assert all(s.rule_ids == (CHAIN.id,) for s in found)
    assert told.get("d3", {None}) == {None}  # a city of nobody's that matters here
    (alone,) = guided(CHAIN, merge=merge, compose=compose, beam_width=0).retrieve([QUERY], 1)
    assert alone[0].document.id == "d0"  # one text about everything finds the subject's name
    dense = DenseRetriever(DOCUMENTS, Words(), cache=False)
    told = atoms(guided(CHAIN, merge=merge, retriever=dense).retrieve([QUERY], 3)[0])
    assert (told["d0"], told["d2"]) == ({0}, {1})


@pytest.mark.parametrize("merge", MERGES)
def test_rules_of_one_atom_stay_as_they_are(merge: str) -> None:
    plain = rule(Atom("born in", "?x", "?y"))
    with_hops, without = (guided(plain, merge=merge, beam_width=b) for b in (3, 0))
    assert with_hops.retrieve([QUERY], 5) == without.retrieve([QUERY], 5)
    assert with_hops.retrieve_union([QUERY], 5) == without.retrieve_union([QUERY], 5)


def test_answers_weigh_more_than_the_way_to_them() -> None:
    options = {"merge": "evidence", "whole_chains": 0}
    low, high = (
        guided(CHAIN, bridge_weight=weight, **options).retrieve_union([QUERY], 2)[0][:2]
        for weight in (0.1, 1.0)
    )
    assert ids(low) == ["d2", "d0"]
    assert [s.score for s in low] == pytest.approx([0.8, 0.08])
    assert [s.score for s in high] == pytest.approx([0.8, 0.8])


@pytest.mark.parametrize("merge", MERGES)
def test_chain_queries_of_a_world_find_every_fact_that_leads_to_their_answer(merge: str) -> None:
    world = World.generate(3_000, kind="static", seed=3, max_body_atoms=2)
    graph, words = world.graph, Verbalizer(world.graph)
    asked = {(q.subject, q.relation): q for q in queries_from_facts(graph.test, words, "test")}
    chains = [q for q in world.queries if q.kind == "chain"]
    queries = [asked[q.fact.subject, q.fact.relation] for q in chains]
    assert len(queries) >= 10
    retriever = BM25Retriever(words.corpus(graph.train))
    labels = {"rule_label": graph.relations.label, "entity_label": graph.entities.label}

    def fraction(beam_width: int) -> float:
        rules = [planted.rule for planted in world.planted]
        options = {"merge": merge, "beam_width": beam_width, "retriever": retriever}
        lists = guided(*rules, **options, **labels).retrieve(queries, 10)
        whole = 0
        for query, found in zip(chains, lists, strict=True):
            (support,) = (s for s in query.supports if len(s) == 2)
            (chain,) = (r for r in query.rules if len(r.body) == 2)
            told = {
                (fact, hit.atom)
                for scored in found
                for fact in scored.document.facts
                for hit in scored.found_by
                if hit.rule_id == chain.id
            }
            whole += all((fact, atom) in told for atom, fact in enumerate(support))
        return whole / len(chains)

    assert fraction(0) < 0.5
    assert fraction(3) == 1.0


def test_bodies_of_three_atoms_are_followed_as_far_as_is_asked() -> None:
    long = rule(CHAIN.body[0], Atom("next to", "?z", "?w"), Atom("praises", "?w", "?y"))
    told = atoms(guided(long, whole_chains=0).retrieve([QUERY], 6)[0])
    assert (told["d0"], told["d5"], told["d4"]) == ({0}, {1}, {2})
    (whole,) = guided(long, merge="evidence").retrieve_union([QUERY], 3)
    assert ids(whole)[:3] == ["d4", "d0", "d5"]
    (short,) = guided(long, max_hops=2).retrieve([QUERY], 6)
    assert short == guided(long, beam_width=0).retrieve([QUERY], 6)[0]


def test_each_hop_of_all_queries_is_one_batch() -> None:
    births = [Document(f"b{i}", "t", (Fact(f"p{i}", "born in", f"t{i}"),)) for i in range(3)]
    inner = Listed({f"what does p{i} born in ?": [(d, 1.0)] for i, d in enumerate(births)})
    texts = [f"what does p{i} citizen of ?" for i in range(3)]
    queries = [Query(text, text, f"p{i}", "citizen of") for i, text in enumerate(texts)]
    guided(CHAIN, retriever=inner).retrieve(queries, 5)
    assert [[query.text for query in batch] for batch in inner.batches] == [
        [f"what does p{i} born in ?" for i in range(3)],
        [f"what does t{i} city of ?" for i in range(3)],
    ]


# --- texts that state no facts -------------------------------------------------------------------

TEXTS = [
    "In May the poet ann, who was born in Velm, came home.",
    "Velm is a lively city of Orland on the coast.",
    "Brund is an old city of Norrland.",
    "ann citizen of honour? Nobody knows, said Bob.",
    "The city of light is another one.",
]


@pytest.mark.parametrize("merge", MERGES)
def test_a_second_hop_keeps_the_texts_that_mention_the_bridge(
    merge: str, caplog: pytest.LogCaptureFixture
) -> None:
    plain = [Document(f"d{n}", text) for n, text in enumerate(TEXTS)]
    names = {name: (name,) for name in ("ann", "Bob", "Velm", "Brund", "Orland", "Norrland")}
    linked = BM25Retriever(link_mentions(plain, names))
    with caplog.at_level(logging.INFO):
        (found,) = guided(CHAIN, merge=merge, retriever=linked).retrieve([QUERY], 4)
    assert "d1" in ids(found)
    assert "d4" not in ids(found)  # a city of another kind: it mentions no bridge
    assert "texts of hop 2 are left out, for they do not mention Velm" in caplog.text
    # Without entities the first hop alone is followed.
    (found,) = guided(CHAIN, merge=merge, retriever=BM25Retriever(plain)).retrieve([QUERY], 4)
    assert "d0" in ids(found) and atoms(found)["d0"] == {None}
    # Whom a text mentions is a candidate where the relation knows it.
    request = GenerationRequest(QUERY, tuple(linked.documents))
    (completion,) = CandidateReader(known={"citizen of": {"Orland": 1}}).generate([request])
    assert [one.text for one in completion.candidates] == ["Orland"]
    assert CandidateReader(known={}).generate([request])[0].text == ""
