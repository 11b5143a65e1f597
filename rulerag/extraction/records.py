"""What extraction finds: triples with the words that say so, and what was passed over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rulerag.errors import DataFormatError
from rulerag.extraction.company import Company
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
        span: the span of the clause that says it, date included.
        confidence: how sure it is, a fraction.
        by: what found it: the pattern in words, or ``model``.
        subject_words: how the text names the subject; a pronoun, or nothing where the clause
            leaves it out ("Anna joined Acme and left Ulm").
    """

    fact: Fact
    document_id: str
    sentence: Span
    span: Span
    confidence: float
    by: str
    subject_words: str = ""

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
            "subject_words": self.subject_words,
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
                str(row.get("subject_words", "")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DataFormatError(f"is no evidence of a fact ({error})") from error


@dataclass
class Extraction:
    """All that was found in some documents.

    Args:
        triples: in the order of the documents.
        documents: the documents, by id.
        passed_over: how many clauses gave no triple, by reason.
        faults: what a model wrote that could not be read, one line each: document and reason.
        company: what unknown words mean by the company that they keep.
    """

    triples: list[Triple] = field(default_factory=list)
    documents: dict[str, Document] = field(default_factory=dict)
    passed_over: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    company: Company = field(default_factory=Company)
