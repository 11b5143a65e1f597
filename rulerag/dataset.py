"""RuleQA datasets: queries, corpus, judgements, rules and labels, kept as a BEIR folder.

The folder, which BEIR's own tools open as it stands::

    corpus.jsonl      {"_id", "title", "text", "metadata": {"facts"}}
    queries.jsonl     {"_id", "text", "metadata": {…, "split", "sets"}}
    qrels/<split>.tsv query-id, corpus-id, score
    rules.jsonl       the rule bank
    labels.json       readable labels of raw names
    manifest.json     counts, builder settings, seed, and the SHA-256 of every other file
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from rulerag.errors import (
    DataError,
    DataFormatError,
    EmptyDataError,
    FingerprintError,
    OutputError,
    UnknownNameError,
    did_you_mean,
)
from rulerag.io import (
    fingerprint_file,
    fingerprint_object,
    prepare_folder,
    read_json,
    read_records,
    read_text,
    to_json,
    write_json,
)
from rulerag.rules import RuleBank
from rulerag.types import Document, Query

__all__ = ["RuleQADataset"]

Qrels = dict[str, dict[str, int]]

_FORMAT = 1
_TEST = "test"
_QRELS_HEADER = "query-id\tcorpus-id\tscore"
_REBUILD = "build the dataset again, or load it with verify=False to take it as it stands"


class RuleQADataset:
    """Questions over one corpus, with what is needed to answer, score and train on them.

    Args:
        corpus: the documents; ids unique, without white space.
        queries: queries by split: ``test``, and the training queries ``f_r`` and ``f_g``
            (RuleRAG's F_R and F_G, arXiv:2410.22353, section 2); ids unique over all splits.
        qrels: for each split, query id → document id → grade (a whole number).
        rules: the rule bank R.
        query_sets: named parts of the test queries, by ids (``balanced``); ``full`` is all of them.
        labels: ``{"entities": {raw name: label}, "relations": {…}}``.
        calendar: how timestamps read: ``{"unit", "origin", "step"}``, the arguments of
            :class:`rulerag.kg.calendar.Calendar`; empty for static data.
        name: what the dataset is called.
        settings: what the builder was told, JSON-like.
        seed: the builder's seed.

    Raises:
        DataFormatError: an id occurs twice or holds white space, or a set or judgement names an
            unknown query or document.
    """

    def __init__(
        self,
        *,
        corpus: Sequence[Document],
        queries: Mapping[str, Sequence[Query]],
        qrels: Mapping[str, Mapping[str, Mapping[str, int]]] | None = None,
        rules: RuleBank | None = None,
        query_sets: Mapping[str, Collection[str]] | None = None,
        labels: Mapping[str, Mapping[str, str]] | None = None,
        calendar: Mapping[str, Any] | None = None,
        name: str = "ruleqa",
        settings: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        self.corpus = list(corpus)
        self.queries = {split: list(rows) for split, rows in queries.items()}
        self.rules = rules if rules is not None else RuleBank()
        self.query_sets = {n: frozenset(ids) for n, ids in (query_sets or {}).items()}
        given = labels or {}
        self.labels = {kind: dict(given.get(kind, {})) for kind in ("entities", "relations")}
        self.calendar = dict(calendar or {})
        self.name = name
        self.settings = dict(settings or {})
        self.seed = seed
        self._qrels: dict[str, Qrels] = {
            split: {query: dict(grades) for query, grades in rows.items()}
            for split, rows in (qrels or {}).items()
        }
        self._check()

    def _check(self) -> None:
        _check_ids("document", (document.id for document in self.corpus))
        _check_ids("query", (query.id for rows in self.queries.values() for query in rows))
        for name, ids in self.query_sets.items():
            _check_known(f"the query set {name!r}", ids, self._query_ids(_TEST), "test query")
        for split, rows in self._qrels.items():
            what = f"the judgements of {split!r}"
            _check_known(what, rows, self._query_ids(split), "query")
            judged = {document for grades in rows.values() for document in grades}
            _check_known(what, judged, self.documents, "document")

    def _query_ids(self, split: str) -> set[str]:
        return {query.id for query in self.queries.get(split, ())}

    def __repr__(self) -> str:
        sizes = ", ".join(f"{len(rows):,} {split}" for split, rows in self.queries.items())
        return (
            f"RuleQADataset({self.name!r}, {len(self.corpus):,} documents, "
            f"queries: {sizes or 'none'}, {len(self.rules):,} rules)"
        )

    @cached_property
    def documents(self) -> dict[str, Document]:
        """The corpus by document id."""
        return {document.id: document for document in self.corpus}

    def query_set(self, name: str) -> list[Query]:
        """The queries of a named set or a split, in the dataset's order.

        Args:
            name: ``full`` (every test query), a named part such as ``balanced``, or a split.

        Raises:
            UnknownNameError: there is no such set; names the known ones.
            EmptyDataError: the set holds no query.
        """
        split = _TEST if name == "full" else name
        if name in self.query_sets:
            ids = self.query_sets[name]
            rows = [query for query in self.queries.get(_TEST, ()) if query.id in ids]
        elif split in self.queries or split == _TEST:
            rows = self.queries.get(split, [])
        else:
            raise UnknownNameError(
                f"the dataset {self.name!r} has no query set {name!r}",
                hint=did_you_mean(name, {*self.queries, *self.query_sets, "full"}),
            )
        if not rows:
            raise EmptyDataError(f"the query set {name!r} of {self.name!r} holds no query")
        return list(rows)

    def qrels(self, split: str = _TEST) -> Qrels:
        """Judgements of a split: query id → document id → grade; empty where none are known."""
        return self._qrels.get(split, {})

    def qrels_for(self, queries: Iterable[Query]) -> Qrels:
        """The judgements of these queries, whatever their split; unjudged queries are left out."""
        everything = {q: grades for rows in self._qrels.values() for q, grades in rows.items()}
        return {query.id: everything[query.id] for query in queries if query.id in everything}

    @cached_property
    def fingerprint(self) -> str:
        """A fingerprint of the content: documents, queries, judgements, rules, labels, calendar."""
        digests = {name: _hash(lines())[0] for name, lines in self._files().items()}
        return _fingerprint(digests, self.calendar)

    @property
    def manifest(self) -> dict[str, Any]:
        """What the dataset is: counts, settings, seed and fingerprint (and, saved, its files)."""
        return {
            "format": _FORMAT,
            "name": self.name,
            "fingerprint": self.fingerprint,
            "seed": self.seed,
            "calendar": self.calendar,
            "settings": self.settings,
            "counts": {
                "documents": len(self.corpus),
                "rules": len(self.rules),
                "queries": {split: len(rows) for split, rows in self.queries.items()},
                "query_sets": {name: len(ids) for name, ids in sorted(self.query_sets.items())},
                "judgements": {
                    split: sum(map(len, rows.values())) for split, rows in self._qrels.items()
                },
                **{kind: len(names) for kind, names in self.labels.items()},
            },
        }

    def _files(self) -> dict[str, Callable[[], Iterator[str]]]:
        """The lines of every file but the manifest, by its name in the folder."""
        files: dict[str, Callable[[], Iterator[str]]] = {
            "corpus.jsonl": lambda: (to_json(document.to_json()) for document in self.corpus),
            "queries.jsonl": self._query_lines,
            "rules.jsonl": lambda: (to_json(rule.to_json()) for rule in self.rules),
            "labels.json": lambda: iter([to_json(self.labels)]),
        }
        for split, rows in self._qrels.items():
            files[f"qrels/{split}.tsv"] = lambda rows=rows: _qrels_lines(rows)  # type: ignore[misc]
        return files

    def _query_lines(self) -> Iterator[str]:
        for split, rows in self.queries.items():
            for query in rows:
                row = query.to_json()
                row["metadata"]["split"] = split
                if split == _TEST:
                    sets = sorted(name for name, ids in self.query_sets.items() if query.id in ids)
                    row["metadata"]["sets"] = sets
                yield to_json(row)

    def save(self, folder: str | Path) -> None:
        """Write the folder; a dataset that stands there is replaced.

        The files are written aside and moved into place, the manifest last: a folder with a
        manifest is complete.

        Raises:
            OutputError: the folder cannot be written.
        """
        target = prepare_folder(folder)
        aside = Path(tempfile.mkdtemp(dir=target, prefix=".part-"))
        try:
            described = self._write(aside)
            digests = {name: str(entry["sha256"]) for name, entry in described.items()}
            self.__dict__["fingerprint"] = _fingerprint(digests, self.calendar)
            (target / "manifest.json").unlink(missing_ok=True)
            shutil.rmtree(target / "qrels", ignore_errors=True)
            for name in described:
                (target / name).parent.mkdir(exist_ok=True)
                (aside / name).replace(target / name)
            write_json(target / "manifest.json", {**self.manifest, "files": described})
        except OSError as error:
            raise OutputError(f"cannot be written ({error.strerror})", path=target) from error
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    def _write(self, folder: Path) -> dict[str, dict[str, str | int]]:
        described: dict[str, dict[str, str | int]] = {}
        for name, lines in self._files().items():
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            with open(path, "wb") as file:
                digest, count = _hash(lines(), file.write)
            described[name] = {"sha256": digest, "bytes": path.stat().st_size, "lines": count}
        return described

    @classmethod
    def load(cls, folder: str | Path, *, verify: bool = True) -> RuleQADataset:
        """Read a dataset folder.

        Args:
            folder: the folder that :meth:`save` wrote.
            verify: refuse content that is not what the manifest says. Without it, a BEIR folder
                that has no manifest can be read too: its queries are all ``test`` queries.

        Raises:
            DataError: the folder or one of its files is missing.
            DataFormatError: a line cannot be read; names file and line.
            FingerprintError: a file differs from its fingerprint.
        """
        home = Path(folder)
        manifest = _read_manifest(home, verify=verify)
        digests = _check_files(home, manifest, verify=verify)
        queries: dict[str, list[Query]] = {}
        query_sets: dict[str, set[str]] = {}
        for query, metadata in read_records(home / "queries.jsonl", _query_with_metadata):
            queries.setdefault(metadata.get("split", _TEST), []).append(query)
            for name in metadata.get("sets", ()):
                query_sets.setdefault(name, set()).add(query.id)
        qrels = {path.stem: _read_qrels(path) for path in sorted((home / "qrels").glob("*.tsv"))}
        dataset = cls(
            corpus=read_records(home / "corpus.jsonl", Document.from_json),
            queries=queries,
            qrels=qrels,
            rules=RuleBank.load(home / "rules.jsonl") if "rules.jsonl" in digests else None,
            query_sets=query_sets,
            labels=read_json(home / "labels.json") if "labels.json" in digests else None,
            calendar=manifest.get("calendar"),
            name=str(manifest.get("name", home.name)),
            settings=manifest.get("settings"),
            seed=int(manifest.get("seed", 0)),
        )
        # The files were hashed above; hashing the records would cost seconds.
        dataset.__dict__["fingerprint"] = _fingerprint(digests, dataset.calendar)
        return dataset


def _fingerprint(digests: Mapping[str, str], calendar: Mapping[str, Any]) -> str:
    return fingerprint_object({"files": dict(digests), "calendar": dict(calendar)})


def _check_ids(what: str, ids: Iterable[str]) -> None:
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


def _check_known(what: str, ids: Iterable[str], known: Collection[str], kind: str) -> None:
    for identifier in ids:
        if identifier not in known:
            raise DataFormatError(f"{what}: no {kind} has the id {identifier!r}")


def _qrels_lines(rows: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    yield _QRELS_HEADER
    for query, grades in rows.items():
        for document, grade in grades.items():
            yield f"{query}\t{document}\t{grade}"


def _hash(lines: Iterable[str], write: Callable[[bytes], object] | None = None) -> tuple[str, int]:
    """The SHA-256 of the lines as a file, and how many there are; writes them on the way."""
    digest, count = hashlib.sha256(), 0
    for line in lines:
        data = line.encode() + b"\n"
        digest.update(data)
        if write is not None:
            write(data)
        count += 1
    return digest.hexdigest(), count


def _read_manifest(home: Path, *, verify: bool) -> dict[str, Any]:
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
    if manifest.get("format") != _FORMAT:
        message = f"has format {manifest.get('format')!r}, and this version reads {_FORMAT}"
        raise DataFormatError(message, path=path, hint="build the dataset again")
    return manifest


def _check_files(home: Path, manifest: Mapping[str, Any], *, verify: bool) -> dict[str, str]:
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


def _query_with_metadata(row: dict[str, Any]) -> tuple[Query, dict[str, Any]]:
    return Query.from_json(row), row.get("metadata") or {}


def _read_qrels(path: Path) -> Qrels:
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
