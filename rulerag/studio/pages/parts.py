"""What the screens are made of: titles, actions whose errors are shown, code to copy, tables."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from rulerag.errors import RuleRAGError
from rulerag.studio.service import Session, snippets

_SHORT = 6
"""A cell of so many characters stands in one line."""


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
            close = {"label": "Close", "color": "white"}
            ui.notify(str(error), type="negative", multi_line=True, actions=[close])

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


def retriever_select(system: Mapping[str, Any], value: str, label: str = "Retriever") -> Any:
    """A choice of what searches; one whose model is not here says so and is not taken.

    Args:
        system: a row of :meth:`~rulerag.studio.service.Studio.systems`.
        value: what is chosen at first.
        label: of the choice.
    """
    return _select({one["name"]: one for one in system["retrievers"]}, value, label)


def generator_select(system: Mapping[str, Any], value: str, label: str = "What answers") -> Any:
    """A choice of what answers, likewise."""
    return _select({one["name"]: one for one in system["generators"]}, value, label)


def _select(rows: Mapping[str, Mapping[str, Any]], value: str, label: str) -> Any:
    from nicegui import ui

    names = {
        name: row["title"] + (" (not here)" if row["missing"] else "") for name, row in rows.items()
    }
    names.setdefault(value, f"{value} (unknown here)")
    chosen = ui.select(names, label=label, value=value)
    before = [value]

    def choose() -> None:
        missing = rows.get(chosen.value, {}).get("missing")
        if missing:
            chosen.value = before[0]
            ui.notify(missing, type="warning", multi_line=True)
        before[0] = chosen.value

    chosen.on_value_change(acting(choose))
    return chosen


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    caption: str,
    look: Callable[[int], Any] | None = None,
) -> None:
    """A table of texts.

    Args:
        headings: of the columns.
        rows: the cells of each.
        caption: what it shows.
        look: what a button of each row does, called with the number of the row from 0.
    """
    from nicegui import ui

    # Not a caption: that is as narrow as its table.
    told = soft(caption)
    with (
        ui.element("div").classes("studio-wide").props('tabindex="0"'),
        ui.element("table").classes("studio-table").props(f'aria-labelledby="{told.html_id}"'),
    ):
        with ui.element("thead"), ui.element("tr"):
            for heading in (*(("look",) if look is not None else ()), *headings):
                with ui.element("th").props('scope="col"'):
                    ui.label(heading)
        with ui.element("tbody"):
            for number, row in enumerate(rows):
                with ui.element("tr"):
                    if look is not None:
                        with ui.element("td").classes("studio-short"):
                            button = ui.button("Look", on_click=acting(partial(look, number)))
                            button.props(f'flat dense aria-label="Look at row {number + 1}"')
                    for cell in row:
                        with ui.element("td").classes("studio-short" * (len(cell) <= _SHORT)):
                            text_label(cell)


@contextmanager
def in_dialog(heading: str) -> Iterator[Any]:
    """A dialog over the screen; what is drawn inside stands in it."""
    from nicegui import ui

    with ui.dialog(value=True) as dialog, ui.card().classes("studio-card studio-dialog"):
        dialog.on("hide", dialog.delete)
        title(heading, 2).classes("studio-text")
        yield dialog
        ui.button("Close", on_click=dialog.close).props("flat")
