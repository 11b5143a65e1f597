"""Logged runs explained afterwards: what cannot be read is named."""

from __future__ import annotations

from typing import Any

import pytest

import rulerag
from rulerag.errors import ConfigError
from rulerag.explanation.adapters import Trace

DOCUMENT = {"retrieval.documents.0.document.content": "Paris is the capital."}


def prompted(text: str) -> dict[str, Any]:
    return {"llm": {"input_messages": [{"message": {"role": "user", "content": text}}]}}


def said(messages: list[dict[str, str]]) -> str:
    return "It is Paris." if "Paris" in messages[0]["content"] else "I don't know."


def test_nested_and_flat_spans_and_the_question_of_the_log() -> None:
    spans = [{"attributes": DOCUMENT}, prompted("Paris is the capital.\nWhat is the capital?")]
    why = rulerag.explain(Trace(spans, said), None)
    assert why.claims[0].sources == (0,) and why.explained.question.endswith("capital?")
    assert why.text == "It is Paris.", "asked again: the log has no answer"


def test_parts_of_documents_are_changed_in_the_logged_prompt() -> None:
    asked: list[str] = []

    def ask(messages: list[dict[str, str]]) -> str:
        asked.append(messages[0]["content"])
        return said(messages)

    prompt = "Context: Rome is far. Paris is the capital.\nWhat is the capital?"
    document = {"retrieval.documents.0.document.content": "Rome is far. Paris is the capital."}
    for removal in ("delete", "replace"):
        trace = Trace([document, prompted(prompt)], ask)
        why = rulerag.explain(trace, None, level="sentence", removal=removal)
        assert [why.documents[n].text for n in why.claims[0].sources] == ["Paris is the capital."]
    assert "Context: Paris is the capital.\nWhat is the capital?" in asked
    assert "Context: This part of. Paris is the capital.\nWhat is the capital?" in asked


@pytest.mark.parametrize(
    ("spans", "match"),
    [
        ([prompted("x")], "holds no documents"),
        ([DOCUMENT], "holds no llm.input_messages"),
        ([DOCUMENT, prompted("nothing of it")], "document 0 stands 0 times"),
        ([DOCUMENT, prompted("Paris is the capital. " * 2)], "document 0 stands 2 times"),
    ],
)
def test_what_cannot_be_explained_is_named(spans: list[dict[str, Any]], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        rulerag.explain(Trace(spans, said), "q")
