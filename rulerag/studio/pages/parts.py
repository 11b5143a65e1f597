"""What the screens are made of: titles, actions whose errors are shown, code to copy, tables."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rulerag.errors import RuleRAGError
from rulerag.studio.service import Session, snippets


def title(text: str, level: int = 1) -> Any:
    """A heading; its text is shown as it is."""
    from nicegui import ui

    return (
        ui.label(text)
        .props(f'role="heading" aria-level="{level}"')
        .style(f"font-weight:650;font-size:{ {1: 21, 2: 18, 3: 16}[level] }px")
    )


def soft(text: str) -> Any:
    """A remark."""
    from nicegui import ui

    return ui.label(text).classes("studio-soft studio-text")


def text_label(text: str) -> Any:
    """A text of a source or an answer, as it stands."""
    from nicegui import ui

    return ui.label(text).classes("studio-text")


def acting(work: Callable[..., Any]) -> Callable[..., Any]:
    """A handler whose errors are said on the screen, in their own words."""

    @functools.wraps(work)
    async def handler(*args: Any) -> None:
        from nicegui import ui

        wanted = args[: len(inspect.signature(work).parameters)]
        needed = [
            one for one in inspect.signature(work).parameters.values() if one.default is one.empty
        ]
        try:
            made = work(*wanted[: len(needed)])
            if inspect.isawaitable(made):
                await made
        except RuleRAGError as error:
            ui.notify(str(error), type="negative", multi_line=True, close_button="Close")

    # What asks for an event has a parameter; NiceGUI looks at the signature.
    handler.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [one for one in inspect.signature(work).parameters.values() if one.default is one.empty]
    )
    return handler


def code_button(session: Callable[[], Session], action: str) -> None:
    """A button that shows a session's action as Python, command line and curl."""
    copy_button(lambda: snippets(session(), action))


def copy_button(code: Callable[[], Mapping[Any, str]]) -> None:
    """A button that shows code in three ways.

    Args:
        code: the code by ``python``, ``cli`` and ``curl``, as it is when the button is pressed.
    """
    from nicegui import ui

    def show() -> None:
        made = code()
        names = {"python": "Python", "cli": "Command line", "curl": "curl"}
        with ui.dialog(value=True) as dialog, ui.card().classes("studio-card"):
            dialog.on("hide", dialog.delete)
            title("The same as code", 2)
            with ui.tabs() as tabs:
                for kind in made:
                    ui.tab(kind, names[kind])
            with ui.tab_panels(tabs, value="python").style("width:100%"):
                for kind, text in made.items():
                    with ui.tab_panel(kind):
                        ui.label(text).classes("studio-code")

                        def copied(text: str = text) -> None:
                            ui.clipboard.write(text)
                            ui.notify("Copied")

                        ui.button("Copy", on_click=lambda copied=copied: copied())
            ui.button("Close", on_click=dialog.close).props("flat")

    ui.button("Copy as code", on_click=acting(show)).props("flat dense")


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> None:
    """A table of texts."""
    from nicegui import ui

    with (
        ui.element("div").classes("studio-wide").props('tabindex="0"'),
        ui.element("table").classes("studio-table"),
    ):
        with ui.element("caption").style("text-align:left"):
            soft(caption)
        with ui.element("thead"), ui.element("tr"):
            for heading in headings:
                with ui.element("th").props('scope="col"'):
                    ui.label(heading)
        with ui.element("tbody"):
            for row in rows:
                with ui.element("tr"):
                    for cell in row:
                        with ui.element("td"):
                            text_label(cell)
