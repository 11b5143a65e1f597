"""Reading columns from text files: whole numbers fast, names exactly, errors with their line.

Lines end with LF or CRLF, the last one with or without. Columns are parted by TAB (OpenKE: by
one ASCII space too) and by nothing else: names hold spaces, and some hold U+00A0.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rulerag.errors import DataError, DataFormatError

__all__ = ["excerpt", "read_bytes", "read_head", "read_integers", "read_lines", "read_vocabulary"]

Table = npt.NDArray[np.int32]

_HEAD = 1 << 16  # bytes that tell a layout
_BLOCK = 1 << 20  # bytes parsed at a time: working memory stays at a few tens of MB
_NEWLINE, _MINUS, _ZERO, _NINE = 10, 45, 48, 57
_LIMIT = 2**31


def excerpt(line: str, limit: int = 60) -> str:
    """The line in quotes, cut to a readable length, control characters made visible."""
    return repr(line if len(line) <= limit else line[: limit - 1] + "…")


def read_bytes(path: Path, limit: int = -1) -> bytes:
    """A file's content with LF line ends and without a byte order mark; gzip by its name.

    Args:
        path: the file.
        limit: how many bytes to read at most; all when negative.

    Raises:
        DataError: the file is missing or cannot be read or decompressed.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            data = file.read(limit)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"cannot be read ({reason})", path=path) from error
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
    return data.removeprefix(b"\xef\xbb\xbf")


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines that are not empty, with their numbers from 1.

    Raises:
        DataFormatError: the bytes are not UTF-8; names the line.
    """
    yield from _lines(read_bytes(path), path)


def read_head(path: Path) -> list[tuple[int, str]]:
    """The full lines among the first 64 KB, as :func:`read_lines` gives them."""
    data = read_bytes(path, _HEAD)
    cut = data.rfind(b"\n") + 1 if len(data) > _HEAD // 2 else len(data)
    return list(_lines(data[:cut] if cut else data, path))


def _lines(data: bytes, path: Path) -> Iterator[tuple[int, str]]:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataFormatError(
            "not UTF-8 text",
            path=path,
            line=data[: error.start].count(b"\n") + 1,
            hint="save the file as UTF-8",
        ) from error
    # Not splitlines(): it also ends lines at U+0085 and U+2028, which names may hold.
    for number, line in enumerate(text.split("\n"), start=1):
        if line:
            yield number, line


def read_integers(
    path: Path, *, columns: Sequence[int], separators: bytes = b"\t", counted: bool = False
) -> tuple[Table, npt.NDArray[np.int64]]:
    """A table of whole numbers, all rows of one width.

    Args:
        path: the file.
        columns: the widths that are allowed; the first row chooses.
        separators: the bytes that part columns.
        counted: whether the first line is the number of rows.

    Returns:
        The int32 array of shape (rows, columns), and the line number of each row.

    Raises:
        DataFormatError: a row of another form, or a count that disagrees.
    """
    data = read_bytes(path)
    lines_before = 0
    count = None
    if counted and data.strip():
        head, _, data = data.partition(b"\n")
        count = _count(head, path)
        lines_before = 1
    width = _width(data, columns, separators)
    tables, numbers = [np.empty((0, width), np.int32)], [np.empty(0, np.int64)]
    for block in _blocks(data):
        table = _parse(block, width, separators)
        rows = np.arange(1, len(table) + 1) if table is not None else None
        if table is None or rows is None:
            table, rows = _parse_slowly(block, width, columns, separators, path, lines_before)
        tables.append(table)
        numbers.append(rows + lines_before)
        lines_before += block.count(b"\n")
    table = np.concatenate(tables)
    if count is not None and count != len(table):
        raise DataFormatError(
            f"the first line counts {count:,} rows, but {len(table):,} follow",
            path=path,
            line=1,
            hint="the file may be cut short; correct the count or fetch the file again",
        )
    return table, np.concatenate(numbers)


def read_vocabulary(path: Path) -> list[str]:
    """The names of a file ``name TAB id [TAB …]``, placed at their ids.

    A first line that is one whole number is taken as the count (OpenKE).

    Raises:
        DataFormatError: a line of another form, a name or an id twice, an id left out, or a count
            that disagrees; names the line.
    """
    names: dict[int, str] = {}
    seen: dict[str, int] = {}
    count: int | None = None
    for number, line in read_lines(path):
        name, tab, rest = line.partition("\t")
        token = rest.partition("\t")[0]
        if not tab and line.isascii() and line.strip().isdigit() and count is None and not names:
            count = int(line)
            continue
        if not name or not (token.isascii() and token.isdigit()):
            raise DataFormatError(
                f"expected 'name TAB id', found {excerpt(line)}", path=path, line=number
            )
        key = int(token)
        if key in names or name in seen:
            what = f"the id {key}" if key in names else f"the name {name!r}"
            raise DataFormatError(f"{what} stands here a second time", path=path, line=number)
        names[key] = name
        seen[name] = key
    if count is not None and count != len(names):
        raise DataFormatError(
            f"the first line counts {count:,} names, but {len(names):,} follow", path=path, line=1
        )
    try:
        return [names[i] for i in range(len(names))]
    except KeyError as error:
        raise DataFormatError(
            f"no name has the id {error.args[0]}",
            path=path,
            hint=f"{len(names):,} names need the ids 0 to {len(names) - 1}",
        ) from None


def _count(line: bytes, path: Path) -> int:
    text = line.strip()
    if not text.isdigit():
        found = excerpt(line.decode("utf-8", "replace"))
        raise DataFormatError(
            f"expected the number of rows alone on the first line, found {found}",
            path=path,
            line=1,
            hint="OpenKE files start with their count",
        )
    return int(text)


def _width(data: bytes, columns: Sequence[int], separators: bytes) -> int:
    start = len(data) - len(data.lstrip(b"\n"))
    end = data.find(b"\n", start)
    first = data[start:] if end < 0 else data[start:end]
    width = 1 + sum(first.count(separators[i : i + 1]) for i in range(len(separators)))
    return width if width in columns else columns[0]


def _blocks(data: bytes) -> Iterator[bytes]:
    """Pieces of about ``_BLOCK`` bytes that end at line ends."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", min(start + _BLOCK, len(data) - 1))
        if end < 0:
            yield data[start:] + b"\n"
            return
        yield data[start : end + 1]
        start = end + 1


