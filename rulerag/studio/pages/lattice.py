"""What was asked of the subsets of the sources: the lattice, whose nodes are buttons, and bars."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from nicegui import ui

from rulerag.errors import ConfigError
from rulerag.studio.pages.parts import acting, button, soft, table, text_label
from rulerag.studio.service import Probe, Studio, View
from rulerag.views import Picture

_MOST_ROWS = 256


class LatticeView:
    """The pictures of an explanation and its subsets, of the claim that is looked at.

    Buttons come when the explanation has stopped.

    Args:
        studio: the service.
        view: the explanation.
    """

    def __init__(self, studio: Studio, view: View) -> None:
        self._studio, self._view, self._claim = studio, view, 0
        self._area = ui.refreshable(self._draw)
        self._area()

    def _look(self, claim: int) -> None:
        self._claim = claim
        self._area.refresh()

    def _draw(self) -> None:
        view, claim = self._view, self._claim
        if view.finished and len(view.claims) > 1:
            names = {n: f"{n + 1}: {one.text[:60]}" for n, one in enumerate(view.claims)}
            chosen = ui.select(names, label="Claim that is looked at", value=claim)
            chosen.on_value_change(lambda event: self._look(int(event.value)))
        with suppress(ConfigError):  # nothing is known yet
            self._draw_lattice(self._studio.job(view.id).picture("lattice", claim, plain=True))
        if not view.finished:
            return
        self._detail = ui.column()
        self._draw_any(view)
        if view.goal == "claims" and view.claims:
            sentence = "Which sources drive which claim; said in the sentences above"
            _picture(f"flow.svg?probes={view.probes}", view, sentence)
        if claim < len(view.claims) and any(view.claims[claim].retention):
            sentence = "How much each source counts: Banzhaf values of the sets found"
            _picture(f"bars.svg?claim={claim}&probes={view.probes}", view, sentence)
            soft(f"{sentence}, between 0 and 1. Nothing was asked for them.")
        opened = ui.expansion("Every probe as a table").classes("studio-full")

        def fill() -> None:
            if opened.value and not opened.default_slot.children:
                with opened:
                    self._draw_probes(view)

        opened.on_value_change(acting(fill))

    def _draw_lattice(self, drawn: Picture) -> None:
        """Its nodes are buttons; no text of a source is in it, so that the page may hold it."""
        both = zip(
            ("studio-wide-only", "studio-narrow-only"), (drawn.svg, drawn.phone), strict=True
        )
        inside = "".join(f'<div class="{name}">{svg}</div>' for name, svg in both)
        inside = inside.replace('tabindex="0" role="img"', 'tabindex="0" role="button"')
        made = ui.html(inside, sanitize=False).classes("studio-lattice")
        if self._view.finished:
            sources = range(len(self._view.state.sources))

            def look(event: Any) -> None:
                self._look_at(place for place in sources if int(event.args) >> place & 1)

            for kind in ("click", "keydown"):
                made.on(kind, look, js_handler="(event) => chosenNode(event, emit)")

    def _draw_probes(self, view: View) -> None:
        probes = self._studio.probes(view.id, self._claim)
        rows = [
            (_numbers(one), "yes" if one.holds else "no", (one.output or "")[:500])
            for one in probes[:_MOST_ROWS]
        ]
        left = len(probes) - len(rows)
        more = f"; {left} more at /api/explanations/{view.id}/probes" if left > 0 else ""
        what = "condition" if view.goal == "target" else f"claim {self._claim + 1}"
        caption = f"{len(probes)} probes of the {what}{more}"
        table(("sources read", "holds", "answer"), rows, caption)

    def _draw_any(self, view: View) -> None:
        """Any subset by its sources, for who has no mouse or more sources than a lattice shows."""
        places = {n: f"{n + 1}" for n in range(min(len(view.state.sources), 100))}
        with ui.row():
            some = ui.select(places, multiple=True, value=[], label="Look at some sources alone")
            some.classes("studio-wide-select").props("use-chips")
            button("Look at them", lambda: self._look_at(map(int, some.value or ())))

    def _look_at(self, kept: Iterable[int]) -> None:
        known = {one.kept: one for one in self._studio.probes(self._view.id, self._claim)}
        wanted = tuple(sorted(kept))
        self._show(self._view, known.get(wanted) or Probe(kept=wanted))

    def _show(self, view: View, node: Probe) -> None:
        """What one subset answers, and a button that asks it."""
        names = [view.state.sources[place].title or f"source {place + 1}" for place in node.kept]
        self._detail.clear()
        with self._detail:
            soft(f"Read: {', '.join(names) or 'no source'}")
            reply = text_label("Not asked yet." if node.output is None else _says(node))

            async def ask() -> None:
                again, ask_job = node.output is not None, self._studio.job(view.id).ask
                new = await asyncio.to_thread(ask_job, node.kept, self._claim, again=again)
                same = node.output == new.output
                reply.text = _says(new) + " The same as before." * same

            button("Ask" if node.output is None else "Ask it again", ask)


def _picture(address: str, view: View, sentence: str) -> None:
    """A picture as a document of its own, in which nothing runs."""
    place = f"/api/explanations/{view.id}/{address}"
    with ui.element("picture"):
        phone = ui.element("source").props('media="(max-width: 700px)"')
        phone.props["srcset"] = f"{place}&phone=true"
        drawn = ui.element("img").classes("studio-picture")
    drawn.props["src"], drawn.props["alt"] = place, sentence


def _numbers(probe: Probe) -> str:
    return " ".join(str(place + 1) for place in probe.kept) or "no source"


def _says(probe: Probe) -> str:
    return f"“{probe.output}” (the condition {'holds' if probe.holds else 'does not hold'})"
