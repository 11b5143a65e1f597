"""Runs of `rulerag evaluate`, query by query, and two of them beside each other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from nicegui import ui

from rulerag.evaluation import OUTCOMES
from rulerag.studio.benchmarks import Run, RunRow
from rulerag.studio.pages import parts
from rulerag.studio.pages.parts import acting, card, rank, soft, table, text_label, title
from rulerag.studio.service import Studio

_MOST, _RULES = 200, 30
"""Queries that are shown, and rules to choose from."""


def runs_page(studio: Studio, run: str) -> None:
    """A run by query: what came of each, its rank, its documents; a second one beside it."""
    title("Runs")
    names = studio.runs()
    if names:
        _Runs(studio, names, run if run in names else names[0])
    else:
        soft("No run is open: start the studio with --run FOLDER.")


class _Runs:
    """The filters and what they leave.

    Args:
        studio: the service.
        names: of the runs.
        name: of the one that is shown first.
    """

    def __init__(self, studio: Studio, names: list[str], name: str) -> None:
        self._studio, self._chosen = studio, dict[str, Any]()
        with card():
            with ui.row():
                self._select("run", "Run", names, name)
                self._select("beside", "Beside", ["none", *names])
            with ui.row():
                self._select("outcome", "Outcome", ["any", *OUTCOMES])
                self._select("rule", "A rule that found a document", {"any": "any"})
                self._chosen["words"] = ui.input("Words of the question")
            ui.button("Show", on_click=acting(self._show))
        self._area = ui.column()
        ui.timer(0.1, acting(self._show), once=True)

    def _select(self, key: str, label: str, options: Any, value: str = "") -> None:
        chosen = ui.select(options, label=label, value=value or next(iter(options)))
        self._chosen[key] = chosen.classes("studio-wide-select")

    def _value(self, key: str) -> str:
        value = str(self._chosen[key].value or "").strip()
        return "" if value in ("any", "none") else value

    async def _show(self) -> None:
        self._area.clear()
        run = await asyncio.to_thread(self._studio.run, self._value("run"))
        rules = {rule: run.rules.get(rule, rule)[:90] for rule in list(run.found_by)[:_RULES]}
        counts = {rule: f"{text} ({run.found_by[rule]})" for rule, text in rules.items()}
        kept = self._value("rule") if self._value("rule") in counts else "any"
        self._chosen["rule"].set_options({"any": "any", **counts}, value=kept)
        rows = run.filtered(**{key: self._value(key) for key in ("outcome", "rule", "words")})
        other = self._value("beside")
        second = await asyncio.to_thread(self._studio.run, other) if other else None
        with self._area:
            table(
                ("outcome", "queries", "share", "how it is decided"),
                [
                    (name, str(n), f"{n / max(1, len(run.rows)):.1%}", OUTCOMES[name])
                    for name, n in run.outcomes.items()
                ],
                f"{run.name}: {len(run.rows):,} queries",
            )
            if second is None:
                soft("The rank is that of the first document with an accepted answer.")
                draw_rows([(row,) for row in rows], [run.name], lambda n: _look([run], [rows[n]]))
            else:
                _draw_pair(run, second, {row.query_id for row in rows})


def _draw_pair(first: Run, second: Run, kept: set[str]) -> None:
    pair, names = first.beside(second), (first.name, second.name)
    table(
        (*(f"in {name}" for name in names), "queries"),
        [
            (before, now, str(n))
            for (before, now), n in sorted(pair.moves.items(), key=lambda move: -move[1])
            if before != now
        ],
        f"{len(pair.rows):,} queries in both; how outcomes changed",
    )
    rows = [both for both in pair.changed if both[0].query_id in kept]
    soft(f"{len(rows):,} queries came out otherwise:")
    draw_rows(rows, names, lambda number: _look([first, second], rows[number]))


def draw_rows(
    rows: Sequence[Sequence[RunRow]], names: Sequence[str], look: Callable[[int], Any]
) -> None:
    """Queries with what came of each, of one run or of two, or in two ways.

    Args:
        rows: what came of each query, once a name.
        names: of the columns.
        look: what a button of each row does.
    """
    if rows:
        table(
            ("question", *names, "accepted"),
            [
                (row[0].question, *map(_ended, row), ", ".join(row[0].answers[:3]))
                for row in rows[:_MOST]
            ],
            f"{len(rows):,} queries; {min(len(rows), _MOST)} are shown",
            look=look,
        )


def _ended(row: RunRow) -> str:
    """How a query ended; what nothing read has no answer."""
    sentence = f": {row.answer}, {row.outcome}{' ✓' * row.right}" if row.answer else ""
    return f"rank {rank(row.rank)}{sentence}"


def _look(runs: Sequence[Run], rows: Sequence[RunRow]) -> None:
    """The documents of a query, of one run or of two."""
    with parts.in_dialog(rows[0].question):
        soft(f"Accepted: {', '.join(rows[0].answers[:5])}")
        for run, row in zip(runs, rows, strict=True):
            title(f"{run.name}: {row.outcome}", 3)
            text_label(f"Answer: {row.answer or '(none)'}")
            documents = run.documents[row.query_id]
            table(
                ("rank", "document", "holds the answer", "found by the rules"),
                [
                    (
                        str(place),
                        one.text,
                        "yes" if one.holds else "",
                        "; ".join(run.rules.get(rule, rule) for rule in one.rules),
                    )
                    for place, one in enumerate(documents, start=1)
                ],
                f"{len(documents)} documents in the order that they were read",
            )
