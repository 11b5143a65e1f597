"""Which files make a graph, and in which layout: found from names and first lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rulerag.errors import ConfigError, DataError, DataFormatError, EmptyDataError, did_you_mean
from rulerag.kg.tables import excerpt, read_head

__all__ = [
    "LAYOUTS",
    "GraphFiles",
    "Sketch",
    "find_graph",
    "is_interval_date",
    "is_jsonl",
    "sketch",
]

#: What each layout is; the keys are the values of ``layout=``.
LAYOUTS: Mapping[str, str] = {
    "quadruples": "train.txt with 'subject relation object time [extra]', ids or names",
    "openke": "train2id.txt: a count, then 'head tail relation' ids",
    "triples": "train.txt with three columns, ids or names",
    "intervals": "train.txt with 'subject relation object start end', dates like 1946-##-##",
    "intervals-by-time": "as intervals; the splits are cut anew by time, for forecasting",
}

_SPLITS = {"train": ("train",), "valid": ("valid", "dev"), "test": ("test",)}
_ENDINGS = ("", ".txt", ".tsv", ".jsonl")
_FILE_ENDINGS = [f"{ending}{packed}" for ending in _ENDINGS for packed in ("", ".gz")]
_INTEGER = re.compile(r"-?\d+")
_INTERVAL_DATE = re.compile(r"####|(####|-?\d{1,4})-(##|\d\d)-(##|\d\d)")
_SAMPLE = 50  # lines looked at; the whole file is checked when it is read


@dataclass(frozen=True)
class GraphFiles:
    """The files of one graph.

    Args:
        root: the folder, or the single file.
        splits: the file of each split; ``train`` alone for a single file.
        layout: a key of :data:`LAYOUTS`.
        coded: whether facts are ids of the two vocabulary files.
        entity2id: names of entity ids, where there is such a file.
        relation2id: names of relation ids, where there is such a file.
        stat: the numbers of entities and relations, where there is such a file.
    """

    root: Path
    splits: Mapping[str, Path]
    layout: str
    coded: bool
    entity2id: Path | None = None
    relation2id: Path | None = None
    stat: Path | None = None

    @property
    def folder(self) -> Path:
        """The folder that holds the files."""
        return self.root if self.root.is_dir() else self.root.parent

    @property
    def name(self) -> str:
        """What the graph is called: its folder, or its file without endings."""
        return (self.root.resolve() if self.root.is_dir() else Path(_stem(self.root.name))).name


@dataclass(frozen=True, slots=True)
class Sketch:
    """What the first lines of a file of facts look like."""

    layout: str
    coded: bool


def is_interval_date(text: str) -> bool:
    """Whether a text is ``1946-##-##``, ``####-##-##`` (unknown) or ``####``."""
    return _INTERVAL_DATE.fullmatch(text) is not None


def is_jsonl(path: Path) -> bool:
    """Whether a file holds one JSON object a line, by its name."""
    return path.name.removesuffix(".gz").endswith(".jsonl")


def find_graph(path: str | Path, layout: str = "auto") -> GraphFiles:
    """Find the files of a graph and their layout.

    Args:
        path: a folder, or one file of facts.
        layout: a key of :data:`LAYOUTS`, or ``auto``.

    Raises:
        DataError: there is no such path, or no file of facts in it.
        EmptyDataError: the training file is empty.
        DataFormatError: the layout cannot be told, or two layouts are mixed.
        ConfigError: no such layout.
    """
    if layout not in ("auto", *LAYOUTS):
        raise ConfigError(
            f"there is no layout {layout!r}",
            key="layout",
            hint=did_you_mean(layout, ("auto", *LAYOUTS)),
        )
    root = Path(path)
    if not root.exists():
        raise DataError("no such file or folder", path=root, hint=_neighbours(root))
    folder = root if root.is_dir() else root.parent
    found = {entry.name: entry for entry in sorted(folder.iterdir()) if entry.is_file()}
    entity2id = _first(found, ("entity2id",))
    relation2id = _first(found, ("relation2id",))
    splits, openke = _choose_splits(root, found, layout)
    sketches = _sketches(splits, openke)
    guess = _agree(sketches, splits)
    chosen = _chosen_layout(layout, guess, splits["train"])
    coded = guess.coded and (entity2id is not None or chosen not in ("triples",))
    if coded:
        for missing, present in (("entity2id.txt", entity2id), ("relation2id.txt", relation2id)):
            if present is None:
                raise DataError(
                    f"{splits['train'].name} holds ids, but there is no {missing} to name them",
                    path=folder,
                    hint=f"put {missing} beside it (lines 'name TAB id')",
                )
    return GraphFiles(root, splits, chosen, coded, entity2id, relation2id, _first(found, ("stat",)))


