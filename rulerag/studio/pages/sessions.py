"""The screen of a session: ask, sources as cards, answer, explanation."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from nicegui import ui

from rulerag.errors import RuleRAGError, UnknownNameError
from rulerag.studio.pages import parts
from rulerag.studio.pages.explanations import EARLIER, OPENED, ExplanationPanel
from rulerag.studio.pages.parts import acting, button, card, soft, text_label, title
from rulerag.studio.service import (
    Add,
    Change,
    Configure,
    Delete,
    Edit,
    Inject,
    Move,
    Reply,
    Session,
    Studio,
)
from rulerag.studio.systems import Source

_SHOWN, _LONG = 100, 20_000
"""So many sources, and characters of one, are shown."""


def session_page(studio: Studio, session: str, explanation: str = "") -> Any:
    """One session; says so where there is none of this id.

    Args:
        studio: the service.
        session: the session.
        explanation: the one of its explanations that is shown; the last when empty.

    Returns:
        Something to be awaited where a benchmark has to be opened first.
    """
    try:
        seen = studio.session(session)
        if studio.system(seen.system).settings.benchmark:
            return _opened(studio, seen, explanation)
        SessionScreen(studio, seen, explanation)
    except UnknownNameError as error:
        title("This session cannot be opened")
        soft(str(error))
        ui.link("Back to the systems", "/").classes("studio-link")
    return None


async def _opened(studio: Studio, seen: Session, explanation: str) -> None:
    """The screen of a benchmark's session: opening it takes longer than a screen may."""
    waiting = soft("Opening the benchmark …")
    try:
        bench = await asyncio.to_thread(studio.bench, seen.system)
        await asyncio.to_thread(bench.understood, seen.state.question)
    except RuleRAGError as error:
        waiting.text = str(error)
        return
    waiting.delete()
    SessionScreen(studio, seen, explanation)


