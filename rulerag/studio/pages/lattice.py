"""What was asked of the subsets of the sources: lattice, bars, and each subset to look at again."""

from __future__ import annotations

import asyncio

from nicegui import ui

from rulerag.studio.pages.parts import acting, button, soft, table, text_label, title
from rulerag.studio.service import Level, Probe, Studio, View

_MOST_ROWS = 256
_ALL_LEVELS = 5
"""Up to so many sources the subsets of every level are shown at once."""


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
        sentence = "The subsets of the sources: which make the condition hold"
        _picture(f"lattice.svg?claim={claim}&probes={view.probes}-{view.status}", view, sentence)
        if not view.finished:
            return
        if view.goal == "claims" and view.claims:
            sentence = "Which sources drive which claim; said in the sentences above"
            _picture(f"flow.svg?probes={view.probes}", view, sentence)
        if claim < len(view.claims) and any(view.claims[claim].retention):
            sentence = "How much each source counts: Banzhaf values of the sets found"
            _picture(f"bars.svg?claim={claim}&probes={view.probes}", view, sentence)
            soft(f"{sentence}, between 0 and 1. Nothing was asked for them.")
        self._draw_nodes(view)
        opened = ui.expansion("Every probe as a table").classes("studio-full")

        def fill() -> None:
            if opened.value and not opened.default_slot.children:
                with opened:
                    self._draw_probes(view)

        opened.on_value_change(acting(fill))

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

    def _draw_nodes(self, view: View) -> None:
        """A button for each subset: of all sizes where they are few, else of one size."""
        levels = self._studio.levels(view.id, self._claim)
        title("Look at one subset, or ask it again", 3)
        if len(view.state.sources) <= _ALL_LEVELS:
            for level in levels:
                with ui.row():
                    self._draw_level(view, level)
        else:
            self._draw_levels(view, {one.kept: one for one in levels if one.asked})
        self._detail = ui.column()

    def _draw_levels(self, view: View, asked: dict[int, Level]) -> None:
        """One size at a time, and any subset by its sources."""
        words = {
            size: f"{size} source{'' if size == 1 else 's'} read: {one.asked} of "
            f"{'over a million' if one.subsets is None else format(one.subsets, ',')} asked, "
            f"{one.holding} hold"
            for size, one in asked.items()
        }
        first = min((size for size, one in asked.items() if one.holding), default=max(asked))
        chosen = ui.select(words, label="Level of the lattice", value=first)
        area = ui.row()

        def show() -> None:
            area.clear()
            with area:
                self._draw_level(view, asked[int(chosen.value)])

        chosen.on_value_change(acting(show))
        show()
        title("Ask with some of the sources", 3)
        places = {n: f"{n + 1}" for n in range(min(len(view.state.sources), 100))}
        some = ui.select(places, multiple=True, value=[], label="Sources that are read")
        some.classes("studio-wide-select").props("use-chips")

        def look() -> None:
            self._show(view, Probe(kept=tuple(sorted(map(int, some.value or ())))))

        ui.button("Look at it", on_click=acting(look))

    def _draw_level(self, view: View, level: Level) -> None:
        nodes = self._studio.nodes(view.id, level.kept, self._claim)
        for node in nodes:
            state = {None: "not asked", True: "holds", False: "does not hold"}[node.holds]
            look = {None: "flat", True: "unelevated", False: "outline"}[node.holds]
            made = ui.button(
                _numbers(node) if node.kept else "∅",
                on_click=acting(lambda node=node: self._show(view, node)),  # type: ignore[misc]
            )
            made.props(f'{look} dense aria-label="Only {_numbers(node)}: {state}"')
        known = sum(one.holds is not None for one in nodes)
        if known < level.asked:
            soft(f"{known} of {level.asked} are shown")

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
    with ui.element("div").classes("studio-wide").props('tabindex="0"'):
        drawn = ui.element("img").classes("studio-picture")
    drawn.props["src"] = f"/api/explanations/{view.id}/{address}"
    drawn.props["alt"] = sentence


def _numbers(probe: Probe) -> str:
    return " ".join(str(place + 1) for place in probe.kept) or "no source"


def _says(probe: Probe) -> str:
    return f"“{probe.output}” (the condition {'holds' if probe.holds else 'does not hold'})"
