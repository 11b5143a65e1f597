"""The files of a dataset folder: writing, hashing, checking and reading them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rulerag.errors import DataError, DataFormatError, FingerprintError
from rulerag.io import fingerprint_file, fingerprint_object, read_json, read_text
from rulerag.types import Query

__all__ = [
    "FORMAT",
    "Qrels",
    "asks_predictions",
    "check_files",
    "check_ids",
    "check_known",
    "dataset_fingerprint",
    "hash_lines",
    "qrels_lines",
    "query_with_metadata",
    "read_manifest",
    "read_qrels",
]

Qrels = dict[str, dict[str, int]]

FORMAT = 1
_QRELS_HEADER = "query-id\tcorpus-id\tscore"
_REBUILD = "build the dataset again, or load it with verify=False to take it as it stands"


def dataset_fingerprint(digests: Mapping[str, str], calendar: Mapping[str, Any]) -> str:
    """A fingerprint of the files' digests and the calendar."""
    return fingerprint_object({"files": dict(digests), "calendar": dict(calendar)})


def check_ids(what: str, ids: Iterable[str]) -> None:
    """Refuse ids that occur twice, are empty or hold white space."""
    seen: set[str] = set()
    for identifier in ids:
        if identifier in seen:
            raise DataFormatError(f"the {what} id {identifier!r} occurs twice")
        if not identifier or identifier.split() != [identifier]:
            raise DataFormatError(
                f"the {what} id {identifier!r} is empty or holds white space",
                hint="runs and judgements are tables of ids separated by white space",
            )
        seen.add(identifier)


def check_known(what: str, ids: Iterable[str], known: Collection[str], kind: str) -> None:
    """Refuse an id that nothing has."""
    for identifier in ids:
        if identifier not in known:
            raise DataFormatError(f"{what}: no {kind} has the id {identifier!r}")


def qrels_lines(rows: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """The lines of a judgement file, header first."""
    yield _QRELS_HEADER
    for query, grades in rows.items():
        for document, grade in grades.items():
            yield f"{query}\t{document}\t{grade}"


def hash_lines(
    lines: Iterable[str], write: Callable[[bytes], object] | None = None
) -> tuple[str, int]:
    """The SHA-256 of the lines as a file, and how many there are; writes them on the way."""
    digest, count = hashlib.sha256(), 0
    for line in lines:
        data = line.encode() + b"\n"
        digest.update(data)
        if write is not None:
            write(data)
        count += 1
    return digest.hexdigest(), count


def read_manifest(home: Path, *, verify: bool) -> dict[str, Any]:
    """The manifest of a dataset folder; empty for a BEIR folder that has none.

    Raises:
        DataError: there is no such folder.
        DataFormatError: it has no manifest, or one of another format.
    """
    if not home.is_dir():
        raise DataError("no such folder", path=home, hint="build it with benchmarks.ruleqa")
    path = home / "manifest.json"
    if not path.exists() and not verify:
        return {}
    if not path.exists():
        raise DataFormatError(
            "is no complete dataset folder (it has no manifest.json)",
            path=home,
            hint="build it again; a foreign BEIR folder needs verify=False",
        )
    manifest = read_json(path)
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
        raise DataFormatError("is no dataset manifest (it names no files)", path=path)
    if manifest.get("format") != FORMAT:
        message = f"has format {manifest.get('format')!r}, and this version reads {FORMAT}"
        raise DataFormatError(message, path=path, hint="build the dataset again")
    return manifest


def asks_predictions(manifest: Mapping[str, Any]) -> bool:
    """Whether the queries of a folder are predictions, where known answers do not count.

    Folders from before manifests said so are told by their builder: ``variant`` is a setting of the
    RuleQA benchmarks alone, which ask for held-out facts.

    Raises:
        DataFormatError: the manifest says neither true nor false.
    """
    said = manifest.get("prediction", "variant" in (manifest.get("settings") or {}))
    if not isinstance(said, bool):
        raise DataFormatError(f"expected true or false, found {said!r}", key="prediction")
    return said


def check_files(home: Path, manifest: Mapping[str, Any], *, verify: bool) -> dict[str, str]:
    """The SHA-256 of every file of a folder, compared with its manifest.

    Raises:
        DataError: a file is missing.
        FingerprintError: a file is not what the manifest says.
    """
    stated = manifest.get("files", {})
    present = ["corpus.jsonl", "queries.jsonl", "rules.jsonl", "labels.json"]
    present += [f"qrels/{path.name}" for path in (home / "qrels").glob("*.tsv")]
    digests = {}
    for name in dict.fromkeys([*stated, *present]):
        path = home / name
        if not path.exists():
            if name in stated or name in present[:2]:
                raise DataError("the dataset lacks this file", path=path, hint=_REBUILD)
            continue
        digests[name] = fingerprint_file(path)
        wanted = stated.get(name, {}).get("sha256")
        if verify and digests[name] != wanted:
            known = f"{wanted[:12]}…" if wanted else "no such file"
            raise FingerprintError(
                f"has the fingerprint {digests[name][:12]}…, the manifest says {known}",
                path=path,
                hint=_REBUILD,
            )
    return digests


def query_with_metadata(row: dict[str, Any]) -> tuple[Query, dict[str, Any]]:
    """A query and the metadata of its row."""
    return Query.from_json(row), row.get("metadata") or {}


def read_qrels(path: Path) -> Qrels:
    """Query id → document id → grade of one judgement file.

    Raises:
        DataFormatError: a line cannot be read; names file and line.
    """
    qrels: Qrels = {}
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if number == 1 or not line:
            continue
        try:
            query, document, grade = line.rstrip("\r").split("\t")
            qrels.setdefault(query, {})[document] = int(grade)
        except ValueError:
            raise DataFormatError(
                f"expected query-id, corpus-id and a whole number, found {line!r}",
                path=path,
                line=number,
            ) from None
    return qrels
