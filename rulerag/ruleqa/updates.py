"""New facts in a dataset that stands: documents, counts and rules follow, nothing is built anew.

What an update leaves in the folder is what a build from all facts would have written: the corpus,
byte by byte, and the rules with their counts, where they are counted exactly. Questions and
judgements stay those of the build, but for questions that are no longer held out.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rulerag.errors import DataError, DataFormatError, FingerprintError
from rulerag.io import (
    StoredRecords,
    read_bytes,
    read_json,
    read_lines,
    read_text,
    to_json,
    write_json,
)
from rulerag.kg import (
    Calendar,
    FactTable,
    KnowledgeGraph,
    Verbalizer,
    Vocabulary,
    corpus_facts,
    remember_corpus_facts,
)
from rulerag.output_folder import finish_replacing, output_folder, replaced_files
from rulerag.ruleqa.builder import mine, temporal_miner
from rulerag.ruleqa.dataset import (
    dataset_fingerprint,
    hash_lines,
    labels_record,
    read_manifest,
)
from rulerag.ruleqa.settings import RuleQASettings
from rulerag.text import normalize_answer, normalize_answers
from rulerag.types import Document, Fact

if TYPE_CHECKING:
    from rulerag.mining.temporal import TemporalRules

# As a dataset writes its questions.
_TIMES = re.compile(r'"timestamp": (-?\d+)')
_SINCE = "Sizes are those of the build. Since then"
_BUILD = "build the dataset again: rulerag ruleqa build"


@dataclass(frozen=True)
class DatasetUpdate:
    """What an update did.

    Args:
        added: facts that are documents now.
        known: facts that the documents stated before.
        entities: how many of them are new.
        relations: likewise.
        documents: how many there were, and are.
        rules: likewise.
        questions: how many there were, and are; the missing ones are no longer held out.
    """

    added: int
    known: int
    entities: int
    relations: int
    documents: tuple[int, int]
    rules: tuple[int, int]
    questions: tuple[int, int]


def update(
    folder: str | Path,
    graph: KnowledgeGraph,
    *,
    sources: Sequence[Document] = (),
    progress: bool = False,
) -> DatasetUpdate:
    """Add the facts of a graph to a dataset folder, whole or not at all.

    Entities and relations go by raw name or by label; those that the dataset lacks are added with
    the graph's labels, numbered where such a label is taken. Facts that documents state already
    are counted and left out. A question is no longer held out where a new document states one of
    its answers, or, of dated facts, is not from before it: it goes, with its judgements. The
    judgements of other questions name documents of the build alone, and the folder's statistics
    are dropped, because they were measured on those.

    Args:
        folder: a dataset folder of :func:`rulerag.ruleqa.build`.
        graph: whose facts are added, of all splits.
        sources: as in :func:`rulerag.ruleqa.build`.
        progress: show progress bars.

    Raises:
        DataError: the folder is missing or incomplete, or holds a dataset whose rules were not
            mined of the facts of its documents.
        DataFormatError: some facts are dated and the dataset's are not, or the other way round, or
            a time is none of the dataset's calendar.
        FingerprintError: the corpus is not what the manifest says.
        OutputError: the folder cannot be written, or another process writes there.
    """
    home = Path(folder)
    finish_replacing(home)
    read_manifest(home, verify=True)  # before anything is locked or made
    with output_folder(home):
        return _Updating(home, progress).add(graph, sources)


class _Updating:
    """One update of one folder, which the caller holds."""

    def __init__(self, home: Path, progress: bool) -> None:
        self.home, self.progress = home, progress
        self.manifest = read_manifest(home, verify=True)
        self.settings = _mining_settings(self.manifest, home)
        self._added = int(self.manifest["settings"].get("facts_added", 0))
        file = home / "corpus.jsonl"
        self.data = read_bytes(file)
        self.hashed = hashlib.sha256(self.data)
        wanted = self.manifest["files"]["corpus.jsonl"]
        if self.hashed.hexdigest() != wanted["sha256"]:
            raise FingerprintError("is not what the manifest says", path=file, hint=_BUILD)
        corpus = StoredRecords(file, Document.from_json, wanted["sha256"])
        self.known, self.owner = corpus_facts(corpus)
        self.documents = int(wanted["lines"])
        if not len(self.known):
            raise DataError("states no facts that new ones could join", path=file)
        calendar = self.manifest.get("calendar")
        self.calendar = Calendar(**calendar) if calendar else None
        labels = read_json(home / "labels.json")
        self.labels = {kind: dict(labels.get(kind, {})) for kind in ("entities", "relations")}
        self.aliases: dict[str, Sequence[str]] = dict(labels.get("aliases", {}))

    def add(self, graph: KnowledgeGraph, sources: Sequence[Document]) -> DatasetUpdate:
        """Work out what changes, then write it."""
        old, counts = self.known, self.manifest["counts"]
        entities = _Names(old.entities.names, self.labels["entities"])
        relations = _Names(old.relations.names, self.labels["relations"])
        # Each fact by ids, once, with what the graph calls it.
        given = {
            (
                entities.id(fact.subject, graph.entities),
                relations.id(fact.relation, graph.relations),
                entities.id(fact.object, graph.entities),
                *(() if time is None else (time,)),
            ): fact
            for fact, time in self._dated(graph)
        }
        for row in self._stated(given):
            del given[row]
        new = len(entities.names) - len(old.entities), len(relations.names) - len(old.relations)
        asked = sum(counts["queries"].values())
        done = DatasetUpdate(
            added=len(given),
            known=sum(map(len, graph.splits.values())) - len(given),
            entities=new[0],
            relations=new[1],
            documents=(self.documents, self.documents + len(given)),
            rules=(counts["rules"], counts["rules"]),
            questions=(asked, asked),
        )
        if not given:
            return done
        rows = np.concatenate([old.rows, np.array(list(given), dtype=np.int32)])
        calendar = self.calendar or Calendar()
        table = FactTable.of(rows, entities.vocabulary(), relations.vocabulary(), calendar)
        documents = self._documents(table, list(given.values()), sources)
        left, files = self._questions([document.facts[0] for document in documents])
        files["rules.jsonl"] = rules = self._rules(table)
        names = set(entities.names)
        also = {name: more for name, more in graph.entities.aliases.items() if name in names}
        files["labels.json"] = [to_json(labels_record(self.labels, {**self.aliases, **also}))]
        card = self.home / "README.md"
        if card.is_file():
            text = read_text(card).partition(f"\n{_SINCE}")[0].rstrip("\n")
            files["README.md"] = [
                text,
                "",
                f"{_SINCE} {self._added + len(given):,} facts were added.",
            ]
        self._write(documents, files, table)
        return replace(done, rules=(counts["rules"], len(rules)), questions=(asked, left))

    def _dated(self, graph: KnowledgeGraph) -> Iterator[tuple[Fact, int | None]]:
        """The graph's facts, each with its time in the dataset's calendar.

        Raises:
            DataFormatError: dated facts for a dataset without dates, or the other way round.
        """
        if graph.is_temporal != (self.calendar is not None):
            found, needed = ("", "not ") if graph.is_temporal else ("not ", "")
            raise DataFormatError(
                f"the facts of {graph.name!r} are {found}dated, those of the dataset are {needed}"
                "dated",
                hint="give facts of the same kind; --columns names the column of dates, or none",
            )
        theirs, ours = graph.calendar, self.calendar
        times: dict[int | None, int | None] = {None: None}
        for table in graph.splits.values():
            for fact in table:
                time = fact.timestamp
                if time not in times and ours is not None:
                    same = theirs.unit == "step" or theirs == ours
                    times[time] = time if same else ours.parse(theirs.format(time or 0))
                yield fact, times[time]

    def _stated(self, given: Mapping[tuple[int, ...], Fact]) -> set[tuple[int, ...]]:
        """Those of some facts, by ids, that a document states already."""
        wanted = np.array(list(given), dtype=np.int64)
        subjects = np.zeros(1 + max(len(self.known.entities), int(wanted[:, 0].max())), dtype=bool)
        subjects[wanted[:, 0]] = True
        rows = self.known.rows[subjects[self.known.subject]]
        # Column by column, so that the codes stay small; what is left is compared row by row.
        code, mine = rows[:, 0].astype(np.int64), wanted[:, 0]
        for column in range(1, rows.shape[1]):
            known, mine = np.unique(mine, return_inverse=True)
            place = np.minimum(np.searchsorted(known, code), len(known) - 1)
            keep = known[place] == code
            rows, place = rows[keep], place[keep]
            least = min(int(wanted[:, column].min()), int(rows[:, column].min(initial=0)))
            span = (
                max(int(wanted[:, column].max()), int(rows[:, column].max(initial=0))) - least + 1
            )
            code = place * span + (rows[:, column] - least)
            mine = mine * span + (wanted[:, column] - least)
        return given.keys() & set(map(tuple, rows[np.isin(code, mine)].tolist()))

    def _documents(
        self, table: FactTable, given: Sequence[Fact], sources: Sequence[Document]
    ) -> list[Document]:
        """The documents of the last rows of a table, which stand for facts of the graph."""
        first = len(table) - len(given)
        rows = np.arange(first, len(table))
        said = {one.facts[0]: one for one in sources}
        made = []
        words = Verbalizer(table).corpus(table.select(rows))
        for number, (document, fact) in enumerate(zip(words, given, strict=True), start=1):
            source = said.get(fact)
            name = f"d{self.documents + number:06d}"
            if source is not None and to_json(source.id).encode() not in self.data:
                document = replace(source, facts=document.facts)
            else:
                document = replace(document, id=name)
            made.append(document)
        return made

    def _rules(self, table: FactTable) -> list[str]:
        """The lines of the rules of all facts.

        Rules of one dated fact are counted all together, and their lines take the new counts; to
        make rules of them would cost more than to count.
        """
        settings = self.settings
        if settings.miner != "tlogic" or settings.max_atoms > 2 or settings.num_rules:
            graph = _graph_of(table, self.manifest)
            return [to_json(r.to_json()) for r in mine(graph, settings, progress=self.progress)]
        from rulerag.mining.temporal import as_rules

        found = temporal_miner(settings, progress=self.progress).count(table)
        lines = _RuleLines(read_lines(self.home / "rules.jsonl"))
        told = lines.recounted(found, table.relations)
        rest = np.flatnonzero([line is None for line in told])
        made = as_rules(found.rows(rest), table.relations)
        told += [
            _Told(r.head.relation, r.ranking_confidence, r.text, to_json(r.to_json())) for r in made
        ]
        return [one.line for one in sorted(filter(None, told), key=_place)]

    def _questions(self, added: Sequence[Fact]) -> tuple[int, dict[str, list[str]]]:
        """How many questions are held out still, and the files without the others."""
        label = self.labels["entities"]
        stated: dict[tuple[str, str, int | None], set[str]] = {}
        for fact in added:
            key = fact.subject, fact.relation, fact.timestamp
            stated.setdefault(key, set()).add(label.get(fact.object, fact.object))
        latest = max((f.timestamp for f in added if f.timestamp is not None), default=None)
        path = self.home / "queries.jsonl"
        asked = sum(self.manifest["counts"]["queries"].values())
        if latest is not None:
            times = _TIMES.findall(read_text(path))
            if len(times) == asked and min(map(int, times), default=latest + 1) > latest:
                return asked, {}  # the rule where facts arrive in time, without a closer look
        kept, gone = [], set()
        pairs = {(fact.subject, fact.relation) for fact in added}
        written = {f'{to_json(one)}, "relation": {to_json(other)}' for one, other in pairs}
        for _, line in read_lines(path):
            # As questions are written here: most are about something else, and need no parser.
            about, untimed, _ = line.partition('"subject": ')[2].partition(', "timestamp": null')
            if latest is None and untimed and about not in written:
                kept.append(line)
                continue
            row = json.loads(line)
            asks = row["metadata"]
            time, pair = asks["timestamp"], (asks["subject"], asks["relation"])
            late = latest is not None and time is not None and time <= latest
            told = pair in pairs and stated.get((*pair, time), set()) & set(asks["answers"])
            if late or told:
                gone.add(row["_id"])
            else:
                kept.append(line)
        if not gone:
            return len(kept), {}
        files = {"queries.jsonl": kept}
        for path in sorted((self.home / "qrels").glob("*.tsv")):
            lines = (line for _, line in read_lines(path))
            files[f"qrels/{path.name}"] = [x for x in lines if x.split("\t", 1)[0] not in gone]
        for path in sorted((self.home / "judgements").glob("*.jsonl")):
            lines = (line for _, line in read_lines(path))
            judged = [line for line in lines if json.loads(line)["query-id"] not in gone]
            files[f"judgements/{path.name}"] = judged
        return len(kept), files

    def _write(
        self, documents: Sequence[Document], files: Mapping[str, Sequence[str]], table: FactTable
    ) -> None:
        """Put the new files in the places of the old ones, all together."""
        described = {**self.manifest["files"]}
        with replaced_files(self.home) as aside:
            for name, lines in files.items():
                (aside / name).parent.mkdir(exist_ok=True)
                with open(aside / name, "wb") as file:
                    digest, count = hash_lines(lines, file.write)
                    if name in described:  # a card and its like are no part of the content
                        described[name] = {"sha256": digest, "bytes": file.tell(), "lines": count}
            with open(aside / "corpus.jsonl", "wb") as file:
                file.write(self.data)
                for document in documents:
                    line = to_json(document.to_json()).encode() + b"\n"
                    self.hashed.update(line)
                    file.write(line)
                described["corpus.jsonl"] = {
                    "sha256": self.hashed.hexdigest(),
                    "bytes": file.tell(),
                    "lines": self.documents + len(documents),
                }
            write_json(aside / "manifest.json", self._described(described, files))
        new = np.arange(self.documents, self.documents + len(documents))
        digest = str(described["corpus.jsonl"]["sha256"])
        remember_corpus_facts(digest, table, np.concatenate([self.owner, new]))

    def _described(
        self, files: Mapping[str, Mapping[str, Any]], changed: Mapping[str, Sequence[str]]
    ) -> dict[str, Any]:
        """The manifest of the updated dataset."""
        digests = {name: str(entry["sha256"]) for name, entry in files.items()}
        counts = {**self.manifest["counts"]}
        counts["documents"] = files["corpus.jsonl"]["lines"]
        counts["rules"] = files["rules.jsonl"]["lines"]
        counts |= {kind: len(names) for kind, names in self.labels.items()}
        if "queries.jsonl" in changed:
            asked = [json.loads(line)["metadata"] for line in changed["queries.jsonl"]]
            counts["queries"] = {
                split: sum(row.get("split", "test") == split for row in asked)
                for split in counts["queries"]
            }
            counts["query_sets"] = {
                name: sum(name in row.get("sets", ()) for row in asked)
                for name in counts["query_sets"]
            }
            counts["judgements"] = {
                split: len(changed[f"qrels/{split}.tsv"]) - 1 for split in counts["judgements"]
            }
        settings = {**self.manifest["settings"]}
        settings["facts_added"] = self._added + counts["documents"] - self.documents
        return {
            **self.manifest,
            "fingerprint": dataset_fingerprint(digests, self.manifest.get("calendar") or {}),
            "settings": settings,
            "counts": counts,
            "statistics": {},
            "files": dict(files),
        }


class _Told(NamedTuple):
    """A rule's line, and what it is sorted by."""

    head: str
    confidence: float
    text: str
    line: str


