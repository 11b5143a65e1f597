"""The user's cache folder: what was worked out once, from the same input by the same code, is kept.

Nothing in it is needed: what is missing, damaged or cannot be written is worked out again. Only
models are there because somebody fetched them (:mod:`rulerag.models`).
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rulerag.errors import ConfigError, OutputError, did_you_mean
from rulerag.io import (
    atomic_write,
    fingerprint_file,
    fingerprint_object,
    prepare_folder,
    write_json,
)

if TYPE_CHECKING:
    import numpy.typing as npt

KINDS: Mapping[str, str] = {
    "bm25": "BM25 indexes",
    "datasets": "dataset folders that were checked, and what was read off their corpora",
    "embeddings": "vectors of corpora, by encoder",
    "fingerprints": "checksums of large files",
    "lucene": "Lucene indexes",
    "models": "fetched models and de-quantised GGUF files; they go only when they are named",
    "texts": "whom texts mention, and which facts of a dataset they state",
    "scorers": "the facts of corpora as columns, and the weights that were learned of scorers",
}
"""What is kept, by the name of its folder."""

SETTLED_SECONDS = 2.0
"""A file that changed this recently may change again within the same tick of the clock."""

WORTH_KEEPING = 1 << 18
"""Bytes of a file above which what is worked out from it is kept."""

# Of what code that changed has left behind, the entries used last stay.
_KEPT_ENTRIES = 48


def cache_root() -> Path:
    """``RULERAG_CACHE``, else ``rulerag`` in ``XDG_CACHE_HOME`` (default ``~/.cache``)."""
    own = os.environ.get("RULERAG_CACHE")
    if own:
        return Path(own)
    home = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG base directory specification: a relative path is invalid and ignored.
    base = Path(home) if os.path.isabs(home) else Path(os.path.expanduser("~")) / ".cache"
    return base / "rulerag"


def cache_folder(*parts: str) -> Path:
    """A folder in the cache folder, made when missing.

    Raises:
        OutputError: it cannot be made or written.
    """
    return prepare_folder(cache_root().joinpath(*parts))


class CachedKind(NamedTuple):
    """What the cache folder holds of one kind.

    Args:
        kind: the name of its folder, of :data:`KINDS` where this version keeps it.
        what: in words.
        files: how many files.
        bytes: their size.
        folder: where they are.
    """

    kind: str
    what: str
    files: int
    bytes: int
    folder: Path


def cached_kinds() -> list[CachedKind]:
    """What the cache folder holds, kind by kind."""
    root = cache_root()
    there = sorted(place.name for place in root.iterdir()) if root.is_dir() else []
    found = []
    for kind in sorted({*KINDS, *there}):
        sizes = []
        for place in (root / kind).rglob("*"):
            with suppress(OSError):  # another process may have just deleted it
                if place.is_file():
                    sizes.append(place.stat().st_size)
        what = KINDS.get(kind, "not kept by this version")
        found.append(CachedKind(kind, what, len(sizes), sum(sizes), root / kind))
    return found


def clear(kind: str | None = None) -> list[CachedKind]:
    """Delete what is kept of one kind, or of every kind of this version; return what was there.

    A folder that this version does not know goes only when it is named: where the cache folder is
    one that holds other things too, they are a user's. So do models, which were fetched on purpose.

    Raises:
        ConfigError: no such kind.
        OutputError: something cannot be deleted.
    """
    everything = cached_kinds()
    known = [one.kind for one in everything]
    if kind is not None and kind not in known:
        raise ConfigError(
            f"nothing of the kind {kind!r} is cached", key="kind", hint=did_you_mean(kind, known)
        )
    chosen = {kind} if kind is not None else set(KINDS) - {"models"}
    gone = [one for one in everything if one.kind in chosen and one.files]
    for one in gone:
        try:
            shutil.rmtree(one.folder)
        except OSError as error:
            raise OutputError(
                f"cannot be deleted ({error.strerror})", path=error.filename or one.folder
            ) from error
    return gone


def remembered_fingerprint(path: str | Path, *, settled_seconds: float = SETTLED_SECONDS) -> str:
    """The SHA-256 of a file's bytes, in full, read once for each state of a large file.

    Files over 256 KiB are remembered by their :func:`file_states`. Where the cache folder cannot be
    written the file is read every time.

    Args:
        path: the file.
        settled_seconds: see :func:`file_states`.

    Raises:
        DataError: the file cannot be read.
    """
    states = file_states([Path(path)], settled_seconds=settled_seconds)
    if states is None or states[0][3] <= WORTH_KEEPING:
        return fingerprint_file(path)
    known = recall("fingerprints", states)
    if isinstance(known, str) and len(known) == 64:
        return known
    found = fingerprint_file(path)
    if file_states([Path(path)], settled_seconds=settled_seconds) == states:
        remember("fingerprints", states, found)
    return found


def file_states(
    paths: Iterable[Path], *, settled_seconds: float = SETTLED_SECONDS
) -> list[list[Any]] | None:
    """What tells one state of some files from another; None where one is missing or just changed.

    Args:
        paths: the files.
        settled_seconds: how long ago the last change must be.

    Returns:
        For each file its path, device, inode, size and both times of change, in nanoseconds (a
        copy that sets the time of modification cannot set that of the inode).
    """
    states = []
    for path in paths:
        try:
            there = path.resolve()
            stat = there.stat()
        except OSError:
            return None
        times = [stat.st_mtime_ns, stat.st_ctime_ns]
        if time.time() - max(times) / 1e9 < settled_seconds:
            return None
        name = os.fsencode(there).hex()
        states.append([name, stat.st_dev, stat.st_ino, stat.st_size, *times])
    return states


def recall(kind: str, key: object) -> Any:
    """The JSON value that was remembered under a key; None where there is none.

    Args:
        kind: of :data:`KINDS`.
        key: JSON-like; names the input and the settings. The code of the library is part of it.
    """
    place = _place(kind, key, ".json")
    try:
        found = json.loads(place.read_bytes())
    except (OSError, ValueError):
        return None  # missing or damaged
    _mark_used(place)
    return found


def remember(kind: str, key: object, value: Any) -> None:
    """Keep a JSON value under a key, where the cache folder can be written."""
    with suppress(OutputError, OSError):
        _make_room(cache_folder(kind))
        write_json(_place(kind, key, ".json"), value)


def remembered(kind: str, key: object, make: Callable[[], Any]) -> Any:
    """The JSON value of a key, as it was kept, else as ``make`` gives it."""
    found = recall(kind, key)
    if found is None:
        found = make()
        remember(kind, key, found)
    return found


def recall_arrays(kind: str, key: object) -> dict[str, npt.NDArray[Any]] | None:
    """The arrays that were remembered under a key, by name; None where there are none.

    Nothing in the file is run: arrays of objects are refused.

    Args:
        kind: as in :func:`recall`, like the next.
        key: see there.
    """
    import zipfile

    import numpy as np

    place = _place(kind, key, ".npz")
    try:
        with open(place, "rb") as file, np.load(file, allow_pickle=False) as archive:
            found = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
        return None  # missing or damaged
    _mark_used(place)
    return found


def remember_arrays(kind: str, key: object, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Keep arrays by name under a key, where the cache folder can be written."""
    import numpy as np

    with suppress(OutputError, OSError):
        _make_room(cache_folder(kind))
        with atomic_write(_place(kind, key, ".npz"), "wb") as out:
            np.savez(out, allow_pickle=False, **arrays)


