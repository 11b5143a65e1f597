"""Two ways to answer one session beside each other: retrievers, generators, instructions."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from nicegui import ui

from rulerag.errors import RuleRAGError, UnknownNameError
from rulerag.studio.benchmarks import Way
from rulerag.studio.pages import parts
from rulerag.studio.pages.explanations import draw_claims
from rulerag.studio.pages.parts import button, card, rank, soft, table, text_label, title
from rulerag.studio.service import Beside, Session, Studio

_AS_IT_IS = {"name": "", "title": "Sources as they are in the session", "missing": ""}


def compare_page(studio: Studio, session: str) -> None:
    """Choose a session, then two ways to answer it."""
    title("Compare two ways to answer")
    rows = studio.sessions(parts.visitor(), 100)
    names = {row["id"]: f"{row['name']} ({row['system']})" for row in rows}
    if session not in names:
        with suppress(UnknownNameError):
            names[session] = studio.session(session).name
    if not names:
        soft("Open a session first.")
        return
    chosen = ui.select(names, label="Session", value=session if session in names else None)
    chosen.classes("studio-field")
    chosen.on_value_change(lambda event: ui.navigate.to(f"/compare/{event.value}"))
    if session in names:
        _Comparison(studio, studio.session(session))


class _Comparison:
    """Two sides, what each retrieves, and what each answers and why.

    Args:
        studio: the service.
        session: what is compared.
    """

    def __init__(self, studio: Studio, session: Session) -> None:
        self._studio, self._session, self._state = studio, session, session.state
        self._system = next(one for one in studio.systems() if one["name"] == session.system)
        self._sides: list[dict[str, Any]] = []
        text_label(self._state.question)
        soft(f"{len(self._state.sources)} sources in the session")
        with ui.row():
            button("Retrieve both", self._retrieve, look="")
            button("Explain both", self._explain, look="")
        usable = [one["name"] for one in self._system["generators"] if not one["missing"]]
        with ui.element("div").classes("studio-two"):
            for number in (0, 1):
                with card("AB"[number]):
                    self._side(usable[number % len(usable)])
        self._found = ui.column()
        ui.timer(0.25, self._look)

    def _side(self, generator: str) -> None:
        retrievers = [_AS_IT_IS, *self._system["retrievers"]]
        searches = parts.choice("Retriever", retrievers, "").classes("studio-field")
        who = parts.choice("What answers", self._system["generators"], generator)
        side: dict[str, Any] = {"searches": searches, "who": who, "view": None, "seen": None}
        if self._system["instructions"] or self._state.instructions:
            side["instructed"] = ui.switch("Safety instructions", value=self._state.instructed)
            words = ui.textarea("Instructions", value=self._state.instructions)
            side["words"] = words.classes("studio-full").props("autogrow")
        self._sides.append({**side, "area": ui.column()})

    async def _retrieve(self) -> None:
        ways = [Way(side["searches"].value or self._state.retriever, "") for side in self._sides]
        about, off = (self._session.system, self._state.question), self._state.rules_off
        both = await asyncio.to_thread(self._studio.beside, *about, *ways, rules_off=off)
        self._found.clear()
        with self._found:
            draw_beside(both)

    async def _explain(self) -> None:
        for side in self._sides:
            options: dict[str, Any] = {"generator": side["who"].value}
            if "instructed" in side:
                words = side["words"].value or ""
                options |= {"instructed": bool(side["instructed"].value), "instructions": words}
            side["view"] = await asyncio.to_thread(
                self._studio.explain,
                self._session.id,
                retriever=side["searches"].value or None,
                **options,
            )

    def _look(self) -> None:
        for side in self._sides:
            view = side["view"]
            if view is not None and not view.finished:
                with suppress(RuleRAGError):
                    side["view"] = view = self._studio.view(view.id)
            if view is not side["seen"]:
                side["seen"] = view
                side["area"].clear()
                with side["area"]:
                    about = f"{len(view.state.sources)} sources, {view.probes} probes"
                    soft(f"{view.status}: {view.state.question} ({about})")
                    draw_claims(view)


def draw_beside(both: Beside) -> None:
    """The sources of two ways side by side, with their answers where something read them."""
    soft(f"A: {both.first}. B: {both.second}.")
    if both.accepted:
        soft(f"Accepted: {', '.join(both.accepted[:5])}")
    for name, reply in zip("AB", both.answers if any(both.answers) else (), strict=False):
        text_label(f"{name} answers: {reply}")
    columns: dict[str, list[str]] = {
        "A": [rank(one.first) for one in both.found],
        "B": [rank(one.second) for one in both.found],
    }
    if both.accepted:
        columns["holds the answer"] = ["yes" if one.holds else "" for one in both.found]
    sources = [one.source for one in both.found]
    columns["source"] = [f"{s.title}: {s.text[:300]}".removeprefix(": ") for s in sources]
    if any(one.found_by for one in sources):
        columns["found by the rules"] = ["; ".join(one.found_by) for one in sources]
    shared = sum(one.first is not None and one.second is not None for one in both.found)
    caption = f"{len(both.found)} sources by rank, {shared} found by both"
    table(list(columns), list(zip(*columns.values(), strict=True)), caption)
