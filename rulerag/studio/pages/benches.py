"""The rule bench: where rules help and hurt, two checkpoints beside each other, the rule bank."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from nicegui import ui

from rulerag.studio.benchmarks import SYMBOLIC, Differences, Way
from rulerag.studio.pages import parts
from rulerag.studio.pages.comparing import draw_beside
from rulerag.studio.pages.parts import acting, button, card, soft, table, text_label, title
from rulerag.studio.pages.runs import draw_rows
from rulerag.studio.service import Configure, Studio


def rules_page(studio: Studio, system: str) -> None:
    """Two ways to answer a benchmark's queries, and its rule bank."""
    title("Rule bench")
    known = {
        one["name"]: one
        for one in studio.systems()
        if any(reader["type"] == SYMBOLIC for reader in one["generators"])
    }
    if not known:
        soft("No benchmark is open: start the studio with --dataset FOLDER.")
        return
    name = system if system in known else next(iter(known))
    chosen = ui.select(list(known), label="Benchmark", value=name)
    chosen.on_value_change(lambda event: ui.navigate.to(f"/rules/{event.value}"))
    with card("Where it helps and where it hurts"):
        _Differences(studio, known[name])
    with card("The rule bank"):
        _bank(studio, name)


class _Differences:
    """Two ways to answer, and the queries where they differ.

    Args:
        studio: the service.
        system: the benchmark.
    """

    def __init__(self, studio: Studio, system: dict[str, Any]) -> None:
        self._studio, self._name = studio, str(system["name"])
        self._stop = threading.Event()
        soft(
            "The same queries answered two ways: with and without rules, by two encoders or by two "
            "readers. What differs is looked at query by query."
        )
        self._sides: list[tuple[ui.select, ui.select]] = []
        with ui.element("div").classes("studio-two"):
            for letter, retriever in (("A", "plain"), ("B", "guided")):
                with ui.column():
                    retrievers, readers = system["retrievers"], system["generators"]
                    found = parts.choice(f"{letter} searches with", retrievers, retriever)
                    reads = parts.choice(f"{letter} reads with", readers, SYMBOLIC)
                    self._sides.append((found, reads))
        with ui.row():
            self._set = ui.select(["full"], label="Queries of", value="full")
            self._most = ui.number("Queries at most", value=200, min=1, max=2000, step=50)
            self._start = ui.button("Compare", on_click=acting(self._run))
            self._start.disable()
            ui.button("Stop", on_click=self._stop.set).props("flat")
        self._area = ui.column()
        ui.timer(0.1, acting(self._sets), once=True)
        ui.context.client.on_delete(self._stop.set)  # nobody looks any more

    async def _sets(self) -> None:
        """Opening a benchmark takes longer than a screen may."""
        bench = await asyncio.to_thread(self._studio.bench, self._name)
        names = {name: f"{name} ({size:,})" for name, size in bench.query_sets().items()}
        self._set.set_options(names, value="balanced" if "balanced" in names else next(iter(names)))
        self._start.enable()

    def _ways(self) -> list[Way]:
        return [Way(str(found.value), str(reads.value)) for found, reads in self._sides]

    async def _run(self) -> None:
        self._stop.clear()
        self._area.clear()
        with self._area, ui.row():
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
        same = len(found.rows) - len(found.better) - len(found.worse)
        part = "" if len(found.rows) == found.of else f", a sample of {found.of:,}"
        table(
            ("measure", "A", "B"),
            [
                (name.replace("_", " "), f"{one:.3f}", f"{two:.3f}")
                for name, (one, two) in found.means().items()
            ],
            f"{len(found.rows):,} queries of {found.query_set}{part}; {same:,} come out alike",
        )
        for what, rows in (("better", found.better), ("worse", found.worse)):
            title(f"B is {what}: {len(rows):,} queries", 3)
            asked = [one.question for one, _ in rows]
            draw_rows(rows, ("A", "B"), lambda n, asked=asked: self._look(asked[n]))  # type: ignore[misc]
        if found.query_set != "valid":
            soft(
                "These are for looking. Rules and settings that are chosen by what is seen here "
                "have seen these queries: measure them on others."
            )

    async def _look(self, question: str) -> None:
        ways = self._ways()
        both = await asyncio.to_thread(self._studio.beside, self._name, question, *ways)
        with parts.in_dialog(question):
            draw_beside(both)
            for letter, way in zip("AB", ways, strict=True):

                async def begin(way: Way = way) -> None:
                    owner = parts.visitor()
                    session = await asyncio.to_thread(self._opened, question, way, owner)
                    ui.navigate.to(f"/session/{session}")

                button(f"Open {letter} as a session", begin)

    def _opened(self, question: str, way: Way, owner: str) -> str:
        session = self._studio.new_session(self._name, question=question, owner=owner).id
        self._studio.change(session, Configure(generator=way.generator))
        return self._studio.retrieve(session, retriever=way.retriever).id


def _bank(studio: Studio, name: str) -> None:
    words = ui.input("Words that the rule holds").classes("studio-full")

    async def search() -> None:
        found = await asyncio.to_thread(studio.search_rules, name, words.value or "")
        area.clear()
        with area:
            soft(f"{len(found)} rules, the most confident first; 50 at most")
            for row in found:
                with card():
                    _rule(studio, name, row)

    ui.button("Search", on_click=acting(search))
    area = ui.column()
    words.on("keydown.enter", acting(search))


def _rule(studio: Studio, system: str, row: dict[str, Any]) -> None:
    text_label(row["text"])
    names = ("confidence", "pca_confidence", "head_coverage", "support")
    values = {name: row[name] for name in names if row.get(name) is not None}
    soft(", ".join(f"{name.replace('_', ' ')} {x:.4g}" for name, x in values.items()))
    area = ui.column()

    async def show() -> None:
        found = await asyncio.to_thread(studio.bench(system).examples_of, row["id"])
        area.clear()
        with area:
            soft(f"In the facts of the documents, {found.looked_at} subjects looked at:")
            lines = [*(f"+ {one}" for one in found.holds), *(f"− {one}" for one in found.fails)]
            for line in lines or ["no grounding"]:
                text_label(line)

    button("Groundings and counterexamples", show)
