"""A file or a folder of texts as a corpus; what is not read is said, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from rulerag.errors import DataError, EmptyDataError, MissingDependencyError, RuleRAGError
from rulerag.io import read_records
from rulerag.texts.chunks import ChunkSettings, documents_of
from rulerag.texts.formats import ENDINGS, blocks_of
from rulerag.types import Document

_RECORDS = (".jsonl", ".jsonl.gz", ".ndjson")


@dataclass
class TextCorpus:
    """What was read.

    Args:
        documents: in the order of the files' names, then of the text.
        left_out: for each file that could not be read, why; the error that it raises by itself.
        unknown: how many files there are of each ending that nothing reads.
    """

    documents: list[Document] = field(default_factory=list)
    left_out: list[RuleRAGError] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)

    def notes(self) -> Iterator[str]:
        """What was not read, in words, one line a reason."""
        if self.unknown:
            kinds = ", ".join(f"{count} {ending}" for ending, count in self.unknown.items())
            yield f"not read, as texts end in {_known()}: {kinds}"
        for error in self.left_out:
            yield f"not read: {error}"


def read_texts(path: str | Path, settings: ChunkSettings | None = None) -> TextCorpus:
    """The paragraphs of a file, or of every file of a folder and the folders in it.

    JSON lines hold one document each: ``{"text": …}``, with ``_id`` (or ``id``), ``title`` and
    ``metadata`` where there are any. Hidden files are passed over.

    Args:
        path: a file, or a folder.
        settings: how long documents may be; records are taken as they are.

    Raises:
        DataError: there is no such path, or the file cannot be read. Of a folder, files that
            cannot be read are left out, each with its error.
        EmptyDataError: nothing could be read.
        MissingDependencyError: the parser of the file is not installed.
    """
    root, settings = Path(path), settings or ChunkSettings()
    if not root.exists():
        raise DataError(
            "no such corpus", path=root, hint="give a dataset folder, a file or a folder of texts"
        )
    found = TextCorpus()
    if root.is_file():
        if not _is_readable(root):
            raise DataError(
                f"nothing reads {root.suffix or 'files without an ending'}",
                path=root,
                hint=f"texts end in {_known()}; save another document as PDF, HTML or text",
            )
        found.documents += _documents(root, root.name, settings, "")
        return found
    for file in sorted(root.rglob("*")):
        inside = file.relative_to(root)
        if not file.is_file() or any(part.startswith(".") for part in inside.parts):
            continue
        if not _is_readable(file):
            found.unknown[file.suffix or "no ending"] += 1
            continue
        try:
            name = inside.as_posix()
            prefix = f"{'_'.join(name.split())}#"
            found.documents += _documents(file, name, settings, prefix)
        except (DataError, MissingDependencyError) as error:
            if error.path is None:
                error.path = file
            found.left_out.append(error)
    if not found.documents:
        why = "; ".join(found.notes())
        raise EmptyDataError("no document is there", path=root, hint=why or f"texts: {_known()}")
    return found


def _documents(file: Path, name: str, settings: ChunkSettings, prefix: str) -> list[Document]:
    """The documents of a file; ``prefix`` stands before the numbers of records without an id."""
    if not file.name.endswith(_RECORDS):
        return list(documents_of(name, blocks_of(file), settings))
    numbers = count(1)
    documents = read_records(
        file, lambda row: Document.from_json(_with_id(row, prefix, next(numbers)))
    )
    if not documents:
        raise EmptyDataError("is empty", path=file)
    return documents


def _with_id(row: Mapping[str, Any], prefix: str, number: int) -> Mapping[str, Any]:
    """A record with an id, as records of one's own often have none."""
    identifier = row.get("_id", row.get("id"))
    return {**row, "_id": f"{prefix}d{number:06d}" if identifier is None else str(identifier)}


def _is_readable(file: Path) -> bool:
    return file.suffix.lower() in ENDINGS or file.name.endswith(_RECORDS)


def _known() -> str:
    return ", ".join((*ENDINGS, *_RECORDS))
