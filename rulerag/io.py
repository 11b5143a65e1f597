"""Files: JSONL and TSV (gzip too), atomic writes, content fingerprints, the cache folder."""

from __future__ import annotations

import gc
import gzip
import hashlib
import io
import json
import os
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeVar

from rulerag.errors import DataError, DataFormatError, OutputError

__all__ = [
    "atomic_write",
    "cache_folder",
    "fingerprint_file",
    "fingerprint_object",
    "prepare_folder",
    "read_json",
    "read_jsonl",
    "read_records",
    "read_text",
    "remembered_fingerprint",
    "to_json",
    "write_json",
    "write_jsonl",
    "write_text",
]

T = TypeVar("T")


def to_json(value: Any) -> str:
    """JSON on one line, keys in the given order, text unescaped."""
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


def fingerprint_object(value: Any, *, digits: int = 16) -> str:
    """A short stable fingerprint (hex digits of SHA-256) of a JSON-like value.

    Args:
        value: what JSON can hold.
        digits: how many hex digits, up to 64; 16 tell some hundred million values apart.
    """
    canonical = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:digits]


def fingerprint_file(path: str | Path) -> str:
    """The SHA-256 of a file's bytes, in full.

    Raises:
        DataError: the file cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", path=path) from error
    return digest.hexdigest()


# A file that changed this recently may change again within the same tick of the clock.
_SETTLED_SECONDS = 2.0
_WORTH_REMEMBERING = 16 << 20


def remembered_fingerprint(path: str | Path) -> str:
    """The SHA-256 of a file's bytes, in full, read once for each state of a large file.

    Files over 16 MiB are remembered under the user's cache folder by path, device, inode, size and
    both times of change (a copy that sets the time of modification cannot set that of the inode).
    Where the cache folder cannot be written the file is read every time.

    Raises:
        DataError: the file cannot be read.
    """
    source = Path(path)
    before = _state(source)
    if before is None or before[3] <= _WORTH_REMEMBERING:
        return fingerprint_file(source)
    try:
        note = cache_folder("fingerprints") / fingerprint_object(before, digits=32)
        known = note.read_text(encoding="ascii") if note.is_file() else ""
    except (OSError, OutputError, UnicodeDecodeError):
        return fingerprint_file(source)
    if len(known) == 64:
        return known
    found = fingerprint_file(source)
    if _state(source) == before and time.time() - max(before[4:]) / 1e9 > _SETTLED_SECONDS:
        with suppress(OutputError):
            write_text(note, found)
    return found


def _state(path: Path) -> list[Any] | None:
    """What tells one state of a file from another: path, device, inode, size and times in ns."""
    try:
        there = path.resolve()
        stat = there.stat()
    except OSError:
        return None
    times = [stat.st_mtime_ns, stat.st_ctime_ns]
    return [os.fsencode(there).hex(), stat.st_dev, stat.st_ino, stat.st_size, *times]


def cache_folder(*parts: str) -> Path:
    """A folder under ``RULERAG_CACHE`` (default ``~/.cache/rulerag``), made when missing."""
    root = os.environ.get("RULERAG_CACHE")
    base = Path(root) if root else Path.home() / ".cache" / "rulerag"
    return prepare_folder(base.joinpath(*parts))


def prepare_folder(path: str | Path) -> Path:
    """Make an output folder and check that it can be written.

    Raises:
        OutputError: the folder cannot be made or written; named with the system's reason.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OutputError(
            f"cannot be written ({error.strerror})",
            path=folder,
            hint="choose another folder with --out",
        ) from error
    return folder


