from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from rulerag.errors import ExplanationError
from rulerag.explanation.report import AnswerExplanation, explain_answer
from rulerag.explanation.report.narrative import Rerun
from rulerag.explanation.report.rerun import rerun_retrieval
from rulerag.pipeline import RuleRAGPipeline
from rulerag.retrieval.lexical.bm25 import BM25Retriever
from rulerag.types import Answer, Completion, Document, Fact, GenerationRequest, Query

# The same fact stands in the corpus three times, but only one copy is among the two retrieved.
CORPUS = [
    Document("new", "Oslo hosts France hosts.", (Fact("Oslo", "hosts", "France", 9),)),
    Document("old", "Oslo hosts France.", (Fact("Oslo", "hosts", "France", 5),)),
    Document("older", "Once Oslo was a host to France.", (Fact("Oslo", "hosts", "France", 1),)),
    Document("other", "Oslo hosts Spain hosts.", (Fact("Oslo", "hosts", "Spain", 8),)),
    Document("idle", "Rain in Bergen.", (Fact("Bergen", "has", "rain", 8),)),
]
QUERY = Query("q", "whom Oslo hosts ?", answers=("Spain",))


class Reader:
    """The first country in alphabetical order that the documents name."""

    fingerprint = "first country"

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        texts = [" ".join(document.text for document in r.documents) for r in requests]
        return [
            Completion(next((c for c in ("France", "Spain") if c in text), "")) for text in texts
        ]


def over(documents: Sequence[Document], top_k: int = 2) -> RuleRAGPipeline:
    return RuleRAGPipeline(BM25Retriever(documents), Reader(), top_k=top_k)


def explained(
    corpus: Sequence[Document] = CORPUS, **options: object
) -> tuple[Answer, AnswerExplanation]:
    (answer,) = over(corpus).answer([QUERY])
    return answer, explain_answer(answer, Reader(), **options)  # type: ignore[arg-type]


def test_another_copy_brings_the_answer_back_and_is_told() -> None:
    answer, told = explained()
    assert [d.document.id for d in answer.documents] == ["new", "other"]
    assert told.omission == (("D1",),) and told.rerun is None
    assert told.scope.endswith("No other document of the corpus was looked at.")
    again = rerun_retrieval(told, answer, CORPUS, over)
    assert again.rerun == Rerun(
        removed=("D1",),
        removed_ids=("new",),
        answer="France",
        holds=True,
        right=False,
        newcomers=(("old", "Oslo hosts France."),),
        copies=("old", "older"),
    )
    text = str(again)
    assert "No other document of the corpus" not in text
    assert (
        "The answer comes back: without D1 in the corpus the generator says “France”, "
        "which is wrong."
    ) in text
    assert (
        "One further document of the corpus takes its place; two other documents state the same, "
        "at whatever time, one of them among these."
    ) in text
    row = json.loads(json.dumps(again.to_json()))
    assert AnswerExplanation.from_json(row) == again


def test_without_another_copy_the_answer_goes() -> None:
    corpus = [CORPUS[0], *CORPUS[3:]]
    answer, told = explained(corpus)
    again = rerun_retrieval(told, answer, corpus, over)
    assert again.rerun is not None
    assert (again.rerun.answer, again.rerun.holds, again.rerun.right) == ("Spain", False, True)
    assert again.rerun.copies == ()
    assert (
        "The answer goes: without D1 in the corpus the generator says “Spain”, which is right."
        in (str(again))
    )


def test_a_sentence_takes_its_whole_document_and_the_rest_all_of_its_own() -> None:
    corpus = [replace(CORPUS[0], text="Oslo hosts. Hosts France.", facts=()), *CORPUS[1:]]
    answer, told = explained(corpus, unit="sentence")
    (rule,) = told.omission
    assert "." in rule[0]
    again = rerun_retrieval(told, answer, corpus, over)
    assert again.rerun is not None and again.rerun.removed_ids == ("new",)
    (answer,) = over(CORPUS, top_k=4).answer([QUERY])
    told = explain_answer(answer, Reader(), max_sources=2)
    assert told.omission == (("D1", "the rest"),)
    again = rerun_retrieval(told, answer, CORPUS, over)
    assert again.rerun is not None
    assert set(again.rerun.removed_ids) == {d.document.id for d in answer.documents}
    assert again.rerun.answer == "" and "the generator says nothing." in str(again)


def test_an_answer_that_nothing_removes_is_left_as_it_is() -> None:
    class Stubborn(Reader):
        def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
            return [Completion("France") for _ in requests]

    (answer,) = over(CORPUS).answer([QUERY])
    told = explain_answer(answer, Stubborn())
    assert rerun_retrieval(told, answer, CORPUS, over) is told


def test_a_corpus_that_does_not_fit_is_refused() -> None:
    answer, told = explained()
    with pytest.raises(ExplanationError, match="holds none of the documents new"):
        rerun_retrieval(told, answer, CORPUS[1:], over)
    with pytest.raises(ExplanationError, match="holds nothing but the documents new"):
        rerun_retrieval(told, answer, CORPUS[:1], over)
