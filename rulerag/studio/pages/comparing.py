"""Two explanations of one session beside each other: other generators, other instructions."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from rulerag.errors import RuleRAGError
from rulerag.studio.pages.parts import acting, code_button, soft, text_label, title
from rulerag.studio.service import Studio, View


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
    chosen.style("min-width:20em")
    chosen.on_value_change(lambda event: ui.navigate.to(f"/compare/{event.value}"))
    if session in names:
        _two(studio, session)


def _two(studio: Studio, session: str) -> None:
    from nicegui import ui

    seen = studio.session(session)
    system = next(one for one in studio.systems() if one["name"] == seen.system)
    usable = {one["name"]: one["title"] for one in system["generators"] if not one["missing"]}
    order = list(usable)
    text_label(seen.state.question)
    soft(f"{len(seen.state.sources)} sources, as they are in the session")
    sides: list[dict[str, Any]] = []

    async def start() -> None:
        for side in sides:
            side["view"] = await asyncio.to_thread(
                studio.explain,
                session,
                generator=side["who"].value,
                instructed=bool(side["told"].value),
                instructions=side["words"].value or "",
            )

    with ui.row():
        ui.button("Explain both", on_click=acting(start))
        code_button(lambda: studio.session(session), "compare")
    with ui.element("div").classes("studio-two"):
        for number in (0, 1):
            with ui.card().classes("studio-card"):
                title("AB"[number], 2)
                who = ui.select(usable, label="What answers", value=order[number % len(order)])
                told = ui.switch("Safety instructions", value=seen.state.instructed)
                words = ui.textarea("Instructions", value=seen.state.instructions)
                words.style("width:100%").props("autogrow")
                area = ui.column()
                sides.append(
                    {
                        "who": who,
                        "told": told,
                        "words": words,
                        "area": area,
                        "view": None,
                        "seen": None,
                    }
                )

    def look() -> None:
        for side in sides:
            view: View | None = side["view"]
            if view is None:
                continue
            if not view.finished:
                with suppress(RuleRAGError):
                    side["view"] = view = studio.view(view.id)
            if view is not side["seen"]:
                side["seen"] = view
                side["area"].clear()
                with side["area"]:
                    _side(view)

    ui.timer(0.25, look)


def _side(view: View) -> None:
    from nicegui import ui

    soft(f"{view.status}, {view.probes} probes")
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
