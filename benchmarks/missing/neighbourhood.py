"""A baseline of retrieval from graphs: the facts around the entity that a question names."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rulerag.kg import corpus_facts
from rulerag.kg.grounding import TableIndex
from rulerag.protocols import Retriever
from rulerag.types import Document, Query, ScoredDocument


class NeighbourhoodRetriever:
    """The facts within some hops of a question's subject, ordered by a search for the question.

    Args:
        documents: the corpus.
        retriever: finds documents by the question's text; those near the subject are taken, and
            then further ones near it, the nearest first.
        hops: how far a fact may be from the subject.
        pool: how many documents are searched for.
    """

    def __init__(
        self, documents: Sequence[Document], retriever: Retriever, hops: int = 2, pool: int = 1000
    ) -> None:
        self.documents, self.retriever, self.hops, self.pool = documents, retriever, hops, pool
        facts, self._owner = corpus_facts(documents)
        self._index = TableIndex(facts)

    @property
    def fingerprint(self) -> str:
        """Names the search and how far it goes."""
        return f"neighbourhood-{self.hops}-{self.pool}-{self.retriever.fingerprint}"

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return, for each query, at most ``top_k`` documents."""
        found = self.retriever.retrieve(queries, max(top_k, self.pool))
        return [self._near(*one, top_k) for one in zip(queries, found, strict=True)]

    def _near(
        self, query: Query, found: Sequence[ScoredDocument], top_k: int
    ) -> list[ScoredDocument]:
        places = self._places(query.subject)
        near = {self.documents[place].id for place in places}
        listed = [one for one in found if one.document.id in near][:top_k]
        taken = {one.document.id for one in listed}
        rest = (self.documents[place] for place in places)
        left = itertools.islice((d for d in rest if d.id not in taken), top_k - len(listed))
        listed += [ScoredDocument(one, 0.0, 0) for one in left]
        return [replace(one, rank=rank) for rank, one in enumerate(listed, start=1)]

    def _places(self, subject: str) -> list[int]:
        """The corpus rows of the facts within reach, the nearest first."""
        entities, facts = self._index.facts.entities, self._index.facts
        if subject not in entities:
            return []
        near, rows = np.array([entities.id(subject)]), np.zeros(0, np.int64)
        for _ in range(self.hops):
            more = np.concatenate([self._index.rows_around(int(one)) for one in near])
            rows = np.concatenate([rows, more])
            near = np.unique(np.concatenate([facts.subject[more], facts.object[more]]))
        return list(dict.fromkeys(self._owner[rows].tolist()))
