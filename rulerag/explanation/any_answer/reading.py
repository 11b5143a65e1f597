"""A generator of rulerag as an answer function: it reads the question and what is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rulerag.explanation.levels import passages_of
from rulerag.explanation.probing import refuse_dropped_documents
from rulerag.protocols import Generator
from rulerag.types import Document, GenerationRequest, Query


@dataclass(frozen=True)
class Reader:
    """A generator as an answer function.

    Args:
        answer: a function of the question and some of the documents, or of lists of them.
        batched: it takes lists of them.
        workers: how many calls may stand beside each other; None for any number.
        about: what it is, for the record: its fingerprint, and how its prompt is laid out.
    """

    answer: Callable[[str, Any], Any]
    batched: bool
    workers: int | None
    about: Mapping[str, str]


def reader_of(generator: Generator, question: str, documents: Sequence[Any]) -> Reader:
    """What answers with a generator.

    One that streams (an endpoint) is asked call by call, so that calls can be dropped one by one;
    any other gets many lists of documents at once, whose prompts share their beginnings.

    Args:
        generator: what reads documents.
        question: what is asked.
        documents: all of them; rulerag's own keep their facts, of any others the text is read.

    Raises:
        DroppedDocumentsError: its prompt does not hold every document.
        GenerationError: the prompt does not fit even without documents.
    """

    def request(kept: Sequence[Any]) -> GenerationRequest:
        return GenerationRequest(Query("question", question), tuple(map(_document, kept)))

    refuse_dropped_documents(generator, request(documents))

    def one(_: str, kept: Sequence[Any]) -> str:
        return generator.generate([request(kept)])[0].text

    def many(_: str, lists: Sequence[Sequence[Any]]) -> list[str]:
        return [said.text for said in generator.generate([request(kept) for kept in lists])]

    streams = callable(getattr(generator, "stream", None))
    order = getattr(getattr(generator, "template", None), "order", "")
    about = {"generator": generator.fingerprint, **({"order": order} if order else {})}
    return Reader(one, False, None, about) if streams else Reader(many, True, 1, about)


def _document(given: Any) -> Document:
    held = getattr(given, "document", given)
    if isinstance(held, Document):
        return held
    (passage,) = passages_of([given])
    name = passage.id or passage.title or passage.text
    return Document(name, passage.text, title=passage.title)
