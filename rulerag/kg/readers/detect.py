"""Which files make a graph, and in which layout: found from names and first lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rulerag.composition import check_choice
from rulerag.errors import (
    DataError,
    DataFormatError,
    EmptyDataError,
    UnknownNameError,
    did_you_mean,
)
from rulerag.io import excerpt, read_lines
from rulerag.kg.calendar import Calendar
from rulerag.kg.labels import LabelCandidates
from rulerag.kg.readers.headers import NOT_TEXT, has_header, is_neo4j

#: What each layout is; the keys are the values of ``layout=``.
LAYOUTS: Mapping[str, str] = {
    "quadruples": "train.txt with 'subject relation object time [extra]', ids or names",
    "openke": "train2id.txt: a count, then 'head tail relation' ids",
    "triples": "train.txt with three columns, ids or names",
    "intervals": "train.txt with 'subject relation object start end', dates like 1946-##-##",
    "intervals-by-time": "as intervals; the splits are cut anew by time, for forecasting",
    "rdf": "N-Triples, Turtle, RDF/XML, JSON-LD …, by the ending of its files",
    "neo4j": "CSV files of nodes (:ID) and relationships (:START_ID, :END_ID, :TYPE)",
    "table": "CSV or the like with a header: subject, relation, object and maybe a date",
}
#: Where head, relation and tail stand, by the value of ``columns=``.
COLUMN_ORDERS: Mapping[str, tuple[int, int, int]] = {
    "hrt": (0, 1, 2),
    "rht": (1, 0, 2),
    "htr": (0, 2, 1),
}

#: Endings of RDF files, and what rdflib calls their form.
RDF_ENDINGS = {
    **{".nt": "nt", ".ttl": "turtle", ".n3": "n3", ".rdf": "xml", ".owl": "xml"},
    **{".jsonld": "json-ld", ".nq": "nquads", ".trig": "trig"},
}
_SPLITS = {"train": ("train",), "valid": ("valid", "dev"), "test": ("test",)}
_ENDINGS = ("", ".txt", ".tsv", ".jsonl", ".csv")
_INTEGER = re.compile(r"-?\d+")
_INTERVAL_DATE = re.compile(r"####|(####|-?\d{1,4})-(##|\d\d)-(##|\d\d)")
_PLAIN_TIME = re.compile(r"-?\d{1,10}|\d{4}-\d{2}-\d{2}")
_HEAD, _SAMPLE = 1 << 16, 50  # bytes and lines looked at; every line is checked when it is read


@dataclass(frozen=True)
class GraphFiles:
    """The files of one graph.

    Args:
        root: the folder, or the single file.
        splits: the file of each split; ``train`` alone for a single file.
        layout: a key of :data:`LAYOUTS`.
        coded: whether facts are ids of the two vocabulary files.
        vocabularies: the files with the names of entity ids and of relation ids, where facts are
            ids or a folder has both.
        stat: the numbers of entities and relations, where there is such a file.
        parts: all files of the training split, where it has several (RDF, Neo4j).
    """

    root: Path
    splits: Mapping[str, Path]
    layout: str
    coded: bool
    vocabularies: tuple[Path, ...] = ()
    stat: Path | None = None
    parts: tuple[Path, ...] = ()

    @property
    def folder(self) -> Path:
        """The folder that holds the files."""
        return self.root if self.root.is_dir() else self.root.parent

    @property
    def name(self) -> str:
        """What the graph is called: its folder, or its file without endings."""
        return (self.root.resolve() if self.root.is_dir() else Path(_stem(self.root.name))).name


@dataclass
class RawGraph:
    """What the files hold.

    Args:
        entities: names by entity id.
        relations: names by relation id.
        splits: by split, an int32 array of shape (facts, 3 or 4): subject, relation, object and
            the timestamp of dated facts.
        calendar: how the timestamps read, where the files say it.
        notes: what the reader saw, for reports.
        labels: by raw name, the labels that the files give, short to exact.
        aliases: by raw name, what else it is called.
        left_out: by reason, the number of ``rows`` that make no fact, and the ``first_line``.
    """

    entities: list[str]
    relations: list[str]
    splits: dict[str, npt.NDArray[np.int32]]
    calendar: Calendar | None = None
    notes: dict[str, object] = field(default_factory=dict)
    labels: Mapping[str, LabelCandidates] = field(default_factory=dict)
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    left_out: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


class _Format(NamedTuple):
    """What the first lines of a file look like: its layout, and whether it holds ids."""

    layout: str
    coded: bool

    def __str__(self) -> str:
        return f"{self.layout} of {'ids' if self.coded else 'names'}"


def is_interval_date(text: str) -> bool:
    """Whether a text is ``1946-##-##``, ``####-##-##`` (unknown) or ``####``."""
    return _INTERVAL_DATE.fullmatch(text) is not None


