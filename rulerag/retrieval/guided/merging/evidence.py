"""Merging many rule-guided searches by the evidence that they give for each pair of entities.

Lists of several rules compete for k ranks. Merged by score or rank they fill them with copies of
the best-known statement. Here the ranks go to what the documents are *about*: documents about the
same entities are one group, with the evidence of every rule and search that found them; the k
groups with most evidence give one document each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rulerag.arrays import Doubles, Longs
from rulerag.cache import remembered_arrays
from rulerag.composition import register
from rulerag.io import StoredRecords
from rulerag.retrieval.guided.merging.groups import GroupMerger
from rulerag.retrieval.guided.merging.hits import RuleSearch, SearchHits
from rulerag.types import Document, Query, entities_of


@register("merge", "evidence")
class EvidenceMerger(GroupMerger):
    """Orders the documents of several searches by joined evidence.

    A document found with score ``s`` by a search with best score ``s*`` and rule confidence ``c``
    gets the evidence ``c · (s / s*) ** power``. Documents whose facts speak of the same entities
    form a group; the value of a group with the evidence ``E`` is ``1 − exp(−E)``.

    Args:
        documents: the corpus.
        power: the exponent of a score's fraction of the best one.
    """

    def __init__(self, documents: Sequence[Document], *, power: float = 8.0) -> None:
        super().__init__(documents)
        self.power = power
        self._group = _groups_of(documents)

    def weigh(
        self, query: Query, searches: Sequence[RuleSearch], hits: SearchHits
    ) -> tuple[Doubles, Doubles, Longs]:
        """The evidence of each hit, grouped by the entities of its document."""
        strength = np.clip(hits.score / hits.best, 0.0, 1.0) ** self.power
        return hits.weight * strength, strength, self._group[hits.row]

    def value(self, joined: Doubles, total: float) -> Doubles:
        """``1 − exp(−E)``."""
        return -np.expm1(-joined)


def _groups_of(documents: Sequence[Document]) -> Longs:
    """A number for each document, the same for those that speak of the same entities."""
    if isinstance(documents, StoredRecords):
        key = ["groups", documents.fingerprint]
        return remembered_arrays("datasets", key, lambda: {"g": _groups_of(list(documents))})["g"]
    codes: dict[object, int] = {}
    groups = [codes.setdefault(_about(document), len(codes)) for document in documents]
    return np.array(groups, dtype=np.int64)


def _about(document: Document) -> object:
    """The entities that a document speaks of; a document of unknown content is its own kind."""
    return frozenset(entities_of(document)) or document.id
