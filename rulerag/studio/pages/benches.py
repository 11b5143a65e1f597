"""The rule bench: where rules help and hurt, two checkpoints beside each other, the rule bank."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from rulerag.studio.benchmarks import SYMBOLIC, Difference, Differences, Way
from rulerag.studio.pages.comparing import draw_beside
from rulerag.studio.pages.parts import (
    acting,
    copy_button,
    generator_select,
    in_dialog,
    retriever_select,
    soft,
    table,
    text_label,
    title,
)
from rulerag.studio.service import Configure, Studio, bench_snippets, differences_snippets

_MOST = 50
"""Rows that are shown of each kind."""


def rules_page(studio: Studio, system: str) -> None:
    """Two ways to answer a benchmark's queries, and its rule bank."""
    from nicegui import ui

    title("Rule bench")
    known = {one["name"]: one for one in studio.systems() if SYMBOLIC in _types(one)}
    if not known:
        soft("No benchmark is open: start the studio with --dataset FOLDER.")
        return
    name = system if system in known else next(iter(known))
    chosen = ui.select(list(known), label="Benchmark", value=name)
    chosen.on_value_change(lambda event: ui.navigate.to(f"/rules/{event.value}"))
    _Differences(studio, known[name]).build()
    _bank(studio, name)


class _Differences:
    """Two ways to answer, and the queries where they differ.

    Args:
        studio: the service.
        system: the benchmark.
    """

    def __init__(self, studio: Studio, system: dict[str, Any]) -> None:
        self._studio, self._system, self._name = studio, system, str(system["name"])
        self._sides: list[tuple[Any, Any]] = []
        self._set: Any = None
        self._most: Any = None
        self._area: Any = None
        self._start: Any = None
        self._stop = threading.Event()

    def build(self) -> None:
        """Draw the choices; the queries come when they are asked for."""
        from nicegui import ui

        with ui.card().classes("studio-card"):
            title("Where it helps and where it hurts", 2)
            soft(
                "The same queries answered two ways: with and without rules, by two encoders or "
                "by two readers. What differs is looked at query by query."
            )
            with ui.element("div").classes("studio-two"):
                for letter, retriever in (("A", "plain"), ("B", "guided")):
                    with ui.column().style("gap:4px"):
                        found = retriever_select(self._system, retriever, f"{letter} searches with")
                        reads = generator_select(self._system, SYMBOLIC, f"{letter} reads with")
                        self._sides.append(
                            (found.classes("studio-field"), reads.classes("studio-field"))
                        )
            with ui.row().style("align-items:end;gap:12px"):
                self._set = ui.select(["full"], label="Queries of", value="full")
                self._most = ui.number(
                    "Queries at most", value=200, min=1, max=2000, step=50
                ).style("width:9em")
                self._start = ui.button("Compare", on_click=acting(self._run))
                self._start.disable()
                ui.button("Stop", on_click=self._stop.set).props("flat")
                copy_button(self._code)
            self._area = ui.column().style("width:100%")
        ui.timer(0.1, acting(self._sets), once=True)
        ui.context.client.on_delete(self._stop.set)  # nobody looks any more

    async def _sets(self) -> None:
        """Opening a benchmark takes longer than a screen may."""
        sizes = await asyncio.to_thread(self._studio.query_sets, self._name)
        names = {name: f"{name} ({size:,})" for name, size in sizes.items()}
        self._set.set_options(names, value="balanced" if "balanced" in names else next(iter(names)))
        self._start.enable()

    def _ways(self) -> tuple[Way, Way]:
        one, two = (Way(found.value, reads.value) for found, reads in self._sides)
        return one, two

    def _code(self) -> Any:
        most = int(self._most.value or 200)
        return differences_snippets(self._name, *self._ways(), query_set=self._set.value, most=most)

    async def _run(self) -> None:
        from nicegui import ui

        self._stop.clear()
        self._area.clear()
        with self._area, ui.row().style("align-items:center"):
            ui.spinner(size="sm")
            soft("Asking; the first search with an encoder encodes the whole corpus.")
        try:
            found = await asyncio.to_thread(
                self._studio.differences,
                self._name,
                *self._ways(),
                query_set=self._set.value,
                most=int(self._most.value or 200),
                stopped=self._stop.is_set,
            )
        finally:
            self._area.clear()
        with self._area:
            self._draw(found)

    def _draw(self, found: Differences) -> None:
        part = "" if len(found.rows) == found.of else f", a sample of {found.of:,}"
        same = len(found.rows) - len(found.better) - len(found.worse)
        table(
            ("measure", "A", "B"),
            [
                (name.replace("_", " "), f"{one:.3f}", f"{two:.3f}")
                for name, (one, two) in found.means().items()
            ],
            f"{len(found.rows):,} queries of {found.query_set}{part}; {same:,} come out alike",
        )
        self._draw_rows("B is better", found.better)
        self._draw_rows("B is worse", found.worse)
        if found.query_set != "valid":
            soft(
                "These are for looking. Rules and settings that are chosen by what is seen here "
                "have seen these queries: measure them on others."
            )

    def _draw_rows(self, what: str, rows: tuple[Difference, ...]) -> None:
        title(f"{what}: {len(rows):,} queries", 3)
        if not rows:
            return

        def rank(number: int | None) -> str:
            return "–" if number is None else str(number)

        table(
            ("question", "rank A", "rank B", "A answers", "B answers", "accepted"),
            [
                (
                    row.question,
                    rank(row.first.rank),
                    rank(row.second.rank),
                    f"{row.first.answer or '(none)'}{' ✓' if row.first.right else ''}",
                    f"{row.second.answer or '(none)'}{' ✓' if row.second.right else ''}",
                    ", ".join(row.answers[:3]),
                )
                for row in rows[:_MOST]
            ],
            f"{min(len(rows), _MOST)} are shown, the greatest change first; the rank is that of "
            "the first source with an accepted answer, ✓ a right answer",
            look=lambda number: self._look(rows[number]),
        )

    async def _look(self, row: Difference) -> None:
        from nicegui import ui

        first, second = self._ways()
        both = await asyncio.to_thread(self._studio.beside, self._name, row.question, first, second)
        with in_dialog(row.question):
            draw_beside(both)
            for letter, way in (("A", first), ("B", second)):

                async def begin(way: Way = way) -> None:
                    ui.navigate.to(f"/session/{await asyncio.to_thread(self._opened, row, way)}")

                ui.button(f"Open {letter} as a session", on_click=acting(begin)).props("flat")

    def _opened(self, row: Difference, way: Way) -> str:
        session = self._studio.new_session(self._name, question=row.question).id
        self._studio.change(session, Configure(generator=way.generator))
        return self._studio.retrieve(session, retriever=way.retriever).id


