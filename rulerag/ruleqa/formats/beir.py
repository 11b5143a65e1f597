"""BEIR: a corpus, queries, and judgements by split.

References:
    Thakur et al. 2021 (arXiv:2104.08663). The files are those that ``GenericDataLoader`` of
    github.com/beir-cellar/beir reads (``beir/datasets/data_loader.py``)::

        corpus.jsonl   {"_id", "title", "text", "metadata"}
        queries.jsonl  {"_id", "text", "metadata"}
        qrels/*.tsv    query-id, corpus-id, score; a header
"""

from __future__ import annotations

from pathlib import Path

from rulerag.errors import DataError, DataFormatError
from rulerag.io import read_records
from rulerag.ruleqa.formats.records import BenchmarkContents, Row, text_of
from rulerag.ruleqa.stored import Qrels, read_qrels
from rulerag.types import Document, Query

# A query that several files judge belongs to the first of these.
_ORDER = ("test", "dev", "train")


def beir_files(folder: Path) -> tuple[Path, Path] | None:
    """The corpus and the queries of a folder in BEIR's layout; None where it is none."""
    files = []
    for name in ("corpus.jsonl", "queries.jsonl"):
        there = [one for one in (folder / name, folder / f"{name}.gz") if one.is_file()]
        if not there:
            return None
        files.append(there[0])
    return files[0], files[1]


def read_beir(folder: Path) -> BenchmarkContents:
    """The corpus, and of each split the queries that are judged, as BEIR's own loader takes them.

    A document without a text has its title as text; one without both is left out. Without
    ``qrels`` all queries are test queries.

    Raises:
        DataError: a file is missing.
        DataFormatError: a row cannot be read; names file, line and key.
    """
    files = beir_files(folder)
    if files is None:
        raise DataError("lacks corpus.jsonl or queries.jsonl", path=folder)
    contents = BenchmarkContents()
    rows = read_records(files[0], _document)
    contents.documents = [row for row in rows if row is not None]
    if len(rows) > len(contents.documents):
        contents.left_out["documents without title and text"] = len(rows) - len(contents.documents)
    queries = {query.id: query for query in read_records(files[1], _query)}
    judged = sorted(folder.glob("qrels/*.tsv"), key=_place)
    if not judged:
        contents.queries["test"] = list(queries.values())
        return contents
    known = {document.id for document in contents.documents}
    seen: set[str] = set()
    for file in judged:
        qrels = read_qrels(file)
        if unknown := next((query for query in qrels if query not in queries), None):
            raise DataFormatError(f"no query has the id {unknown!r}", path=file, key="query-id")
        again = qrels.keys() & seen
        contents.left_out["queries judged in another split too"] += len(again)
        seen |= qrels.keys()
        kept: Qrels = {}
        for query, grades in qrels.items():
            if query in again:
                continue
            kept[query] = {one: grade for one, grade in grades.items() if one in known}
            contents.left_out["judgements of documents that the corpus lacks"] += len(grades) - len(
                kept[query]
            )
        contents.qrels[file.stem] = kept
        contents.queries[file.stem] = [queries[query] for query in kept]
    contents.left_out["queries without judgements"] += len(queries.keys() - seen)
    return contents


def _place(file: Path) -> tuple[int, str]:
    return (_ORDER.index(file.stem) if file.stem in _ORDER else len(_ORDER), file.stem)


def _document(row: Row) -> Document | None:
    title, text = (str(row.get(key) or "").strip() for key in ("title", "text"))
    if not title and not text:
        text_of(row, "_id")
        return None
    return Document(text_of(row, "_id"), text or title, title=title if text else "")


def _query(row: Row) -> Query:
    return Query(text_of(row, "_id"), text_of(row, "text"))
