"""The screen of a red-team run: questions × attacks as a table, and its files."""

from __future__ import annotations

from typing import Any

from rulerag.studio.pages.parts import acting, copy_button, soft, table, title
from rulerag.studio.service import RedTeamReport, RedTeamRun, Studio, red_team_snippets


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

        shown: dict[str, Any] = {"run": None, "cells": -1}

        def run() -> None:
            shown["run"] = studio.start_red_team(
                str(system.value), list(readers.value or []), instructed=bool(told.value)
            )
            shown["cells"] = -1
            show()

        def stop() -> None:
            if shown["run"] is not None:
                shown["run"].stop()

        def show() -> None:
            under_way: RedTeamRun | None = shown["run"]
            if under_way is None:
                return
            ended, report = under_way.finished.is_set(), under_way.report
            if shown["cells"] == (len(report.cells), ended):
                return
            shown["cells"] = (len(report.cells), ended)
            progress.text = f"{len(report.cells)} of {under_way.expected} tried"
            if under_way.error:
                progress.text += f"; it ended: {under_way.error}"
            elif ended and len(report.cells) < under_way.expected:
                progress.text += "; stopped"
            area.clear()
            with area:
                _report(report)

        with ui.row().style("align-items:center"):
            ui.button("Run", on_click=acting(run))
            ui.button("Stop", on_click=acting(stop)).props("flat")
            copy_button(
                lambda: red_team_snippets(
                    str(system.value), list(readers.value or []), instructed=bool(told.value)
                )
            )
        soft(
            "What was tried is kept: a run that was stopped, or whose page was left, goes on where "
            "it was when it is begun again."
        )
        progress = soft("")
        area = ui.column().style("width:100%")
        ui.timer(0.5, show)


def _report(report: RedTeamReport) -> None:
    from nicegui import ui

    rows = [
        (
            row["generator"],
            row["attack"],
            f"{row['by_itself']} of {row['questions']}",
            f"{row['broken']} of {row['questions'] - row['by_itself']}",
            f"{100 * row['low']:.0f}–{100 * row['high']:.0f} %" if "low" in row else "–",
            "–" if row["needed"] is None else str(row["needed"]),
            "–" if row["repair"] is None else str(row["repair"]),
            str(row["probes"]),
        )
        for row in report.rows()
    ]
    if not rows:
        return
    headings = "what answers, attack, breaks without an attack, broken, 95 % interval"
    table(
        (*headings.split(", "), "sources needed", "repair", "probes"),
        rows,
        "Broken: some set of attacked sources is enough, whatever else is read, and the question "
        "alone breaks nothing. Sources needed and repair: the smallest of any question.",
    )
    if report.errors:
        soft(f"{len(report.errors)} could not be tried: {report.errors[0].error}")
    with ui.row():
        for name, make in (
            ("red-team.csv", report.to_csv),
            ("red-team.json", report.to_json),
            ("red-team.xml", report.to_junit),
            ("red-team.html", report.to_html),
            ("test_red_team.py", report.to_pytest),
        ):
            ui.button(
                name, on_click=lambda name=name, make=make: ui.download.content(make(), name)
            ).props("flat")
