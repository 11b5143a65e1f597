"""TREC runs: ranked lists as six-column text, written and read without loss."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rulerag.errors import DataFormatError, UnknownNameError
from rulerag.io import atomic_write, read_text
from rulerag.types import Document, RuleHit, ScoredDocument


class RunEntry(NamedTuple):
    """One line of a run: a document, its rank (from 1) and its score."""

    document_id: str
    rank: int
    score: float


def write_run(
    path: str | Path, results: Mapping[str, Sequence[ScoredDocument]], tag: str = "rulerag"
) -> int:
    """Write ranked lists as a TREC run, atomically; return the number of lines.

    A line reads ``query-id Q0 document-id rank score tag``. Scores are written so that they read
    back exactly. Evaluation tools that sort by score alone may break ties otherwise than the
    ranks do; :func:`read_run` follows the ranks.

    Args:
        path: the file; ``.gz`` is compressed.
        results: the ranked list of each query, by query id.
        tag: the name of the run.

    Raises:
        DataFormatError: an id or the tag is empty or holds white space, which the format cannot
            carry.
        OutputError: the file cannot be written.
    """
    _check_word(tag, "tag")
    lines = 0
    with atomic_write(path) as file:
        for query_id, documents in results.items():
            _check_word(query_id, "query id")
            for rank, scored in enumerate(documents, start=1):
                _check_word(scored.document.id, "document id")
                score = repr(float(scored.score))
                file.write(f"{query_id} Q0 {scored.document.id} {rank} {score} {tag}\n")
                lines += 1
    return lines


def _check_word(word: str, what: str) -> None:
    if not word or word.split() != [word]:
        raise DataFormatError(
            f"the {what} {word!r} cannot stand in a TREC run", hint="use ids without white space"
        )


def read_run(path: str | Path) -> dict[str, list[RunEntry]]:
    """Read a TREC run: the entries of each query by rank, queries in the order of the file.

    Raises:
        DataError: the file cannot be read.
        DataFormatError: a line is malformed, or gives a document or a rank twice; names the line.
    """
    run: dict[str, list[RunEntry]] = {}
    seen: set[tuple[str, object]] = set()
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        query_id, entry = _parse(line, path, number)
        for key, what in ((entry.document_id, "document"), (entry.rank, "rank")):
            if (query_id, key) in seen:
                raise DataFormatError(
                    f"the query {query_id!r} has the {what} {key!r} twice", path=path, line=number
                )
            seen.add((query_id, key))
        run.setdefault(query_id, []).append(entry)
    for entries in run.values():
        entries.sort(key=lambda entry: entry.rank)
    return run


def _parse(line: str, path: str | Path, number: int) -> tuple[str, RunEntry]:
    try:
        query_id, _, document_id, rank_text, score_text, _ = line.split()
        rank, score = int(rank_text), float(score_text)
        if rank < 0 or math.isnan(score):
            raise ValueError
    except ValueError:
        raise DataFormatError(
            f"is no line of a TREC run: {line.strip()[:60]!r}",
            path=path,
            line=number,
            hint="query-id Q0 document-id rank score tag",
        ) from None
    return query_id, RunEntry(document_id, rank, score)


def attach_documents(
    run: Mapping[str, Sequence[RunEntry]], documents: Iterable[Document]
) -> dict[str, list[ScoredDocument]]:
    """Turn the entries of a run into results again, ranks counted from 1.

    A run does not say which rule found a document: each result carries one plain hit.

    Args:
        run: what :func:`read_run` returned.
        documents: the corpus.

    Raises:
        UnknownNameError: the corpus lacks a document of the run.
    """
    by_id = {document.id: document for document in documents}
    results: dict[str, list[ScoredDocument]] = {}
    for query_id, entries in run.items():
        results[query_id] = []
        for rank, entry in enumerate(entries, start=1):
            document = by_id.get(entry.document_id)
            if document is None:
                raise UnknownNameError(
                    f"the run names the document {entry.document_id!r}, which is not in the corpus",
                    hint="give the corpus that the run was made from",
                )
            hit = RuleHit(None, rank, entry.score)
            results[query_id].append(ScoredDocument(document, entry.score, rank, (hit,)))
    return results
