"""Files that no public repository holds as they are: rebuilt from others by a stated rule."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path

from rulerag.errors import DataFormatError

__all__ = ["REBUILT"]

# The years of WIKI's training split; its timestamps count from the first.
_FIRST_YEAR, _LAST_YEAR = 1786, 1996


def wiki_train(parts: Path) -> bytes:
    """``wiki/train.txt`` from the intervals of Wikidata12k.

    Read train, then valid, then test, in line order. The year of a date is what stands before its
    first ``-``; an unknown start is minus infinity, an unknown end plus infinity. For each year Y
    from 1786 to 1996, write each fact with start ≤ Y ≤ end as ``s TAB r TAB o TAB (Y - 1786) TAB
    0`` (Jin et al. 2020, RE-Net, arXiv:1904.05530).

    Args:
        parts: a folder with ``train.txt``, ``valid.txt`` and ``test.txt`` of ``wiki_intervals``.

    Raises:
        DataFormatError: a line is no interval; names file and line.
    """
    years: list[list[str]] = [[] for _ in range(_FIRST_YEAR, _LAST_YEAR + 1)]
    for name in ("train.txt", "valid.txt", "test.txt"):
        for fact, start, end in _intervals(parts / name):
            first, last = max(start, _FIRST_YEAR), min(end, _LAST_YEAR)
            for year in range(first, last + 1):
                years[year - _FIRST_YEAR].append(fact)
    lines = (f"{fact}\t{year}\t0\n" for year, facts in enumerate(years) for fact in facts)
    return "".join(lines).encode()


def _intervals(path: Path) -> Iterator[tuple[str, int, int]]:
    """Fact, first year and last year of each line."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            subject, relation, object_, start, end = line.split("\t")
            yield (
                f"{subject}\t{relation}\t{object_}",
                _year(start, _FIRST_YEAR),
                _year(end, _LAST_YEAR),
            )
        except ValueError:
            raise DataFormatError(
                f"expected subject, relation, object, start and end, found {line!r}",
                path=path,
                line=number,
            ) from None


def _year(date: str, unknown: int) -> int:
    told = date.split("-", 1)[0]
    return unknown if told == "####" else int(told)


def entity_labels(parts: Path) -> bytes:
    """``wiki_labels/entity_labels.tsv``: ``Q-id TAB id TAB English label TAB source``.

    In the order of ``wiki/entity2id.txt``; the first source that has a label wins:
    LiterallyWikidata, FB15k-237's Wikidata labels, the football teams of reep.

    Args:
        parts: a folder with ``entity2id.txt``, ``literallywikidata.txt``,
            ``entity2wikidata.json`` and ``reep.csv``.
    """
    pairs = (line.split("\t", 1) for line in _lines(parts / "literallywikidata.txt"))
    freebase = json.loads((parts / "entity2wikidata.json").read_text(encoding="utf-8")).values()
    with open(parts / "reep.csv", encoding="utf-8", newline="") as file:
        teams = {row["key_wikidata"]: row["name"] for row in csv.DictReader(file)}
    sources = {
        "literallywikidata": {pair[0]: pair[1] for pair in pairs if len(pair) == 2},
        "fb15k237": {e.get("wikidata_id"): e.get("label") for e in freebase},
        "reep": teams,
    }
    rows = []
    for line in _lines(parts / "entity2id.txt"):
        name, number = line.split("\t")
        for source, labels in sources.items():
            if labels.get(name):
                rows.append(f"{name}\t{number}\t{labels[name]}\t{source}\n")
                break
    return "".join(rows).encode()


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").rstrip("\n").split("\n")


#: How a file of ``data_sources.json`` with the key ``rebuilt`` is made from its parts.
REBUILT: dict[str, Callable[[Path], bytes]] = {
    "wiki_train": wiki_train,
    "entity_labels": entity_labels,
}
