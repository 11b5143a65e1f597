"""A generator of rulerag as an answer function: it reads the question, rules and what is kept."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from rulerag.explanation.probing.answer_function import AnswerFunction
from rulerag.explanation.probing.generators import (
    arrivals,
    endpoint_changed,
    refuse_sampling_generator,
    refuse_unread_documents,
)
from rulerag.explanation.units import Context, passages_of
from rulerag.protocols import Generator
from rulerag.types import Document, GenerationRequest

_STREAMS = 8


def answer_function_of(
    generator: Generator,
    request: GenerationRequest,
    context: Context,
    *,
    workers: int = _STREAMS,
    **options: Any,
) -> AnswerFunction:
    """A generator as a function of documents; query and guiding rules stay as they are.

    One that streams (an endpoint) is asked call by call, so that calls can be dropped one by one;
    any other gets many lists of documents at once, whose prompts share their beginnings.

    Args:
        generator: what reads documents; it must answer the same for the same request.
        request: query and rules; its documents are those of the context.
        context: the documents, and what is kept or removed of them.
        workers: how many calls of one that streams run at once.
        options: ``known`` and ``together`` of :class:`AnswerFunction`.

    Raises:
        SamplingError: the generator decodes by chance.
        DroppedDocumentsError: its prompt does not hold every document.
        GenerationError: the prompt does not fit even without documents.
    """
    refuse_sampling_generator(generator)
    reader = _Reader(generator, request, checked=context.removal == "replace")
    refuse_unread_documents(generator, reader.request(context.documents))
    if callable(getattr(generator, "stream", None)):
        return AnswerFunction(reader.one, request.query.text, context, workers=workers, **options)
    question = request.query.text
    return AnswerFunction(reader.many, question, context, workers=1, batched=True, **options)


class _Reader:
    """Asks a generator about documents.

    Args:
        generator: what is asked.
        request: query and rules.
        checked: every prompt is looked at: neutral text may be longer than what it stands for.
    """

    def __init__(self, generator: Generator, request: GenerationRequest, *, checked: bool) -> None:
        self._generator, self._request, self._checked = generator, request, checked
        self._system: str | None = None
        self._lock = threading.Lock()

    def request(self, documents: Sequence[Any]) -> GenerationRequest:
        """The request with other documents; rulerag's own keep their facts."""
        return replace(self._request, documents=tuple(map(_document, documents)))

    def one(self, _: str, documents: Sequence[Any]) -> str:
        """The answer from some documents."""
        return self.many(_, [documents])[0]

    def many(self, _: str, lists: Sequence[Sequence[Any]]) -> list[str]:
        """The answers from some lists of documents, in order.

        Raises:
            EndpointChangedError: an answer came from another build of the model than those before.
            ExplanationError: the generator returned too few or too many completions.
        """
        requests = [self.request(documents) for documents in lists]
        for request in requests if self._checked else ():
            refuse_unread_documents(self._generator, request)
        answers = [""] * len(requests)
        for place, completion, system in chain.from_iterable(arrivals(self._generator, requests)):
            with self._lock:
                if self._system not in (None, system):
                    raise endpoint_changed(self._system or "", system)
                self._system = system
            answers[place] = completion.text
        return answers


def _document(given: Any) -> Document:
    inner = getattr(given, "document", given)
    if isinstance(inner, Document):
        return inner
    (passage,) = passages_of([given])
    name = passage.id or passage.title or passage.text
    return Document(name, passage.text, title=passage.title)
