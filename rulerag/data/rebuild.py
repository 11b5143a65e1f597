"""Files that no public repository holds as they are: rebuilt from others by a stated rule."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

from rulerag.io import read_lines
from rulerag.kg.readers import gather_intervals

# The years of WIKI's training split; its timestamps count from the first.
_FIRST_YEAR, _LAST_YEAR = 1786, 1996


def wiki_train(parts: Path) -> bytes:
    """``wiki/train.txt`` from the intervals of Wikidata12k.

    Read train, then valid, then test, in line order. For each year Y from 1786 to 1996, write each
    fact that holds in Y as ``s TAB r TAB o TAB (Y - 1786) TAB 0`` (see
    :mod:`rulerag.kg.readers.intervals`).

    Args:
        parts: a folder with ``train.txt``, ``valid.txt`` and ``test.txt`` of ``wiki_intervals``.

    Raises:
        DataFormatError: a line is no interval; names file and line.
    """
    splits = {split: parts / f"{split}.txt" for split in ("train", "valid", "test")}
    facts, intervals = gather_intervals(splits)
    rows, years = intervals.expand(_FIRST_YEAR, _LAST_YEAR)
    names = facts.names
    text = ["\t".join(names[code] for code in codes) for codes in facts.table[:, :3].tolist()]
    pairs = zip(rows.tolist(), (years - _FIRST_YEAR).tolist(), strict=True)
    return "".join(f"{text[row]}\t{year}\t0\n" for row, year in pairs).encode()


def entity_labels(parts: Path) -> bytes:
    """``wiki_labels/entity_labels.tsv``: ``Q-id TAB id TAB English label TAB source``.

    In the order of ``wiki/entity2id.txt``; the first source that has a label wins:
    LiterallyWikidata, FB15k-237's Wikidata labels, the football teams of reep.

    Args:
        parts: a folder with ``entity2id.txt``, ``literallywikidata.txt``,
            ``entity2wikidata.json`` and ``reep.csv``.
    """
    pairs = (line.partition("\t") for _, line in read_lines(parts / "literallywikidata.txt"))
    freebase = json.loads((parts / "entity2wikidata.json").read_text(encoding="utf-8")).values()
    with open(parts / "reep.csv", encoding="utf-8", newline="") as file:
        teams = {row["key_wikidata"]: row["name"] for row in csv.DictReader(file)}
    sources = {
        "literallywikidata": {name: label for name, _, label in pairs},
        "fb15k237": {e.get("wikidata_id"): e.get("label") for e in freebase},
        "reep": teams,
    }
    rows = []
    for _, line in read_lines(parts / "entity2id.txt"):
        name, number = line.split("\t")
        found = next((s for s, labels in sources.items() if labels.get(name)), None)
        if found is not None:
            rows.append(f"{name}\t{number}\t{sources[found][name]}\t{found}\n")
    return "".join(rows).encode()


#: How a file of ``sources.json`` with the key ``rebuilt`` is made from its parts.
REBUILT: dict[str, Callable[[Path], bytes]] = {
    "wiki_train": wiki_train,
    "entity_labels": entity_labels,
}