def _parse(block: bytes, width: int, separators: bytes) -> Table | None:
    """The rows of a block of full lines; None when any byte is not as it should be."""
    text = np.frombuffer(block, np.uint8)
    digit = (text >= _ZERO) & (text <= _NINE)
    minus = text == _MINUS
    ends = np.flatnonzero(~(digit | minus))
    if len(ends) % width:
        return None
    kinds = text[ends].reshape(-1, width)
    if not (np.isin(kinds[:, :-1], list(separators)).all() and (kinds[:, -1] == _NEWLINE).all()):
        return None
    starts = np.empty_like(ends)
    starts[0], starts[1:] = 0, ends[:-1] + 1
    negative = minus[starts]
    lengths = ends - starts - negative
    # A minus sign is fine at the start of a number and nowhere else.
    if int(minus.sum()) != int(negative.sum()) or lengths.min() < 1 or lengths.max() > 10:
        return None
    values = np.zeros(len(ends), np.int64)
    scale = 1
    for place in range(1, int(lengths.max()) + 1):
        at = np.maximum(ends - place, 0)
        values += np.where(lengths >= place, (text[at] - _ZERO).astype(np.int64) * scale, 0)
        scale *= 10
    if values.max() >= _LIMIT:
        return None
    values[negative] *= -1
    return values.astype(np.int32).reshape(-1, width)


def _parse_slowly(
    block: bytes, width: int, columns: Sequence[int], separators: bytes, path: Path, before: int
) -> tuple[Table, npt.NDArray[np.int64]]:
    """Pass over empty lines; name the first line that cannot be read."""
    rows: list[Table] = []
    numbers: list[int] = []
    for number, line in enumerate(block.split(b"\n"), start=1):
        if not line:
            continue
        row = _parse(line + b"\n", width, separators)
        if row is None:
            form = " or ".join(str(c) for c in columns) if not rows else str(width)
            parted = "TAB" if separators == b"\t" else "one space"
            raise DataFormatError(
                f"expected {form} whole numbers parted by {parted}, "
                f"found {excerpt(line.decode('utf-8', 'replace'))}",
                path=path,
                line=before + number,
            )
        rows.append(row)
        numbers.append(number)
    empty = np.empty((0, width), np.int32)
    return np.concatenate([empty, *rows]), np.array(numbers, np.int64)
