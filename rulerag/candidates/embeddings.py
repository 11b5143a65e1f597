"""Candidates by vectors of entities and relations that were trained on the facts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from rulerag.arrays import Doubles, Floats, Longs
from rulerag.candidates.base import FactScorer
from rulerag.candidates.facts import NO_TIME, CorpusFacts
from rulerag.composition import register
from rulerag.errors import DataError, DataFormatError, FingerprintError
from rulerag.io import atomic_write, fingerprint_object
from rulerag.types import Support

FILE = "vectors.npz"
_TRAIN = "python -m training.embeddings configs/training/embeddings.yaml dataset=DIR out=FOLDER"
# Subjects near to the asked one that an explanation names.
_NAMED = 1


@dataclass(frozen=True, eq=False)
class Vectors:
    """What ``python -m training.embeddings`` writes.

    Args:
        entity_names: the names of entities.
        relation_names: the names of relations, R of them.
        entities: their vectors, shape (entities, 2 * rank): real halves, then imaginary ones.
        relations: vectors of relations, then of their reciprocals, shape (2 R, 2 * rank).
        facts: the fingerprint of the facts that they were trained on.
    """

    entity_names: tuple[str, ...]
    relation_names: tuple[str, ...]
    entities: Floats
    relations: Floats
    facts: str

    def save(self, folder: str | Path) -> None:
        """Write them into a folder.

        Raises:
            OutputError: the folder cannot be written.
        """
        with atomic_write(Path(folder) / FILE, "wb") as file:
            np.savez(
                file,
                allow_pickle=False,
                entity_names=np.array(self.entity_names),
                relation_names=np.array(self.relation_names),
                entities=self.entities,
                relations=self.relations,
                facts=np.array(self.facts),
            )

    @classmethod
    def load(cls, folder: str | Path) -> Vectors:
        """Read them from a folder.

        Raises:
            DataError: there are none; says how to train them.
            DataFormatError: the file is damaged.
        """
        place = Path(folder) / FILE
        if not place.exists():
            raise DataError("no vectors", path=place, hint=f"train them: {_TRAIN}")
        try:
            with np.load(place, allow_pickle=False) as file:
                return cls(
                    tuple(file["entity_names"].tolist()),
                    tuple(file["relation_names"].tolist()),
                    file["entities"],
                    file["relations"],
                    str(file["facts"]),
                )
        except (OSError, ValueError, KeyError) as error:
            raise DataFormatError(
                f"holds no vectors ({error})", path=place, hint=f"train them anew: {_TRAIN}"
            ) from error


@register("scorer", "embeddings")
class Embeddings(FactScorer):
    """Objects of the relation by the product of trained vectors (ComplEx).

    A score is the softmax over the objects that the relation has of the real part of the product of
    subject, relation and conjugate object. The vectors know all facts that they were trained on:
    for a question from before some of them there are no candidates, and the scorer cannot be made
    over other facts.

    Vectors give no reasons. What is shown of a candidate is a fact that states the relation with
    it, of the subject whose vector is nearest to that of the asked one, and it says so.

    Args:
        facts: the facts.
        folder: of ``python -m training.embeddings``.

    Raises:
        FingerprintError: the vectors were trained on other facts.
        DataError: the folder holds no vectors, or their file is damaged.

    References:
        Trouillon et al. 2016 (ComplEx), section 3.
    """

    kind = "embeddings"
    folder: str

    def __init__(self, facts: CorpusFacts, *, folder: str) -> None:
        super().__init__(facts, folder=str(folder))
        found = Vectors.load(folder)
        if found.facts != (facts.forward or facts).fingerprint:
            raise FingerprintError(
                "the vectors were trained on other facts than the corpus states",
                path=Path(folder) / FILE,
                hint=f"train them on these: {_TRAIN}",
            )
        # The same facts give the same ids.
        self._entities, self._relations = found.entities, found.relations

    @cached_property
    def fingerprint(self) -> str:
        """Names the facts and the vectors, wherever they lie."""
        digest = hashlib.sha256(self._entities.tobytes() + self._relations.tobytes()).hexdigest()
        return fingerprint_object([self.kind, self.facts.fingerprint, digest])

    @property
    def title(self) -> str:
        """What the scorer is called where it explains itself."""
        return self.kind

    def candidates(self, relation: int, time: int, subject: Longs) -> tuple[Longs, Doubles]:
        """See :meth:`FactScorer.candidates`."""
        answers, _ = self.facts.answers(relation, time)
        if time != NO_TIME:
            return answers, np.zeros((len(subject), len(answers)))
        if self.facts.forward is not None:
            relation += len(self.facts.table.relations)
        turned = _turned(self._entities[np.maximum(subject, 0)], self._relations[relation])
        score = (turned @ self._entities[answers].T).astype(np.float64)
        score = np.exp(score - score.max(axis=1, initial=-np.inf, keepdims=True))
        score /= score.sum(axis=1, keepdims=True)
        # What is very unlikely stays a candidate, behind all others.
        score = np.maximum(score, 1e-12)
        score[subject < 0] = 0
        return answers, score

    def support(self, relation: int, time: int, subject: int, entity: int) -> tuple[Support, ...]:
        """The fact of the nearest subject that has the candidate."""
        table = self.facts.table
        rows = self.facts.rows(relation, time)
        rows = rows[table.object[rows] == entity]
        if subject < 0 or not len(rows):
            return ()
        others = self._entities[table.subject[rows]]
        lengths = np.linalg.norm(others, axis=1) * np.linalg.norm(self._entities[subject])
        near = others @ self._entities[subject] / np.maximum(lengths, 1e-12)
        best = rows[np.argsort(-near, kind="stable")[:_NAMED]].tolist()
        named, said = self.facts.entity(entity), self.facts.answer(relation, entity)
        return tuple(
            self.reason(
                f"trained vectors put {named} here; {self.facts.entity(int(table.subject[row]))}, "
                f"of those that have it the nearest vector: {said}",
                [row],
            )
            for row in best
        )


def _turned(subject: Floats, relation: Floats) -> Floats:
    """The complex product of subjects and a relation, shape (b, 2 * rank)."""
    half = len(relation) // 2
    a, b, c, d = subject[:, :half], subject[:, half:], relation[:half], relation[half:]
    return np.concatenate([a * c - b * d, a * d + b * c], axis=1)