def is_jsonl(path: Path) -> bool:
    """Whether a file holds one JSON object a line, by its name."""
    return path.name.removesuffix(".gz").endswith(".jsonl")


def unknown_name(
    text: str, place: int, path: Path | None, line: int, known: Sequence[str] = ()
) -> UnknownNameError:
    """The error about a name or an id that a vocabulary file lacks.

    Args:
        text: the name or id.
        place: 0 for a subject, 1 for a relation, 2 for an object.
        path: the file that has it.
        line: the line.
        known: the names that the vocabulary has, where it is a name.
    """
    what = ("entity", "relation", "entity")[place]
    hint = "the files may be of two graphs, or the columns in another order"
    return UnknownNameError(
        f"the {('subject', 'relation', 'object')[place]} {text!r} is not in {what}2id.txt",
        path=path,
        line=line,
        hint=did_you_mean(text, known) if known else hint,
    )


def find_graph(path: str | Path, layout: str = "auto") -> GraphFiles:
    """Find the files of a graph and their layout.

    Args:
        path: a folder, or one file of facts.
        layout: a key of :data:`LAYOUTS`, or ``auto``.

    Raises:
        DataError: there is no such path, or no file of facts in it.
        EmptyDataError: the training file is empty.
        DataFormatError: the files have no layout that is known, or two layouts.
        ConfigError: no such layout.
    """
    check_choice("layout", layout, ("auto", *LAYOUTS))
    root = Path(path)
    if not root.exists():
        raise DataError("no such file or folder", path=root, hint=_neighbours(root))
    folder = root if root.is_dir() else root.parent
    entries = {entry.name: entry for entry in sorted(folder.iterdir()) if entry.is_file()}
    if (several := _in_parts(root, entries, layout)) is not None:
        return several
    splits, openke = _choose_splits(root, entries, layout)
    if layout == "table" or (layout == "auto" and not openke and _is_table(splits["train"])):
        return GraphFiles(root, splits, "table", False)
    look = _Format("openke", True) if openke else _common_format(splits)
    chosen = _chosen_layout(layout, look, splits["train"])
    files = {name: _first(entries, name) for name in ("entity2id", "relation2id")}
    coded = look.coded and (files["entity2id"] is not None or chosen != "triples")
    for name, file in files.items():
        if coded and file is None:
            raise DataError(
                f"{splits['train'].name} holds ids, but there is no {name}.txt to name them",
                path=folder,
                hint=f"put {name}.txt beside it (lines 'name TAB id')",
            )
    entities, relations = files.values()
    # Beside a single file of names, vocabulary files may belong to something else.
    if entities is None or relations is None or not (coded or root.is_dir()):
        return GraphFiles(root, splits, chosen, coded)
    return GraphFiles(root, splits, chosen, coded, (entities, relations), _first(entries, "stat"))


