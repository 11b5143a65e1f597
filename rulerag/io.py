"""Files: JSONL and TSV (gzip too), atomic writes, content fingerprints."""

from __future__ import annotations

import copy
import gc
import gzip
import hashlib
import io
import json
import os
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeVar, overload

from rulerag.errors import DataError, DataFormatError, OutputError

T = TypeVar("T")

STANDARD_OUTPUT = Path("-")
"""As the name of a file to write: standard output."""


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


def prepare_folder(path: str | Path) -> Path:
    """Make an output folder and check that it can be written.

    Raises:
        OutputError: the folder cannot be made or written; named with the system's reason.
    """
    with made_folder(path) as folder:
        check_folder(folder)
    return folder


@contextmanager
def made_folder(path: str | Path) -> Iterator[Path]:
    """Make a folder for a block; if the block fails, what was made and is still empty goes again.

    Raises:
        OutputError: the folder cannot be made.
    """
    folder = Path(path)
    with ExitStack() as stack:
        try:
            stack.enter_context(_made(folder))
        except OSError as error:
            raise _unwritable(folder, error) from error
        yield folder


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for place in made:
            with suppress(OSError):  # not empty, or never made
                place.rmdir()
        raise


def check_folder(path: str | Path) -> None:
    """Check that a folder could be made and written, and leave nothing behind.

    Raises:
        OutputError: it could not; named with the system's reason.
    """
    folder = Path(path)
    if folder == STANDARD_OUTPUT:
        raise OutputError(
            "is standard output, and a folder is to be written",
            path=folder,
            hint="name a folder, one of that name by its whole path",
        )
    there = next(place for place in (folder, *folder.absolute().parents) if os.path.lexists(place))
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise _unwritable(folder, error) from error


def check_output(path: str | Path) -> None:
    """Check that a file could be written, and leave nothing behind.

    Raises:
        OutputError: a folder has its name, or it could not be written.
    """
    target = Path(path)
    if target == STANDARD_OUTPUT:
        return
    if target.is_dir():
        raise OutputError("is a folder", path=target, hint="name a file in it")
    if not _is_replaced(target):
        if not os.access(target, os.W_OK):
            raise OutputError("cannot be written (Permission denied)", path=target)
        return
    check_folder(Path(os.path.realpath(target)).parent)


def _unwritable(folder: Path, error: OSError) -> OutputError:
    return OutputError(
        f"cannot be written ({error.strerror})",
        path=folder,
        hint="choose another folder with --out",
    )


def _is_replaced(target: Path) -> bool:
    """Whether a new file may take a name: not that of a device, a FIFO or an open descriptor."""
    parent = os.path.realpath(target.parent)
    # /dev/stdout and its like: links to what a process has open, wherever that is.
    if f"{parent}/".startswith("/proc/") or (
        target.is_symlink() and os.readlink(target).startswith("/proc/")
    ):
        return False
    return not target.exists() or stat.S_ISREG(target.stat().st_mode)


@contextmanager
def atomic_write(path: str | Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file that appears under its name only when the block ends without an error.

    A reader never sees half a file, and an interrupted run leaves the previous one untouched, and
    no folder that it made. Names that end in ``.gz`` are compressed. A symbolic link stays, and the
    file that it names is written. What is no file (a device, a FIFO) is never replaced: it gets the
    whole content when the block ends without an error, and so does standard output for ``-``.

    Raises:
        OutputError: the file cannot be written.
        BrokenPipeError: nobody reads standard output any more.
    """
    target = Path(path)
    binary, packed = "b" in mode, target.suffix == ".gz"
    try:
        if target == STANDARD_OUTPUT or not _is_replaced(target):
            with tempfile.TemporaryFile() as aside:
                with _written(aside, binary=binary, packed=packed) as file:
                    yield file
                _pass_on(aside, target)
            return
        place = Path(os.path.realpath(target))
        with (
            _made(place.parent),
            _moved_into(place) as held,
            _written(held, binary=binary, packed=packed) as file,
        ):
            yield file
    except BrokenPipeError:
        if target == STANDARD_OUTPUT:
            raise
        raise OutputError("cannot be written (its reader has gone)", path=target) from None
    except OSError as error:
        raise OutputError(f"cannot be written ({error.strerror})", path=target) from error


def _pass_on(held: IO[bytes], target: Path) -> None:
    """Write what was held to standard output, a device or a FIFO."""
    held.seek(0)
    if target == STANDARD_OUTPUT:
        sys.stdout.flush()
        with open(1, "wb", closefd=False) as stream:
            shutil.copyfileobj(held, stream)
        return
    with open(target, "wb") as stream:
        shutil.copyfileobj(held, stream)


@contextmanager
def _moved_into(target: Path) -> Iterator[IO[bytes]]:
    """A file beside the target that takes its place when the block ends without an error."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    temporary = Path(name)
    try:
        with open(handle, "wb") as file:
            yield file
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp makes private files; outputs are shared ones
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _written(raw: IO[bytes], *, binary: bool, packed: bool) -> Iterator[IO[Any]]:
    """A file as its writer sees it: of text or bytes, packed or not; the raw one stays open."""
    with ExitStack() as stack:
        file: Any = raw
        if packed:  # no name and no time in the header: equal content makes equal files
            file = stack.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0))
        if not binary:
            file = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
            stack.callback(file.detach)  # flushes; closing it would close what lies below
        yield file


