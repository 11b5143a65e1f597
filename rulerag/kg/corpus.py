"""The facts that the documents of a corpus state; those of a stored corpus are read off it once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rulerag.arrays import Longs
from rulerag.cache import remembered_arrays
from rulerag.errors import DataFormatError
from rulerag.io import StoredRecords, to_json
from rulerag.kg.calendar import Calendar
from rulerag.kg.graph import FactTable, KnowledgeGraph
from rulerag.kg.vocabulary import Vocabulary
from rulerag.types import Document, Fact


def corpus_facts(documents: Sequence[Document]) -> tuple[FactTable, Longs]:
    """The facts of documents as a table, in their order, and who states them.

    Ids follow first appearance; labels are the names, for texts have the labels of a dataset.

    Args:
        documents: the corpus; those without facts state nothing.

    Returns:
        The table, and an int64 array of shape (n,): for each fact the place of its document.

    Raises:
        DataFormatError: some facts are dated and others are not, or a name is empty.
    """
    if not isinstance(documents, StoredRecords):
        return _read(documents)

    def read() -> dict[str, npt.NDArray[Any]]:
        table, owner = _read(list(documents))
        names = table.entities.names, table.relations.names
        entities, relations = (np.frombuffer(to_json(one).encode(), np.uint8) for one in names)
        return {"entities": entities, "relations": relations, "rows": table.rows, "owner": owner}

    found = remembered_arrays("scorers", ["facts", documents.fingerprint], read)
    entities, relations = (
        Vocabulary(json.loads(found[key].tobytes())) for key in ("entities", "relations")
    )
    return FactTable.of(found["rows"], entities, relations, Calendar(), "corpus"), found["owner"]


def stated_facts(documents: Sequence[Document]) -> Iterator[tuple[int, Fact]]:
    """The facts that documents state, in their order, each with the place of its document.

    Args:
        documents: the corpus; some facts may be dated and others not.
    """
    if isinstance(documents, StoredRecords):
        with suppress(DataFormatError):  # some facts with dates and some without are no table
            table, owner = corpus_facts(documents)
            yield from zip(owner.tolist(), table, strict=True)
            return
    for place, document in enumerate(documents):
        for fact in document.facts:
            yield place, fact


def _read(documents: Sequence[Document]) -> tuple[FactTable, Longs]:
    facts = [fact for document in documents for fact in document.facts]
    table = KnowledgeGraph.from_facts(facts).splits["train"]
    plain = Vocabulary(table.entities.names), Vocabulary(table.relations.names)
    owner = np.repeat(np.arange(len(documents)), [len(document.facts) for document in documents])
    return replace(table, entities=plain[0], relations=plain[1], name="corpus"), owner
