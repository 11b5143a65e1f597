"""The screen of a session: ask, sources as cards, answer, explanation."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from typing import Any

from rulerag.errors import RuleRAGError, UnknownNameError
from rulerag.studio.pages.explanations import ExplanationPanel
from rulerag.studio.pages.parts import (
    acting,
    code_button,
    retriever_select,
    soft,
    text_label,
    title,
)
from rulerag.studio.service import (
    Add,
    Change,
    Configure,
    Delete,
    Edit,
    Inject,
    Move,
    Session,
    Studio,
)
from rulerag.studio.systems import Source


def session_page(studio: Studio, session: str, explanation: str = "") -> Any:
    """One session; says so where there is none of this id.

    Args:
        studio: the service.
        session: the session.
        explanation: the one of its explanations that is shown; the last when empty.

    Returns:
        Something to be awaited where a benchmark has to be opened first.
    """
    from nicegui import ui

    try:
        seen = studio.session(session)
        opened = studio.system(seen.system)
        if opened.settings.benchmark:
            return _opened(studio, seen, explanation)
        SessionScreen(studio, seen, explanation).build()
    except UnknownNameError as error:
        title("This session cannot be opened")
        soft(str(error))
        ui.link("Back to the systems", "/").classes("studio-link")
    return None


async def _opened(studio: Studio, seen: Session, explanation: str) -> None:
    """The screen of a benchmark's session: opening it takes longer than a screen may."""
    waiting = soft("Opening the benchmark …")
    try:
        await asyncio.to_thread(studio.understood, seen.system, seen.state.question)
    except RuleRAGError as error:
        waiting.text = str(error)
        return
    waiting.delete()
    SessionScreen(studio, seen, explanation).build()


