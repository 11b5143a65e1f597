"""The pipeline on its own: what reaches the reader, what an answer carries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from rulerag.assembly import make_pipeline, method
from rulerag.errors import ConfigError, RetrievalError
from rulerag.kg.grounding import groundings_of
from rulerag.pipeline import RuleRAGPipeline, UnionRetriever
from rulerag.ruleqa import RuleQADataset
from rulerag.rules import Atom, Rule
from rulerag.text import exact_match
from rulerag.types import (
    Completion,
    Document,
    Fact,
    GenerationRequest,
    Query,
    RuleHit,
    ScoredDocument,
)

ENDS = ("?x", "?y")
CALLS, WRITES = (Rule(Atom("meets", *ENDS), (Atom(body, *ENDS),)) for body in ("calls", "writes"))
DOCUMENTS = [
    Document(f"d{n}", f"ann calls {who}.", (Fact("ann", "calls", who),))
    for n, who in enumerate(("bob", "cid", "dee"))
]
QUERIES = [Query(f"q{n}", f"{who} ?", who, "meets") for n, who in enumerate(("ann", "bob"))]


class Everything:
    """Finds the whole corpus for the first query, by one rule, and nothing for the others."""

    fingerprint = "everything"

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        found = [
            ScoredDocument(document, 1.0 / rank, rank, (RuleHit(CALLS.id, rank, 1.0 / rank),))
            for rank, document in enumerate(DOCUMENTS, start=1)
        ]
        return [found[:top_k] if query.id == "q0" else [] for query in queries]


class Whole(Everything):
    """Also tells a union, which is the whole corpus."""

    def retrieve_union(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        return self.retrieve(queries, len(DOCUMENTS))


class Both:
    """Selects both rules for every query."""

    def select(self, queries: Sequence[Query]) -> list[list[Rule]]:
        return [[CALLS, WRITES] for _ in queries]


class Reader:
    """Answers with what it was given, and remembers it."""

    fingerprint = "reader"

    def __init__(self) -> None:
        self.requests: list[GenerationRequest] = []

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        self.requests += requests
        return [Completion(" ".join(d.id for d in request.documents)) for request in requests]


@pytest.mark.parametrize(
    ("reader_rules", "first", "second"),
    [("selected", (CALLS, WRITES), (CALLS, WRITES)), ("found", (CALLS,), ()), ("none", (), ())],
)
def test_the_reader_sees_the_best_documents_and_the_chosen_rules(
    reader_rules: str, first: tuple[Rule, ...], second: tuple[Rule, ...]
) -> None:
    reader = Reader()
    pipeline = RuleRAGPipeline(
        Everything(), reader, selector=Both(), top_k=2, reader_rules=reader_rules
    )
    answers = pipeline.answer(QUERIES)
    assert [answer.text for answer in answers] == ["d0 d1", ""]
    assert [request.query for request in reader.requests] == QUERIES
    assert [request.rules for request in reader.requests] == [first, second]
    assert [answer.rules for answer in answers] == [first, second]
    assert [answer.request() for answer in answers] == reader.requests  # it can be asked again
    for request in reader.requests:  # grounded once, for the reader and for what is stated
        assert request.groundings == groundings_of(replace(request, groundings=None))


def test_an_answer_carries_evidence_and_fingerprints() -> None:
    pipeline = RuleRAGPipeline(Everything(), Reader(), fingerprints={"dataset": "abc"})
    assert pipeline.seconds == {"retrieve": 0.0, "generate": 0.0}
    first, second = pipeline.answer(QUERIES)
    once = dict(pipeline.seconds)
    pipeline.answer(QUERIES)
    assert all(pipeline.seconds[stage] > once[stage] > 0 for stage in once)
    names = {"dataset": "abc", "retriever": "everything", "generator": "reader"}
    assert first.fingerprints == names
    assert [scored.rank for scored in first.documents] == [1, 2, 3]
    assert (first.union, first.union_size, second.union_size) == ((), 3, 0)
    assert first.rules == ()  # plain RAG without a selector


def test_the_union_is_kept_where_there_is_one_and_it_is_wanted() -> None:
    assert isinstance(Whole(), UnionRetriever) and not isinstance(Everything(), UnionRetriever)
    (kept,) = RuleRAGPipeline(Whole(), Reader(), top_k=1).answer(QUERIES[:1])
    assert (len(kept.documents), kept.union_size) == (1, 3)
    (not_kept,) = RuleRAGPipeline(Whole(), Reader(), top_k=1, keep_union=False).answer(QUERIES[:1])
    assert (not_kept.union, not_kept.union_size) == ((), 1)


def test_a_saved_run_takes_the_place_of_retrieval() -> None:
    class Never(Everything):
        def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
            raise AssertionError("nothing is to be retrieved")

    saved = Everything().retrieve(QUERIES, 3)
    pipeline = RuleRAGPipeline(Never(), Reader(), top_k=2, selector=Both(), reader_rules="found")
    first, second = pipeline.answer(QUERIES, retrieved=saved)
    assert [scored.document.id for scored in first.documents] == ["d0", "d1"]
    assert (first.rules, second.rules) == ((CALLS,), ())
    with pytest.raises(RetrievalError, match="a saved run of 1 lists does not fit 2 queries"):
        pipeline.answer(QUERIES, retrieved=saved[:1])


def test_no_query_no_answer_and_bad_settings() -> None:
    assert RuleRAGPipeline(Everything(), Reader(), selector=Both()).answer([]) == []
    with pytest.raises(ConfigError, match="key 'top_k': 0 is below 1"):
        RuleRAGPipeline(Everything(), Reader(), top_k=0)
    with pytest.raises(ConfigError, match="key 'reader_rules': unknown choice 'some' — one of"):
        RuleRAGPipeline(Everything(), Reader(), reader_rules="some")


def test_an_answer_tells_what_is_stated_and_what_rules_say_of_it() -> None:
    meets = Document("m", "ann meets eve.", (Fact("ann", "meets", "eve"),))

    class Corpus(Everything):
        documents = (*DOCUMENTS, meets)

    pipeline = RuleRAGPipeline(Corpus(), Reader(), selector=Both(), labels={"eve": "Eve"})
    first, second = pipeline.answer(QUERIES)
    assert first.stated["answers"] == [{"answer": "Eve", "documents": ["m"], "time": None}]
    assert [(r["answer"], r["verdict"]) for r in first.stated["rules"]] == [
        ("bob", "contradicts"),
        ("cid", "contradicts"),
        ("dee", "contradicts"),
    ]
    assert first.stated["conflict"] and first.stated["answered"] is False
    assert first.to_json()["stated"] == first.stated
    assert second.stated == {} and "stated" not in second.to_json()
    predictions = [replace(query, prediction=True) for query in QUERIES]
    assert [answer.stated for answer in pipeline.answer(predictions)] == [{}, {}]
    # A retriever that does not tell its corpus: what it found is what is known.
    (alone, _) = RuleRAGPipeline(Everything(), Reader(), selector=Both()).answer(QUERIES)
    assert alone.stated["answers"] == [] and len(alone.stated["rules"]) == 3


def test_a_question_in_ones_own_words_that_nothing_answers_is_refused() -> None:
    facts = [Fact("Ann", "reports to", "Bo"), Fact("Cy", "reports to", "Bo")]
    names = {name: name for fact in facts for name in fact[:3]}
    corpus = [Document(f"d{n}", " ".join(f[:3]), (f,)) for n, f in enumerate(facts)]
    dataset = RuleQADataset(
        corpus=corpus,
        queries={"test": [Query("q", "Who is Ann's boss?", answers=("Bo",))]},
        labels={"entities": names, "relations": names},
        prediction=False,
    )
    pipeline = make_pipeline(method("bm25__symbolic", "", (), static=True), dataset)
    asked = [
        *dataset.query_set("test"),
        Query("r", "Who is the subordinate of Ann?"),
        Query("s", "Is Ann married?"),
        Query("t", "Who is Bo's subordinate?", answers=("Ann", "Cy")),
    ]
    boss, nobody, married, both = pipeline.answer(asked)
    assert boss.text == "Bo" and boss.query.id == "q" and boss.query.answers == ("Bo",)
    assert nobody.query.refusal and nobody.to_json()["refused"] == nobody.query.refusal
    assert "'married'; nearest relations: reports to" in married.text
    assert both.values == ("Ann", "Cy") and both.stated["answered"]
    assert exact_match(both.text, both.query.answers, both.values) == 1
