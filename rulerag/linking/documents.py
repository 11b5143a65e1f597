"""Which entities of a graph documents mention, for texts that state no facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from rulerag.linking.mentions import MentionFinder
from rulerag.types import Document


def link_mentions(
    documents: Iterable[Document], names: Mapping[str, Sequence[str]]
) -> list[Document]:
    """The same documents; those without facts say which entities they mention.

    Merging, candidates and hops go by it (:func:`rulerag.entities_of`). Titles are looked at too,
    behind the text. A name that several entities have stands for all of them. What a document says
    of its entities already is kept.

    Args:
        documents: the documents.
        names: for each raw name, its label and aliases.
    """
    finder = MentionFinder(names)
    linked = []
    for document in documents:
        if not document.facts and not document.entities:
            found = (*finder.spans(document.text), *finder.spans(document.title))
            entities = tuple(dict.fromkeys(name for *_, several in found for name in several))
            document = replace(document, entities=entities)
        linked.append(document)
    return linked
