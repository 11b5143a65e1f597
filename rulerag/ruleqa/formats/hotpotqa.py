"""HotpotQA: questions, each with the paragraphs that it is asked over.

References:
    Yang et al. 2018 (arXiv:1809.09600), section 5.1 (the distractor setting), and the rows that
    the README of github.com/hotpotqa/hotpot describes::

        {"_id", "question", "answer", "supporting_facts": [[title, sentence], …],
         "context": [[title, [sentence, …]], …], "type", "level"}

    ``datasets`` keeps the same in columns, which is read too: ``id``, ``context`` with ``title``
    and ``sentences``, ``supporting_facts`` with ``title`` and ``sent_id``. 2WikiMultiHopQA
    (arXiv:2011.01060) has HotpotQA's rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rulerag.errors import DataFormatError
from rulerag.ruleqa.formats.records import BenchmarkContents, Row, read_splits, text_of
from rulerag.types import Document, Query


def read_hotpotqa(files: Sequence[Path]) -> BenchmarkContents:
    """One corpus of all paragraphs, each once, and the questions of each split.

    Paragraphs with a supporting fact are judged 1. The corpus is that of all questions, so that a
    search is harder than among the ten paragraphs of one question, and easier than among all of
    Wikipedia.

    Args:
        files: the files of questions.

    Raises:
        DataFormatError: a row cannot be read; names file, line and key.
    """
    contents = BenchmarkContents()
    places: dict[tuple[str, str], str] = {}

    def make(row: Row) -> tuple[Query, dict[str, int]]:
        query = Query(text_of(row, "_id", "id"), text_of(row, "question"), answers=(_answer(row),))
        wanted = {str(one) for one, _ in _pairs(row, "supporting_facts", "title", "sent_id")}
        grades: dict[str, int] = {}
        for title, sentences in _pairs(row, "context", "title", "sentences"):
            if not isinstance(sentences, list):
                raise DataFormatError("expected a list of sentences", key="context")
            text = " ".join(" ".join(map(str, sentences)).split())
            if not text:
                contents.left_out["paragraphs without a sentence"] += 1
                continue
            name = places.get((str(title), text))
            if name is None:
                name = places[str(title), text] = f"p{len(places) + 1:06d}"
                contents.documents.append(Document(name, text, title=str(title)))
            if title in wanted:
                grades[name] = 1
        titles = {str(title) for title, _ in _pairs(row, "context", "title", "sentences")}
        contents.left_out["supporting paragraphs outside of the context"] += len(wanted - titles)
        return query, grades

    for split, rows in read_splits(files, make).items():
        contents.queries[split] = [query for query, _ in rows]
        if judged := {query.id: grades for query, grades in rows if grades}:
            contents.qrels[split] = judged
    return contents


def _answer(row: Row) -> str:
    if "answer" not in row:
        raise DataFormatError(
            "the question has no answer",
            key="answer",
            hint="the published test file has none; take the file of validation questions (dev)",
        )
    return text_of(row, "answer")


def _pairs(row: Row, key: str, first: str, second: str) -> list[tuple[Any, Any]]:
    """The pairs of a column: a list of pairs, or two lists by name."""
    value = row.get(key)
    if isinstance(value, dict):
        one, other = value.get(first), value.get(second)
        if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
            return list(zip(one, other, strict=True))
    elif isinstance(value, list) and all(isinstance(p, list) and len(p) == 2 for p in value):
        return [(pair[0], pair[1]) for pair in value]
    raise DataFormatError(f"expected pairs of {first} and {second}", key=key)