@contextmanager
def atomic_write(path: str | Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file that appears under its name only when the block ends without an error.

    A reader never sees half a file, and an interrupted run leaves the previous one untouched.
    Names that end in ``.gz`` are compressed.

    Raises:
        OutputError: the file cannot be written.
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(
            dir=target.parent, prefix=f".{target.name}.", suffix=".part"
        )
    except OSError as error:
        raise OutputError(f"cannot be written ({error.strerror})", path=target) from error
    os.close(handle)
    temporary = Path(name)
    try:
        with _open_for_writing(
            temporary, binary="b" in mode, packed=target.suffix == ".gz"
        ) as file:
            yield file
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp makes private files; outputs are shared ones
        os.replace(temporary, target)
    except OSError as error:
        raise OutputError(f"cannot be written ({error.strerror})", path=target) from error
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _open_for_writing(path: Path, *, binary: bool, packed: bool) -> Iterator[IO[Any]]:
    with ExitStack() as stack:
        file: Any = stack.enter_context(open(path, "wb"))
        if packed:  # no name and no time in the header: equal content makes equal files
            file = stack.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0))
        if not binary:
            file = stack.enter_context(io.TextIOWrapper(file, encoding="utf-8", newline="\n"))
        yield file


def _read_bytes(path: str | Path) -> bytes:
    source = Path(path)
    try:
        raw = source.read_bytes()
        return gzip.decompress(raw) if source.suffix == ".gz" else raw
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"cannot be read ({reason})", path=source) from error


def _decode(data: bytes, path: str | Path) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise DataFormatError("not UTF-8 text", path=path, line=line) from error


def read_text(path: str | Path) -> str:
    """The text of a UTF-8 file (gzip by its name), with named errors.

    Raises:
        DataError: the file is missing or unreadable.
        DataFormatError: the bytes are not UTF-8.
    """
    return _decode(_read_bytes(path), path)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic_write(path) as file:
        file.write(text)


def read_json(path: str | Path) -> Any:
    """The value of a JSON file.

    Raises:
        DataFormatError: the text is not JSON; names the line.
    """
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise DataFormatError(f"not JSON ({error.msg})", path=path, line=error.lineno) from error


def write_json(path: str | Path, value: Any) -> None:
    """Write one JSON value, indented, atomically."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def read_jsonl(path: str | Path, *, partial_tail: bool = False) -> Iterator[dict[str, Any]]:
    """The objects of a JSON-lines file, one at a time; empty lines are passed over.

    Args:
        path: the file; ``.gz`` is decompressed.
        partial_tail: forgive a last line that a killed writer left unfinished.

    Raises:
        DataFormatError: a line is not a JSON object; names the line.
    """
    for _, value in _numbered_objects(path, partial_tail=partial_tail):
        yield value


def _numbered_objects(
    path: str | Path, *, partial_tail: bool = False
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects with their lines in the file, from 1."""
    data = _read_bytes(path)
    if partial_tail:
        data = _without_partial_tail(data)
    for number, line in enumerate(_decode(data, path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataFormatError(
                f"not a JSON object ({error.msg})", path=path, line=number
            ) from error
        if not isinstance(value, dict):
            raise DataFormatError(
                f"expected a JSON object, found {type(value).__name__}", path=path, line=number
            )
        yield number, value


def _without_partial_tail(data: bytes) -> bytes:
    start = data.rfind(b"\n") + 1
    try:
        json.loads(data[start:].decode("utf-8"))
    except ValueError:  # no JSON, or cut inside a letter of several bytes
        return data[:start]
    return data


def read_records(path: str | Path, make: Callable[[dict[str, Any]], T]) -> list[T]:
    """The records that ``make`` builds from the objects of a JSON-lines file.

    Raises:
        DataFormatError: a line is not JSON, or ``make`` refuses it; names file, line and key.
    """
    records: list[T] = []
    number = 0
    collecting = gc.isenabled()
    gc.disable()  # else the cyclic collector walks every one of a million new records, repeatedly
    try:
        for number, row in _numbered_objects(path):  # noqa: B007 - the except clause reads it
            records.append(make(row))
    except DataFormatError as error:
        if error.path is not None:
            raise
        raise DataFormatError(
            error.message, path=path, line=number, key=error.key, hint=error.hint
        ) from error
    finally:
        if collecting:
            gc.enable()
    return records


def write_jsonl(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write objects as JSON lines, atomically; return how many."""
    count = 0
    with atomic_write(path) as file:
        for row in rows:
            file.write(to_json(row) + "\n")
            count += 1
    return count
