"""Verify-and-Edit and Chain-of-Knowledge with a scripted reader over a real BM25 index."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from rulerag.errors import ConfigError
from rulerag.generation.prompts import PromptTemplate
from rulerag.generation.thoughts import answer_prompt, sentences
from rulerag.generation.verified_thought import ChainOfKnowledge, VerifyAndEdit
from rulerag.protocols import Generator
from rulerag.retrieval.bm25 import BM25Retriever
from rulerag.types import Completion, Document, GenerationRequest, Query

CORPUS = [
    Document("d0", "Norland Consult Velmora."),
    Document("d1", "Velmora Praise Ostra."),
    Document("d2", "Sudavia Threaten Norland."),
]
QUERY = Query("q", "what does Norland Visit ?", "Norland", "Visit", answers=("Velmora",))


class Scripted:
    """Thinks wrongly, but reads documents well."""

    template = PromptTemplate.plain()
    fingerprint = "scripted"

    def __init__(self, score: float | None = None) -> None:
        self.prompts: list[str] = []
        self.score = score

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        texts = [request.query.text for request in requests]
        self.prompts += texts
        return [Completion(self.say(text), self.score) for text in texts]

    def say(self, prompt: str) -> str:
        last = prompt.rsplit("\n\n", 1)[-1]
        if last.endswith("Check:"):  # the statement's first two words, as a query
            words = re.findall(r"Statement: (\w+) (\w+)", last)[0]
            return f"what does {words[0]} {words[1]} ?"
        if "Retrieved documents:" in prompt:
            subject, verb = re.findall(r"what does (\w+) (\w+) \?", last)[0]
            found = re.findall(rf"^{subject} {verb} (\w+)\.", prompt, re.MULTILINE)
            return str(found[0]) if found else ""
        if last.endswith("Answer:"):  # the last name of the thought
            thought = re.findall(r"Thought: (.*)", last)[0]
            return str(re.findall(r"(\w+)\W*$", thought)[0])
        if "Ostra." in last:
            return ""
        # Goes on from a corrected sentence.
        return "Velmora Praise Sudavia." if "Velmora." in last else "Norland Consult Sudavia."


@pytest.fixture(scope="module")
def bm25() -> BM25Retriever:
    return BM25Retriever(CORPUS)


def test_verify_and_edit_puts_each_sentence_right(bm25: BM25Retriever) -> None:
    reader = Scripted()
    method = VerifyAndEdit(reader, bm25, top_k=1)
    assert isinstance(method, Generator)
    (completion,) = method.generate([GenerationRequest(QUERY)])
    assert completion.text == "Velmora"
    assert completion.candidates[0].document_ids == ("d0",)
    # Thought, first answer, check, reading, last answer.
    assert len(reader.prompts) == 5
    assert reader.prompts[1] == answer_prompt(QUERY.text, "Norland Consult Sudavia.")
    assert "Norland Consult Velmora." in reader.prompts[3]
    assert reader.prompts[4].endswith("Thought: what does Norland Consult ? Velmora.\nAnswer:")


def test_chain_of_knowledge_thinks_on_from_what_it_corrected(bm25: BM25Retriever) -> None:
    reader = Scripted()
    (completion,) = ChainOfKnowledge(reader, bm25, top_k=1).generate([GenerationRequest(QUERY)])
    assert completion.text == "Ostra"
    assert completion.candidates[0].document_ids == ("d0", "d1")
    thought = "what does Norland Consult ? Velmora. what does Velmora Praise ? Ostra."
    assert reader.prompts[-1] == answer_prompt(QUERY.text, thought)
    once = ChainOfKnowledge(Scripted(), bm25, top_k=1, max_thoughts=1)
    assert once.generate([GenerationRequest(QUERY)])[0].text == "Velmora"


def test_a_certain_answer_is_kept(bm25: BM25Retriever) -> None:
    for method in (VerifyAndEdit, ChainOfKnowledge):
        sure, unsure = Scripted(-0.01), Scripted(-3.0)
        (kept,) = method(sure, bm25, certainty=0.9).generate([GenerationRequest(QUERY)])
        assert kept.text == "Sudavia" and len(sure.prompts) == 2
        assert kept.candidates[0].document_ids == ()
        (edited,) = method(unsure, bm25, certainty=0.9).generate([GenerationRequest(QUERY)])
        assert edited.text != "Sudavia"


def test_batches_ask_step_by_step_and_answer_in_order(bm25: BM25Retriever) -> None:
    other = Query("r", "what does Velmora Visit ?", "Velmora", "Visit")
    asked = [GenerationRequest(q) for q in (QUERY, other, QUERY)]
    for method in (VerifyAndEdit, ChainOfKnowledge):
        together = method(Scripted(), bm25, top_k=1).generate(asked)
        alone = [method(Scripted(), bm25, top_k=1).generate([one])[0] for one in asked]
        assert together == alone
        assert method(Scripted(), bm25).generate([]) == []


def test_settings_change_the_fingerprint_and_bad_ones_are_named(bm25: BM25Retriever) -> None:
    made = [
        VerifyAndEdit(Scripted(), bm25),
        ChainOfKnowledge(Scripted(), bm25),
        VerifyAndEdit(Scripted(), bm25, top_k=3),
        VerifyAndEdit(Scripted(), bm25, certainty=0.5),
    ]
    assert len({method.fingerprint for method in made}) == 4
    wrong = Scripted()
    wrong.template = PromptTemplate.rule_guided()
    with pytest.raises(ConfigError, match=r"reader\.template"):
        VerifyAndEdit(wrong, bm25)
    for options in ({"top_k": 0}, {"max_thoughts": 0}, {"certainty": 2.0}):
        with pytest.raises(ConfigError, match=next(iter(options))):
            ChainOfKnowledge(Scripted(), bm25, **options)  # type: ignore[arg-type]


def test_thoughts_are_cut_at_full_stops_but_not_behind_initials() -> None:
    assert sentences("J. R. Consult Ostra. Then peace") == ["J. R. Consult Ostra.", "Then peace."]
    assert sentences("") == []
