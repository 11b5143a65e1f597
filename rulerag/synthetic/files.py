"""Worlds on disk: a graph folder like any other, and the truth beside it.

``train.txt``, ``valid.txt`` and ``test.txt`` hold ``subject TAB relation TAB object [TAB date]``.
``truth.json`` names facts by their line, from 1, and the SHA-256 of each file that it speaks of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rulerag.errors import DataError, DataFormatError, FingerprintError
from rulerag.io import atomic_write, fingerprint_file, prepare_folder, read_json, to_json
from rulerag.kg import FactTable, KnowledgeGraph
from rulerag.rules import Rule
from rulerag.synthetic.draft import QueryTruth
from rulerag.synthetic.planting import QUERY_KINDS, PlantedRule
from rulerag.synthetic.schema import WORLD_CALENDAR

_TRUTH = "truth.json"
_FORMAT = 1
_ASKED = ("valid", "test")


def save_world(
    folder: str | Path,
    graph: KnowledgeGraph,
    planted: Sequence[PlantedRule],
    truths: Mapping[str, QueryTruth],
    made: Mapping[str, Any],
) -> None:
    """Write a world; see :meth:`rulerag.synthetic.World.save`.

    Args:
        folder: where to write.
        graph: its graph.
        planted: its rules.
        truths: by split, what leads to each held-out fact.
        made: its kind, seed and longest rule body.
    """
    target = prepare_folder(folder)
    # Without its truth a folder is still a graph; a truth beside other facts would be wrong.
    (target / _TRUTH).unlink(missing_ok=True)
    for split, table in graph.splits.items():
        with atomic_write(target / f"{split}.txt") as file:
            file.writelines(_lines(table))
    head = {
        "format": _FORMAT,
        **made,
        "sha256": {
            f"{split}.txt": fingerprint_file(target / f"{split}.txt") for split in graph.splits
        },
    }
    with atomic_write(target / _TRUTH) as file:
        file.write(to_json(head)[:-1] + ',\n"rules": [\n')
        rules = ({"planted": p.confidence, **p.rule.to_json()} for p in planted)
        file.write(",\n".join(to_json(rule) for rule in rules) + '\n],\n"queries": {\n')
        for number, (split, truth) in enumerate(truths.items()):
            file.write(f'{"," if number else ""}"{split}": [\n')
            file.write(",\n".join(map(to_json, _queries(truth))) + "\n]\n")
        file.write("}}\n")


def load_world(folder: str | Path) -> dict[str, Any]:
    """The arguments of a world; see :meth:`rulerag.synthetic.World.load`."""
    source = Path(folder)
    path = source / _TRUTH
    if source.is_dir() and not path.exists():
        raise DataError(
            "no truth.json here", path=source, hint="give a folder that World.save wrote"
        )
    content = read_json(path)
    try:
        if content["format"] != _FORMAT:
            raise DataFormatError(f"format {content['format']!r} is unknown", key="format")
        _check_files(source, content["sha256"])
        kind = str(content["kind"])
        dated = kind == "temporal"
        graph = KnowledgeGraph.load(
            source,
            layout="quadruples" if dated else "triples",
            calendar=WORLD_CALENDAR if dated else None,
            columns="hrt",
        )
        planted = [
            PlantedRule(Rule.from_json(row), float(row["planted"])) for row in content["rules"]
        ]
        truth = {
            split: _truth(content["queries"][split], graph.split(split), graph.train, planted)
            for split in _ASKED
        }
        return {
            "graph": graph,
            "planted": tuple(planted),
            "truth": truth,
            "kind": kind,
            "seed": int(content["seed"]),
            "max_body_atoms": int(content["max_body_atoms"]),
        }
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise DataFormatError(
            f"not the truth of a world ({type(error).__name__}: {error})",
            path=path,
            hint="save the world again",
        ) from error
    except DataFormatError as error:
        if error.path is not None:
            raise
        raise DataFormatError(error.message, path=path, key=error.key) from error


def _lines(table: FactTable) -> Iterator[str]:
    """The lines of a table of facts."""
    days = set() if table.timestamp is None else set(table.timestamp.tolist())
    dates = {None: "", **{day: f"\t{table.calendar.format(day)}" for day in days}}
    for fact in table:
        yield f"{fact.subject}\t{fact.relation}\t{fact.object}{dates[fact.timestamp]}\n"


def _queries(truth: QueryTruth) -> Iterator[dict[str, Any]]:
    columns = (truth.row, truth.kind, truth.rule, truth.support)
    for row, kind, rules, supports in zip(*(c.tolist() for c in columns), strict=True):
        ways = [
            {"rule": rule, "train_lines": [r + 1 for r in rows if r >= 0]}
            for rule, rows in zip(rules, supports, strict=True)
            if rule >= 0
        ]
        yield {"line": row + 1, "kind": QUERY_KINDS[kind], "supports": ways}


def _check_files(folder: Path, stated: dict[str, str]) -> None:
    for split in ("train", *_ASKED):
        name = f"{split}.txt"
        if fingerprint_file(folder / name) != stated[name]:
            raise FingerprintError(
                "the facts are not those that truth.json speaks of",
                path=folder / name,
                hint="restore the file or generate the world again",
            )


def _truth(
    rows: list[dict[str, Any]], held_out: FactTable, train: FactTable, rules: list[PlantedRule]
) -> QueryTruth:
    """The columns of a split's queries, one for every held-out fact, in order."""
    rule = np.full((len(rows), 2), -1, dtype=np.int32)
    support = np.full((len(rows), 2, 2), -1, dtype=np.int64)
    fits = [row["line"] for row in rows] == list(range(1, len(held_out) + 1))
    for query, row in enumerate(rows):
        for way, found in enumerate(row["supports"]):
            number, lines = found["rule"], found["train_lines"]
            fits = fits and 0 <= number < len(rules) and len(lines) == len(rules[number].rule.body)
            fits = fits and all(1 <= line <= len(train) for line in lines)
            rule[query, way] = number
            support[query, way, : len(lines)] = np.array(lines) - 1
    if not fits:
        raise DataFormatError("a query speaks of a line or a rule that is not there", key="queries")
    kinds = np.array([QUERY_KINDS.index(row["kind"]) for row in rows], dtype=np.int8)
    return QueryTruth(np.arange(len(rows)), kinds, rule, support)
