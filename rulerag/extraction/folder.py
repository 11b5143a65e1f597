"""What was extracted as a graph folder, with the words behind every fact.

::

    train.csv         subject, relation, object and date: a table that every command reads
    evidence.jsonl    for each fact, document, spans, confidence, the pattern and the sentence
    documents.jsonl   the documents that the spans are of
    patterns.yaml     what words meant, to be edited and used again
    extraction.json   counts, settings, what was passed over and why
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rulerag.errors import EmptyDataError
from rulerag.extraction.patterns import PatternBook
from rulerag.extraction.records import Extraction, Triple
from rulerag.io import atomic_write, prepare_folder, read_records, write_json, write_jsonl
from rulerag.kg import Calendar
from rulerag.types import Document, Fact

FACTS, EVIDENCE, DOCUMENTS = "train.csv", "evidence.jsonl", "documents.jsonl"
PATTERNS, REPORT = "patterns.yaml", "extraction.json"
# As `rulerag inspect` asks: of so many, at least this fraction have one alone.
_SOME, _MOST = 10, 0.9


def write_graph(
    folder: str | Path,
    found: Extraction,
    calendar: Calendar,
    patterns: PatternBook,
    about: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write a graph folder; the facts last, so that a folder with facts is whole.

    Args:
        folder: where to write; files of these names are replaced.
        found: what was extracted.
        calendar: of the facts' times.
        patterns: what words meant.
        about: what else the report says.

    Returns:
        The report.

    Raises:
        EmptyDataError: nothing was found; names what was passed over.
        OutputError: the folder cannot be written.
    """
    if not found.triples:
        why = "; ".join(f"{count:,} × {one}" for one, count in found.passed_over.most_common())
        raise EmptyDataError(
            f"no triple was found ({why or 'no sentence names two entities'})",
            hint="give facts that the texts state (--seeds), or a lower --min-confidence; only "
            "English words between two names are read",
        )
    home = prepare_folder(folder)
    (home / FACTS).unlink(missing_ok=True)
    texts = {name: document.text for name, document in found.documents.items()}
    write_jsonl(
        home / EVIDENCE, (one.to_json(texts[one.document_id], calendar) for one in found.triples)
    )
    write_jsonl(home / DOCUMENTS, (one.to_json() for one in found.documents.values()))
    patterns.save(home / PATTERNS)
    facts = sorted({one.fact for one in found.triples}, key=_order)
    report = {
        "documents": len(found.documents),
        "triples": len(found.triples),
        "facts": len(facts),
        "relations": dict(Counter(fact.relation for fact in facts).most_common()),
        "passed_over": dict(found.passed_over.most_common()),
        "may_contradict": contradictions(facts, calendar),
        "faults": found.faults,
        **(about or {}),
    }
    write_json(home / REPORT, report)
    dated = any(fact.timestamp is not None for fact in facts)
    with atomic_write(home / FACTS) as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("subject", "relation", "object", "date")[: 4 if dated else 3])
        for fact in facts:
            time = [] if fact.timestamp is None else [calendar.format(fact.timestamp)]
            table.writerow([*fact[:3], *time])
    return report


def _order(fact: Fact) -> tuple[Any, ...]:
    return (-1 if fact.timestamp is None else fact.timestamp, *fact[:3])


def read_evidence(folder: str | Path, calendar: Calendar) -> list[Document] | None:
    """For each fact of an extracted graph a document with the words that state it.

    A sentence that states one fact is taken whole, of another the part from name to name alone: the
    other fact may be held out. An entity that the text calls by a shorter name is named in
    brackets, as editors do: ``[Anna Meyer] Meyer joined Acme``. The title is the document's id; the
    id is that with the place in it: ``news.md#3@17-52``.

    Args:
        folder: a graph folder.
        calendar: that of the graph as it is read.

    Returns:
        The documents, the surest of each fact; None where the folder was not extracted.

    Raises:
        DataFormatError: a line is damaged; names file and line.
    """
    home = Path(folder)
    if not (home / EVIDENCE).is_file() or not (home / FACTS).is_file():
        return None
    texts = {one.id: one.text for one in read_records(home / DOCUMENTS, Document.from_json)}
    triples = read_records(home / EVIDENCE, lambda row: Triple.from_json(row, calendar))
    stated = Counter((one.document_id, one.sentence) for one in triples)
    best: dict[Fact, Triple] = {}
    for one in triples:
        if one.fact not in best or one.confidence > best[one.fact].confidence:
            best[one.fact] = one
    alone = {key for key, count in stated.items() if count == 1}
    return [_document(one, texts[one.document_id], alone) for one in _sorted(best.values())]


def _sorted(triples: Iterable[Triple]) -> list[Triple]:
    return sorted(triples, key=lambda one: _order(one.fact))


def _document(triple: Triple, text: str, alone: set[tuple[str, tuple[int, int]]]) -> Document:
    whole = (triple.document_id, triple.sentence) in alone
    start, end = triple.sentence if whole else triple.span
    said = " ".join(text[start:end].split())
    ends = (triple.fact.subject, triple.fact.object)
    missing = next((end for end in ends if end.casefold() not in said.casefold()), None)
    if missing is not None:
        said = f"[{missing}] {said}"
    name = f"{triple.document_id}@{triple.span[0]}-{triple.span[1]}"
    return Document(name, said, (triple.fact,), triple.document_id)


def contradictions(facts: Iterable[Fact], calendar: Calendar) -> list[dict[str, Any]]:
    """Facts that may contradict each other, by what the other facts of their relation are like.

    Where nearly every subject has one object (at a time), one that has several is worth a look; so
    is a fact with several dates where nearly every other has one. Nothing is dropped: which of them
    is right, no text says.

    Args:
        facts: all facts.
        calendar: of their times.

    Returns:
        Rows of ``relation``, ``subject``, and either ``objects`` with the ``date`` at which it has
        them (if facts are dated), or ``object`` and ``dates``.
    """
    listed = sorted(set(facts), key=lambda one: (*one[:3], one.timestamp or 0))
    found = []
    for relation in dict.fromkeys(one.relation for one in listed):
        own = [one for one in listed if one.relation == relation]
        dated = [one for one in own if one.timestamp is not None]
        for (subject, time), same in _several(own, lambda one: (one.subject, one.timestamp)):
            row = {"relation": relation, "subject": subject}
            row |= {} if time is None else {"date": calendar.format(time)}
            found.append({**row, "objects": [one.object for one in same]})
        for (subject, name), same in _several(dated, lambda one: (one.subject, one.object)):
            dates = [calendar.format(one.timestamp or 0) for one in same]
            row = {"relation": relation, "subject": subject, "object": name}
            found.append({**row, "dates": dates})
    return found


def _several(facts: list[Fact], key: Any) -> Iterator[tuple[tuple[Any, Any], list[Fact]]]:
    """Groups of several facts, where nearly all groups have one."""
    groups: dict[tuple[Any, Any], list[Fact]] = {}
    for fact in facts:
        groups.setdefault(key(fact), []).append(fact)
    single = sum(len(own) == 1 for own in groups.values())
    if len(groups) >= _SOME and single >= _MOST * len(groups):
        yield from ((name, own) for name, own in groups.items() if len(own) > 1)
