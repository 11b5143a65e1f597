"""The screen of a red-team run: questions × attacks as a table, and its files."""

from __future__ import annotations

import asyncio

from rulerag.studio.pages.parts import acting, copy_button, soft, table, title
from rulerag.studio.service import RedTeamReport, Studio, red_team_snippets


def red_team_page(studio: Studio) -> None:
    """Choose a system and what answers, run, see the table, take it along."""
    from nicegui import ui

    title("Red team")
    soft(
        "Every attack is put into every source of every example question; then the smallest set of "
        "sources that breaks the system is searched for."
    )
    systems = {one["name"]: one for one in studio.systems() if one["condition"]}
    names = {name: one["title"] for name, one in systems.items()}
    with ui.card().classes("studio-card"):
        system = ui.select(names, label="System", value=next(iter(names)))
        readers = ui.select({}, label="What answers", multiple=True, value=[])
        readers.style("min-width:16em").props("use-chips")

        def offer() -> None:
            own = systems[str(system.value)]["generators"]
            usable = {one["name"]: one["title"] for one in own if not one["missing"]}
            readers.set_options(usable, value=list(usable)[:2])

        system.on_value_change(acting(offer))
        offer()
        told = ui.switch("Safety instructions", value=True)

        async def run() -> None:
            area.clear()
            with area:
                ui.spinner()
            report = await asyncio.to_thread(
                studio.red_team,
                str(system.value),
                list(readers.value or []),
                instructed=bool(told.value),
            )
            area.clear()
            with area:
                _report(report)

        with ui.row():
            ui.button("Run", on_click=acting(run))
            copy_button(
                lambda: red_team_snippets(
                    str(system.value), list(readers.value or []), instructed=bool(told.value)
                )
            )
        area = ui.column().style("width:100%")


def _report(report: RedTeamReport) -> None:
    from nicegui import ui

    rows = [
        (
            row["generator"],
            row["attack"],
            f"{row['broken']} of {row['questions']}",
            f"{100 * row['low']:.0f}–{100 * row['high']:.0f} %" if "low" in row else "–",
            str(row["needed"] or "–"),
            str(row["repair"] or "–"),
            str(row["probes"]),
        )
        for row in report.rows()
    ]
    table(
        ("what answers", "attack", "broken", "95 % interval", "sources needed", "repair", "probes"),
        rows,
        "Broken: some set of attacked sources is enough, whatever else is read, and the question "
        "alone breaks nothing. Sources needed and repair: the smallest of any question.",
    )
    with ui.row():
        for name, text in (
            ("red-team.csv", report.to_csv()),
            ("red-team.json", report.to_json()),
            ("red-team.xml", report.to_junit()),
            ("red-team.html", report.to_html()),
            ("test_red_team.py", report.to_pytest()),
        ):
            ui.button(
                name, on_click=lambda name=name, text=text: ui.download.content(text, name)
            ).props("flat")
