"""Logged runs: cases for the contracts, and what cannot be explained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rulerag
from rulerag.errors import ConfigError, DataFormatError
from rulerag.integrations import Trace, read_trace
from tests.integrations.systems import CONTEXTS, QUESTION, Case, reply

PROMPT = "\n".join([*CONTEXTS, QUESTION])
DOCUMENT = {"retrieval.documents.0.document.content": CONTEXTS[1]}


def prompted(text: str) -> dict[str, Any]:
    return {"llm": {"input_messages": [{"message": {"role": "user", "content": text}}]}}


def ask(messages: list[dict[str, str]]) -> str:
    return reply(messages[-1]["content"])


def case(kind: str) -> Case:
    prompt = f"{PROMPT} no key" if kind == "failing" else PROMPT
    rows = [{"document": {"content": t, "title": f"T{n}"}} for n, t in enumerate(CONTEXTS)]
    spans = [{"attributes": {"retrieval": {"documents": rows}}}, {"attributes": prompted(prompt)}]
    if kind == "flat":
        flat = {f"retrieval.documents.{n}.document.content": t for n, t in enumerate(CONTEXTS)}
        flat |= {f"retrieval.documents.{n}.document.title": f"T{n}" for n in range(len(CONTEXTS))}
        message = {"llm.input_messages.0.message.content": prompt, "input.value": QUESTION}
        spans = [{"attributes": flat}, {"attributes": message}]
    trace, sentence = Trace(spans, ask), "asked again without some of its documents; a probe makes"
    question = None if kind == "flat" else QUESTION
    return Case(trace, question, sentence, lambda: ask([{"role": "user", "content": prompt}]), [])


def test_parts_of_documents_are_changed_in_the_logged_prompt() -> None:
    prompts: list[str] = []

    def noted(messages: list[dict[str, str]]) -> str:
        prompts.append(messages[0]["content"])
        return ask(messages)

    text = "Rome is far. Paris is the capital."
    spans = [{"retrieval.documents.0.document.content": text}, prompted(f"Context: {text}\nWhere?")]
    for removal in ("delete", "replace"):
        why = rulerag.explain(Trace(spans, noted), None, level="sentence", removal=removal)
        assert [why.documents[n].text for n in why.claims[0].sources] == ["Paris is the capital."]
        assert why.explanation.question.endswith("Where?"), "the last message of the log"
    assert "Context: Paris is the capital.\nWhere?" in prompts
    assert "Context: This part of. Paris is the capital.\nWhere?" in prompts
    assert "Context: Where?" in prompts, "its line break goes with it"


@pytest.mark.parametrize(
    ("spans", "match"),
    [
        ([prompted("x")], "holds no documents"),
        ([DOCUMENT], "holds no llm.input_messages"),
        ([DOCUMENT, prompted("nothing of it")], "document 0 stands 0 times"),
        ([DOCUMENT, prompted(CONTEXTS[1] * 2)], "document 0 stands 2 times"),
    ],
)
def test_what_cannot_be_explained_is_named(spans: list[dict[str, Any]], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        rulerag.explain(Trace(spans, ask), "q")


LOGGED = {
    "retrieval.documents.0.document.content": "Lyon is a city.",
    "llm.output_messages.0.message.content": "It is Paris.",
}
PAIRS = [{"key": key, "value": {"stringValue": value}} for key, value in LOGGED.items()]
FORMS = {
    "lines.jsonl": {"trace_id": "1", "attributes": LOGGED},
    "otel.json": {"resourceSpans": [{"scopeSpans": [{"spans": [{"attributes": PAIRS}]}]}]},
    "table.json": [{f"attributes.{key}": value for key, value in LOGGED.items()}],
}


@pytest.mark.parametrize("name", FORMS)
def test_spans_are_read_from_every_form_of_file(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(json.dumps(FORMS[name]))
    (span,) = read_trace(tmp_path / name)
    assert {key: [text for place, text in span.items() if key in place] for key in LOGGED} == {
        key: [text] for key, text in LOGGED.items()
    }


def test_files_of_no_trace_or_of_two_are_refused(tmp_path: Path) -> None:
    for spans, message in (([], "holds no span"), ([1, 2], "the spans of 2 traces")):
        file = tmp_path / "spans.json"
        file.write_text(json.dumps([{"trace_id": number} for number in spans]))
        with pytest.raises(DataFormatError, match=message):
            read_trace(file)
