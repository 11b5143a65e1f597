"""Verify-and-Edit and Chain-of-Knowledge with a scripted reader over a real BM25 index."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from rulerag.errors import ConfigError
from rulerag.generation.prompts.template import PromptTemplate
from rulerag.generation.symbolic_reader import SymbolicReader
from rulerag.generation.verified_thought import (
    ChainOfKnowledge,
    VerifyAndEdit,
    answer_prompt,
    sentences,
)
from rulerag.protocols import Generator
from rulerag.retrieval.lexical.bm25 import BM25Retriever
from rulerag.types import Completion, Document, GenerationRequest, Query, ScoredDocument

CORPUS = [
    Document("d0", "Norland Consult Velmora."),
    Document("d1", "Velmora Praise Ostra."),
    Document("d2", "Sudavia Threaten Norland."),
]
QUERY = Query("q", "what does Norland Visit ?", "Norland", "Visit", answers=("Velmora",))


SURE = ("Norland Consult Sudavia.",)
TORN = ("Norland Consult Sudavia.", "Norland Consult Mirno.", "Norland Consult Ostra.")


class Scripted:
    """Thinks wrongly, but reads documents well.

    Args:
        thoughts: what is drawn, one after another and again from the first.
    """

    template = PromptTemplate.plain()
    fingerprint = "scripted"

    def __init__(self, thoughts: Sequence[str] = TORN) -> None:
        self.thoughts = thoughts
        self.prompts: list[str] = []
        self.draws: list[tuple[str, int, float, int]] = []

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        texts = [request.query.text for request in requests]
        self.prompts += texts
        return [Completion(self.say(text)) for text in texts]

    def sample(
        self, requests: Sequence[GenerationRequest], count: int, *, temperature: float, seed: int
    ) -> list[list[Completion]]:
        found = []
        for text in (request.query.text for request in requests):
            self.draws.append((text, count, temperature, seed))
            said = [self.say(text)] if text.endswith("Answer:") else self.thoughts
            found.append([Completion(said[n % len(said)]) for n in range(count)])
        return found

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
            return "".join(re.findall(r"(\w+)\W*$", thought))
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
    # Check, reading, last answer: the rest was drawn.
    assert len(reader.prompts) == 3
    assert "Norland Consult Velmora." in reader.prompts[1]
    assert reader.prompts[2].endswith("Thought: what does Norland Consult ? Velmora.\nAnswer:")


def test_chain_of_knowledge_thinks_on_from_what_it_corrected(bm25: BM25Retriever) -> None:
    reader = Scripted()
    (completion,) = ChainOfKnowledge(reader, bm25, top_k=1).generate([GenerationRequest(QUERY)])
    assert completion.text == "Ostra"
    assert completion.candidates[0].document_ids == ("d0", "d1")
    thought = "what does Norland Consult ? Velmora. what does Velmora Praise ? Ostra."
    assert reader.prompts[-1] == answer_prompt(QUERY.text, thought)
    once = ChainOfKnowledge(Scripted(), bm25, top_k=1, max_thoughts=1)
    assert once.generate([GenerationRequest(QUERY)])[0].text == "Velmora"


class Unasked(BM25Retriever):
    """Nothing is searched where the thoughts agree."""

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        raise AssertionError("was searched")


@pytest.mark.parametrize("method", [VerifyAndEdit, ChainOfKnowledge])
def test_what_the_majority_agrees_on_is_kept_and_nothing_else(
    method: type[VerifyAndEdit | ChainOfKnowledge], bm25: BM25Retriever
) -> None:
    one, other, third = TORN
    three_of_five = Scripted((one, other, one, one, third))
    (kept,) = method(three_of_five, Unasked(CORPUS)).generate([GenerationRequest(QUERY)])
    assert kept.text == "Sudavia" and kept.candidates[0].document_ids == ()
    assert three_of_five.prompts == [], "nothing was asked but the draws"
    # Two of five, later in the draw: what they led to is edited, not the first thought.
    two_of_five = Scripted((other, one, third, one, "Velmora Praise Velmora."))
    (edited,) = method(two_of_five, bm25, top_k=1).generate([GenerationRequest(QUERY)])
    assert (
        edited.text != "Sudavia"
        and "Statement: Norland Consult Sudavia." in (two_of_five.prompts[0])
    )
    # An answer is the same in other letters, and an empty one is no vote.
    spelled = Scripted((other, one, one.replace("Sudavia", "sudavia"), "...", one))
    (same,) = method(spelled, Unasked(CORPUS)).generate([GenerationRequest(QUERY)])
    assert same.text == "Sudavia"
    strict = method(Scripted((one, one, one, one, other)), bm25, top_k=1, consistency=1.0)
    assert strict.generate([GenerationRequest(QUERY)])[0].text != "Sudavia"
    alone = method(Scripted(SURE), Unasked(CORPUS), consistency=1.0)
    assert alone.generate([GenerationRequest(QUERY)])[0].text == "Sudavia"


def test_settings_change_the_fingerprint_and_bad_ones_are_named(bm25: BM25Retriever) -> None:
    def made(**options: float) -> VerifyAndEdit:
        return VerifyAndEdit(Scripted(), bm25, **options)

    changes = {"top_k": 3, "samples": 3, "temperature": 1.0, "consistency": 0.6, "seed": 1}
    names = {made(**{key: value}).fingerprint for key, value in changes.items()}
    names |= {made().fingerprint, ChainOfKnowledge(Scripted(), bm25).fingerprint}
    assert len(names) == 7 and made().sampling == "a vote of 5 at temperature 0.7"
    wrong = Scripted()
    wrong.template = PromptTemplate.rule_guided()
    with pytest.raises(ConfigError, match=r"reader\.template"):
        VerifyAndEdit(wrong, bm25)
    with pytest.raises(ConfigError, match=r"reader\.type"):
        VerifyAndEdit(SymbolicReader(), bm25)  # type: ignore[arg-type]
    for key in ("top_k", "max_thoughts", "samples", "temperature", "consistency"):
        with pytest.raises(ConfigError, match=key):
            made(**{key: 0})
    assert sentences("J. R. Consult Ostra. Then peace") == ["J. R. Consult Ostra.", "Then peace."]
    assert sentences("") == []
