"""Files of readable labels: where they lie, and the labels that they offer for each name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rulerag.errors import DataError, DataFormatError
from rulerag.io import excerpt, read_json, read_lines
from rulerag.kg.labels.candidates import LabelCandidates

#: The names under which label files are looked for in a folder.
LABEL_FILES = (
    "entity2wikidata.json",
    "entity_labels.tsv",
    "relation_labels.tsv",
    "wiki_actual_rel.txt",
    "labels.tsv",
)

_LONGEST_DESCRIPTION = 60  # characters; beyond it an identifier reads better


@dataclass(frozen=True)
class GivenLabels:
    """Labels that files give.

    Args:
        candidates: by raw name, labels from short to exact (see
            :mod:`rulerag.kg.labels.candidates`).
        paths: the files they come from.
    """

    candidates: Mapping[str, LabelCandidates] = field(default_factory=dict)
    paths: tuple[Path, ...] = ()


def find_labels(folder: Path, beside: str = "") -> GivenLabels:
    """The labels in a graph folder, else those in the folder of labels beside it.

    Beside ``NAME/`` that is ``NAME_labels/``; a public graph finds its own whatever its folder
    is called.

    Args:
        folder: the graph folder.
        beside: the folder of labels that belongs to a public graph, if it is one.
    """
    here = folder.resolve()
    names = filter(None, (f"{here.name}_labels", beside))
    for place in (here, *(here.parent / name for name in names)):
        if paths := _label_files(place):
            return _read_all(paths)
    return GivenLabels()


def read_labels(path: str | Path) -> GivenLabels:
    """The labels of one file, or of all label files of a folder.

    A ``.json`` file is one object: name to label, or to an object with ``label`` and maybe
    ``description`` and ``wikidata_id``. Any other file has lines ``name TAB label``, or
    ``name TAB id TAB label [TAB …]``.

    Raises:
        DataError: no such path, or a folder without label files.
        DataFormatError: a line or value of another form.
    """
    source = Path(path)
    if not source.exists():
        raise DataError("no such file or folder of labels", path=source)
    paths = [source] if source.is_file() else _label_files(source)
    if not paths:
        raise DataError(
            "no label files here", path=source, hint="looked for " + ", ".join(LABEL_FILES)
        )
    return _read_all(paths)


def _label_files(folder: Path) -> list[Path]:
    return [folder / name for name in LABEL_FILES if (folder / name).is_file()]


def _read_all(paths: list[Path]) -> GivenLabels:
    candidates: dict[str, LabelCandidates] = {}
    for path in paths:
        candidates.update(_read_json(path) if path.suffix == ".json" else _read_table(path))
    return GivenLabels(candidates, tuple(paths))


def _read_table(path: Path) -> dict[str, LabelCandidates]:
    candidates = {}
    for number, line in read_lines(path):
        fields = line.split("\t")
        place = 2 if len(fields) > 2 and fields[1].isdigit() else 1
        if len(fields) < 2 or not fields[0]:
            raise DataFormatError(
                f"expected 'name TAB label', found {excerpt(line)}", path=path, line=number
            )
        candidates[fields[0]] = _candidates(fields[0], fields[place])
    return candidates


def _read_json(path: Path) -> dict[str, LabelCandidates]:
    value = read_json(path)
    if not isinstance(value, dict):
        raise DataFormatError("expected one object, name to label", path=path, line=1)
    candidates = {}
    for name, entry in value.items():
        row: Any = entry if isinstance(entry, dict) else {"label": entry}
        label = row.get("label")
        if label is None:
            continue
        if not isinstance(label, str):
            raise DataFormatError(f"expected a text as label, found {label!r}", path=path, key=name)
        qualifiers = (row.get("description"), row.get("wikidata_id"))
        candidates[name] = _candidates(
            name, label, *(r for r in qualifiers if isinstance(r, str) and r)
        )
    return candidates


def _candidates(name: str, label: str, *qualifiers: str) -> LabelCandidates:
    """``Kiss``, then ``Kiss (American rock band)``, at last ``Kiss (Q124179)``."""
    text = " ".join(label.split())
    if " " not in text:
        text = text.replace("_", " ").strip()
    if not text:
        return (name,)
    short = [q for q in qualifiers if len(q) <= _LONGEST_DESCRIPTION]
    return (text, *(f"{text} ({' '.join(q.split())})" for q in (*short, name)))
