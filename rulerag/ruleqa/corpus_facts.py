"""The facts that a corpus states, as columns: read off its file once, and kept in the cache."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rulerag.arrays import Ints
from rulerag.cache import remembered_arrays
from rulerag.errors import DataFormatError
from rulerag.io import StoredRecords, read_json
from rulerag.types import Document, Fact


class CorpusFacts(NamedTuple):
    """The facts of a corpus, in its order.

    Args:
        entities: raw names by id, in the order of first appearance.
        relations: likewise.
        rows: int32 array of shape (n, 3), or (n, 4) with timestamps: subject, relation, object.
    """

    entities: list[str]
    relations: list[str]
    rows: Ints


def stated_facts(corpus: Sequence[Document]) -> Iterator[Fact]:
    """The facts that documents state, in their order; of a stored corpus they are read once.

    Args:
        corpus: of a dataset.
    """
    if isinstance(corpus, StoredRecords) and corpus.fingerprint == corpus.file_fingerprint:
        # Some facts with dates and some without are no columns.
        with suppress(DataFormatError):
            entities, relations, rows = _kept(corpus.fingerprint, lambda: corpus)
            for subject, relation, other, *time in rows.tolist():
                yield Fact(entities[subject], relations[relation], entities[other], *time)
            return
    for document in corpus:
        yield from document.facts


def keep_facts(folder: str | Path, documents: Iterable[Document]) -> None:
    """Keep the facts of a dataset that was just written, for its first question.

    Args:
        folder: of the dataset.
        documents: its corpus.
    """
    manifest = read_json(Path(folder) / "manifest.json")
    _kept(manifest["files"]["corpus.jsonl"]["sha256"], lambda: documents)


def _kept(digest: str, documents: Any) -> CorpusFacts:
    found = remembered_arrays("datasets", _key(digest), lambda: _packed(_columns(documents())))
    entities, relations = (json.loads(found[key].tobytes()) for key in ("entities", "relations"))
    return CorpusFacts(entities, relations, found["rows"])


def _key(digest: str) -> list[str]:
    return ["facts", digest]


def _packed(facts: CorpusFacts) -> dict[str, npt.NDArray[Any]]:
    def as_bytes(names: list[str]) -> npt.NDArray[np.uint8]:
        return np.frombuffer(json.dumps(names).encode(), dtype=np.uint8)

    return {
        "entities": as_bytes(facts.entities),
        "relations": as_bytes(facts.relations),
        "rows": facts.rows,
    }


def _columns(documents: Iterable[Document]) -> CorpusFacts:
    facts: list[Fact] = [fact for document in documents for fact in document.facts]
    entities: dict[str, int] = {}
    relations: dict[str, int] = {}
    rows = [
        (
            entities.setdefault(fact.subject, len(entities)),
            relations.setdefault(fact.relation, len(relations)),
            entities.setdefault(fact.object, len(entities)),
            fact.timestamp or 0,
        )
        for fact in facts
    ]
    dated = {fact.timestamp is not None for fact in facts}
    if len(dated) > 1:
        raise DataFormatError("some facts of the corpus are dated and others are not")
    table = np.array(rows, dtype=np.int32).reshape(-1, 4)
    return CorpusFacts(list(entities), list(relations), table[:, : 4 if True in dated else 3])
