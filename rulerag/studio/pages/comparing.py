"""Two ways to answer one session beside each other: retrievers, generators, instructions."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from rulerag.errors import RuleRAGError
from rulerag.studio.benchmarks import Way
from rulerag.studio.pages.parts import (
    acting,
    code_button,
    copy_button,
    generator_select,
    retriever_select,
    soft,
    table,
    text_label,
    title,
)
from rulerag.studio.service import Beside, Session, Studio, View, beside_snippets

_AS_IT_IS = {"name": "", "title": "Sources as they are in the session", "missing": ""}


def compare_page(studio: Studio, session: str) -> None:
    """Choose a session, then two ways to answer it."""
    from nicegui import ui

    title("Compare two ways to answer")
    rows = studio.sessions()
    if not rows:
        soft("Open a session first.")
        return
    names = {row["id"]: f"{row['name']} ({row['system']})" for row in rows[:100]}
    chosen = ui.select(names, label="Session", value=session if session in names else None)
    chosen.classes("studio-field")
    chosen.on_value_change(lambda event: ui.navigate.to(f"/compare/{event.value}"))
    if session in names:
        _Comparison(studio, studio.session(session)).build()


class _Comparison:
    """Two sides, what each retrieves, and what each answers and why.

    Args:
        studio: the service.
        session: what is compared.
    """

    def __init__(self, studio: Studio, session: Session) -> None:
        self._studio, self._session = studio, session
        system = next(one for one in studio.systems() if one["name"] == session.system)
        self._system = {**system, "retrievers": [_AS_IT_IS, *system["retrievers"]]}
        self._sides: list[dict[str, Any]] = []
        self._found: Any = None

    def build(self) -> None:
        """Draw both sides, and look for news of what they explain."""
        from nicegui import ui

        text_label(self._session.state.question)
        soft(f"{len(self._session.state.sources)} sources in the session")
        with ui.row().style("align-items:center;gap:8px"):
            ui.button("Retrieve both", on_click=acting(self._retrieve))
            copy_button(self._code)
            ui.button("Explain both", on_click=acting(self._explain))
            code_button(lambda: self._studio.session(self._session.id), "compare")
        usable = [one["name"] for one in self._system["generators"] if not one["missing"]]
        with ui.element("div").classes("studio-two"):
            for number in (0, 1):
                with ui.card().classes("studio-card"):
                    title("AB"[number], 2)
                    self._side(usable[number % len(usable)])
        self._found = ui.column().style("width:100%")
        ui.timer(0.25, self._look)

    def _side(self, generator: str) -> None:
        from nicegui import ui

        state = self._session.state
        searches = retriever_select(self._system, "").classes("studio-field")
        who = generator_select(self._system, generator).classes("studio-field")
        side = {"searches": searches, "who": who, "told": None, "words": None}
        if self._system["instructions"] or state.instructions:
            side["told"] = ui.switch("Safety instructions", value=state.instructed)
            words = ui.textarea("Instructions", value=state.instructions)
            side["words"] = words.style("width:100%").props("autogrow")
        side |= {"area": ui.column(), "view": None, "seen": None}
        self._sides.append(side)

    # --- what each retrieves ----

    def _ways(self) -> tuple[Way, Way]:
        one, two = (
            Way(side["searches"].value or self._session.state.retriever, "") for side in self._sides
        )
        return one, two

    def _code(self) -> Any:
        return beside_snippets(self._session.system, self._session.state.question, *self._ways())

    async def _retrieve(self) -> None:
        state = self._session.state
        both = await asyncio.to_thread(
            self._studio.beside,
            self._session.system,
            state.question,
            *self._ways(),
            rules_off=state.rules_off,
        )
        self._found.clear()
        with self._found:
            draw_beside(both)

    # --- what each answers, and why ----

    async def _explain(self) -> None:
        for side in self._sides:
            side["view"] = await asyncio.to_thread(
                self._studio.explain,
                self._session.id,
                generator=side["who"].value,
                instructed=None if side["told"] is None else bool(side["told"].value),
                instructions=None if side["words"] is None else side["words"].value or "",
                retriever=side["searches"].value or None,
            )

    def _look(self) -> None:
        for side in self._sides:
            view: View | None = side["view"]
            if view is None:
                continue
            if not view.finished:
                with suppress(RuleRAGError):
                    side["view"] = view = self._studio.view(view.id)
            if view is not side["seen"]:
                side["seen"] = view
                side["area"].clear()
                with side["area"]:
                    _explained(view)


def draw_beside(both: Beside) -> None:
    """The sources of two ways side by side, with their answers where something read them."""
    shared = sum(one.first is not None and one.second is not None for one in both.found)
    soft(f"A: {both.first}. B: {both.second}.")
    known = bool(both.accepted)
    if known:
        soft(f"Accepted: {', '.join(both.accepted[:5])}")
    if any(both.answers):
        for name, said in zip("AB", both.answers, strict=True):
            text_label(f"{name} answers: {said}")
    ruled = any(one.source.found_by for one in both.found)
    headings = ["A", "B", *(["holds the answer"] if known else []), "source"]
    rows = []
    for one in both.found:
        source = one.source
        row = [_rank(one.first), _rank(one.second)]
        row += ["yes" if one.holds else ""] if known else []
        row.append(f"{source.title}: {source.text[:300]}".removeprefix(": "))
        rows.append([*row, "; ".join(by.rule for by in source.found_by)] if ruled else row)
    table(
        [*headings, "found by the rules"] if ruled else headings,
        rows,
        f"{len(both.found)} sources by rank, {shared} found by both",
    )


def _rank(rank: int | None) -> str:
    return "–" if rank is None else str(rank)


def _explained(view: View) -> None:
    from nicegui import ui

    soft(f"{view.status}, {len(view.state.sources)} sources, {view.probes} probes")
    if view.error:
        ui.label(view.error).classes("studio-bad")
    text_label(view.text)
    for claim in view.claims:
        if view.goal == "claims":
            title(claim.text, 3)
        for rule in claim.enough:
            text_label(rule.sentence).classes("studio-rule")
        if not claim.enough and view.finished:
            soft("No rule: these sources do not do it.")
        if claim.enough and view.goal == "target":
            needed = min(len(rule.sources) for rule in claim.enough)
            gone = min((rule.sources for rule in claim.gone), key=len, default=())
            listed = ", ".join(str(place + 1) for place in gone) or "nothing helps"
            soft(f"Sources needed: {needed}. Smallest repair: take out {listed}.")
