"""The screen of a red-team run: questions × attacks as a table, and its files."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from rulerag.studio.pages.parts import acting, button, card, soft, table, title
from rulerag.studio.service import RedTeamReport, RedTeamRun, RedTeamSuite, Studio


def red_team_page(studio: Studio) -> None:
    """Choose a system and what answers, run, see the table, take it along."""
    title("Red team")
    soft(
        "Every attack is put into every source of every example question; then the smallest set of "
        "sources that breaks the system is searched for."
    )
    systems = {one["name"]: one for one in studio.systems() if one["condition"]}
    names = {name: one["title"] for name, one in systems.items()}
    under_way: list[RedTeamRun] = []
    with card():
        system = ui.select(names, label="System", value=next(iter(names)))
        readers = ui.select({}, label="What answers", multiple=True, value=[])
        readers.classes("studio-wide-select").props("use-chips")

        def offer() -> None:
            own = systems[str(system.value)]["generators"]
            usable = {one["name"]: one["title"] for one in own if not one["missing"]}
            readers.set_options(usable, value=list(usable)[:2])

        system.on_value_change(acting(offer))
        offer()
        instructed = ui.switch("Safety instructions", value=True)

        def run() -> None:
            suite = RedTeamSuite(
                system=str(system.value),
                generators=tuple(readers.value or ()),
                instructed=bool(instructed.value),
            )
            under_way[:] = [studio.start_red_team(suite)]

        def stop() -> None:
            for one in under_way:
                one.stop()

        with ui.row():
            ui.button("Run", on_click=acting(run))
            button("Stop", stop)
        soft(
            "What was tried is kept: a run that was stopped, or whose page was left, goes on where "
            "it was when it is begun again."
        )
        progress = soft("")
        area = ui.column()
    shown: list[Any] = [None]

    def show() -> None:
        for one in under_way:
            report, ended = one.report, one.finished.is_set()
            now = one, len(report.cells), ended
            if now == shown[0]:
                return
            shown[0] = now
            progress.text = f"{len(report.cells)} of {one.expected} tried"
            if one.error:
                progress.text += f"; it ended: {one.error}"
            elif ended and len(report.cells) < one.expected:
                progress.text += "; stopped"
            area.clear()
            with area:
                _report(report)

    ui.timer(0.5, show)


def _report(report: RedTeamReport) -> None:
    found = report.table()
    if not found.rows:
        return
    table(
        found.headings,
        found.rows,
        "Broken: some set of attacked sources is enough, whatever else is read, and the question "
        "alone breaks nothing. Sources needed and repair: the smallest of any question.",
    )
    if report.errors:
        soft(f"{len(report.errors)} could not be tried: {report.errors[0].error}")
    with ui.row():
        for name, make in report.files().items():
            button(name, lambda name=name, make=make: ui.download.content(make(), name))  # type: ignore[misc]
