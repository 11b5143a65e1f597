"""The explanation beside a session: what is found as it arrives, the lattice, cancel, deepen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from nicegui import ui

from rulerag.errors import RuleRAGError
from rulerag.explanation.explaining import ExplainedClaim, claim_lines, what_was_shown
from rulerag.studio.pages.lattice import LatticeView
from rulerag.studio.pages.parts import acting, button, card, soft, text_label, title
from rulerag.studio.service import Goal, Session, Studio, View

_REFRESH = 0.25
EARLIER = "Of other sources, another question or other settings than those that are shown now."
OPENED = "From a file: its answers were given elsewhere. “Deepen” or “Ask it again” asks here."
_STATUS = {
    "waiting": "Waits for a free worker",
    "running": "Asking",
    "done": "Done",
    "cancelled": "Cancelled: what is shown is certain by what was answered",
    "failed": "Failed",
}


class ExplanationPanel:
    """Follows the explanation that was started last, from this page or before it was opened.

    Args:
        studio: the service.
        session: what is explained, as it is now; a question that is typed is asked then.
        explanation: the one that is shown at first; the last when empty.
    """

    def __init__(
        self, studio: Studio, session: Callable[[], Session], explanation: str = ""
    ) -> None:
        self._studio, self._session = studio, session
        self._view: View | None = None
        self._shown: View | None = None
        self._area = ui.refreshable(self._draw)
        seen = session()
        self._id = seen.id
        for latest in [explanation] if explanation else seen.explanations[-1:]:
            with suppress(RuleRAGError):
                self._view = studio.view(latest)
        with card("4. Explain"):
            with ui.row():
                if studio.system(seen.system).settings.condition is not None:
                    button("Explain the break", lambda: self._start("target"), look="")
                button("Explain each claim", lambda: self._start("claims"), look="")
                button("What will it cost?", self._cost)
                self._each = ui.switch("Certify each set")
                self._each.tooltip("Of many sources: some 60 calls more for each set")
            self._area()
        ui.timer(_REFRESH, self._look)

    def _look(self) -> None:
        if self._view is not None and (self._shown is None or not self._view.finished):
            with suppress(RuleRAGError):  # deleted in another tab
                self._view = self._studio.view(self._view.id)
        if self._view is not self._shown:
            self._shown = self._view
            self._area.refresh()

    def redraw(self) -> None:
        """Say anew whether what is shown is of the session as it is now."""
        self._area.refresh()

    async def _start(self, goal: Goal) -> None:
        session, each = self._session().id, bool(self._each.value)
        self._view = await asyncio.to_thread(self._studio.explain, session, goal, each=each)
        self._look()

    async def _cost(self) -> None:
        cost = await asyncio.to_thread(self._studio.estimate, self._session().id)
        ui.notify(cost["words"])

    def _draw(self) -> None:
        view = self._shown
        if view is None:
            soft("Nothing is explained yet.")
            return
        self._draw_earlier(view)
        self._draw_progress(view)
        state = self._studio.session(self._id).state
        now = view.state.fingerprint == state.fingerprint
        if not now:
            ui.label(f"{EARLIER} It was asked: {view.state.question}").classes("studio-bad")
        draw_claims(view, now=now)
        if view.explanation is not None and view.claims and view.finished:
            soft(what_was_shown(view.explanation))
        if view.probes and view.state.sources:
            LatticeView(self._studio, view)

    def _draw_earlier(self, view: View) -> None:
        """A choice among the explanations of the session, with what was explained meanwhile."""
        known = self._studio.session(self._id).explanations
        if view.finished and len(known) > 1 and view.id in known:
            names = {one: f"{n} of {len(known)}" for n, one in enumerate(known, start=1)}
            chosen = ui.select(names, label="Explanation", value=view.id)

            def look() -> None:
                self._view = self._studio.view(str(chosen.value))
                self._look()

            chosen.on_value_change(acting(look))

    def _draw_progress(self, view: View) -> None:
        with ui.row():
            ui.label(_STATUS[view.status]).props('role="status"')
            sentence = f"{view.probes} probes"
            if known := view.explanation:
                money = "" if known.money is None else f", about {known.money:.2f} in money"
                sentence += f", {known.num_calls} calls, about {known.tokens:,} tokens{money}"
            soft(sentence)
            if not view.finished:
                ui.spinner(size="sm")
                button("Cancel", lambda: asyncio.to_thread(self._studio.cancel, view.id))
            else:
                button("Deepen", self._deepen)
                place = f"/session/{view.session}/{view.id}"
                ui.link("Link to this", place).classes("studio-link")
                report = f"/api/explanations/{view.id}/page"
                ui.link("Report", report, new_tab=True).classes("studio-link")

    async def _deepen(self) -> None:
        if self._view is not None:
            self._view = await asyncio.to_thread(self._studio.deepen, self._view.id)
            self._look()


def draw_claims(view: View, *, now: bool = True) -> None:
    """What went wrong, the answer, and what each claim of it, or the target, rests on.

    Args:
        view: the explanation.
        now: it is of what is read now; else nothing of it is praised.
    """
    if view.opened:
        soft(OPENED)
    if view.error:
        ui.label(view.error).classes("studio-bad studio-text")
    for note in view.explanation.notes if view.explanation is not None else ():
        soft(note)
    if view.text:
        _draw_marked(view)
    for number, claim in enumerate(view.claims, start=1):
        with ui.column():
            title(claim.condition or f"Claim {number}: {claim.text}", 3)
            _draw_claim(view, claim, now=now)


def _draw_marked(view: View) -> None:
    """The answer, its claims marked, each with the numbers of its sources."""
    position = 0
    with ui.element("p").classes("studio-inline"):
        for claim in view.claims if view.goal == "claims" else ():
            if claim.start is None or claim.end is None or claim.start < position:
                continue
            text_label(view.text[position : claim.start])
            text_label(view.text[claim.start : claim.end]).classes("studio-mark")
            numbers = "".join(f"[{place + 1}]" for place in claim.sources)
            ui.label(numbers).classes("studio-number")
            position = claim.end
        text_label(view.text[position:])


def _draw_claim(view: View, claim: ExplainedClaim, *, now: bool) -> None:
    assert view.explanation is not None  # noqa: S101 - it has the claim
    target = view.goal == "target"
    if not view.state.sources:
        soft("There is no source, so that there is nothing to withstand.")
    elif target and claim.complete and not claim.retention:
        sentence = "No set of these sources is enough, whatever else is read. The system withstands"
        kind = "studio-good" if now else "studio-soft"
        ui.label(f"{sentence} {'them' if now else 'those'}.").classes(kind)
    else:
        for line in claim_lines(claim, view.explanation):
            text_label(f"{line[0].upper()}{line[1:]}").classes("studio-rule")
    if target and claim.retention:
        needed = min(map(len, claim.retention))
        least = sorted(min(claim.omission, key=len, default=()))
        listed = ", ".join(str(place + 1) for place in least) or "nothing helps"
        soft(f"Sources needed: {needed}. Smallest repair: take out {listed}.")
    if view.finished and not claim.complete:
        soft("The search ended before everything was looked for; “Deepen” goes on.")
