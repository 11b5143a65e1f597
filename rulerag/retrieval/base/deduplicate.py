"""A corpus without repeated statements: of each fact, the document that stated it last."""

from __future__ import annotations

from collections.abc import Sequence

from rulerag.types import Document


def latest_of(documents: Sequence[Document]) -> list[int]:
    """For each document, the row of the one that states the same facts last.

    In a graph of lasting facts the same statement stands in the corpus once a year; a search over
    vectors finds ten copies of it. Documents that differ in time alone are one statement; undated
    documents, and those of unknown content, are their own. Of two with one time, the first counts.

    Args:
        documents: the corpus.

    Returns:
        One row for each document, its own where nothing repeats it later.
    """
    last: dict[object, int] = {}
    keys: list[object] = []
    for row, document in enumerate(documents):
        time = document.timestamp
        keys.append(row if time is None or not document.facts else statement_of(document))
        known = last.get(keys[-1])
        if known is None or (time or 0) > (documents[known].timestamp or 0):
            last[keys[-1]] = row
    return [last[key] for key in keys]


def statement_of(document: Document) -> object:
    """What makes two documents the same but for their time; unknown content is its own kind."""
    if not document.facts:
        return document.id
    return frozenset((fact.subject, fact.relation, fact.object) for fact in document.facts)


def latest_statements(documents: Sequence[Document]) -> list[Document]:
    """The documents that :func:`latest_of` names, in corpus order.

    An index over them answers queries that come after the whole corpus; for earlier queries, wrap
    the whole corpus in :class:`~rulerag.retrieval.base.TimeAwareRetriever` instead.
    """
    return [documents[row] for row in sorted(set(latest_of(documents)))]
