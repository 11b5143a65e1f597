"""Answers held to the entities of the documents, on a small model with random weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rulerag.generation.huggingface import HuggingFaceGenerator
from rulerag.generation.huggingface.constrained import endings_of, first_named
from rulerag.types import Document, Fact, GenerationRequest, Query
from tests.models.gguf import tiny_llama

FACTS = [
    Fact("ann", "visits", "bath"),
    Fact("bob", "visits", "ann"),
    Fact("ann", "leaves", "q7"),
    Fact("ann", "visits", "bath spa"),
]
DOCUMENTS = tuple(
    Document(f"d{n}", f"{f.subject} {f.relation} {f.object}.", (f,)) for n, f in enumerate(FACTS)
)
LABELS = {"q7": "the mat", "bob": "Bob Cat"}
ASKED = Query("q", "what does ann visits ?", "ann", "visits")
REQUEST = GenerationRequest(ASKED, DOCUMENTS)
BARE = GenerationRequest(ASKED, (Document("d", "no facts here"),))
ENTITIES = ["bath", "Bob Cat", "the mat", "bath spa"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield tiny_llama(tmp_path_factory.mktemp("held") / "tiny")


def made(folder: Path, answers: str, **changes: Any) -> HuggingFaceGenerator:
    return HuggingFaceGenerator(
        folder, template="cloze", labels=LABELS, answers=answers, max_new_tokens=8, **changes
    )


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (" Bath, I think", "bath"),
        ("It is bath spa.", "bath spa"),
        ("Bob Cat sat on the mat", "Bob Cat"),
        ("bathing on the matter", None),
        ("", None),
    ],
)
def test_the_first_entity_that_a_text_names(text: str, named: str | None) -> None:
    assert first_named(text, ENTITIES) == named


def test_scored_is_the_likeliest_of_all(folder: Path) -> None:
    generator = made(folder, "scored")
    (said,) = generator.generate([REQUEST])
    assert sorted(one.text for one in said.candidates) == sorted(ENTITIES)
    # Computed once more, one sequence at a time, by the model itself.
    import torch

    (prompt,) = generator.prompts([REQUEST])
    assert prompt.text.endswith("ann visits bath spa.\nann visits")
    scores = {}
    for name in ENTITIES:
        start = generator.tokenizer(prompt.text, return_tensors="pt")["input_ids"]
        whole = generator.tokenizer(f"{prompt.text} {name}.", return_tensors="pt")["input_ids"]
        with torch.no_grad():
            table = generator.model(whole).logits.log_softmax(-1)[0]
        own = range(start.shape[1], whole.shape[1])
        scores[name] = sum(float(table[n - 1, whole[0, n]]) for n in own)
    assert said.text == max(scores, key=lambda name: scores[name])
    assert [one.text for one in said.candidates] == sorted(scores, key=lambda n: -scores[n])
    assert np.allclose(
        [c.score for c in said.candidates], [scores[c.text] for c in said.candidates], atol=1e-3
    )


def test_a_trie_lets_nothing_else_through(folder: Path) -> None:
    generator = made(folder, "trie")
    answers = generator.generate([REQUEST, BARE, GenerationRequest(ASKED, DOCUMENTS[2:])])
    assert answers[0].text in ENTITIES
    assert answers[1].text == ""
    assert answers[2].text in ("the mat", "bath spa")
    assert made(folder, "free").generate([REQUEST])[0].text not in ENTITIES


def test_abstention_has_a_threshold(folder: Path) -> None:
    (said,) = made(folder, "scored").generate([REQUEST])
    assert said.score is not None
    for least, text in ((said.score - 1, said.text), (said.score + 1, "")):
        assert made(folder, "scored", abstain_below=least).generate([REQUEST])[0].text == text


def citing(folder: Path, answers: str, **changes: Any) -> HuggingFaceGenerator:
    return HuggingFaceGenerator(
        folder, template="compact", labels=LABELS, answers=answers, chat=False, **changes
    )


CITED = {
    " > @ visits | bath": "bath",
    " < Bob Cat | visits @": "Bob Cat",
    " > @ leaves | the mat": "the mat",
    " > @ visits | bath spa": "bath spa",
    " > @ leaves | bath": "bath",
}
TWICE = replace(
    REQUEST,
    documents=(*DOCUMENTS, Document("d4", "ann leaves bath.", (Fact("ann", "leaves", "bath"),))),
)


def test_a_model_that_cites_is_held_to_the_documents_facts(folder: Path) -> None:
    generator = citing(folder, "scored")
    assert {text: answer for answer, text in endings_of(TWICE, generator.template, LABELS)} == CITED
    (completion,) = generator.generate([TWICE])
    scores = {one.text: one.score for one in completion.candidates}
    assert set(scores) == set(ENTITIES) and completion.text == max(scores, key=scores.__getitem__)
    endings = endings_of(TWICE, generator.template, LABELS)
    prompt, tokens = generator.encode([TWICE])[0]
    own = generator._log_probabilities(
        [np.concatenate([tokens, generator._continued(prompt.text, text)]) for _, text in endings],
        [len(tokens)] * len(endings),
    )
    for name in ENTITIES:
        mine = [value for value, (answer, _) in zip(own, endings, strict=True) if answer == name]
        assert scores[name] == pytest.approx(np.logaddexp.reduce(mine), abs=1e-4)
    assert citing(folder, "scored").generate([BARE])[0].text == ""
