"""What was asked of the subsets of the sources: lattice, bars, and each subset to look at again."""

from __future__ import annotations

import asyncio
from typing import Any

from rulerag.studio.pages.parts import acting, soft, table, text_label, title
from rulerag.studio.service import Node, Probe, Studio, View

_MOST_ROWS = 256
_ALL_LEVELS = 5
"""Up to so many sources the subsets of every level are shown at once."""


class LatticeView:
    """The pictures of an explanation and its subsets, of the claim that is looked at.

    Args:
        studio: the service.
    """

    def __init__(self, studio: Studio) -> None:
        self._studio = studio
        self._of: tuple[str, int] = ("", 0)
        """The explanation and the claim that is looked at."""
        self._told: Any = None
        self._area: Any = None

    def draw(self, view: View) -> None:
        """Draw what is known; buttons come when the explanation has stopped."""
        from nicegui import ui

        if self._of[0] != view.id:
            self._of = view.id, 0
        self._area = ui.refreshable(self._draw)
        self._area(view)

    def _draw(self, view: View) -> None:
        from nicegui import ui

        claim = self._of[1]
        if view.finished and len(view.claims) > 1:
            names = {n: f"{n + 1}: {one.text[:60]}" for n, one in enumerate(view.claims)}
            chosen = ui.select(names, label="Claim that is looked at", value=claim)

            def look() -> None:
                self._of = view.id, int(chosen.value)
                self._area.refresh(view)

            chosen.on_value_change(acting(look))
        _picture(
            f"lattice.svg?claim={claim}&probes={view.probes}-{view.status}",
            view,
            "The subsets of the sources: which make the condition hold",
        )
        if not view.finished:
            return
        if view.goal == "claims" and view.claims:
            told = "Which sources drive which claim; said in the sentences above"
            _picture(f"flow.svg?calls={view.calls}", view, told)
        if claim < len(view.claims) and any(one.sources for one in view.claims[claim].enough):
            told = "How much each source counts: Banzhaf values of the rules found"
            _picture(f"bars.svg?claim={claim}&calls={view.calls}", view, told)
            soft(f"{told}, between 0 and 1. Nothing was asked for them.")
        self._draw_nodes(view)
        if len(view.state.sources) > _ALL_LEVELS:
            self._draw_subset(view)
        opened = ui.expansion("Every probe as a table").style("width:100%")

        def fill() -> None:
            if opened.value and not opened.default_slot.children:
                with opened:
                    self._draw_probes(view)

        opened.on_value_change(acting(fill))

    def _draw_probes(self, view: View) -> None:
        probes = self._studio.job(view.id).probes(self._of[1])
        rows = [
            (_numbers(one.kept), "yes" if one.holds else "no", one.output[:500])
            for one in probes[:_MOST_ROWS]
        ]
        left = len(probes) - len(rows)
        more = f"; {left} more at /api/explanations/{view.id}/probes" if left > 0 else ""
        what = "condition" if view.goal == "target" else f"claim {self._of[1] + 1}"
        table(
            ("sources read", "holds", "answer"), rows, f"{len(probes)} probes of the {what}{more}"
        )

    def _draw_nodes(self, view: View) -> None:
        """A button for each subset: of all sizes where they are few, else of one size."""
        from nicegui import ui

        levels = self._studio.levels(view.id, self._of[1])
        title("Look at one subset, or ask it again", 3)
        with ui.column().style("gap:4px;width:100%"):
            if len(view.state.sources) <= _ALL_LEVELS:
                for level in levels:
                    with ui.row().style("gap:4px"):
                        for node in self._studio.nodes(view.id, level.kept, self._of[1]):
                            self._node(view, node)
            else:
                self._draw_level(view, levels)
            self._told = ui.column().style("gap:4px;width:100%")

    def _draw_level(self, view: View, levels: list[Any]) -> None:
        from nicegui import ui

        asked = {one.kept: one for one in levels if one.asked}
        words = {
            size: f"{size} source{'' if size == 1 else 's'} read: {one.asked} of "
            f"{'over a million' if one.subsets is None else format(one.subsets, ',')} asked, "
            f"{one.holding} hold"
            for size, one in asked.items()
        }
        first = min((size for size, one in asked.items() if one.holding), default=max(asked))
        chosen = ui.select(words, label="Level of the lattice", value=first)
        area = ui.row().style("gap:4px")

        def show() -> None:
            area.clear()
            with area:
                nodes = self._studio.nodes(view.id, int(chosen.value), self._of[1])
                for node in nodes:
                    self._node(view, node)
                known = sum(one.holds is not None for one in nodes)
                if known < asked[int(chosen.value)].asked:
                    soft(f"{known} of {asked[int(chosen.value)].asked} are shown")

        chosen.on_value_change(acting(show))
        show()

    def _node(self, view: View, node: Node) -> None:
        from nicegui import ui

        state = {None: "not asked", True: "holds", False: "does not hold"}[node.holds]
        look = {None: "flat", True: "unelevated", False: "outline"}[node.holds]

        def show() -> None:
            self._told.clear()
            with self._told:
                self._tell(view, node)

        numbers = _numbers(node.kept)
        button = ui.button(numbers if node.kept else "∅", on_click=acting(show))
        button.props(f'{look} dense aria-label="Only {numbers}: {state}"')

    def _tell(self, view: View, node: Node) -> None:
        from nicegui import ui

        names = [view.state.sources[place].title or f"source {place + 1}" for place in node.kept]
        soft(f"Read: {', '.join(names) or 'no source'}")
        probe = None if node.holds is None else self._probe(view, node.kept)
        said = text_label("Not asked yet." if probe is None else _says(probe))

        async def ask() -> None:
            new = await asyncio.to_thread(
                self._studio.probe, view.id, node.kept, again=probe is not None
            )
            same = probe is not None and probe.output == new.output
            said.text = _says(new) + (" The same as before." if same else "")

        ui.button("Ask" if probe is None else "Ask it again", on_click=acting(ask)).props("flat")

    def _probe(self, view: View, kept: tuple[int, ...]) -> Probe | None:
        probes = self._studio.job(view.id).probes(self._of[1])
        return next((one for one in probes if one.kept == kept), None)

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


def _picture(address: str, view: View, told: str) -> None:
    """A picture as a document of its own, in which nothing runs."""
    from nicegui import ui

    with ui.element("div").classes("studio-wide").props('tabindex="0"'):
        drawn = ui.element("img").classes("studio-picture")
    drawn.props["src"] = f"/api/explanations/{view.id}/{address}"
    drawn.props["alt"] = told


def _numbers(kept: tuple[int, ...]) -> str:
    return " ".join(str(place + 1) for place in kept) or "no source"


def _says(probe: Probe) -> str:
    return f"“{probe.output}” (the condition {'holds' if probe.holds else 'does not hold'})"