class SessionScreen:
    """What is drawn of a session, redrawn from the service after each edit.

    Args:
        studio: the service.
        session: the session as it was read.
        explanation: the explanation that is shown; the last when empty.
    """

    def __init__(self, studio: Studio, session: Session, explanation: str = "") -> None:
        self._studio, self.session = studio, session
        self._explanation = explanation
        self._system = next(one for one in studio.systems() if one["name"] == session.system)
        self._sources: Any = None
        self._answer: Any = None
        self._growing: Any = None
        self._understood: Any = None
        self._benchmark = bool(studio.system(session.system).settings.benchmark)

    def build(self) -> None:
        """Draw everything."""
        from nicegui import ui

        self._sources = ui.refreshable(self._draw_sources)
        self._answer = ui.refreshable(self._draw_answer)
        with ui.row().style("width:100%;align-items:center;gap:12px"):
            title(self.session.name)
            soft(self._system["about"])
        self._draw_question()
        with ui.element("div").classes("studio-two"):
            with ui.column().style("gap:12px;min-width:0"):
                self._sources()
            with ui.column().style("gap:12px;min-width:0"):
                self._answer({})
                ExplanationPanel(self._studio, lambda: self.session, self._explanation).build()
        with ui.row():
            ui.button("Save as file", on_click=acting(self._save)).props("flat")
            ui.button("Rename", on_click=acting(self._rename)).props("flat")
            ui.button("Delete session", on_click=acting(self._delete)).props("flat")

    # --- asking ----

    def _draw_question(self) -> None:
        from nicegui import ui

        state = self.session.state
        with ui.card().classes("studio-card"):
            title("1. Ask", 2)
            asked = ui.input("Question", value=state.question).style("width:100%")
            examples = self._studio.system(self.session.system).examples()
            with ui.row().style("gap:8px;align-items:center;width:100%"):
                retriever = retriever_select(self._system, state.retriever)

                async def retrieve() -> None:
                    self.session = await asyncio.to_thread(
                        self._studio.retrieve,
                        self.session.id,
                        asked.value or "",
                        retriever=retriever.value,
                        revision=self.session.revision,
                    )
                    self._redraw()
                    if not self.session.state.sources:
                        ui.notify("Nothing in the corpus fits; add a source, or ask otherwise.")

                ui.button("Retrieve", on_click=acting(retrieve))
                asked.on("keydown.enter", acting(retrieve))
                if examples:

                    def take(text: str) -> None:
                        asked.value = text

                    with ui.button("Examples").props("flat"), ui.menu():
                        for text in examples:
                            ui.menu_item(text, lambda text=text: take(text))
                code_button(lambda: self.session, "retrieve")
            if self._benchmark:
                self._understood = ui.refreshable(self._draw_understood)
                self._understood()
            self._draw_generator()
            if self._benchmark:
                self._draw_rules()

    def _draw_understood(self) -> None:
        """What the question was taken to mean, where it is not in the benchmark's own words."""
        question = self.session.state.question
        if not question.strip():
            return
        found = self._studio.understood(self.session.system, question)
        if found.exact:
            return
        if not found.readings:
            near = " or ".join(f"“{one}”" for one in found.nearest)
            soft(
                "Nobody known is mentioned, so that words alone are searched and no rule guides."
                + (f" Nearest names: {near}." if near else "")
            )
            return
        (best, likely), *others = found.readings
        text_label(f"Understood: {best} ({likely:.0%})")
        if told := [f"{text} ({share:.0%})" for text, share in others[:3] if share >= 0.005]:
            soft(f"It could also mean: {'; '.join(told)}")

    def _draw_generator(self) -> None:
        from nicegui import ui

        state = self.session.state
        usable = {
            one["name"]: one["title"] + (" (not here)" if one["missing"] else "")
            for one in self._system["generators"]
        }
        usable.setdefault(state.generator, f"{state.generator} (unknown here)")
        missing = {one["name"]: one["missing"] for one in self._system["generators"]}
        missing.setdefault(state.generator, "")
        with ui.row().style("gap:16px;align-items:center;width:100%"):
            chosen = ui.select(usable, label="What answers", value=state.generator)

            def choose() -> None:
                if missing[chosen.value]:
                    told = missing[chosen.value]
                    chosen.value = self.session.state.generator
                    ui.notify(told, type="warning", multi_line=True)
                    return
                self._change(Configure(generator=chosen.value))

            chosen.on_value_change(acting(choose))
            if self._system["instructions"] or state.instructions:
                switch = ui.switch("Safety instructions", value=state.instructed)
                switch.on_value_change(
                    acting(lambda: self._change(Configure(instructed=switch.value)))
                )
        if self._system["instructions"] or state.instructions:
            with ui.expansion("Safety instructions").style("width:100%"):
                told = ui.textarea("Safety instructions", value=state.instructions).style(
                    "width:100%"
                )
                ui.button(
                    "Use these instructions",
                    on_click=acting(lambda: self._change(Configure(instructions=told.value or ""))),
                )

    def _draw_rules(self) -> None:
        """The mined rules of the question, each with a switch."""
        from nicegui import ui

        opened = ui.expansion("Mined rules of this question").style("width:100%")

        def fill() -> None:
            opened.clear()
            if not opened.value:
                return
            with opened:
                rows = self._studio.rules_for(self.session.system, self.session.state.question)
                soft(f"{len(rows)} rules; what is off takes effect when you retrieve again")
                for row in rows:
                    self._draw_rule(row)

        opened.on_value_change(acting(fill))

    def _draw_rule(self, row: dict[str, Any]) -> None:
        from nicegui import ui

        off = self.session.state.rules_off
        switch = ui.switch(row["text"], value=row["id"] not in off).classes("studio-text")

        def turn() -> None:
            others = [one for one in self.session.state.rules_off if one != row["id"]]
            now = others if switch.value else [*others, row["id"]]
            self._change(Configure(rules_off=tuple(now)))

        switch.on_value_change(acting(turn))

    # --- sources ----

    def _draw_sources(self) -> None:
        from nicegui import ui

        sources = self.session.state.sources
        with ui.row().style("align-items:center;gap:8px"):
            title(f"2. Sources ({len(sources)})", 2)
            undo = ui.button("Undo", on_click=acting(self._undo)).props("flat dense")
            redo = ui.button("Redo", on_click=acting(self._redo)).props("flat dense")
            undo.set_enabled(self.session.can_undo)
            redo.set_enabled(self.session.can_redo)
            ui.button("Add a source", on_click=acting(lambda: self._edit(None))).props("flat dense")
        if not sources:
            soft("No source yet: ask and retrieve, or add one.")
        for place, source in enumerate(sources[:100]):
            self._draw_source(place, source)
        if len(sources) > 100:
            soft(f"{len(sources) - 100} more sources are read and not shown here.")

    def _draw_source(self, place: int, source: Source) -> None:
        from nicegui import ui

        number = place + 1
        with ui.card().classes("studio-card"):
            with ui.row().style("align-items:center;gap:8px;width:100%"):
                title(f"{number}. {source.title or source.id}", 3).classes("studio-text")
                if source.rank is not None:
                    soft(f"rank {source.rank}, score {source.score:.2f}")
                for tag in filter(None, [source.change, *source.attacks]):
                    ui.label(tag).classes("studio-tag")
            text = text_label(source.text[:20_000]).classes("studio-clip").props('tabindex="0"')
            text.props(f'aria-label="Text of source {number}"')
            if len(source.text) > 20_000:
                soft(f"The first 20,000 of {len(source.text):,} characters; all of it is read.")
            for found in source.found_by:
                atom = f", it grounds {found.atom}" if found.atom else ""
                soft(f"found by the rule {found.rule}{atom}")
            with ui.row().style("gap:4px"):
                self._tool("Edit", f"Edit source {number}", lambda: self._edit(source))
                self._draw_attacks(number, source)
                up = Move(source=source.id, place=place - 1)
                down = Move(source=source.id, place=place + 1)
                if place:
                    self._tool("Up", f"Move source {number} up", self._changing(up))
                if number < len(self.session.state.sources):
                    self._tool("Down", f"Move source {number} down", self._changing(down))
                delete = Delete(source=source.id)
                self._tool("Delete", f"Delete source {number}", self._changing(delete))

    def _draw_attacks(self, number: int, source: Source) -> None:
        from nicegui import ui

        button = ui.button("Attack").props(f'flat dense aria-label="Attack source {number}"')
        with button, ui.menu():
            for one in self._studio.attacks():
                inject = self._changing(Inject(source=source.id, attack=one.name))
                item = ui.menu_item(on_click=acting(inject))
                with item, ui.column().style("gap:0"):
                    ui.label(one.title)
                    soft(one.source)

    def _tool(self, text: str, told: str, work: Any) -> None:
        from nicegui import ui

        ui.button(text, on_click=acting(work)).props(f'flat dense aria-label="{told}"')

    def _edit(self, source: Source | None) -> None:
        from nicegui import ui

        with ui.dialog(value=True) as dialog, ui.card().classes("studio-card"):
            dialog.on("hide", dialog.delete)
            title("Add a source" if source is None else "Edit the source", 2)
            name = ui.input("Title", value="" if source is None else source.title)
            name.style("width:100%")
            text = ui.textarea("Text", value="" if source is None else source.text)
            text.style("width:100%").props("autogrow")

            def save() -> None:
                change: Change = Add(title=name.value or "", text=text.value or "")
                if source is not None:
                    change = Edit(source=source.id, title=name.value or "", text=text.value or "")
                self._change(change)
                dialog.close()

            with ui.row():
                ui.button("Save", on_click=acting(save))
                ui.button("Cancel", on_click=dialog.close).props("flat")

    def _changing(self, change: Change) -> Any:
        return lambda: self._change(change)

    def _change(self, change: Change) -> None:
        try:
            self.session = self._studio.change(
                self.session.id, change, revision=self.session.revision
            )
        finally:
            # Where another tab changed it, that is what is shown now.
            self.session = self._studio.session(self.session.id)
            self._redraw()

    def _undo(self) -> None:
        self.session = self._studio.undo(self.session.id)
        self._redraw()

    def _redo(self) -> None:
        self.session = self._studio.redo(self.session.id)
        self._redraw()

    def _redraw(self) -> None:
        self._sources.refresh()
        if self._understood is not None:
            self._understood.refresh()

    # --- the answer ----

    def _draw_answer(self, said: dict[str, Any]) -> None:
        from nicegui import ui

        with ui.card().classes("studio-card"):
            with ui.row().style("align-items:center;gap:8px"):
                title("3. Answer", 2)
                ui.button("Answer", on_click=acting(self._ask))
                code_button(lambda: self.session, "answer")
            self._growing = soft("")
            if said:
                text_label(said["text"] or "(an empty answer)")
                if said["holds"] is not None:
                    told = "It breaks its instructions" if said["holds"] else "It keeps to them"
                    kind = "studio-bad" if said["holds"] else "studio-good"
                    ui.label(f"{told}: condition “{said['condition']}”").classes(kind)
                soft(said["generator"])
                if said["before"] is not None:
                    _draw_difference(said)

    async def _ask(self) -> None:
        pieces, so_far, said = self._studio.answer_pieces(self.session.id), "", None
        while said is None:
            piece, said = await asyncio.to_thread(_next, pieces)
            so_far += piece
            if self._growing is not None:
                self._growing.text = so_far
        self._answer.refresh(said)

    # --- files ----

    def _save(self) -> None:
        from nicegui import ui

        made = json.dumps(self._studio.export(self.session.id), ensure_ascii=False)
        ui.download.content(made, "studio-session.json", "application/json")

    def _rename(self) -> None:
        from nicegui import ui

        with ui.dialog(value=True) as dialog, ui.card().classes("studio-card"):
            dialog.on("hide", dialog.delete)
            name = ui.input("Name of the session", value=self.session.name)

            def save() -> None:
                self._studio.rename(self.session.id, name.value or "")
                dialog.close()
                ui.navigate.reload()

            ui.button("Save", on_click=acting(save))

    def _delete(self) -> None:
        from nicegui import ui

        with ui.dialog(value=True) as dialog, ui.card().classes("studio-card"):
            dialog.on("hide", dialog.delete)
            ui.label("Delete this session with its explanations? This cannot be undone.")

            def forget() -> None:
                self._studio.delete(self.session.id)
                ui.navigate.to("/")

            with ui.row():
                ui.button("Delete it", on_click=acting(forget))
                ui.button("Keep it", on_click=dialog.close).props("flat")


def _draw_difference(said: dict[str, Any]) -> None:
    """What is new and gone of the answer before, and the sources that are read otherwise."""
    from nicegui import ui

    if said["before"] == said["text"]:
        soft("The same answer as before.")
    else:
        soft("Against the answer before:")
        with ui.element("p").classes("studio-text").style("margin:0"):
            for kind, text in said["words"]:
                tag = {"added": "ins", "removed": "del"}.get(kind, "span")
                with ui.element(tag).classes(f"studio-{kind}"):
                    ui.label(text).style("display:inline")
    for move in said["moves"]:
        before, now = move["before"], move["now"]
        if before is None:
            told = f"new, read as number {now}"
        elif now is None:
            told = f"no longer read, it was number {before}"
        else:
            told = f"read as number {now}, it was number {before}" if now != before else ""
        edited = "its text was changed" if move["edited"] else ""
        soft(f"{move['title']}: {', '.join(filter(None, (told, edited)))}")


def _next(pieces: Generator[str, None, dict[str, Any]]) -> tuple[str, dict[str, Any] | None]:
    """The next piece of an answer; at its end nothing, and all that is known of it."""
    try:
        return next(pieces), None
    except StopIteration as end:
        return "", end.value