def _place(told: _Told) -> tuple[str, float, str]:
    """The order of mined rules, as :func:`rulerag.mining.temporal.as_rules` has it."""
    return told.head, -told.confidence, told.text


class _RuleLines:
    """The lines of known rules of one atom, by their atoms; each can take new counts.

    Args:
        lines: of ``rules.jsonl``.
    """

    def __init__(self, lines: Iterable[tuple[int, str]]) -> None:
        self._ends: dict[str, str] = {}
        for _, line in lines:
            atoms, _, rest = line.partition(', "temporal": true, ')
            self._ends[atoms] = rest.partition(', "text": ')[2]

    def recounted(self, found: TemporalRules, relations: Vocabulary) -> list[_Told | None]:
        """The lines of counted rules; None of one that is not known."""
        names = [to_json(name) for name in relations.names]
        ends = ('"subject": "?x", "object": "?y"', '"subject": "?y", "object": "?x"')
        atom = [f'{{"relation": {name}, {end}}}' for end in ends for name in names]
        told: list[_Told | None] = []
        columns = (found.rule[:, 0], found.rule[:, 2], found.support, found.body_size)
        for head, body, support, size in zip(*(c.tolist() for c in columns), strict=True):
            atoms = f'{{"head": {atom[head]}, "body": [{atom[body]}]'
            end = self._ends.get(atoms)
            if end is None:
                told.append(None)
                continue
            confidence = support / size
            counts = (
                f'"support": {support}, "head_coverage": null, "standard_confidence": null, '
                f'"pca_confidence": null, "body_size": {size}, "pca_body_size": null, '
                f'"confidence": {confidence!r}'
            )
            line = f'{atoms}, "temporal": true, {counts}, "text": {end}'
            text = end[: end.rindex(', "miner": ')]
            text = json.loads(text) if "\\" in text else text[1:-1]
            told.append(_Told(relations.names[head], confidence, text, line))
        return told


