"""FlashRAG: questions with golden answers, and a corpus beside them.

References:
    Jin et al. 2024 (arXiv:2405.13576). Rows are those that ``Item`` of
    github.com/RUC-NLPIR/FlashRAG reads (``flashrag/dataset/dataset.py``)::

        test.jsonl    {"id", "question", "golden_answers": […], "metadata"}
        corpus.jsonl  {"id", "contents"}, the title on the first line of the contents
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rulerag.errors import DataError
from rulerag.ruleqa.formats.records import (
    BenchmarkContents,
    Row,
    list_of,
    read_rows,
    read_splits,
    text_of,
)
from rulerag.types import Document, Query


def read_flashrag(files: Sequence[Path], corpora: Sequence[Path]) -> BenchmarkContents:
    """The questions of each split over the documents of the corpora.

    Args:
        files: the files of questions.
        corpora: the files of documents.

    Raises:
        DataError: there is no corpus.
        DataFormatError: a row cannot be read; names file, line and key.
    """
    if not corpora:
        raise DataError(
            "holds FlashRAG questions, and no corpus lies beside them",
            path=files[0],
            hint='put a file of lines {"id": …, "contents": …} into the same folder',
        )
    contents = BenchmarkContents()
    for file in corpora:
        contents.documents += read_rows(file, _document)
    for split, queries in read_splits(files, _query).items():
        contents.queries[split] = [
            query if query.id else replace(query, id=f"{split}_{number}")
            for number, query in enumerate(queries)
        ]
    return contents


def _document(row: Row) -> Document:
    # The title stays where it is: FlashRAG indexes it, and finds answers in it.
    return Document(text_of(row, "id"), " ".join(text_of(row, "contents").split()))


def _query(row: Row) -> Query:
    identifier = "" if row.get("id") is None else text_of(row, "id")
    answers = tuple(str(one) for one in list_of(row, "golden_answers"))
    return Query(identifier, text_of(row, "question"), answers=answers)