def sketch(path: Path) -> Sketch | None:
    """What a file of facts looks like; None when it has no line.

    Raises:
        DataFormatError: no layout has such lines.
    """
    lines = read_head(path)[:_SAMPLE]
    if not lines:
        return None
    if is_jsonl(path):
        return Sketch("quadruples" if '"timestamp"' in lines[0][1] else "triples", coded=False)
    # Most lines decide: a broken one must be named when it is read, not change the layout.
    widths = [line.count("\t") + 1 for _, line in lines]
    width = Counter(widths).most_common(1)[0][0]
    rows = [line.split("\t") for _, line in lines if line.count("\t") + 1 == width]
    whole = _most(rows, lambda row: all(_INTEGER.fullmatch(text) for text in row))
    if width == 3:
        return Sketch("triples", whole)
    dated = width == 5 and any("#" in row[3] + row[4] or "-" in row[3][1:] for row in rows)
    if dated and _most(rows, _like_interval):
        ids = _most(rows, lambda row: all(_INTEGER.fullmatch(text) for text in row[:3]))
        return Sketch("intervals", ids)
    if width == 4 or (width == 5 and whole):
        return Sketch("quadruples", whole)
    number, line = lines[widths.index(width)]
    raise DataFormatError(
        f"found {width} TAB-separated columns, {excerpt(line)}, which no layout has",
        path=path,
        line=number,
        hint="3 columns for triples, 4 for dated facts, 5 for id quadruples or intervals"
        + ("; part columns by TAB, not by spaces" if width == 1 and " " in line else ""),
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
    return name


def _first(found: Mapping[str, Path], stems: Iterable[str]) -> Path | None:
    names = [f"{stem}.txt{gz}" for stem in stems for gz in ("", ".gz")]
    return next((found[name] for name in names if name in found), None)


def _choose_splits(
    root: Path, found: Mapping[str, Path], layout: str
) -> tuple[dict[str, Path], bool]:
    """The file of each split, and whether they are OpenKE's."""
    if root.is_file():
        openke = _stem(root.name).endswith("2id") and layout in ("auto", "openke")
        openke = openke and not _stem(root.name).startswith("triple")
        return {"train": root}, openke or layout == "openke"
    plain = _splits_by_name(found, "")
    openke_files = _splits_by_name(found, "2id")
    if "train" in plain and "train" in openke_files and layout == "auto":
        raise DataFormatError(
            f"two layouts are mixed here: {plain['train'].name} and {openke_files['train'].name}",
            path=root,
            hint="choose one with layout='openke', or another layout for the first",
        )
    openke = layout == "openke" or (layout == "auto" and "train" not in plain)
    splits = openke_files if openke and ("train" in openke_files or layout != "auto") else plain
    if "train" not in splits:
        raise DataError(_nothing_found(found, layout), path=root, hint=_advice(splits))
    return splits, splits is openke_files


def _splits_by_name(found: Mapping[str, Path], suffix: str) -> dict[str, Path]:
    splits: dict[str, Path] = {}
    for split, stems in _SPLITS.items():
        names = [f"{stem}{suffix}{ending}" for stem in stems for ending in _FILE_ENDINGS]
        here = [name for name in names if name in found]
        if len(here) > 1:
            raise DataFormatError(
                f"two files for the split {split}: {here[0]} and {here[1]}",
                path=found[here[0]].parent,
                hint="keep one of them",
            )
        if here:
            splits[split] = found[here[0]]
    return splits


def _nothing_found(found: Mapping[str, Path], layout: str) -> str:
    wanted = "train2id.txt" if layout == "openke" else "train.txt, train.tsv, train.jsonl"
    if layout == "auto":
        wanted += " or train2id.txt (OpenKE)"
    names = list(found)
    held = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return f"no training facts here: looked for {wanted}, each also .gz; found {held or 'no file'}"


def _advice(splits: Mapping[str, Path]) -> str:
    if splits:
        return "the splits " + " and ".join(splits) + " are here, train is missing"
    return "give a graph folder or one file of facts; layouts: " + ", ".join(LAYOUTS)


def _neighbours(root: Path) -> str | None:
    try:
        known = [entry.name for entry in root.parent.iterdir()]
    except OSError:
        return "its parent folder does not exist either"
    return did_you_mean(root.name, known)


def _sketches(splits: Mapping[str, Path], openke: bool) -> dict[str, Sketch]:
    if openke:
        return {"train": Sketch("openke", coded=True)}
    looks = {split: sketch(path) for split, path in splits.items()}
    if looks["train"] is None:
        raise EmptyDataError("holds no fact", path=splits["train"])
    return {split: look for split, look in looks.items() if look is not None}


def _agree(sketches: Mapping[str, Sketch], splits: Mapping[str, Path]) -> Sketch:
    first = sketches["train"]
    for split, look in sketches.items():
        if look != first:
            raise DataFormatError(
                f"two layouts are mixed here: {splits['train'].name} looks like "
                f"{_words(first)}, {splits[split].name} like {_words(look)}",
                path=splits[split].parent,
                hint="bring all splits into one layout",
            )
    return first


def _words(look: Sketch) -> str:
    return f"{look.layout} of {'ids' if look.coded else 'names'}"


def _chosen_layout(layout: str, guess: Sketch, train: Path) -> str:
    """The layout asked for, where the file can have it."""
    if layout == "auto" or layout == guess.layout:
        return guess.layout
    if layout == "intervals-by-time" and guess.layout == "intervals":
        return layout
    if layout.startswith("intervals") and guess == Sketch("quadruples", coded=True):
        return layout  # bare years, as in '0 5 1 1946 1950'
    raise DataFormatError(
        f"does not have the layout {layout!r}; it looks like {_words(guess)}",
        path=train,
        hint=f"{layout}: {LAYOUTS[layout]}",
    )
