"""Questions with a table of all subsets of their documents, and what an explainer gets of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from benchmarks.explanation.tables import Lattice, read_lattices
from rulerag.arrays import Doubles
from rulerag.errors import EmptyDataError, ProbeBudgetError
from rulerag.explanation.attribution import LOG_MARGIN
from rulerag.explanation.lattice import full_mask
from rulerag.explanation.probing import ProbeEngine, SetValue
from rulerag.explanation.records import Record
from rulerag.io import read_records

DESIGN = {"smollm2-ruleqa-i": 10, "smollm2-hotpotqa": 10}
"""So many first questions of these tables were looked at while the kernel surrogate was made."""


@dataclass(frozen=True)
class Reading(Record):
    """What a model says about its own answer to a question.

    Args:
        id: of the question.
        written: its self-explanation, word for word.
        answer: the short answer in it, which may be another than the one that is explained.
        keywords: those that could be read from it.
        support: of each document, how much likelier the model says yes than no when it is asked
            whether the document supports the answer; in nats, of shape (documents,).
    """

    id: str
    written: str
    answer: str
    keywords: tuple[str, ...]
    support: tuple[float, ...]


@dataclass(frozen=True)
class ProbeQuestion:
    """What an explainer gets.

    Args:
        question: in words.
        answer: in words, without the full stop of the prompt.
        documents: in words.
        scores: the log-probability of the answer for masks of documents that are kept. Each
            distinct one is a call, and one beyond ``calls`` is a ``ProbeBudgetError``.
        calls: how many are allowed.
        tokens: of the answer.
        seed: of anything drawn.
        reading: what the model says about its own answer; None where it was not asked.
    """

    question: str
    answer: str
    documents: tuple[str, ...]
    scores: SetValue
    calls: int
    tokens: int
    seed: int
    reading: Reading | None

    @property
    def threshold(self) -> float:
        """From here on the answer is kept; finding it out takes the first call."""
        return threshold(float(self.scores([self.scores.full])[0]))

    def engine(self) -> ProbeEngine:
        """The same as outputs, the numbers as texts, for miners of rules."""

        def answer(batch: list[tuple[int, ...]]) -> list[str]:
            masks = [sum(1 << place for place in kept) for kept in batch]
            return [repr(float(value)) for value in self.scores(masks)]

        count = len(self.documents)
        return ProbeEngine(answer, count, texts=self.documents, batch_size=1, max_probes=self.calls)


def threshold(full: float) -> float:
    """The log-probability of an answer that is a tenth as probable as with all documents.

    Half-way between all documents and none would not do: without documents the answer "Iran." has
    -16 and with any statement at all -8, far from what the model would write.
    """
    return full - LOG_MARGIN


@dataclass(frozen=True)
class Case:
    """A question to explain.

    Args:
        lattice: the question, its documents, and the answer's log-probability for all subsets.
        reading: what the model says about its own answer.
    """

    lattice: Lattice
    reading: Reading | None = None

    @cached_property
    def values(self) -> Doubles:
        """The log-probability of the answer by mask."""
        return np.array(self.lattice.values)

    @cached_property
    def kept(self) -> list[bool]:
        """Whether the answer is kept, by mask."""
        return [bool(one) for one in self.values >= threshold(self.values[-1])]

    @property
    def rests_on_documents(self) -> bool:
        """Whether the answer changes without any: else there is nothing to explain."""
        return not self.kept[0]

    @property
    def full(self) -> int:
        """The mask of all documents."""
        return full_mask(len(self.lattice.documents))

    def asked(self, calls: int, seed: int) -> ProbeQuestion:
        """The question for an explainer that may make so many calls."""
        known: set[int] = set()

        def look_up(masks: list[int]) -> list[float]:
            if len(known | set(masks)) > calls:
                raise ProbeBudgetError(f"the budget of {calls} calls is used up")
            known.update(masks)
            return [float(one) for one in self.values[masks]]

        one = self.lattice
        answer = one.answer.strip().rstrip(".")
        scores = SetValue(look_up, len(one.documents))
        known_of_it = (one.question, answer, one.documents, scores, calls, one.tokens, seed)
        return ProbeQuestion(*known_of_it, self.reading)


def readings_file(table: Path) -> Path:
    """Where the readings of a table's questions are kept."""
    return table.with_suffix(".readings.jsonl")


def read_cases(table: Path) -> tuple[list[Case], int]:
    """The questions of a table whose answer rests on the documents, and how many others it has.

    Neither are those on which the kernel surrogate was designed.

    Raises:
        DataError: the table, or its readings, cannot be read.
        EmptyDataError: no answer rests on the documents.
    """
    found: Sequence[Reading] = ()
    if readings_file(table).is_file():
        found = read_records(readings_file(table), Reading.from_json)
    readings = {one.id: one for one in found}
    lattices = read_lattices(table)[DESIGN.get(table.stem, 0) :]
    every = [Case(lattice, readings.get(lattice.id)) for lattice in lattices]
    cases = [case for case in every if case.rests_on_documents and case.lattice.truth]
    if not cases:
        raise EmptyDataError(
            "every answer stands without any document",
            path=table,
            hint="make a table of more questions",
        )
    return cases, len(every) - len(cases)
