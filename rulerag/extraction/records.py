"""What extraction finds: triples with the words that say so, and what was passed over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rulerag.errors import DataFormatError
from rulerag.kg import Calendar
from rulerag.types import Document, Fact

Span = tuple[int, int]
"""Start and end in the text of a document, in characters."""


@dataclass(frozen=True, slots=True)
class Triple:
    """A fact and where it stands.

    Args:
        fact: by canonical names; its time in the steps of the calendar, or None.
        document_id: the document.
        sentence: the span of the sentence.
        span: from the first name to the last or to the date.
        confidence: how sure it is, a fraction.
        by: what found it: the pattern in words, or ``model``.
    """

    fact: Fact
    document_id: str
    sentence: Span
    span: Span
    confidence: float
    by: str

    def to_json(self, text: str, calendar: Calendar) -> dict[str, Any]:
        """A line of ``evidence.jsonl``; ``text`` is that of the document."""
        time = self.fact.timestamp
        return {
            "fact": [*self.fact[:3], *([] if time is None else [calendar.format(time)])],
            "document": self.document_id,
            "span": list(self.span),
            "sentence": list(self.sentence),
            "confidence": round(self.confidence, 4),
            "by": self.by,
            "text": text[slice(*self.sentence)],
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any], calendar: Calendar) -> Triple:
        """Read a line of ``evidence.jsonl``.

        Raises:
            DataFormatError: a key is missing or of another form.
        """
        try:
            subject, relation, object_, *date = map(str, row["fact"])
            (a, b), (c, d) = row["sentence"], row["span"]
            return cls(
                Fact(subject, relation, object_, *map(calendar.parse, date)),
                str(row["document"]),
                (int(a), int(b)),
                (int(c), int(d)),
                float(row["confidence"]),
                str(row["by"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DataFormatError(f"is no evidence of a fact ({error})") from error


@dataclass
class Extraction:
    """All that was found in some documents.

    Args:
        triples: in the order of the documents.
        documents: the documents, by id.
        passed_over: how many pairs of names gave no triple, by reason.
        faults: what a model wrote that could not be read, one line each: document and reason.
    """

    triples: list[Triple] = field(default_factory=list)
    documents: dict[str, Document] = field(default_factory=dict)
    passed_over: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