def _in_parts(root: Path, entries: Mapping[str, Path], layout: str) -> GraphFiles | None:
    """The graph of RDF files or of an export of Neo4j; None where it is neither."""
    files = [root] if root.is_file() else list(entries.values())
    # What lies beside the splits of another layout belongs to something else.
    alone = root.is_file() or not (_splits_by_name(entries, "") or _splits_by_name(entries, "2id"))
    rdf = [file for file in files if _ending(file) in RDF_ENDINGS]
    if rdf and (layout == "rdf" or (layout == "auto" and alone)):
        stems = {file.name.partition(".")[0]: file for file in rdf}
        splits = {s: stems[name] for s, names in _SPLITS.items() for name in names if name in stems}
        if "train" in splits and root.is_dir():
            return GraphFiles(root, splits, "rdf", False)
        return GraphFiles(root, {"train": rdf[0]}, "rdf", False, parts=tuple(rdf))
    if layout == "neo4j" or (layout == "auto" and alone):
        tables = [file for file in files if _ending(file) in (".csv", ".tsv")]
        parts = [file for file in tables if is_neo4j(file)]
        if parts:
            return GraphFiles(root, {"train": parts[0]}, "neo4j", False, parts=tuple(parts))
    if layout in ("rdf", "neo4j"):
        raise DataFormatError(
            f"does not have the layout {layout!r}", path=root, hint=f"{layout}: {LAYOUTS[layout]}"
        )
    return None


