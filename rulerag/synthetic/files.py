"""Worlds on disk: a graph folder like any other.

``train.txt``, ``valid.txt`` and ``test.txt`` hold ``subject TAB relation TAB object [TAB date]``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rulerag.io import atomic_write, prepare_folder
from rulerag.kg import FactTable, KnowledgeGraph


def save_graph(folder: str | Path, graph: KnowledgeGraph) -> None:
    """Write the graph of a world; see :meth:`rulerag.synthetic.World.save`.

    Args:
        folder: where to write.
        graph: the graph.

    Raises:
        OutputError: the folder cannot be written.
    """
    target = prepare_folder(folder)
    for split, table in graph.splits.items():
        with atomic_write(target / f"{split}.txt") as file:
            file.writelines(_lines(table))


def _lines(table: FactTable) -> Iterator[str]:
    """The lines of a table of facts."""
    days = set() if table.timestamp is None else set(table.timestamp.tolist())
    dates = {None: "", **{day: f"\t{table.calendar.format(day)}" for day in days}}
    for fact in table:
        yield f"{fact.subject}\t{fact.relation}\t{fact.object}{dates[fact.timestamp]}\n"
