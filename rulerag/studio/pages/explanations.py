"""The explanation beside a session: rules as they arrive, the lattice, probes, cancel, deepen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from rulerag.errors import RuleRAGError
from rulerag.studio.pages.lattice import LatticeView
from rulerag.studio.pages.parts import acting, code_button, soft, text_label, title
from rulerag.studio.service import ClaimView, Rule, Session, Studio, View

_REFRESH = 0.25


class ExplanationPanel:
    """Follows the explanation that was started last, from this page or before it was opened.

    Args:
        studio: the service.
        session: what is explained, as it is now.
        explanation: the one that is shown at first; the last when empty.
    """

    def __init__(
        self, studio: Studio, session: Callable[[], Session], explanation: str = ""
    ) -> None:
        self._studio, self._session = studio, session
        self._first = explanation
        self._view: View | None = None
        self._shown: View | None = None
        self._area: Any = None
        self._lattice = LatticeView(studio)

    def build(self) -> None:
        """Draw it, and look for news while something runs."""
        from nicegui import ui

        self._area = ui.refreshable(self._draw)
        with ui.card().classes("studio-card"):
            title("4. Explain", 2)
            with ui.row().style("gap:8px;align-items:center"):
                if self._has_target:
                    ui.button("Explain the break", on_click=acting(self._start_target))
                ui.button("Explain each claim", on_click=acting(self._start_claims))
                ui.button("What will it cost?", on_click=acting(self._cost)).props("flat dense")
                code_button(self._session, "explain")
            self._area()
        seen = self._session().explanations
        jobs = self._studio.jobs_of(self._session().id)
        latest = self._first or (jobs[-1] if jobs else seen[-1] if seen else "")
        if latest:
            with suppress(RuleRAGError):
                self._view = self._studio.view(latest)
        ui.timer(_REFRESH, self._look)

    @property
    def _has_target(self) -> bool:
        return self._studio.system(self._session().system).settings.condition is not None

    def _look(self) -> None:
        if self._view is not None and (self._shown is None or not self._view.finished):
            with suppress(RuleRAGError):  # deleted in another tab
                self._view = self._studio.view(self._view.id)
        if self._view is not self._shown:
            self._shown = self._view
            self._area.refresh()

    async def _start_target(self) -> None:
        await self._start("target")

    async def _start_claims(self) -> None:
        await self._start("claims")

    async def _start(self, goal: Any) -> None:
        session = self._session()
        self._view = await asyncio.to_thread(self._studio.explain, session.id, goal)
        self._look()

    async def _cost(self) -> None:
        from nicegui import ui

        told = await asyncio.to_thread(self._studio.estimate, self._session().id)
        ui.notify(told["words"])

    def _draw(self) -> None:
        view = self._shown
        if view is None:
            soft("Nothing is explained yet.")
            return
        self._draw_earlier(view)
        self._draw_progress(view)
        for note in view.notes:
            soft(note)
        if view.text:
            _marked(view)
        for number, claim in enumerate(view.claims):
            _claim(view, number, claim)
        if view.shown and view.finished:
            soft(view.shown)
        if view.probes and view.state.sources:
            self._lattice.draw(view)

    def _draw_earlier(self, view: View) -> None:
        """A choice among the explanations of the session, and a link to the one that is shown."""
        from nicegui import ui

        known = self._session_now().explanations
        if view.finished and len(known) > 1 and view.id in known:
            names = {one: f"{n} of {len(known)}" for n, one in enumerate(known, start=1)}
            chosen = ui.select(names, label="Explanation", value=view.id)

            def look() -> None:
                self._view = self._studio.view(str(chosen.value))
                self._look()

            chosen.on_value_change(acting(look))

    def _session_now(self) -> Session:
        """The session with what was explained meanwhile."""
        return self._studio.session(self._session().id)

    def _draw_progress(self, view: View) -> None:
        from nicegui import ui

        with ui.row().style("gap:8px;align-items:center"):
            words = {
                "waiting": "Waits for a free worker",
                "running": "Asking",
                "done": "Done",
                "cancelled": "Cancelled: what is shown is certain by what was answered",
                "failed": "Failed",
            }
            ui.label(words[view.status]).props('role="status"')
            money = "" if view.money is None else f", about {view.money:.2f} in money"
            soft(f"{view.probes} probes, {view.calls} calls, about {view.tokens:,} tokens{money}")
            if not view.finished:
                ui.spinner(size="sm")
                ui.button("Cancel", on_click=acting(self._cancel)).props("flat dense")
            else:
                ui.button("Deepen", on_click=acting(self._deepen)).props("flat dense")
                place = f"/session/{view.session}/{view.id}"
                ui.link("Link to this", place).classes("studio-link")
                ui.link("Report", f"/api/explanations/{view.id}/page", new_tab=True).classes(
                    "studio-link"
                )
        if view.error:
            ui.label(view.error).classes("studio-bad studio-text")

    async def _cancel(self) -> None:
        if self._view is not None:
            await asyncio.to_thread(self._studio.cancel, self._view.id)

    async def _deepen(self) -> None:
        if self._view is not None:
            self._view = await asyncio.to_thread(self._studio.deepen, self._view.id)
            self._look()


def _marked(view: View) -> None:
    """The answer, its claims marked, each with the numbers of its sources."""
    from nicegui import ui

    position = 0
    with ui.element("p").style("margin:0"):
        for claim in view.claims if view.goal == "claims" else ():
            if claim.start is None or claim.end is None or claim.start < position:
                continue
            ui.label(view.text[position : claim.start]).classes("studio-text inline").style(
                "display:inline"
            )
            ui.label(view.text[claim.start : claim.end]).classes("studio-mark studio-text").style(
                "display:inline"
            )
            found = sorted({place + 1 for rule in claim.enough for place in rule.sources})
            numbers = "".join(f"[{one}]" for one in found)
            ui.label(numbers).style("display:inline;font-size:12px;vertical-align:super")
            position = claim.end
        ui.label(view.text[position:]).classes("studio-text").style("display:inline")


def _claim(view: View, number: int, claim: ClaimView) -> None:
    from nicegui import ui

    with ui.column().style("gap:4px;width:100%"):
        if view.goal == "claims":
            title(f"Claim {number + 1}: {claim.text}", 3).classes("studio-text")
        for rule in claim.enough:
            _rule(rule)
        if not claim.enough and claim.complete and not view.state.sources:
            soft("There is no source, so that there is nothing to withstand.")
        elif not claim.enough and claim.complete:
            told = (
                "No rule: whatever of these sources is read, something else keeps the condition "
                "from holding. The system withstands them."
                if view.goal == "target"
                else "No small set of sources was found that is enough for it."
            )
            ui.label(told).classes("studio-good" if view.goal == "target" else "studio-soft")
        gone = [rule for rule in claim.gone if rule.sources]
        if claim.enough and gone:
            least = min(gone, key=lambda rule: len(rule.sources))
            listed = ", ".join(str(place + 1) for place in least.sources)
            if view.goal == "target":
                needed = min(len(rule.sources) for rule in claim.enough)
                soft(f"Sources needed: {needed}. Smallest repair: take out {listed}.")
            for rule in gone[:5]:
                soft(rule.sentence)
            if len(gone) > 5:
                soft(f"and {len(gone) - 5} more such sets, in the report")
        for line in claim.against:
            soft(line)
        if not claim.complete and view.finished:
            soft("The search ended before everything was looked for; “Deepen” goes on.")


def _rule(rule: Rule) -> None:
    from nicegui import ui

    with ui.column().classes("studio-rule").style("gap:0"):
        text_label(rule.sentence)
        told = f" With these alone: “{rule.output[:300]}”." if rule.output is not None else ""
        soft(f"Tested: {rule.certificate}.{told}")
