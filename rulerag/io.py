"""Files: JSONL and TSV (gzip too), atomic writes, content fingerprints, the cache folder."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from rulerag.errors import DataError, DataFormatError, OutputError

__all__ = [
    "atomic_write",
    "cache_folder",
    "fingerprint_file",
    "fingerprint_object",
    "prepare_folder",
    "read_json",
    "read_jsonl",
    "read_text",
    "to_json",
    "write_json",
    "write_jsonl",
    "write_text",
]


def to_json(value: Any) -> str:
    """JSON on one line, keys in the given order, text unescaped."""
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


def fingerprint_object(value: Any) -> str:
    """A short stable fingerprint (16 hex digits of SHA-256) of a JSON-like value."""
    canonical = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


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
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    except OSError as error:
        raise OutputError(f"cannot be written ({error.strerror})", path=target) from error
    os.close(handle)
    temporary = Path(name)
    try:
        binary = "b" in mode
        encoding = None if binary else "utf-8"
        newline = None if binary else "\n"
        if target.suffix == ".gz":
            text_mode = mode if binary else "wt"
            file: IO[Any] = gzip.open(temporary, text_mode, encoding=encoding, newline=newline)
        else:
            file = open(temporary, mode, encoding=encoding, newline=newline)  # noqa: SIM115
        with file:
            yield file
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp makes private files; outputs are shared ones
        os.replace(temporary, target)
    except OSError as error:
        raise OutputError(f"cannot be written ({error.strerror})", path=target) from error
    finally:
        temporary.unlink(missing_ok=True)


def read_text(path: str | Path) -> str:
    """The text of a UTF-8 file (gzip by its name), with named errors.

    Raises:
        DataError: the file is missing or unreadable.
        DataFormatError: the bytes are not UTF-8.
    """
    source = Path(path)
    try:
        raw = source.read_bytes()
        data = gzip.decompress(raw) if source.suffix == ".gz" else raw
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise DataFormatError("not UTF-8 text", path=source, line=line) from error
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"cannot be read ({reason})", path=source) from error


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
    lines = read_text(path).split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            if partial_tail and number == len(lines):
                return
            raise DataFormatError(
                f"not a JSON object ({error.msg})", path=path, line=number
            ) from error
        if not isinstance(value, dict):
            raise DataFormatError(
                f"expected a JSON object, found {type(value).__name__}", path=path, line=number
            )
        yield value


def write_jsonl(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write objects as JSON lines, atomically; return how many."""
    count = 0
    with atomic_write(path) as file:
        for row in rows:
            file.write(to_json(row) + "\n")
            count += 1
    return count