class _Names:
    """Names by id, to which a graph's new ones are added, and their labels.

    Args:
        names: the known ones; a copy grows.
        labels: those that differ from their names; grows too.
    """

    def __init__(self, names: Sequence[str], labels: dict[str, str]) -> None:
        self.names, self._labels = list(names), labels
        self._ids = {name: i for i, name in enumerate(self.names)}
        self._by_label = {label: name for name, label in labels.items()}
        self._taken: set[str] | None = None

    def id(self, name: str, theirs: Vocabulary) -> int:
        """The id of a raw name or a label, a new one where neither is known."""
        if name not in self._ids:
            name = self._by_label.get(name, name)
        if name in self._ids:
            return self._ids[name]
        if name not in self._labels:
            label = self._free(theirs.label(name))
            if label != name:
                self._labels[name] = label
                self._by_label[label] = name
        self.names.append(name)
        return self._ids.setdefault(name, len(self._ids))

    def _free(self, label: str) -> str:
        """The label, numbered where answers could not tell it from a known one."""
        if self._taken is None:
            known = [self._labels.get(name, name) for name in self.names]
            self._taken = set(normalize_answers([*known, *self._labels.values()]))
        free, number = label, 1
        while normalize_answer(free) in self._taken:
            number += 1
            free = f"{label} ({number})"
        self._taken.add(normalize_answer(free))
        return free

    def vocabulary(self) -> Vocabulary:
        """The names with their labels."""
        return Vocabulary(self.names, [self._labels.get(name, name) for name in self.names])


def _graph_of(table: FactTable, manifest: Mapping[str, Any]) -> KnowledgeGraph:
    return KnowledgeGraph(
        table.entities,
        table.relations,
        {"train": table},
        calendar=table.calendar,
        name=str(manifest["name"]),
    )


def _mining_settings(manifest: Mapping[str, Any], home: Path) -> RuleQASettings:
    """How the rules of a dataset were mined.

    Raises:
        DataError: not by :func:`rulerag.ruleqa.build`, or of other facts than the documents state.
    """
    stated = manifest.get("settings") or {}
    known = {key: stated[key] for key in RuleQASettings.model_fields if key in stated}
    if "miner" not in known or not manifest.get("files", {}).get("rules.jsonl"):
        raise DataError("was not built from a graph, so no facts can join it", path=home)
    settings = RuleQASettings(**known)
    if settings.corpus != "train" or stated.get("variant") == "degenerate":
        what = "corpus=train+valid" if settings.corpus != "train" else "the degenerate variant"
        raise DataError(
            f"{what}: its rules were not mined of what its documents state",
            path=home,
            hint=_BUILD,
        )
    return settings