class SessionScreen:
    """What is drawn of a session, redrawn from the service after each edit.

    Args:
        studio: the service.
        session: the session as it was read.
        explanation: the one that is shown; the last when empty.
    """

    def __init__(self, studio: Studio, session: Session, explanation: str) -> None:
        self._studio, self.session = studio, session
        self._drawn = session.state.question
        self._system = next(one for one in studio.systems() if one["name"] == session.system)
        self._opened = studio.system(session.system)
        self._sources = ui.refreshable(self._draw_sources)
        self._answer = ui.refreshable(self._draw_answer)
        self._understood = ui.refreshable(self._draw_understood)
        with ui.row():
            title(session.name)
            soft(self._system["about"])
        with card("1. Ask"):
            self._draw_question()
        with ui.element("div").classes("studio-two"):
            with ui.column():
                self._sources()
            with card("3. Answer"):
                button("Answer", self._ask, look="")
                self._growing = soft("")
                self._answer()
        self._panel = ExplanationPanel(studio, self._current, explanation)
        with ui.row():
            button("Save as file", self._save)
            button("Rename", self._rename)
            button("Delete session", self._delete)

    # --- asking ----

    def _draw_question(self) -> None:
        state = self.session.state
        asked = self._asked = ui.input("Question", value=state.question).classes("studio-full")
        asked.on_value_change(self._remark)
        self._unasked = soft("")

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

        asked.on("keydown.enter", acting(retrieve))
        with ui.row():
            retriever = parts.choice("Retriever", self._system["retrievers"], state.retriever)
            button("Retrieve", retrieve, look="")
            if examples := self._opened.examples():
                with ui.button("Examples").props("flat"), ui.menu():
                    for text in examples:
                        ui.menu_item(text, lambda text=text: asked.set_value(text))
        if self._opened.settings.benchmark:
            self._understood()
        self._draw_generator()
        if self._opened.settings.benchmark:
            self._draw_rules()

    def _remark(self) -> None:
        """A question that is typed and not asked yet is marked as such."""
        typed = (self._asked.value or "") != self.session.state.question
        sentence = "Not asked yet. “Retrieve” finds its sources; “Answer” reads those below."
        self._unasked.text = sentence if typed else ""

    def _current(self) -> Session:
        """The session as it is on the screen: with the question that is typed."""
        typed = self._asked.value or ""
        if typed != self.session.state.question:
            self._change(Configure(question=typed))
        return self.session

    def _draw_understood(self) -> None:
        """What the question was taken to mean, where it is not in the benchmark's own words."""
        question = self.session.state.question
        found = self._opened.benchmark.understood(question)
        if found.exact or not question.strip():
            return
        if found.refusal:
            soft(f"Cannot be answered: {found.refusal}. Words alone are searched.")
        else:
            text_label(f"Understood: {found.words}")

    def _draw_generator(self) -> None:
        state = self.session.state
        instructed = self._system["instructions"] or state.instructions
        with ui.row():
            parts.choice(
                "What answers",
                self._system["generators"],
                state.generator,
                lambda name: self._change(Configure(generator=name)),
            )
            if instructed:
                switch = ui.switch("Safety instructions", value=state.instructed)
                switch.on_value_change(
                    acting(lambda: self._change(Configure(instructed=switch.value)))
                )
        if instructed:
            with ui.expansion("Safety instructions").classes("studio-full"):
                box = ui.textarea("Safety instructions", value=state.instructions)
                box.classes("studio-full")
                use = acting(lambda: self._change(Configure(instructions=box.value or "")))
                ui.button("Use these instructions", on_click=use)

    def _draw_rules(self) -> None:
        """The mined rules of the question, each with a switch."""
        opened = ui.expansion("Mined rules of this question").classes("studio-full")

        def fill() -> None:
            opened.clear()
            if opened.value:
                state = self.session.state
                rows = self._studio.rules_for(self.session.system, state.question)
                with opened:
                    soft(f"{len(rows)} rules; what is off takes effect when you retrieve again")
                    for row in rows:
                        self._draw_rule(row)

        opened.on_value_change(acting(fill))

    def _draw_rule(self, row: dict[str, Any]) -> None:
        off = self.session.state.rules_off
        switch = ui.switch(row["text"], value=row["id"] not in off).classes("studio-text")

        def turn() -> None:
            others = [one for one in self.session.state.rules_off if one != row["id"]]
            now = others if switch.value else [*others, row["id"]]
            self._change(Configure(rules_off=tuple(now)))

        switch.on_value_change(acting(turn))

    # --- sources ----

    def _draw_sources(self) -> None:
        sources = self.session.state.sources
        with ui.row():
            title(f"2. Sources ({len(sources)})", 2)
            undo = button("Undo", lambda: self._step(self._studio.undo))
            redo = button("Redo", lambda: self._step(self._studio.redo))
            undo.set_enabled(self.session.can_undo)
            redo.set_enabled(self.session.can_redo)
            button("Add a source", lambda: self._edit(None))
        if not sources:
            soft("No source yet: ask and retrieve, or add one.")
        for place, source in enumerate(sources[:_SHOWN]):
            self._draw_source(place, source)
        if len(sources) > _SHOWN:
            soft(f"{len(sources) - _SHOWN} more sources are read and not shown here.")

    def _draw_source(self, place: int, source: Source) -> None:
        number = place + 1
        with card():
            with ui.row():
                title(f"{number}. {source.title or source.id}", 3)
                if source.rank is not None:
                    soft(f"rank {source.rank}, score {source.score:.2f}")
                for tag in filter(None, [source.change, *source.attacks]):
                    ui.label(tag).classes("studio-tag")
            text = text_label(source.text[:_LONG]).classes("studio-clip").props('tabindex="0"')
            text.props(f'aria-label="Text of source {number}"')
            if len(source.text) > _LONG:
                sentence = f"The first {_LONG:,} of {len(source.text):,} characters"
                soft(f"{sentence}; all of it is read.")
            for rule, atom in source.found_by.items():
                soft(f"found by the rule {rule}" + (f", it grounds {atom}" if atom else ""))
            with ui.row():
                button("Edit", lambda: self._edit(source), label=f"Edit source {number}")
                self._draw_attacks(number, source)
                if place:
                    self._changer("Up", f"Move source {number} up", source, place - 1)
                if number < len(self.session.state.sources):
                    self._changer("Down", f"Move source {number} down", source, place + 1)
                self._changer("Delete", f"Delete source {number}", source, None)

    def _changer(self, text: str, label: str, source: Source, place: int | None) -> None:
        """A button that moves a source, or deletes it."""
        change: Change = Delete(source=source.id)
        if place is not None:
            change = Move(source=source.id, place=place)
        button(text, lambda: self._change(change), label=label)

    def _draw_attacks(self, number: int, source: Source) -> None:
        made = ui.button("Attack").props(f'flat dense aria-label="Attack source {number}"')
        with made, ui.menu():
            for one in self._studio.attacks():
                inject = Inject(source=source.id, attack=one.name)
                put = acting(lambda inject=inject: self._change(inject))  # type: ignore[misc]
                with ui.menu_item(on_click=put), ui.column():
                    ui.label(one.title)
                    soft(one.source)

    def _edit(self, source: Source | None) -> None:
        with parts.in_dialog("Add a source" if source is None else "Edit the source") as dialog:
            name = ui.input("Title", value=source.title if source else "").classes("studio-full")
            text = ui.textarea("Text", value=source.text if source else "")
            text.classes("studio-full").props("autogrow")

            def save() -> None:
                change: Change = Add(title=name.value or "", text=text.value or "")
                if source is not None:
                    change = Edit(source=source.id, title=name.value or "", text=text.value or "")
                self._change(change)
                dialog.close()

            ui.button("Save", on_click=acting(save))

    def _change(self, change: Change) -> None:
        try:
            self._studio.change(self.session.id, change, revision=self.session.revision)
        finally:
            # Where another tab changed it, that is what is shown now.
            self._step(self._studio.session)

    def _step(self, step: Any) -> None:
        self.session = step(self.session.id)
        self._redraw()

    def _redraw(self) -> None:
        for part in (self._sources, self._understood, self._answer):
            part.refresh()
        self._panel.redraw()
        if self._drawn != (asked := self.session.state.question):
            self._drawn, self._asked.value = asked, asked
        self._remark()

    # --- the answer ----

    def _draw_answer(self) -> None:
        reply = self.session.reply
        if reply is None:
            return
        now = reply.state == self.session.state.fingerprint
        if not now:
            soft(f"{EARLIER} It was asked: {reply.question}")
        if reply.opened:
            soft(OPENED)
        text_label(reply.text or "(an empty answer)")
        if reply.holds is not None:
            sentence = "It breaks its instructions" if reply.holds else "It keeps to them"
            kind = ("studio-bad" if reply.holds else "studio-good") if now else "studio-soft"
            ui.label(f"{sentence}: condition “{reply.condition}”").classes(kind)
        soft(reply.generator)
        if reply.before is not None:
            _draw_difference(reply)

    async def _ask(self) -> None:
        session, so_far = self._current().id, ""
        pieces = self._studio.answer_pieces(session)
        try:
            while isinstance(piece := await asyncio.to_thread(next, pieces), str):
                so_far += piece
                self._growing.text = so_far
        finally:
            self._growing.text = ""
        self.session = self._studio.session(session).model_copy(update={"reply": piece})
        self._answer.refresh()

    # --- files ----

    def _save(self) -> None:
        made = json.dumps(self._studio.export(self.session.id), ensure_ascii=False)
        ui.download.content(made, "studio-session.json", "application/json")

    def _rename(self) -> None:
        with parts.in_dialog("Rename the session") as dialog:
            name = ui.input("Name of the session", value=self.session.name)

            def save() -> None:
                self._studio.rename(self.session.id, name.value or "")
                dialog.close()
                ui.navigate.reload()

            ui.button("Save", on_click=acting(save))

    def _delete(self) -> None:
        def forget() -> None:
            self._studio.delete(self.session.id)
            ui.navigate.to("/")

        with parts.in_dialog("Delete this session with its explanations? This cannot be undone."):
            ui.button("Delete it", on_click=acting(forget))


def _draw_difference(reply: Reply) -> None:
    """What is new and gone of the answer before, and the sources that are read otherwise."""
    if reply.before == reply.text:
        soft("The same answer as before.")
    else:
        soft("Against the answer before:")
        with ui.element("p").classes("studio-inline studio-text"):
            for kind, text in reply.words:
                tag = {"added": "ins", "removed": "del"}.get(kind, "span")
                with ui.element(tag).classes(f"studio-{kind}"):
                    ui.label(text)
    for move in reply.moves:
        before, now = move["before"], move["now"]
        if before is None:
            sentence = f"new, read as number {now}"
        elif now is None:
            sentence = f"no longer read, it was number {before}"
        else:
            sentence = f"read as number {now}, it was number {before}" if now != before else ""
        edited = "its text was changed" if move["edited"] else ""
        soft(f"{move['title']}: {', '.join(filter(None, (sentence, edited)))}")
