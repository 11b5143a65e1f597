"""Index folders: built aside and moved into place whole, with a manifest that names the corpus."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rulerag.errors import DataError, FingerprintError, OutputError, RetrievalError
from rulerag.folders import LOCK, locked
from rulerag.io import check_folder, made_folder, read_json, write_json

MANIFEST = "manifest.json"
_LAYOUT = 1


@contextmanager
def new_index_folder(
    path: str | Path,
    kind: str,
    corpus: str,
    num_documents: int,
    settings: Mapping[str, Any],
) -> Iterator[Path]:
    """Give a working folder that takes the name ``path`` only when the block ends well.

    An index that stood there before is replaced; anything else is left alone. An interrupted or
    failed build leaves no trace, and while it goes, no other may begin for the same folder.

    Args:
        path: the folder of the index.
        kind: the kind of index, written to the manifest.
        corpus: the fingerprint of the indexed corpus.
        num_documents: documents in the index.
        settings: what a reader of the index must know, as JSON values.

    Raises:
        OutputError: the folder is taken by something that is no index, cannot be written, or is
            being written by another process.
    """
    target = Path(path)
    if target.exists() and not _replaceable(target):
        raise OutputError(
            "exists and is no index of rulerag", path=target, hint="choose a new or empty folder"
        )
    parent = target.absolute().parent
    check_folder(parent)
    with made_folder(parent), index_lock(target), _built_aside(target, parent) as working:
        yield working
        manifest = {
            "kind": kind,
            "layout": _LAYOUT,
            "corpus_fingerprint": corpus,
            "num_documents": num_documents,
            "settings": dict(settings),
        }
        write_json(working / MANIFEST, manifest)


@contextmanager
def index_lock(path: str | Path, *, wait: bool = False) -> Iterator[None]:
    """Keep others from building an index in a folder, for the length of a block.

    Args:
        path: the folder of the index; the folder above it exists.
        wait: for one that is being built there, in place of an error.

    Raises:
        OutputError: another process builds an index there.
    """
    target = Path(path).absolute()
    # Beside the folder, which is replaced whole.
    with locked(target.parent / f".{target.name}{LOCK}", target, wait=wait):
        yield


@contextmanager
def _built_aside(target: Path, parent: Path) -> Iterator[Path]:
    working = Path(tempfile.mkdtemp(dir=parent, prefix=f".{target.name}.", suffix=".part"))
    try:
        yield working
        working.chmod(0o755)  # mkdtemp makes private folders; an index is a shared one
        _move_into_place(working, target)
    except OSError as error:
        raise OutputError(f"cannot be written ({error.strerror})", path=target) from error
    finally:
        shutil.rmtree(working, ignore_errors=True)


def _replaceable(target: Path) -> bool:
    return target.is_dir() and ((target / MANIFEST).is_file() or not any(target.iterdir()))


def _move_into_place(working: Path, target: Path) -> None:
    if not target.exists():
        working.rename(target)
        return
    # A folder cannot be replaced in one step: the old one steps aside first.
    aside = working.with_suffix(".old")
    target.rename(aside)
    try:
        working.rename(target)
    except OSError:
        aside.rename(target)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def check_manifest(path: str | Path, kind: str, *, corpus: str) -> dict[str, Any]:
    """Read an index folder's settings and make sure that the index is of this corpus.

    Args:
        path: the index folder.
        kind: the kind of index that is wanted.
        corpus: the fingerprint of the documents that go with it.

    Returns:
        The settings that the index was built with.

    Raises:
        RetrievalError: the folder is no index of this kind, or its manifest is damaged.
        FingerprintError: the index was built from another corpus.
    """
    folder = Path(path)
    if not (folder / MANIFEST).is_file():
        raise broken_index(kind, None, f"{folder}: no {kind} index here (no {MANIFEST})")
    try:
        manifest = read_json(folder / MANIFEST)
    except DataError as error:
        raise broken_index(kind, None, f"the manifest is damaged: {error}") from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("settings"), dict):
        raise broken_index(kind, folder / MANIFEST, "the manifest is damaged")
    found = manifest.get("kind"), manifest.get("layout")
    if found != (kind, _LAYOUT):
        what = f"holds an index of kind {found[0]!r}, layout {found[1]!r}"
        raise broken_index(kind, folder, f"{what}; kind {kind!r}, layout {_LAYOUT} is wanted")
    if manifest.get("corpus_fingerprint") != corpus:
        what = f"{manifest.get('corpus_fingerprint')}, the documents given are {corpus}"
        raise FingerprintError(
            f"the index was built from another corpus ({what})", path=path, hint=_anew(kind)
        )
    settings: dict[str, Any] = manifest["settings"]
    return settings


def broken_index(kind: str, path: str | Path | None, message: str) -> RetrievalError:
    """An error about an index, with the command that builds it anew.

    Args:
        kind: the kind of index.
        path: its folder, or a file in it.
        message: what is wrong.
    """
    return RetrievalError(message, path=path, hint=_anew(kind))


def _anew(kind: str) -> str:
    return f"build it anew: rulerag index CORPUS --retriever {kind} --out DIR"
