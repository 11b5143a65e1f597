"""The frame of every screen, its addresses, and the first one: systems and sessions."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

from rulerag.errors import DataFormatError, MissingDependencyError
from rulerag.studio.pages.benches import rules_page
from rulerag.studio.pages.comparing import compare_page
from rulerag.studio.pages.own import own_page
from rulerag.studio.pages.parts import acting, soft, title
from rulerag.studio.pages.redteam import red_team_page
from rulerag.studio.pages.runs import runs_page
from rulerag.studio.pages.sessions import session_page
from rulerag.studio.service import Studio

_STYLE = """
:root { --studio-ink: #1c2230; --studio-soft: #4d5868; --studio-line: #c9ced8; }
body { color: var(--studio-ink); background: #f6f7f9; }
.studio-page { max-width: 1240px; width: 100%; margin: 0 auto; padding: 12px; gap: 12px; }
.studio-card { background: #fff; border: 1px solid var(--studio-line); border-radius: 8px;
  padding: 12px; width: 100%; box-shadow: none; gap: 8px; }
.studio-soft { color: var(--studio-soft); font-size: 14px; }
.studio-text { white-space: pre-wrap; overflow-wrap: anywhere; }
.studio-clip { max-height: 10em; overflow-y: auto; }
.studio-tag { border: 1px solid var(--studio-line); border-radius: 10px; padding: 0 8px;
  font-size: 13px; color: var(--studio-soft); }
.studio-bad { color: #a03000; font-weight: 600; }
.studio-good { color: #00664b; font-weight: 600; }
.studio-mark { background: #dcecf7; border-bottom: 2px solid #0072b2; border-radius: 2px; }
.studio-added { background: #d9f0e5; text-decoration: underline; text-decoration-color: #00664b; }
.studio-removed { background: #f9e3da; text-decoration: line-through; color: #6b2000; }
.studio-rule { border-left: 4px solid #0072b2; padding-left: 8px; }
.studio-code { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 13px;
  white-space: pre-wrap; overflow-wrap: anywhere; background: #eef0f4; padding: 8px;
  border-radius: 6px; width: 100%; }
.studio-two { display: grid; grid-template-columns: minmax(0, 1fr); gap: 12px;
  width: 100%; }
@media (min-width: 900px) { .studio-two { grid-template-columns: repeat(2, minmax(0, 1fr)); } }
.studio-picture { width: 100%; min-width: 560px; height: auto; }
.q-select { min-width: 11em; max-width: 100%; }
.studio-field { width: 100%; max-width: 36em; }
.studio-dialog { max-width: min(900px, 94vw) !important; flex-wrap: nowrap; }
.studio-dialog > * { flex-shrink: 0; }
.studio-wide { width: 100%; overflow-x: auto; }
.studio-table { border-collapse: collapse; font-size: 14px; }
.studio-table th, .studio-table td { text-align: left; padding: 4px 10px 4px 0;
  border-bottom: 1px solid var(--studio-line); vertical-align: top; }
.studio-table .studio-text { overflow-wrap: break-word; }
.studio-table td:not(.studio-short) { min-width: 8em; }
.studio-short { white-space: nowrap; }
.studio-table .q-btn { margin: -4px 0; }
a.studio-link { color: #00507d; text-decoration: underline; }
:focus-visible { outline: 3px solid #e69f00 !important; outline-offset: 2px; }
.q-btn { text-transform: none; }
h1, h2, h3 { margin: 0; line-height: 1.25; }
h1 { font-size: 1.35rem; font-weight: 650; } h2 { font-size: 1.15rem; font-weight: 650; }
h3 { font-size: 1rem; font-weight: 650; }
"""


def add_pages(app: Any, studio: Studio) -> None:
    """Put the screens beside the REST interface of an application.

    Args:
        app: the FastAPI application.
        studio: the service.

    Raises:
        MissingDependencyError: the extra ``studio`` is not installed.
    """
    try:
        from nicegui import ui
    except ImportError as error:
        raise MissingDependencyError("nicegui", "studio") from error
    ui.run_with(
        app,
        root=pages_of(studio),
        title="rulerag studio",
        favicon="🔎",
        language="en-US",
        tailwind=False,
        reconnect_timeout=10.0,
        show_welcome_message=False,
    )


def pages_of(studio: Studio) -> Callable[[], None]:
    """The function that draws whichever screen is addressed."""

    def root() -> None:
        from nicegui import ui

        ui.add_css(_STYLE)
        ui.colors(primary="#00507d", negative="#a03000", positive="#00664b", warning="#f0c050")
        with ui.header(fixed=False).style("background:#1c2230;padding:8px 16px;align-items:center"):
            ui.link("rulerag studio", "/").style(
                "color:#fff;font-weight:650;text-decoration:none;font-size:18px"
            )
            ui.space()
            places = {
                "Compare": "/compare",
                "Red team": "/red-team",
                "Rules": "/rules",
                "Runs": "/runs",
            }
            for text, place in places.items():
                ui.link(text, place).style("color:#fff")
            # Outside the screens: a page of its own.
            ui.link("Interface", "/docs", new_tab=True).style("color:#fff")
        with ui.element("main").classes("studio-page column"):
            ui.sub_pages(
                {
                    "/": lambda: home_page(studio),
                    "/session/{session}": lambda session: session_page(studio, session),
                    "/session/{session}/{explanation}": lambda session, explanation: session_page(
                        studio, session, explanation
                    ),
                    "/compare": lambda: compare_page(studio, ""),
                    "/compare/{session}": lambda session: compare_page(studio, session),
                    "/red-team": lambda: red_team_page(studio),
                    "/rules": lambda: rules_page(studio, ""),
                    "/rules/{system}": lambda system: rules_page(studio, system),
                    "/runs": lambda: runs_page(studio),
                    "/runs/{run}": lambda run: runs_page(studio, run),
                    "/own": lambda: own_page(studio),
                }
            ).classes("w-full").style("width:100%")

    return root


def home_page(studio: Studio) -> None:
    """Systems to begin with, and sessions to go on with."""
    from nicegui import ui

    title("Which sources make a RAG system answer so?")
    soft(
        "Choose a system, ask it, see which of its sources make it answer so, change them, and see "
        "how few of them break it."
    )
    with ui.element("div").classes("studio-two"):
        for system in studio.systems():
            with ui.card().classes("studio-card"):
                title(system["title"], 2)
                soft(system["about"])
                name = system["name"]

                async def begin(name: str = name) -> None:
                    made = await asyncio.to_thread(studio.new_session, name)
                    ui.navigate.to(f"/session/{made.id}")

                ui.button(f"Open {system['title']}", on_click=acting(begin)).props("no-caps")
        with ui.card().classes("studio-card"):
            title("Your own", 2)
            soft(
                "A folder of texts, an endpoint or a model that answers, and what it must not say."
            )
            ui.button("Add a system", on_click=lambda: ui.navigate.to("/own"))
    _sessions(studio)


def _sessions(studio: Studio) -> None:
    from nicegui import events, ui

    title("Sessions", 2)
    with ui.card().classes("studio-card"):
        rows = studio.sessions()
        if not rows:
            soft("None yet.")
        for row in rows[:100]:
            with ui.row().style("width:100%;align-items:center;gap:8px"):
                ui.link(row["name"], f"/session/{row['id']}").classes("studio-link")
                when = time.strftime("%Y-%m-%d %H:%M", time.localtime(row["updated"]))
                soft(f"{row['system']}, {when}")
        if len(rows) > 100:
            soft(f"and {len(rows) - 100} older ones, at /api/sessions")

        async def opened(event: events.UploadEventArguments) -> None:
            data = await event.file.read()
            if len(data) > studio.limits.body:
                raise DataFormatError(f"the file is larger than {studio.limits.body:,} bytes")
            try:
                row = json.loads(data)
            except (ValueError, RecursionError) as error:
                raise DataFormatError(
                    "not a JSON file", hint="what “Save as file” wrote"
                ) from error
            ui.navigate.to(f"/session/{studio.load(row).id}")

        # Its own button has no name that a screen reader could say.
        upload = ui.upload(
            auto_upload=True, max_file_size=studio.limits.body, on_upload=acting(opened)
        )
        upload.props('accept=".json"').style("display:none")
        ui.button("Open a session file", on_click=lambda: upload.run_method("pickFiles"))
