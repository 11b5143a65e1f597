"""What similarity attribution returns: numbers for sentences, documents, and what they are not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rulerag.arrays import Doubles
from rulerag.errors import DataFormatError
from rulerag.explanation.attribution import Attribution
from rulerag.explanation.records import Record
from rulerag.explanation.units import Passage
from rulerag.io import write_text
from rulerag.text import shortened
from rulerag.views import Scale

CAUTION = (
    "Similarity is not causation: these numbers say which sentences read like the answer, not "
    "which of them the model used. The model was not asked."
)
"""What stands beside every result."""

_SHOWN = 8  # sentences in print


@dataclass(frozen=True)
class Sentence(Record):
    """A sentence of the answer or of a document.

    Args:
        text: what it says.
        start: where it begins, in characters.
        end: where it ends.
        document: the index of its document; None for one of the answer.
    """

    text: str
    start: int
    end: int
    document: int | None = None


@dataclass(frozen=True)
class SimilarityAttribution(Record):
    """How similar each sentence of the documents is to each sentence of the answer.

    Args:
        answer: the answer.
        sentences: its A sentences.
        documents: what was read.
        sources: the S sentences of the documents, in order.
        scores: A rows of S numbers, as the scorer gives them: cosines from -1 to 1, BM25 from 0, or
            what a cross-encoder says. With a window, of the best window that holds the sentence.
        scorer: what compared them.
        window: how many sentences of a document were compared together.
        aggregate: how the answer's sentences are put together: ``mean`` or ``max``.
        temperature: what scores are divided by before the softmax.

    Raises:
        DataFormatError: these do not fit each other.
    """

    answer: str
    sentences: tuple[Sentence, ...]
    documents: tuple[Passage, ...]
    sources: tuple[Sentence, ...]
    scores: tuple[tuple[float, ...], ...]
    scorer: str
    window: int
    aggregate: Literal["mean", "max"]
    temperature: float

    def __post_init__(self) -> None:
        places = range(len(self.documents))
        if (
            len(self.scores) != len(self.sentences)
            or any(len(row) != len(self.sources) for row in self.scores)
            or not all(source.document in places for source in self.sources)
            or not (self.sentences and self.sources and self.temperature > 0)
        ):
            raise DataFormatError(
                "the scores do not fit the sentences of answer and documents", key="scores"
            )

    @cached_property
    def shares(self) -> Doubles:
        """The softmax of each row of scores over the sources, shape (A, S); a row sums to 1."""
        scaled = np.asarray(self.scores, dtype=np.float64) / self.temperature
        raised = np.exp(scaled - scaled.max(axis=1, keepdims=True))
        return np.asarray(raised / raised.sum(axis=1, keepdims=True))

    @cached_property
    def document_shares(self) -> Doubles:
        """The shares of each document's sentences together, shape (A, documents)."""
        table = np.zeros((len(self.sentences), len(self.documents)))
        for place, source in enumerate(self.sources):
            table[:, source.document or 0] += self.shares[:, place]
        return table

    @cached_property
    def values(self) -> tuple[float, ...]:
        """A number for each sentence of the documents: its mean or largest share.

        Sentences of the answer that are undecided do not count, unless all are.
        """
        return self._aggregated(self.shares)

    @cached_property
    def document_values(self) -> tuple[float, ...]:
        """A number for each document: its mean or largest share."""
        return self._aggregated(self.document_shares)

    @property
    def ranking(self) -> tuple[int, ...]:
        """The places of the sources, the most similar first; ties in their order."""
        return _ranked(self.values)

    @property
    def document_ranking(self) -> tuple[int, ...]:
        """The indices of the documents, the most similar first; ties in their order."""
        return _ranked(self.document_values)

    @cached_property
    def undecided(self) -> tuple[int, ...]:
        """The sentences of the answer from which all sources are equally far.

        They have no word in common with any, for example. Their shares are equal, and mean nothing.
        """
        several = len(self.sources) > 1
        rows = enumerate(self.scores)
        return tuple(place for place, row in rows if several and max(row) - min(row) < 1e-12)

    @property
    def notes(self) -> tuple[str, ...]:
        """What has to be known before the numbers are read."""
        notes = [CAUTION]
        if len(self.sources) == 1:
            notes.append("The documents hold one sentence, which gets everything.")
        if self.undecided:
            which = ", ".join(str(place + 1) for place in self.undecided)
            many = "s" if len(self.undecided) > 1 else ""
            notes.append(
                f"All sources are equally far from sentence{many} {which} of the answer: left out."
            )
        empty = [one.label for one in self.documents if not one.text.strip()]
        if empty:
            notes.append(f"Without text: {', '.join(empty)}.")
        return tuple(notes)

    @property
    def scale(self) -> Scale:
        """How strongly a sentence of the documents is shaded, by its value.

        With a mean over A sentences, one that has a sentence of the answer for itself has 1 / A.
        """
        decided = (len(self.sentences) - len(self.undecided)) or len(self.sentences)
        return Scale(1 / len(self.sources), 1.0 if self.aggregate == "max" else 1 / decided)

    def attribution(self) -> Attribution:
        """The documents' numbers in the form of the other explainers."""
        names = tuple(document.label for document in self.documents)
        values = self.document_values
        method = f"similarity, {self.scorer}"
        return Attribution(method, names, values, None, float(sum(values)), 0.0, 0)

    def to_json(self) -> dict[str, Any]:
        """The record as a JSON object; what is not read again stands for people: the caution."""
        return {"caution": CAUTION, **super().to_json()}

    def to_html(self, path: str | Path | None = None) -> str:
        """One self-contained page: the documents highlighted, the flow, and both as tables.

        Args:
            path: where to write it.

        Raises:
            OutputError: it cannot be written.
        """
        from rulerag.explanation.similarity.page import page

        return _written(page(self).html(), path)

    def to_svg(self, path: str | Path | None = None) -> str:
        """The flow from the answer's sentences to the documents as a picture of its own.

        Args:
            path: where to write it.

        Raises:
            OutputError: it cannot be written.
        """
        from rulerag.explanation.similarity.page import flow

        return _written(flow(self).svg, path)

    def __str__(self) -> str:
        """The most similar sentences, one a line."""
        how = f"{self.scorer}, {self.aggregate} over {len(self.sentences)} sentences of the answer"
        lines = [f"similarity ({how}); {len(self.sources)} sentences compared"]
        for place in self.ranking[:_SHOWN]:
            source = self.sources[place]
            label = self.documents[source.document or 0].label
            lines.append(f"  {self.values[place]:6.1%}  {label} {shortened(source.text, 76)}")
        rest = self.ranking[_SHOWN:]
        if rest:
            share = sum(self.values[place] for place in rest)
            together = f", together {share:.1%}" if self.aggregate == "mean" else ""
            lines.append(f"  and {len(rest)} more{together}")
        return "\n".join([*lines, *self.notes])

    def __rich__(self) -> Any:
        from rulerag.explanation.similarity.page import terminal

        return terminal(self)

    def _repr_html_(self) -> str:
        from rulerag.explanation.similarity.page import page

        return page(self).fragment()

    def _aggregated(self, table: Doubles) -> tuple[float, ...]:
        decided = [place for place in range(len(table)) if place not in self.undecided]
        table = table[decided] if decided else table  # equal shares would only blur the others
        together = table.mean(axis=0) if self.aggregate == "mean" else table.max(axis=0)
        return tuple(together.tolist())


def _ranked(values: tuple[float, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(values)), key=lambda place: (-values[place], place)))


def _written(text: str, path: str | Path | None) -> str:
    if path is not None:
        write_text(Path(path), text)
    return text
