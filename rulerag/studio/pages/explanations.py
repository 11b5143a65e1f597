"""The explanation beside a session: rules as they arrive, the lattice, probes, cancel, deepen."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from rulerag.errors import RuleRAGError
from rulerag.studio.pages.parts import acting, code_button, soft, table, text_label, title
from rulerag.studio.service import ClaimView, Probe, Rule, Session, Studio, View

_REFRESH = 0.25
_MOST_ROWS = 256
_CLICKED = 5
"""Up to so many sources each subset has a button."""


class ExplanationPanel:
    """Follows the explanation that was started last, from this page or before it was opened.

    Args:
        studio: the service.
        session: what is explained, as it is now.
    """

    def __init__(self, studio: Studio, session: Callable[[], Session]) -> None:
        self._studio, self._session = studio, session
        self._view: View | None = None
        self._shown: View | None = None
        self._area: Any = None
        self._told: Any = None

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
        latest = jobs[-1] if jobs else (seen[-1] if seen else None)
        if latest is not None:
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
            self._draw_lattice(view)

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

    def _draw_lattice(self, view: View) -> None:
        from nicegui import ui

        # As a picture of its own: a document in which nothing runs.
        source = f"/api/explanations/{view.id}/lattice.svg?probes={view.probes}-{view.status}"
        with ui.element("div").classes("studio-wide").props('tabindex="0"'):
            picture = ui.element("img").classes("studio-picture")
        picture.props["src"] = source
        picture.props["alt"] = "The subsets of the sources: which make the condition hold"
        if not view.finished:
            return
        if view.goal == "claims" and view.claims:
            with ui.element("div").classes("studio-wide").props('tabindex="0"'):
                flow = ui.element("img").classes("studio-picture")
            flow.props["src"] = f"/api/explanations/{view.id}/flow.svg?calls={view.calls}"
            flow.props["alt"] = "Which sources drive which claim; said in the sentences above"
        if len(view.state.sources) <= _CLICKED:
            self._draw_nodes(view)
        else:
            self._draw_subset(view)
        opened = ui.expansion("Every probe as a table").style("width:100%")

        def fill() -> None:
            if opened.value and not opened.default_slot.children:
                with opened:
                    self._draw_probes(view)

        opened.on_value_change(acting(fill))

    def _draw_probes(self, view: View) -> None:
        probes = self._studio.job(view.id).probes()
        rows = [
            (
                " ".join(str(place + 1) for place in one.kept) or "none",
                "yes" if one.holds else "no",
                one.output[:500],
            )
            for one in probes[:_MOST_ROWS]
        ]
        left = len(probes) - len(rows)
        more = f"; {left} more at /api/explanations/{view.id}/probes" if left > 0 else ""
        what = "condition" if view.goal == "target" else "first claim"
        table(
            ("sources read", "holds", "answer"), rows, f"{len(probes)} probes of the {what}{more}"
        )

    def _draw_nodes(self, view: View) -> None:
        """A button for each subset, a row for each number of sources kept."""
        from nicegui import ui

        known = {one.kept: one for one in self._studio.job(view.id).probes()}
        count = len(view.state.sources)
        title("Look at one subset, or ask it again", 3)
        with ui.column().style("gap:4px;width:100%"):
            for size in range(count, -1, -1):
                with ui.row().style("gap:4px"):
                    for kept in itertools.combinations(range(count), size):
                        self._node(view, kept, known.get(kept))
            self._told = ui.column().style("gap:4px;width:100%")

    def _node(self, view: View, kept: tuple[int, ...], probe: Probe | None) -> None:
        from nicegui import ui

        numbers = " ".join(str(place + 1) for place in kept)
        state = "not asked" if probe is None else "holds" if probe.holds else "does not hold"
        look = {"not asked": "flat", "holds": "unelevated", "does not hold": "outline"}[state]

        def show() -> None:
            self._told.clear()
            with self._told:
                self._tell_node(view, kept, probe)

        button = ui.button(numbers or "∅", on_click=acting(show)).props(f"{look} dense")
        button.props(f'aria-label="Only {numbers or "no source"}: {state}"')

    def _tell_node(self, view: View, kept: tuple[int, ...], probe: Probe | None) -> None:
        from nicegui import ui

        names = [view.state.sources[place].title or f"source {place + 1}" for place in kept]
        soft(f"Read: {', '.join(names) or 'no source'}")
        said = text_label("Not asked yet." if probe is None else _says(probe))

        async def ask() -> None:
            new = await asyncio.to_thread(
                lambda: self._studio.probe(view.id, kept, again=probe is not None)
            )
            same = probe is not None and probe.output == new.output
            said.text = _says(new) + (" The same as before." if same else "")

        ui.button("Ask" if probe is None else "Ask it again", on_click=acting(ask)).props("flat")

    def _draw_subset(self, view: View) -> None:
        from nicegui import ui

        places = {n: f"{n + 1}" for n in range(min(len(view.state.sources), 100))}
        with ui.column().style("gap:4px;width:100%"):
            title("Ask with some of the sources", 3)
            chosen = ui.select(places, multiple=True, value=[], label="Sources that are read")
            chosen.style("min-width:16em").props("use-chips")
            said = ui.label("").classes("studio-text")

            async def ask() -> None:
                probe = await asyncio.to_thread(
                    self._studio.probe, view.id, [int(one) for one in chosen.value or []]
                )
                said.text = _says(probe)

            ui.button("Ask", on_click=acting(ask))


def _says(probe: Probe) -> str:
    return f"“{probe.output}” (the condition {'holds' if probe.holds else 'does not hold'})"


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
        if not claim.enough and claim.complete:
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
