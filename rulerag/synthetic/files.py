"""Worlds on disk: a graph folder like any other, and the truth beside it, to be read by hand.

``train.txt``, ``valid.txt`` and ``test.txt`` hold ``subject TAB relation TAB object [TAB date]``.
``truth.json`` names facts by their line, from 1, and the SHA-256 of each file that it speaks of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rulerag.io import atomic_write, fingerprint_file, prepare_folder, to_json
from rulerag.kg import FactTable, KnowledgeGraph
from rulerag.synthetic.draft import QueryTruth
from rulerag.synthetic.planting import QUERY_KINDS, PlantedRule

_TRUTH = "truth.json"
_FORMAT = 1


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