def _bank(studio: Studio, name: str) -> None:
    from nicegui import ui

    with ui.card().classes("studio-card"):
        title("The rule bank", 2)
        words = ui.input("Words that the rule holds").style("width:100%")

        async def search() -> None:
            found = await asyncio.to_thread(studio.search_rules, name, words.value or "")
            area.clear()
            with area:
                soft(f"{len(found)} rules, the most confident first; 50 at most")
                for row in found:
                    _rule(studio, name, row)

        with ui.row():
            ui.button("Search", on_click=acting(search))
            copy_button(lambda: bench_snippets(name, words.value or ""))
        area = ui.column().style("width:100%")
        words.on("keydown.enter", acting(search))


def _types(system: dict[str, Any]) -> set[str]:
    return {str(one["type"]) for one in system["generators"]}


def _rule(studio: Studio, system: str, row: dict[str, Any]) -> None:
    from nicegui import ui

    with ui.card().classes("studio-card"):
        text_label(row["text"])
        measured = [
            f"{name.replace('_', ' ')} {value:.3f}"
            if isinstance(value, float)
            else f"{name} {value}"
            for name in ("confidence", "pca_confidence", "head_coverage", "support")
            if (value := row.get(name)) is not None
        ]
        soft(", ".join(measured))
        area = ui.column()

        async def show() -> None:
            found = await asyncio.to_thread(studio.rule_examples, system, row["id"])
            area.clear()
            with area:
                soft(f"In the facts of the documents, {found['looked_at']} subjects looked at:")
                for line in found["holds"]:
                    text_label(f"+ {line}")
                for line in found["fails"]:
                    text_label(f"− {line}")
                if not found["holds"] and not found["fails"]:
                    soft("no grounding")

        ui.button("Groundings and counterexamples", on_click=acting(show)).props("flat dense")
