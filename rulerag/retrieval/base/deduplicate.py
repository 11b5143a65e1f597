"""A corpus without repeated statements: of each fact, the document that stated it last."""

from __future__ import annotations

from collections.abc import Sequence

from rulerag.types import Document


def latest_of(documents: Sequence[Document]) -> list[int]:
    """For each document, the place of the one that states the same facts last.

    In a graph of lasting facts the same statement stands in the corpus once a year; a search over
    vectors finds ten copies of it. Documents that differ in time alone are one statement; undated
    documents, and those of unknown content, are their own. Of two with one time, the first counts.

    Args:
        documents: the corpus.

    Returns:
        One place for each document, its own where nothing repeats it later.
    """
    last: dict[object, int] = {}
    keys = []
    for place, document in enumerate(documents):
        time = document.timestamp
        if time is None or not document.facts:
            key: object = place
        else:
            key = frozenset((fact.subject, fact.relation, fact.object) for fact in document.facts)
        keys.append(key)
        known = last.get(key)
        if known is None or (time or 0) > (documents[known].timestamp or 0):
            last[key] = place
    return [last[key] for key in keys]


def latest_statements(documents: Sequence[Document]) -> list[Document]:
    """The documents that :func:`latest_of` names, in corpus order.

    An index over them answers queries that come after the whole corpus; for earlier queries, wrap
    the whole corpus in :class:`~rulerag.retrieval.base.TimeAwareRetriever` instead.
    """
    return [documents[place] for place in sorted(set(latest_of(documents)))]
