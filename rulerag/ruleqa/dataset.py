"""RuleQA datasets: queries, corpus, judgements, rules and labels, kept as a BEIR folder.

The folder, which BEIR's own tools open::

    corpus.jsonl      {"_id", "title", "text", "metadata": {"facts"}}
    queries.jsonl     {"_id", "text", "metadata": {…, "split", "sets"}}
    qrels/<split>.tsv query-id, corpus-id, score
    rules.jsonl       the rule bank
    labels.json       readable labels of raw names
    manifest.json     counts, builder settings, seed, and the SHA-256 of every other file

A builder may put more beside them: a data card with which ``datasets.load_dataset`` opens the
folder, and the judgements as JSON lines, the form that it reads.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rulerag.cache import WORTH_KEEPING, file_states, recall, remember
from rulerag.errors import (
    DataError,
    DataFormatError,
    EmptyDataError,
    FingerprintError,
    OutputError,
    UnknownNameError,
    did_you_mean,
)
from rulerag.folders import HubMixin, output_folder
from rulerag.io import (
    StoredRecords,
    fingerprint_file,
    fingerprint_object,
    read_json,
    read_records,
    to_json,
    write_json,
)
from rulerag.kg import Phrases
from rulerag.ruleqa.stored import TEST, Qrels, StoredQrels, read_queries, stored_rules
from rulerag.rules import RuleBank
from rulerag.types import Document, Query

_FORMAT = 1
_REBUILD = "build the dataset again, or load it with verify=False to take it unchecked"


@dataclass(frozen=True)
class DatasetInfo:
    """What a dataset is called, how its times read, and how it was made.

    Args:
        name: what the dataset is called.
        calendar: how timestamps read: ``{"unit", "origin", "step"}``, the arguments of
            :class:`rulerag.kg.Calendar`; None for static data. Part of the fingerprint.
        seed: the builder's seed.
        settings: the builder's settings, JSON-like.
        statistics: what the builder measured, JSON-like; in the manifest, no part of the
            fingerprint.
    """

    name: str = "ruleqa"
    calendar: Mapping[str, Any] | None = None
    seed: int = 0
    settings: Mapping[str, Any] | None = None
    statistics: Mapping[str, Any] | None = None


class RuleQADataset(HubMixin):
    """Questions over one corpus, with what is needed to answer, score and train on them.

    Args:
        corpus: the documents; ids unique, without white space.
        queries: queries by split: ``test``, and the training queries ``f_r`` and ``f_g``
            (RuleRAG's F_R and F_G, arXiv:2410.22353, section 2); ids unique over all splits.
        qrels: for each split, query id → document id → grade (a whole number).
        rules: the rule bank R.
        query_sets: named parts of the test queries, by ids (``balanced``); ``full`` is all of them.
        labels: ``{"entities": {raw name: label}, "relations": {…}}``, and under ``aliases``, where
            there are any, what else entities are called: ``{raw name: [alias, …]}``.
        info: the dataset's name, calendar, and how it was made.
        prediction: whether the queries ask for what no document can state (forecasting and
            completion benchmarks, where known answers are filtered by protocol); as the queries
            themselves say when None. Stated in the manifest, no part of the fingerprint.

    Raises:
        DataFormatError: an id occurs twice or holds white space, a set or judgement names an
            unknown query or document, or the queries differ in what they ask for.
    """

    _queries_file: Path

    def __init__(
        self,
        *,
        corpus: Sequence[Document],
        queries: Mapping[str, Sequence[Query]],
        qrels: Mapping[str, Mapping[str, Mapping[str, int]]] | None = None,
        rules: RuleBank | None = None,
        query_sets: Mapping[str, Collection[str]] | None = None,
        labels: Mapping[str, Mapping[str, Any]] | None = None,
        info: DatasetInfo | None = None,
        prediction: bool | None = None,
    ) -> None:
        info = info or DatasetInfo()
        self.corpus: Sequence[Document] = list(corpus)
        self.prediction = _are_predictions(queries) if prediction is None else prediction
        self.rules = rules if rules is not None else RuleBank()
        self.query_sets = _frozen(query_sets or {})
        given = labels or {}
        self.labels: dict[str, dict[str, str]] = {
            kind: dict(given.get(kind, {})) for kind in ("entities", "relations")
        }
        self.aliases: dict[str, list[str]] = {
            name: list(also) for name, also in given.get("aliases", {}).items()
        }
        self.queries = self._split_queries(queries)
        # How relations are said in rules, by raw name; those of the folder, no part of the content.
        self.templates: dict[str, str] = {}
        self.name, self.seed = info.name, info.seed
        self.calendar = dict(info.calendar or {})
        self.settings = dict(info.settings or {})
        self.statistics = dict(info.statistics or {})
        self._qrels: Mapping[str, Qrels] = {
            split: {query: dict(grades) for query, grades in rows.items()}
            for split, rows in (qrels or {}).items()
        }
        self._check()

    @cached_property
    def queries(self) -> dict[str, list[Query]]:
        """The queries by split, as this dataset asks them."""
        return self._split_queries(self._stored_queries[0])

    @cached_property
    def query_sets(self) -> dict[str, frozenset[str]]:
        """The ids of the test queries that belong to each named set."""
        return _frozen(self._stored_queries[1])

    @cached_property
    def _stored_queries(self) -> tuple[dict[str, list[Query]], dict[str, set[str]]]:
        return read_queries(self._queries_file)

    def _split_queries(self, queries: Mapping[str, Sequence[Query]]) -> dict[str, list[Query]]:
        return {split: list(self._worded(rows)) for split, rows in queries.items()}

    def _labels_of(self, query: Query) -> dict[str, Any]:
        """The words of a query's subject and relation; ``labels`` holds those that differ."""
        entities, relations = self.labels["entities"], self.labels["relations"]
        return {
            "subject_label": entities.get(query.subject, query.subject),
            "relation_label": relations.get(query.relation, query.relation),
        }

    def _worded(self, rows: Iterable[Query]) -> Iterator[Query]:
        """Queries as this dataset asks them: predictions or not, with their words."""
        for query in rows:
            words = self._labels_of(query).items()
            changes: dict[str, Any] = {key: word for key, word in words if not getattr(query, key)}
            if query.prediction != self.prediction:
                changes["prediction"] = self.prediction
            yield replace(query, **changes) if changes else query

    def _check(self) -> None:
        _check_ids("document", (document.id for document in self.corpus))
        _check_ids("query", (query.id for rows in self.queries.values() for query in rows))
        for name, ids in self.query_sets.items():
            _check_known(f"the query set {name!r}", ids, self._query_ids(TEST), "test query")
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

    @property
    def info(self) -> DatasetInfo:
        """The dataset's name, calendar, and how it was made."""
        return DatasetInfo(self.name, self.calendar, self.seed, self.settings, self.statistics)

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
        split = TEST if name == "full" else name
        if name in self.query_sets:
            ids = self.query_sets[name]
            rows = [query for query in self.queries.get(TEST, ()) if query.id in ids]
        elif split in self.queries or split == TEST:
            rows = self.queries.get(split, [])
        else:
            raise UnknownNameError(
                f"the dataset {self.name!r} has no query set {name!r}",
                hint=did_you_mean(name, {*self.queries, *self.query_sets, "full"}),
            )
        if not rows:
            others = [split for split, queries in self.queries.items() if queries]
            hint = f"those with queries: {', '.join(others)}" if others else None
            raise EmptyDataError(
                f"the query set {name!r} of {self.name!r} holds no query", hint=hint
            )
        return list(rows)

    @cached_property
    def shown_rules(self) -> RuleBank:
        """The rules as they are shown: said by the folder's own templates, where it has some."""
        if not self.templates:
            return self.rules
        rule_text = self.phrases.rule
        return RuleBank(replace(rule, text=rule_text(rule)) for rule in self.rules)

    @property
    def phrases(self) -> Phrases:
        """Relations and rules in words, by the folder's own templates where it has some."""
        labels = self.labels["relations"]
        return Phrases(self.templates, lambda name: labels.get(name, name))

    def qrels(self, split: str = TEST) -> Qrels:
        """Judgements of a split: query id → document id → grade; empty where none are known."""
        return self._qrels.get(split, {})

    def qrels_for(self, queries: Iterable[Query]) -> Qrels:
        """The judgements of these queries, whatever their split; unjudged queries are left out."""
        everything = {q: grades for rows in self._qrels.values() for q, grades in rows.items()}
        return {query.id: everything[query.id] for query in queries if query.id in everything}

    @cached_property
    def fingerprint(self) -> str:
        """A fingerprint of the content: documents, queries, judgements, rules, labels, calendar."""
        digests = {name: hash_lines(lines())[0] for name, lines in self._files().items()}
        return dataset_fingerprint(digests, self.calendar)

    @property
    def manifest(self) -> dict[str, Any]:
        """What the dataset is: counts, settings, seed and fingerprint (and, saved, its files)."""
        return {
            "format": _FORMAT,
            "name": self.name,
            "fingerprint": self.fingerprint,
            "seed": self.seed,
            "prediction": self.prediction,
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
            "statistics": self.statistics,
        }

    def _files(self) -> dict[str, Callable[[], Iterator[str]]]:
        """The lines of every file but the manifest, by its name in the folder."""
        files: dict[str, Callable[[], Iterator[str]]] = {
            "corpus.jsonl": lambda: (to_json(document.to_json()) for document in self.corpus),
            "queries.jsonl": self._query_lines,
            "rules.jsonl": lambda: (to_json(rule.to_json()) for rule in self.rules),
            "labels.json": lambda: iter([to_json(labels_record(self.labels, self.aliases))]),
        }
        for split, rows in self._qrels.items():
            files[f"qrels/{split}.tsv"] = lambda rows=rows: _qrels_lines(rows)  # type: ignore[misc]
        return files

    def _query_lines(self) -> Iterator[str]:
        for split, rows in self.queries.items():
            for query in rows:
                row = query.to_json()
                for key, label in self._labels_of(query).items():
                    if row["metadata"].get(key) == label:
                        del row["metadata"][key]  # labels.json holds it
                row["metadata"]["split"] = split
                if split == TEST:
                    sets = sorted(name for name, ids in self.query_sets.items() if query.id in ids)
                    row["metadata"]["sets"] = sets
                yield to_json(row)

    def save(
        self, folder: str | Path, *, beside: Mapping[str, Iterable[str]] | None = None
    ) -> None:
        """Write the folder; a dataset that is there is replaced.

        The files are written aside and moved into place, the manifest last: a folder with a
        manifest is complete.

        Args:
            folder: where to write.
            beside: further files that are no part of the content, by name in the folder, as lines:
                a data card, other forms of the same judgements.

        Raises:
            OutputError: the folder cannot be written, or another process writes there.
        """
        with output_folder(folder) as target:
            self._save(target, beside or {})

    def _write_repository(self, folder: Path) -> None:
        data = {"queries": "queries.jsonl", "corpus": "corpus.jsonl", "rules": "rules.jsonl"}
        configs = [{"config_name": name, "data_files": file} for name, file in data.items()]
        sizes = {**{name: len(rows) for name, rows in self.queries.items()}}
        card = [
            f"---\ntags: [rulerag, question-answering]\nconfigs: {to_json(configs)}\n---\n",
            f"# {self.name}\n\n{len(self.corpus):,} documents, {len(self.rules):,} rules.\n",
            *(f"- {size:,} questions of split {name}" for name, size in sizes.items()),
            f"\nFingerprint: `{self.fingerprint}`\n\nSettings: `{to_json(self.settings)}`\n",
            "```python\nfrom rulerag import RuleQADataset\n",
            'dataset = RuleQADataset.from_pretrained("owner/name")\n```',
        ]
        self.save(folder, beside={"README.md": card})

    @classmethod
    def _read_repository(cls, folder: Path) -> RuleQADataset:
        return cls.load(folder)

    def _save(self, target: Path, beside: Mapping[str, Iterable[str]]) -> None:
        aside = Path(tempfile.mkdtemp(dir=target, prefix=".part-"))
        try:
            described = _write(aside, {name: lines() for name, lines in self._files().items()})
            extra = _write(aside, beside)
            digests = {name: str(entry["sha256"]) for name, entry in described.items()}
            self.__dict__["fingerprint"] = dataset_fingerprint(digests, self.calendar)
            (target / "manifest.json").unlink(missing_ok=True)
            shutil.rmtree(target / "qrels", ignore_errors=True)
            for name in (*described, *extra):
                (target / name).parent.mkdir(exist_ok=True)
                (aside / name).replace(target / name)
            write_json(target / "manifest.json", {**self.manifest, "files": described})
        except OSError as error:
            raise OutputError(f"cannot be written ({error.strerror})", path=target) from error
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    @classmethod
    def load(
        cls, folder: str | Path, *, verify: bool = True, prediction: bool | None = None
    ) -> RuleQADataset:
        """Read a dataset folder.

        A large folder that was verified is remembered (:mod:`rulerag.cache`): while no file of it
        changes, its documents and judgements are read when they are used.

        Args:
            folder: the folder that :meth:`save` wrote.
            verify: refuse content that is not what the manifest says.
            prediction: what the queries ask for, in place of what the manifest says.

        Raises:
            DataError: the folder or one of its files is missing.
            DataFormatError: a line cannot be read; names file and line.
            FingerprintError: a file differs from its fingerprint.
        """
        home = Path(folder)
        manifest = read_manifest(home)
        files = (path for path in sorted(home.rglob("*")) if path.is_file())
        states = file_states(files) if verify else None
        known = recall("datasets", states) if states is not None else None
        if not (isinstance(known, dict) and known.keys() >= {"files", "rules", "heads"}):
            known = None  # damaged
        digests = known["files"] if known else _check_files(home, manifest, verify=verify)
        queries, query_sets = ({}, {}) if known else read_queries(home / "queries.jsonl")
        qrels = StoredQrels(home / "qrels")
        corpus = home / "corpus.jsonl"
        dataset = cls(
            corpus=() if known else read_records(corpus, Document.from_json),
            queries=queries,
            qrels={} if known else qrels,
            rules=stored_rules(home / "rules.jsonl", digests, known),
            query_sets=query_sets,
            labels=read_json(home / "labels.json") if "labels.json" in digests else None,
            info=DatasetInfo(
                str(manifest.get("name", home.name)),
                manifest.get("calendar"),
                int(manifest.get("seed", 0)),
                manifest.get("settings"),
                manifest.get("statistics"),
            ),
            prediction=_asks_predictions(manifest) if prediction is None else prediction,
        )
        dataset.templates = Phrases.of_folder(home).own
        # The files were hashed above; hashing the records would cost seconds.
        dataset.__dict__["fingerprint"] = dataset_fingerprint(digests, dataset.calendar)
        if known:
            dataset._qrels, dataset._queries_file = qrels, home / "queries.jsonl"
            del dataset.queries, dataset.query_sets  # read when they are used
        elif states is not None and corpus.stat().st_size > WORTH_KEEPING:
            heads: dict[str, list[int]] = {}
            for place, rule in enumerate(dataset.rules):
                heads.setdefault(rule.head.relation, []).append(place)
            known = {"files": digests, "rules": dataset.rules.fingerprint, "heads": heads}
            remember("datasets", states, known)
        if known:
            name, made = corpus.name, dataset.corpus
            dataset.corpus = StoredRecords(corpus, Document.from_json, digests[name], made)
        return dataset


def _frozen(sets: Mapping[str, Collection[str]]) -> dict[str, frozenset[str]]:
    return {name: frozenset(ids) for name, ids in sets.items()}


def _are_predictions(queries: Mapping[str, Sequence[Query]]) -> bool:
    """What all queries say that they ask for; no prediction where there is no query."""
    kinds = {query.prediction for rows in queries.values() for query in rows}
    if len(kinds) > 1:
        raise DataFormatError(
            "some queries are predictions, and some are not",
            hint="prediction=True or prediction=False says it for all",
        )
    return True in kinds


def _write(folder: Path, files: Mapping[str, Iterable[str]]) -> dict[str, dict[str, str | int]]:
    """Write files as lines; by name, their SHA-256, bytes and lines."""
    described: dict[str, dict[str, str | int]] = {}
    for name, lines in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        with open(path, "wb") as file:
            digest, count = hash_lines(lines, file.write)
        described[name] = {"sha256": digest, "bytes": path.stat().st_size, "lines": count}
    return described


def dataset_fingerprint(digests: Mapping[str, str], calendar: Mapping[str, Any]) -> str:
    """A fingerprint of the files' digests and the calendar."""
    return fingerprint_object({"files": dict(digests), "calendar": dict(calendar)})


def _check_ids(what: str, ids: Iterable[str]) -> None:
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


def _check_known(what: str, ids: Iterable[str], known: Collection[str], kind: str) -> None:
    """Refuse an id that nothing has."""
    for identifier in ids:
        if identifier not in known:
            raise DataFormatError(f"{what}: no {kind} has the id {identifier!r}")


def _qrels_lines(rows: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """The lines of a judgement file, header first."""
    yield "query-id\tcorpus-id\tscore"
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


def read_manifest(home: Path) -> dict[str, Any]:
    """The manifest of a dataset folder.

    Raises:
        DataError: there is no such folder.
        DataFormatError: it has no manifest, or one of another format.
    """
    if not home.is_dir():
        raise DataError("no such folder", path=home, hint="rulerag ruleqa build makes one")
    path = home / "manifest.json"
    if not path.exists():
        raise DataFormatError(
            "is no complete dataset folder (it has no manifest.json)",
            path=home,
            hint="build it again; read_benchmark reads the folders of others",
        )
    manifest = read_json(path)
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
        raise DataFormatError("is no dataset manifest (it names no files)", path=path)
    if manifest.get("format") != _FORMAT:
        message = f"has format {manifest.get('format')!r}, and this version reads {_FORMAT}"
        raise DataFormatError(message, path=path, hint="build the dataset again")
    return manifest


def _asks_predictions(manifest: Mapping[str, Any]) -> bool:
    """Whether the queries of a folder are predictions, where known answers do not count.

    Raises:
        DataFormatError: the manifest says neither true nor false.
    """
    prediction = manifest.get("prediction")
    if not isinstance(prediction, bool):
        raise DataFormatError(f"expected true or false, found {prediction!r}", key="prediction")
    return prediction


def _check_files(home: Path, manifest: Mapping[str, Any], *, verify: bool) -> dict[str, str]:
    """The SHA-256 of every file of a folder, compared with its manifest.

    Raises:
        DataError: a file is missing.
        FingerprintError: a file is not what the manifest says.
    """
    stated = manifest["files"]
    present = ["corpus.jsonl", "queries.jsonl", "rules.jsonl", "labels.json"]
    present += [f"qrels/{path.name}" for path in (home / "qrels").glob("*.tsv")]
    digests = {}
    for name in dict.fromkeys([*stated, *present]):
        path = home / name
        if not path.exists():
            if name in stated:
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


def labels_record(
    labels: Mapping[str, Mapping[str, str]], aliases: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """The object of ``labels.json``: aliases are named where there are any."""
    return {**labels, "aliases": aliases} if aliases else {**labels}