def _ending(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def _is_table(path: Path) -> bool:
    """Whether a file has to be read by the names of its columns.

    TAB-separated names with whole numbers or ISO dates are read without them.
    """
    name = path.name.removesuffix(".gz").lower()
    if name.endswith((".csv", *NOT_TEXT)):
        return True
    if is_jsonl(path) or not has_header(path):
        return False
    rows = [line.split("\t") for _, line in list(read_lines(path, _HEAD))[1:_SAMPLE]]
    return not rows or len(rows[0]) not in (3, 4) or not _most(rows, _like_plain)


def _like_plain(row: list[str]) -> bool:
    return len(row) == 3 or (len(row) == 4 and _PLAIN_TIME.fullmatch(row[3]) is not None)


def _common_format(splits: Mapping[str, Path]) -> _Format:
    """The format that all splits have."""
    looks = {split: look for split, path in splits.items() if (look := _format(path)) is not None}
    if "train" not in looks:
        raise EmptyDataError("holds no fact", path=splits["train"])
    for split, look in looks.items():
        if look != looks["train"]:
            raise DataFormatError(
                f"two layouts are mixed here: {splits['train'].name} looks like "
                f"{looks['train']}, {splits[split].name} like {look}",
                path=splits[split].parent,
                hint="bring all splits into one layout",
            )
    return looks["train"]


def _format(path: Path) -> _Format | None:
    """What a file of facts looks like; None when it has no line."""
    lines = list(read_lines(path, _HEAD))[:_SAMPLE]
    if not lines:
        return None
    if is_jsonl(path):
        return _Format("quadruples" if '"timestamp"' in lines[0][1] else "triples", False)
    # Most lines decide: a broken one must be named when it is read, not change the layout.
    widths = [line.count("\t") + 1 for _, line in lines]
    width = Counter(widths).most_common(1)[0][0]
    rows = [line.split("\t") for _, line in lines if line.count("\t") + 1 == width]
    whole = _most(rows, lambda row: all(_INTEGER.fullmatch(text) for text in row))
    if width == 3:
        return _Format("triples", whole)
    dated = width == 5 and any("#" in row[3] + row[4] or "-" in row[3][1:] for row in rows)
    if dated and _most(rows, _like_interval):
        ids = _most(rows, lambda row: all(_INTEGER.fullmatch(text) for text in row[:3]))
        return _Format("intervals", ids)
    if width == 4 or (width == 5 and whole):
        return _Format("quadruples", whole)
    number, line = lines[widths.index(width)]
    raise DataFormatError(
        f"found {width} TAB-separated columns, {excerpt(line)}, which no layout has",
        path=path,
        line=number,
        hint="3 columns for triples, 4 for dated facts, 5 for id quadruples or intervals"
        + (
            f"; part columns by TAB: tr '|' '\\t' < {path.name} > graph.tsv"
            if width == 1 and "|" in line
            else "; part columns by TAB, not by spaces" * (width == 1 and " " in line)
        ),
    )


def _most(rows: list[list[str]], holds: Callable[[list[str]], bool]) -> bool:
    return 2 * sum(map(holds, rows)) >= len(rows)


def _like_interval(row: list[str]) -> bool:
    return all(is_interval_date(text) or _INTEGER.fullmatch(text) for text in row[3:])


def _stem(name: str) -> str:
    """The name without ``.gz`` and without an ending of a table."""
    name = name.removesuffix(".gz")
    for ending in _ENDINGS[1:]:
        name = name.removesuffix(ending)
    for ending in RDF_ENDINGS:
        name = name.removesuffix(ending)
    return name


def _first(files: Mapping[str, Path], stem: str) -> Path | None:
    return next((files[n] for n in (f"{stem}.txt", f"{stem}.txt.gz") if n in files), None)


def _choose_splits(
    root: Path, files: Mapping[str, Path], layout: str
) -> tuple[dict[str, Path], bool]:
    """The file of each split, and whether they are OpenKE's."""
    if root.is_file():
        stem = _stem(root.name)
        openke = stem.endswith("2id") and layout == "auto" and not stem.startswith("triple")
        return {"train": root}, openke or layout == "openke"
    plain, openke_files = (_splits_by_name(files, suffix) for suffix in ("", "2id"))
    if "train" in plain and "train" in openke_files and layout == "auto":
        raise DataFormatError(
            f"two layouts are mixed here: {plain['train'].name} and {openke_files['train'].name}",
            path=root,
            hint="choose one with layout='openke', or another layout for the first",
        )
    openke = layout == "openke" or (layout == "auto" and "train" in openke_files)
    splits = openke_files if openke else plain
    tables = [place for name, place in files.items() if name.lower().endswith((".csv", ".csv.gz"))]
    if not splits and layout in ("auto", "table") and len(tables) == 1:
        splits = {"train": tables[0]}
    if "train" not in splits:
        raise _nothing_found(root, files, splits, layout)
    return splits, openke


def _splits_by_name(files: Mapping[str, Path], suffix: str) -> dict[str, Path]:
    splits: dict[str, Path] = {}
    for split, stems in _SPLITS.items():
        names = [f"{s}{suffix}{end}{gz}" for s in stems for end in _ENDINGS for gz in ("", ".gz")]
        here = [name for name in names if name in files]
        if len(here) > 1:
            raise DataFormatError(
                f"two files for the split {split}: {here[0]} and {here[1]}",
                path=files[here[0]].parent,
                hint="keep one of them",
            )
        if here:
            splits[split] = files[here[0]]
    return splits


def _nothing_found(
    root: Path, files: Iterable[str], splits: Iterable[str], layout: str
) -> DataError:
    wanted = (
        "train2id.txt" if layout == "openke" else "train.txt, train.tsv, train.csv, train.jsonl"
    )
    if layout == "auto":
        wanted += " or train2id.txt (OpenKE)"
    names = list(files)
    held = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    here, advice = " and ".join(splits), f"give a folder or one file; layouts: {', '.join(LAYOUTS)}"
    return DataError(
        f"no training facts here: looked for {wanted}, each also .gz; found {held or 'no file'}",
        path=root,
        hint=f"the splits {here} are here, train is missing" if here else advice,
    )


def _neighbours(root: Path) -> str | None:
    try:
        known = [entry.name for entry in root.parent.iterdir()]
    except OSError:
        return "its parent folder does not exist either"
    return did_you_mean(root.name, known) if known else "the folder that it should be in is empty"


def _chosen_layout(layout: str, look: _Format, train: Path) -> str:
    """The layout that was named, where the file can have it."""
    if layout in ("auto", look.layout):
        return look.layout
    bare_years = look == _Format("quadruples", True)  # as in '0 5 1 1946 1950'
    if layout.startswith("intervals") and (bare_years or look.layout == "intervals"):
        return layout
    raise DataFormatError(
        f"does not have the layout {layout!r}; it looks like {look}",
        path=train,
        hint=f"{layout}: {LAYOUTS[layout]}",
    )