def remembered_arrays(
    kind: str, key: object, make: Callable[[], dict[str, npt.NDArray[Any]]]
) -> dict[str, npt.NDArray[Any]]:
    """Arrays by name, as they were kept under a key, else as ``make`` gives them.

    Args:
        kind: as in :func:`recall`, like the next.
        key: see there.
        make: works the arrays out.
    """
    found = recall_arrays(kind, key)
    if found is None:
        found = make()
        remember_arrays(kind, key, found)
    return found


def _place(kind: str, key: object, suffix: str) -> Path:
    """The file of a key. What other code made is another thing, but for checksums."""
    code = "" if kind == "fingerprints" else code_fingerprint()
    return cache_root() / kind / (fingerprint_object([code, key], digits=32) + suffix)


@cache
def code_fingerprint() -> str:
    """A fingerprint of every source file of the installed package, as this process found it."""
    root = Path(__file__).parent
    files = sorted(root.rglob("*.py"))
    return fingerprint_object(
        {path.relative_to(root).as_posix(): fingerprint_file(path) for path in files}
    )


def _mark_used(place: Path) -> None:
    with suppress(OSError):
        os.utime(place)


def _make_room(folder: Path) -> None:
    """Drop what was not used for the longest time, where a folder is full."""
    files = [place for place in folder.iterdir() if place.suffix in (".json", ".npz")]
    with suppress(OSError):  # another process may do the same
        files.sort(key=lambda place: place.stat().st_mtime_ns)
        for place in files[: max(0, len(files) - _KEPT_ENTRIES + 1)]:
            place.unlink(missing_ok=True)