def read_bytes(path: str | Path, limit: int = -1) -> bytes:
    """The content of a file (gzip by its name), or its first bytes.

    Args:
        path: the file.
        limit: how many bytes to read at most; all when negative.

    Raises:
        DataError: the file is missing, or cannot be read or decompressed.
    """
    source = Path(path)
    try:
        with gzip.open(source) if source.suffix == ".gz" else open(source, "rb") as file:
            return bytes(file.read(limit))
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"cannot be read ({reason})", path=source) from error


def decode(data: bytes, path: str | Path) -> str:
    """The text of a file's bytes: UTF-8, or UTF-16 where a byte order mark says so.

    Raises:
        DataFormatError: they are neither; names the line.
    """
    try:
        if is_utf16(data):
            whole = len(data) - len(data) % 2  # a part of a file may end inside a letter
            return data[:whole].decode("utf-16")
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise DataFormatError(
            "not UTF-8 text",
            path=path,
            line=line,
            hint="save the file as UTF-8; what older programs of Windows wrote is converted by "
            "iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW",
        ) from error


def is_utf16(data: bytes) -> bool:
    """Whether the byte order mark of UTF-16 stands in front, as of Excel's "Unicode text"."""
    return data.startswith((b"\xff\xfe", b"\xfe\xff"))


def read_lines(path: str | Path, limit: int = -1) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file that are not empty, with their numbers from 1.

    Lines end with LF or CRLF, the last one with or without; a byte order mark is passed over.

    Args:
        path: the file; gzip by its name.
        limit: read the whole lines among the first so many bytes; all when negative.

    Raises:
        DataError: the file is missing or unreadable.
        DataFormatError: the bytes are not UTF-8; names the line.
    """
    data = read_bytes(path, limit)
    if len(data) == limit:
        data = data[: data.rfind(b"\n") + 1] or data
    text = decode(data, path).removeprefix("\ufeff")
    # Not splitlines(): it also ends lines at U+0085 and U+2028, which names may hold.
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        if line:
            yield number, line


def excerpt(line: str) -> str:
    """A line for messages: in quotes, cut to a readable length, control characters visible."""
    return repr(line if len(line) <= 60 else line[:59] + "…")


def read_text(path: str | Path) -> str:
    """The text of a UTF-8 file (gzip by its name), without a byte order mark, with named errors.

    Raises:
        DataError: the file is missing or unreadable.
        DataFormatError: the bytes are not UTF-8.
    """
    return decode(read_bytes(path), path).removeprefix("\ufeff")


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


def read_jsonl(path: str | Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSON-lines file, one at a time; empty lines are passed over.

    Args:
        path: the file; ``.gz`` is decompressed.

    Raises:
        DataFormatError: a line is not a JSON object; names the line.
    """
    for _, value in _numbered_objects(path):
        yield value


def _numbered_objects(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects with their lines in the file, from 1."""
    for number, line in enumerate(read_text(path).split("\n"), start=1):
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


class StoredRecords(Sequence[T]):
    """The records of a JSON-lines file that was read whole before, each built when it is used.

    Args:
        path: the file.
        make: builds a record of an object.
        fingerprint: of the file's bytes, for what is worked out from all records.
        made: the records, where they are at hand.

    Attributes:
        path: the file.
        file_fingerprint: of the file's bytes.
        fingerprint: names the records; another one where :meth:`annotated` put more beside them.

    Raises:
        DataError: the file cannot be read.
        DataFormatError: a record that is used is damaged.
    """

    def __init__(
        self,
        path: str | Path,
        make: Callable[[dict[str, Any]], T],
        fingerprint: str,
        made: Sequence[T] = (),
    ) -> None:
        import numpy as np

        self.path, self._make, self._data = Path(path), make, read_bytes(path)
        self._note: Callable[[int, T], T] | None = None
        self.fingerprint = self.file_fingerprint = fingerprint
        self._made = dict(enumerate(made))
        # Blank lines are no records.
        letters = np.frombuffer(self._data, dtype=np.uint8)
        breaks = np.flatnonzero(letters == ord("\n"))
        starts = np.concatenate([[0], breaks + 1])
        ends = np.concatenate([breaks, [len(self._data)]])
        filled = starts < ends
        # What begins as an object does is not blank; the rest is looked at.
        sure = filled.copy()
        sure[filled] = letters[starts[filled]] == ord("{")
        for row in np.flatnonzero(filled & ~sure).tolist():
            sure[row] = not self._data[starts[row] : ends[row]].isspace()
        self._starts, self._ends = starts[sure], ends[sure]

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> list[T]: ...

    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self[row] for row in range(len(self))[index]]
        row = range(len(self))[index]
        if row in self._made:
            return self._made[row]
        try:
            line = self._data[self._starts[row] : self._ends[row]]
            record = self._make(json.loads(line.decode()))
        except (DataFormatError, ValueError) as error:
            reason = error.message if isinstance(error, DataFormatError) else error
            message = f"record {row + 1} cannot be read ({reason})"
            raise DataFormatError(message, path=self.path) from error
        self._made[row] = record if self._note is None else self._note(row, record)
        return self._made[row]

    def annotated(
        self, note: Callable[[int, T], T], fingerprint: str, made: Sequence[T] = ()
    ) -> StoredRecords[T]:
        """The same records with more beside them; what indexes see of them stays as it is.

        Args:
            note: gives the record of a row, from the one that stands in the file.
            fingerprint: names the new records.
            made: the new records, where they are at hand.
        """
        other = copy.copy(self)
        other.fingerprint, other._note, other._made = fingerprint, note, dict(enumerate(made))
        return other


def write_jsonl(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write objects as JSON lines, atomically; return how many."""
    count = 0
    with atomic_write(path) as file:
        for row in rows:
            file.write(to_json(row) + "\n")
            count += 1
    return count
