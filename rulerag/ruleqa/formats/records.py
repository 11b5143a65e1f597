"""What the readers of benchmarks share: rows of JSON files, and the contents of a benchmark."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from rulerag.errors import DataError, DataFormatError
from rulerag.io import read_json, read_records, read_text
from rulerag.ruleqa.stored import Qrels
from rulerag.types import Document, Query

T = TypeVar("T")
Row = Mapping[str, Any]

QUESTIONS = "Questions"
"""The key of WebQSP's one object, whose rows these are."""
_SPLITS = {
    **{"test": "test", "train": "train", "training": "train"},
    **dict.fromkeys(("dev", "valid", "validation", "val"), "dev"),
}


@dataclass
class BenchmarkContents:
    """What a reader has of a benchmark.

    Args:
        documents: the corpus.
        queries: by split.
        qrels: for each split, query id → document id → grade.
        labels: readable names of entities and relations, where they differ.
        left_out: what makes no query or document, counted by its reason.
    """

    documents: list[Document] = field(default_factory=list)
    queries: dict[str, list[Query]] = field(default_factory=dict)
    qrels: dict[str, Qrels] = field(default_factory=dict)
    labels: dict[str, dict[str, str]] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)


def read_splits(files: Sequence[Path], make: Callable[[Row], T]) -> dict[str, list[T]]:
    """What ``make`` builds from the rows of the files of each split.

    The split, ``train``, ``dev`` or ``test``, stands in a file's name. A file alone is the test
    split, whatever it is called: it is what was asked for.

    Raises:
        DataFormatError: as :func:`read_rows`.
    """
    splits: dict[str, list[T]] = {}
    for file in files:
        words = re.findall(r"[a-z]+", file.name.lower()) if len(files) > 1 else []
        split = next((_SPLITS[word] for word in words if word in _SPLITS), "test")
        splits.setdefault(split, []).extend(read_rows(file, make))
    return splits


def first_row(path: Path) -> Row:
    """The first row of a file of JSON lines or of a JSON list; the object of a file of one.

    Raises:
        DataError: the file cannot be read.
        DataFormatError: it holds no JSON object.
    """
    line = _first_line(path)
    if _is_object(line):
        return _checked(json.loads(line), path)
    if line.lstrip().startswith("{"):
        return _checked(read_json(path), path)
    text = read_text(path)
    try:  # of a list, the first entry alone is parsed: such files are large
        row, _ = json.JSONDecoder().raw_decode(text, max(text.find("{"), 0))
    except json.JSONDecodeError as error:
        raise DataFormatError(f"not JSON ({error.msg})", path=path, line=error.lineno) from error
    return _checked(row, path)


def read_rows(path: Path, make: Callable[[Row], T]) -> list[T]:
    """What ``make`` builds from each row of a file; see :func:`first_row` for its forms.

    Raises:
        DataFormatError: a row cannot be read, or ``make`` refuses it; names the line (of a list,
            the entry, from 1) and the key.
    """
    line = _first_line(path)
    if _is_object(line) and QUESTIONS not in json.loads(line):
        return read_records(path, make)
    value = read_json(path)
    rows = value.get(QUESTIONS) if isinstance(value, dict) else value
    if not isinstance(rows, list):
        raise DataFormatError("expected a list of objects", path=path)
    made = []
    for number, row in enumerate(rows, start=1):
        try:
            made.append(make(_checked(row, path)))
        except DataFormatError as error:
            raise DataFormatError(
                f"entry {number:,}: {error.message}", path=path, key=error.key, hint=error.hint
            ) from error
    return made


def text_of(row: Row, *keys: str) -> str:
    """The text (a number too) under the first of some keys that a row has.

    Raises:
        DataFormatError: there is none, or it is empty.
    """
    for key in keys:
        value = row.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if isinstance(value, str) and value.strip():
            return value
    raise DataFormatError("expected a text that is not empty", key=keys[0])


def list_of(row: Row, key: str, kind: type = object) -> list[Any]:
    """The list under a key; empty where the row has none.

    Raises:
        DataFormatError: it is no list, or not of this kind.
    """
    value = row.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, kind) for one in value):
        kinds: dict[type, str] = {str: "texts", dict: "objects", list: "lists"}
        raise DataFormatError(f"expected a list of {kinds.get(kind, 'values')}", key=key)
    return value


def _first_line(path: Path) -> str:
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            for line in file:
                if line.strip():
                    return line.decode("utf-8").removeprefix("\ufeff")
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", path=path) from error
    except UnicodeDecodeError as error:
        raise DataFormatError(
            "not UTF-8 text", path=path, line=1, hint="save the file as UTF-8"
        ) from error
    raise DataFormatError("is empty", path=path)


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except json.JSONDecodeError:
        return False


def _checked(row: Any, path: Path) -> Row:
    if not isinstance(row, dict):
        raise DataFormatError(f"expected an object, found {type(row).__name__}", path=path)
    return row
