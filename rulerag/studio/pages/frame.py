"""The frame of every screen, its addresses, and the first one: systems and sessions."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from nicegui import ui

from rulerag.errors import DataFormatError
from rulerag.io import read_text
from rulerag.studio.pages import parts
from rulerag.studio.pages.benches import rules_page
from rulerag.studio.pages.comparing import compare_page
from rulerag.studio.pages.own import own_page
from rulerag.studio.pages.parts import button, card, soft, title, upload
from rulerag.studio.pages.redteam import red_team_page
from rulerag.studio.pages.runs import runs_page
from rulerag.studio.pages.sessions import session_page
from rulerag.studio.service import Studio

_STYLE, _SCRIPT = (Path(__file__).with_name(f"studio.{kind}") for kind in ("css", "js"))
_PLACES = {"Compare": "/compare", "Red team": "/red-team", "Rules": "/rules", "Runs": "/runs"}
_SHOWN = 20
"""So many sessions are listed at once."""


def add_pages(app: Any, studio: Studio) -> None:
    """Put the screens beside the REST interface of an application.

    Args:
        app: the FastAPI application.
        studio: the service.
    """
    ui.run_with(
        app,
        root=pages_of(studio),
        title="rulerag studio",
        favicon="🔎",
        language="en-US",
        dark=None,
        tailwind=False,
        reconnect_timeout=10.0,
        show_welcome_message=False,
    )


def pages_of(studio: Studio) -> Callable[[], None]:
    """The function that draws whichever screen is addressed."""
    pages: dict[str, Callable[..., Any]] = {
        "/": partial(home_page, studio),
        "/session/{session}": partial(session_page, studio),
        "/session/{session}/{explanation}": partial(session_page, studio),
        "/compare": partial(compare_page, studio, ""),
        "/compare/{session}": partial(compare_page, studio),
        "/red-team": partial(red_team_page, studio),
        "/rules": partial(rules_page, studio, ""),
        "/rules/{system}": partial(rules_page, studio),
        "/runs": partial(runs_page, studio, ""),
        "/runs/{run}": partial(runs_page, studio),
        "/own": partial(own_page, studio),
    }

    def root() -> None:
        ui.add_css(_STYLE)
        ui.add_body_html(f"<script>{read_text(_SCRIPT)}</script>")
        ui.colors(primary="#00507d", negative="#a03000", positive="#00664b", warning="#f0c050")
        with ui.header(fixed=False).classes("studio-head"):
            ui.link("rulerag studio", "/")
            ui.space()
            for text, place in _PLACES.items():
                ui.link(text, place)
            # Outside the screens: a page of its own.
            ui.link("Interface", "/docs", new_tab=True)
        with ui.element("div").classes("studio-page column"):
            ui.sub_pages(pages).classes("studio-full")

    return root


def home_page(studio: Studio) -> None:
    """Systems to begin with, and sessions to go on with."""
    title("Which sources make a RAG system answer so?")
    soft(
        "Choose a system, ask it, see which of its sources make it answer so, change them, and see "
        "how few of them break it."
    )
    with ui.element("div").classes("studio-two"):
        for system in studio.systems():
            with card(system["title"]):
                soft(system["about"])

                async def begin(name: str = system["name"]) -> None:
                    owner = parts.visitor()
                    made = await asyncio.to_thread(studio.new_session, name, owner=owner)
                    ui.navigate.to(f"/session/{made.id}")

                button(f"Open {system['title']}", begin, look="")
        with card("Your own"):
            soft(
                "A folder of texts, an endpoint or a model that answers, and what it must not say."
            )
            ui.button("Add a system", on_click=lambda: ui.navigate.to("/own"))
    title("Sessions", 2)
    with card():
        _sessions(studio)


def _sessions(studio: Studio) -> None:
    rows, area = studio.sessions(parts.visitor()), ui.column()
    if not rows:
        soft("None yet. Whoever has the address of a session can open it; this list is yours.")

    def more() -> None:
        with area:
            for row in [rows.pop(0) for _ in rows[:_SHOWN]]:
                with ui.row():
                    ui.link(row["name"], f"/session/{row['id']}").classes("studio-link")
                    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(row["updated"]))
                    soft(f"{row['system']}, {when}")
        further.text = f"Show more ({len(rows)})"
        further.set_visibility(bool(rows))

    further = button("", more)
    more()

    async def opened(_: str, data: bytes) -> None:
        if len(data) > studio.limits.body:
            raise DataFormatError(f"the file is larger than {studio.limits.body:,} bytes")
        try:
            row = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise DataFormatError("not a JSON file", hint="what “Save as file” wrote") from error
        made = await asyncio.to_thread(studio.load, row, parts.visitor())
        ui.navigate.to(f"/session/{made.id}")

    upload("Open a session file", opened, studio.limits.body, accept=".json")
