"""TREC runs: ranked lists as six-column text, written without loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rulerag.errors import DataFormatError
from rulerag.io import atomic_write
from rulerag.types import ScoredDocument


def write_run(
    path: str | Path, results: Mapping[str, Sequence[ScoredDocument]], tag: str = "rulerag"
) -> int:
    """Write ranked lists as a TREC run, atomically; return the number of lines.

    A line reads ``query-id Q0 document-id rank score tag``. Scores are written so that they read
    back exactly. Evaluation tools that sort by score alone may break ties otherwise than the
    ranks do.

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
