"""Whom and which time documents mention, for texts that state no facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from rulerag.kg import Calendar
from rulerag.linking.words.dates import stated_times
from rulerag.linking.words.mentions import MentionFinder
from rulerag.types import Document


def link_mentions(
    documents: Iterable[Document],
    names: Mapping[str, Sequence[str]],
    calendar: Calendar | None = None,
) -> list[Document]:
    """The same documents; those without facts say which entities they mention.

    Merging, candidates and hops go by it (:func:`rulerag.entities_of`). Titles are looked at too,
    behind the text. A name that several entities have stands for all of them. What a document says
    of its entities or its time already is kept.

    A text has a time only with a calendar: a time-aware search then hides it from questions about
    that time or an earlier one, as it does facts. That is right for questions that ask what no
    text states yet.

    Args:
        documents: the documents.
        names: for each raw name, its label and aliases.
        calendar: of the graph; the latest date that a text states is its time.
    """
    finder = MentionFinder(names)
    linked = []
    for document in documents:
        if not document.facts and not document.entities:
            found = (*finder.spans(document.text), *finder.spans(document.title))
            entities = tuple(dict.fromkeys(name for *_, several in found for name in several))
            document = replace(document, entities=entities)
        if calendar is not None and document.timestamp is None:
            times = [time for time, _ in stated_times(document.text, calendar)]
            document = replace(document, time=max(times, default=None))
        linked.append(document)
    return linked
