"""Index folders: built aside and moved into place whole, with a manifest that names the corpus."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rulerag.errors import DataError, FingerprintError, OutputError, RetrievalError
from rulerag.io import StoredRecords, check_folder, made_folder, read_json, to_json, write_json
from rulerag.output_folder import LOCK, locked
from rulerag.retrieval.base.corpus import corpus_fingerprint
from rulerag.types import Document

MANIFEST = "manifest.json"
_LAYOUT = 1


@contextmanager
def new_index_folder(
    path: str | Path,
    kind: str,
    corpus: str | None,
    num_documents: int,
    settings: Mapping[str, Any],
    file: Mapping[str, Any] | None = None,
    beside: Mapping[str, Path] | None = None,
) -> Iterator[Path]:
    """Give a working folder that takes the name ``path`` only when the block ends well.

    An index that stood there before is replaced; anything else is left alone. An interrupted or
    failed build leaves no trace, and while it goes, no other may begin for the same folder.

    Args:
        path: the folder of the index.
        kind: the kind of index, written to the manifest.
        corpus: the fingerprint of the indexed corpus; None where its file alone is known.
        num_documents: documents in the index.
        settings: what a reader of the index must know, as JSON values.
        file: of a corpus that is stored, :func:`corpus_file`.
        beside: files that are copied into the folder, by their names there.

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
        for name, place in (beside or {}).items():
            shutil.copyfile(place, working / name)
        manifest = {
            "kind": kind,
            "layout": _LAYOUT,
            "corpus_fingerprint": corpus,
            "num_documents": num_documents,
            "settings": dict(settings),
            **({"corpus_file": dict(file)} if file else {}),
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
    manifest = _read_manifest(path, kind)
    if manifest.get("corpus_fingerprint") != corpus:
        raise _other_corpus(path, kind, manifest.get("corpus_fingerprint"), corpus)
    settings: dict[str, Any] = manifest["settings"]
    return settings


def corpus_file(documents: Sequence[Document]) -> dict[str, Any] | None:
    """SHA-256 and bytes of the file that a corpus is stored in; None where it is in none."""
    if not isinstance(documents, StoredRecords):
        return None
    return {"sha256": documents.file_fingerprint, "bytes": documents.path.stat().st_size}


def check_corpus(path: str | Path, kind: str, documents: Sequence[Document]) -> dict[str, Any]:
    """As :func:`check_manifest`, of a corpus that need not be read where it is stored in a file.

    Args:
        path: the index folder.
        kind: the kind of index that is wanted.
        documents: those that go with it.

    Raises:
        RetrievalError: the folder is no index of this kind, or its manifest is damaged.
        FingerprintError: the index was built from another corpus.
    """
    manifest = _read_manifest(path, kind)
    file, stated = manifest.get("corpus_file") or {}, manifest.get("corpus_fingerprint")
    if isinstance(documents, StoredRecords) and documents.file_fingerprint == file.get("sha256"):
        found = stated
    elif stated is None:
        stated, found = file.get("sha256"), _digest(documents)
    else:
        found = corpus_fingerprint(documents)
    if found != stated:
        raise _other_corpus(path, kind, stated, found)
    settings: dict[str, Any] = manifest["settings"]
    return settings


def check_growth(
    path: str | Path, kind: str, documents: Sequence[Document]
) -> tuple[dict[str, Any], int]:
    """Make sure that an index was built from the first of some documents.

    Args:
        path: the index folder.
        kind: its kind.
        documents: a corpus that has grown at its end.

    Returns:
        The settings that the index was built with, and how many documents it holds.

    Raises:
        RetrievalError: the folder is no index of this kind, or its manifest is damaged.
        FingerprintError: it was built from other documents.
    """
    manifest = _read_manifest(path, kind)
    known = int(manifest["num_documents"])
    file, stated = manifest.get("corpus_file"), manifest.get("corpus_fingerprint")
    if isinstance(documents, StoredRecords) and file:
        stated, found = file["sha256"], documents.fingerprint_of_first(file["bytes"])
    elif stated is None:
        stated, found = (file or {}).get("sha256"), _digest(documents[:known])
    else:
        found = corpus_fingerprint(documents[:known])
    if found != stated or known > len(documents):
        raise FingerprintError(
            "the first documents are not those that the index was built from",
            path=path,
            hint=_anew(kind),
        )
    settings: dict[str, Any] = manifest["settings"]
    return settings, known


def _digest(documents: Sequence[Document]) -> str:
    """The SHA-256 of the file that this library would write documents to."""
    digest = hashlib.sha256()
    for document in documents:
        digest.update(to_json(document.to_json()).encode() + b"\n")
    return digest.hexdigest()


def _other_corpus(path: str | Path, kind: str, stated: object, found: object) -> FingerprintError:
    what = f"{stated}, the documents given are {found}"
    return FingerprintError(
        f"the index was built from another corpus ({what})",
        path=path,
        hint=f"{_anew(kind)}; if the corpus has only grown, with --add",
    )


def _read_manifest(path: str | Path, kind: str) -> dict[str, Any]:
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
    return manifest


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
