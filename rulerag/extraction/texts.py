"""A dataset that is asked of texts: these are read for its names and facts once, and that is kept.

What is kept are numbers, not texts: for each text of the index whom it mentions and which facts it
states. It goes by the content of texts and dataset and by the code that read them, so that texts
that were added, a dataset that was updated, and another version of the recogniser are read anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rulerag.cache import recall_arrays, remember_arrays
from rulerag.extraction.known import with_known_facts
from rulerag.io import StoredRecords, fingerprint_object
from rulerag.kg import Calendar, stated_facts
from rulerag.linking import link_mentions, spellings
from rulerag.ruleqa import RuleQADataset, known_names
from rulerag.types import Document, Fact

_UNDATED = np.iinfo(np.int64).min

_Arrays = Mapping[str, npt.NDArray[Any]]


def over_texts(dataset: RuleQADataset, documents: Sequence[Document]) -> RuleQADataset:
    """A dataset whose rules lead through texts: they take its corpus's place, without judgements.

    Texts that say of no entity whom they mention are compared with the dataset's names, and state
    those of its facts that their words say. Of texts that are stored in a file, what was read is
    kept in the cache folder, by the fingerprints of file and dataset.

    Args:
        dataset: its documents state facts.
        documents: texts; those that state facts are kept as they are.
    """
    if not isinstance(documents, StoredRecords):
        return _over(dataset, _read(dataset, documents))
    key = [documents.fingerprint, dataset.fingerprint]
    found = recall_arrays("texts", key)
    if found is not None and _fits(found, len(documents)):
        over = _over(dataset, ())
    else:
        over = _over(dataset, _read(dataset, documents))
        found = _packed(over)
        remember_arrays("texts", key, found)
    said = _Said.of(found)
    over.__dict__["fingerprint"] = said.fingerprint
    over.corpus = documents.annotated(said.note, fingerprint_object(["texts", *key]), over.corpus)
    return over


def _read(dataset: RuleQADataset, documents: Sequence[Document]) -> list[Document]:
    """The texts with whom they mention and what they state."""
    names = spellings(known_names(dataset)[0], dataset.labels["entities"], dataset.aliases)
    calendar = Calendar(**dataset.calendar) if dataset.calendar else None
    facts = (fact for _, fact in stated_facts(dataset.corpus))
    return with_known_facts(link_mentions(documents, names), facts, names, calendar)


def _over(dataset: RuleQADataset, corpus: Sequence[Document]) -> RuleQADataset:
    """The same dataset with another corpus."""
    over = RuleQADataset(
        corpus=corpus,
        queries=dataset.queries,
        rules=dataset.rules,
        query_sets=dataset.query_sets,
        labels={**dataset.labels, "aliases": dataset.aliases},
        info=dataset.info,
        prediction=dataset.prediction,
    )
    over.templates = dataset.templates
    return over


class _Said(NamedTuple):
    """Whom texts mention and what they state, by the row of the text.

    Args:
        names: of entities and relations, which the arrays have by number.
        entities: of shape (n,): those of one text after those of another.
        entity_starts: of shape (n_texts + 1,): where those of each text start, and the end.
        facts: of shape (n, 4): subject, relation, object, and the time or :data:`_UNDATED`.
        fact_starts: as ``entity_starts``.
        fingerprint: of the dataset with these texts.
    """

    names: list[str]
    entities: npt.NDArray[np.int64]
    entity_starts: npt.NDArray[np.int64]
    facts: npt.NDArray[np.int64]
    fact_starts: npt.NDArray[np.int64]
    fingerprint: str

    @classmethod
    def of(cls, arrays: _Arrays) -> _Said:
        """What :func:`_packed` packed."""
        names, fingerprint = json.loads(arrays["names"].tobytes())
        return cls(
            names,
            arrays["entities"],
            arrays["entity_starts"],
            arrays["facts"],
            arrays["fact_starts"],
            fingerprint,
        )

    def note(self, row: int, document: Document) -> Document:
        """The document of a row as it was read; those that state facts were left as they are."""
        if document.facts:
            return document
        names = self.names
        first, last = self.entity_starts[row : row + 2]
        entities = tuple(names[number] for number in self.entities[first:last])
        first, last = self.fact_starts[row : row + 2]
        facts = tuple(
            Fact(names[s], names[r], names[o], None if time == _UNDATED else time)
            for s, r, o, time in self.facts[first:last].tolist()
        )
        return replace(document, facts=facts, entities=entities)


def _packed(over: RuleQADataset) -> dict[str, npt.NDArray[Any]]:
    """Whom the texts of a dataset mention and what they state, as arrays."""
    names: dict[str, int] = {}

    def number(name: str) -> int:
        return names.setdefault(name, len(names))

    entities = [[number(name) for name in one.entities] for one in over.corpus]
    facts = [
        [
            (number(s), number(r), number(o), _UNDATED if time is None else time)
            for s, r, o, time in one.facts
        ]
        for one in over.corpus
    ]
    about = json.dumps([list(names), over.fingerprint]).encode()
    return {
        "names": np.frombuffer(about, dtype=np.uint8),
        "entities": np.array([one for row in entities for one in row], dtype=np.int64),
        "entity_starts": _starts(entities),
        "facts": np.array([one for row in facts for one in row], dtype=np.int64).reshape(-1, 4),
        "fact_starts": _starts(facts),
    }


def _starts(rows: Sequence[Sequence[Any]]) -> npt.NDArray[np.int64]:
    return np.cumsum([0, *map(len, rows)], dtype=np.int64)


def _fits(arrays: _Arrays, size: int) -> bool:
    """Whether arrays can be those of so many texts; no number leads out of them."""
    try:
        said = _Said.of(arrays)
        known = len(said.names)
        ends = np.concatenate([said.entities, said.facts[:, :3].ravel()])
        return (
            said.facts.shape[1] == 4
            and (not len(ends) or 0 <= int(ends.min()) <= int(ends.max()) < known)
            and isinstance(said.fingerprint, str)
            and all(
                starts.shape == (size + 1,)
                and starts[0] == 0
                and starts[-1] == len(rows)
                and bool((np.diff(starts) >= 0).all())
                for starts, rows in (
                    (said.entity_starts, said.entities),
                    (said.fact_starts, said.facts),
                )
            )
        )
    except (KeyError, ValueError, TypeError, IndexError):
        return False
