"""Runs of `rulerag evaluate`, query by query, and two of them beside each other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from rulerag.studio.benchmarks import FAILURES, Run, RunPair, RunRow
from rulerag.studio.pages.parts import (
    acting,
    copy_button,
    in_dialog,
    soft,
    table,
    text_label,
    title,
)
from rulerag.studio.service import Studio, run_snippets

_MOST = 200
_RULES = 30


def runs_page(studio: Studio, run: str = "") -> None:
    """A run by query: what came of each, its rank, its documents; a second one beside it."""
    title("Runs")
    names = studio.runs()
    if not names:
        soft("No run is open: start the studio with --run FOLDER.")
        return
    _Runs(studio, run if run in names else names[0]).build()


class _Runs:
    """The filters and what they leave.

    Args:
        studio: the service.
        name: of the run that is shown first.
    """

    def __init__(self, studio: Studio, name: str) -> None:
        self._studio, self._name = studio, name
        self._chosen: dict[str, Any] = {}
        self._area: Any = None

    def build(self) -> None:
        """Draw the filters, and the run."""
        from nicegui import ui

        names = self._studio.runs()
        with ui.card().classes("studio-card"):
            with ui.row().style("gap:12px;align-items:end"):
                self._select("run", names, "Run", self._name)
                others = {"": "none", **{one: one for one in names}}
                self._select("beside", others, "Beside", "")
            with ui.row().style("gap:12px;align-items:end"):
                outcomes = {"": "any", **{one: one for one in FAILURES}}
                self._select("outcome", outcomes, "Outcome", "")
                found = {"": "any", "found": "found", "not found": "not found"}
                self._select("recall", found, "Recall: an accepted answer is", "")
                depth = ui.number("in the first … documents", value=10, min=1, step=1)
                self._chosen["k"] = depth.style("width:10em")
                exact = {"": "any", "exact": "right", "not exact": "wrong"}
                self._select("match", exact, "Exact match", "")
                self._select("rule", {"": "any"}, "A rule that found a document", "")
                self._chosen["words"] = ui.input("Words of the question")
            with ui.row():
                ui.button("Show", on_click=acting(self._show))
                copy_button(lambda: run_snippets(self._value("run"), self._filters()))
        self._area = ui.column().style("width:100%")
        ui.timer(0.1, acting(self._show), once=True)

    def _select(self, key: str, options: Any, label: str, value: str) -> None:
        from nicegui import ui

        chosen = ui.select(options, label=label, value=value).style("min-width:14em")
        self._chosen[key] = chosen

    def _value(self, key: str) -> str:
        return str(self._chosen[key].value or "").strip()

    def _filters(self) -> dict[str, Any]:
        keys = ("outcome", "recall", "match", "rule", "words")
        chosen: dict[str, Any] = {key: self._value(key) for key in keys if self._value(key)}
        if "recall" in chosen:
            chosen["k"] = int(self._chosen["k"].value or 10)
        return chosen

    async def _show(self) -> None:
        self._area.clear()
        run = await asyncio.to_thread(self._studio.run, self._value("run"))
        shown = {rule: run.rules.get(rule, rule) for rule in list(run.found_by)[:_RULES]}
        counts = {rule: f"{text[:90]} ({run.found_by[rule]})" for rule, text in shown.items()}
        chosen = self._value("rule")
        kept = chosen if chosen in counts else ""
        self._chosen["rule"].set_options({"": "any", **counts}, value=kept)
        rows = run.filtered(**self._filters())
        other = self._value("beside")
        pair = await asyncio.to_thread(self._studio.run_pair, run.name, other) if other else None
        with self._area:
            table(
                ("outcome", "queries", "share", "how it is decided"),
                [
                    (name, str(n), f"{n / max(1, len(run.rows)):.1%}", FAILURES[name])
                    for name, n in run.outcomes.items()
                ],
                f"{run.name}: {len(run.rows):,} queries",
            )
            if pair is None:
                self._draw_rows(run, rows)
            else:
                self._draw_pair(pair, {row.query_id for row in rows})

    def _draw_rows(self, run: Run, rows: Sequence[RunRow]) -> None:
        table(
            ("question", "answer", "accepted", "outcome", "rank"),
            [
                (
                    row.question,
                    row.answer or "(none)",
                    ", ".join(row.answers[:5]),
                    row.outcome,
                    _rank(row),
                )
                for row in rows[:_MOST]
            ],
            f"{len(rows):,} queries; {min(len(rows), _MOST)} are shown. The rank is that of the "
            "first document with an accepted answer.",
            look=lambda number: _look(rows[number].question, [(run, rows[number])]),
        )

    def _draw_pair(self, pair: RunPair, kept: set[str]) -> None:
        one, two = pair.first.name, pair.second.name
        table(
            (f"in {one}", f"in {two}", "queries"),
            [
                (before, now, str(n))
                for (before, now), n in sorted(pair.moves.items(), key=lambda move: -move[1])
                if before != now
            ],
            f"{len(pair.rows):,} queries in both; how outcomes changed",
        )
        rows = [both for both in pair.changed() if both[0].query_id in kept]
        table(
            ("question", one, two),
            [
                (
                    a.question,
                    *(f"{x.outcome}, rank {_rank(x)}: {x.answer or '(none)'}" for x in (a, b)),
                )
                for a, b in rows[:_MOST]
            ],
            f"{len(rows):,} queries came out otherwise; {min(len(rows), _MOST)} are shown",
            look=lambda number: _look(
                rows[number][0].question,
                list(zip((pair.first, pair.second), rows[number], strict=True)),
            ),
        )


def _rank(row: RunRow) -> str:
    return "–" if row.rank is None else str(row.rank)


def _look(question: str, sides: Sequence[tuple[Run, RunRow]]) -> None:
    """The documents of a query, of one run or of two."""
    with in_dialog(question):
        soft(f"Accepted: {', '.join(sides[0][1].answers[:5])}")
        for run, row in sides:
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
