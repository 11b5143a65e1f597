"""What the screens are made of: headings, cards, selects, tables, buttons that show errors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from nicegui import ui

from rulerag.errors import RuleRAGError

_SHORT = 6
"""A cell of so many characters stands in one line."""


def title(text: str, level: int = 1) -> ui.label:
    """A heading; its text is shown as it is."""
    made = ui.label(text).classes(f"studio-text studio-title-{level}")
    return made.props(f'role="heading" aria-level="{level}"')


def soft(text: str) -> ui.label:
    """A remark."""
    return ui.label(text).classes("studio-soft studio-text")


def text_label(text: str) -> ui.label:
    """A text of a source or an answer, as it stands."""
    return ui.label(text).classes("studio-text")


@contextmanager
def card(heading: str = "") -> Iterator[Any]:
    """A box on the screen; what is drawn inside stands in it."""
    with ui.card().classes("studio-card") as made:
        if heading:
            title(heading, 2)
        yield made


@contextmanager
def in_dialog(heading: str) -> Iterator[Any]:
    """A dialog over the screen; what is drawn inside stands in it."""
    with ui.dialog(value=True) as dialog, ui.card().classes("studio-card studio-dialog"):
        dialog.on("hide", dialog.delete)
        dialog.props["aria-label"] = heading
        title(heading, 2)
        yield dialog
        ui.button("Close", on_click=dialog.close).props("flat")


@contextmanager
def errors_shown() -> Iterator[None]:
    """What fails inside is said on the screen, in its own words."""
    try:
        yield
    except RuleRAGError as error:
        close = {"label": "Close", "color": "white"}
        ui.notify(str(error), type="negative", multi_line=True, actions=[close])


def acting(work: Callable[[], Any]) -> Callable[[], Any]:
    """A handler whose errors are said on the screen."""

    async def handler() -> None:
        with errors_shown():
            made = work()
            if inspect.isawaitable(made):
                await made

    return handler


def button(
    text: str, work: Callable[[], Any], *, label: str = "", look: str = "flat dense"
) -> ui.button:
    """A button that turns while it works, its errors shown.

    Args:
        text: on it.
        work: what it does.
        label: what a screen reader says in place of the text.
        look: flat among others, or empty for what a card is there for.
    """

    async def press() -> None:
        made.props("loading")
        await acting(work)()
        if not made.is_deleted:
            made.props(remove="loading")

    made = ui.button(text, on_click=press).props(look)
    return made.props(f'aria-label="{label}"') if label else made


def visitor() -> str:
    """The name by which the browser is known, which owns what it begins."""
    request = ui.context.client.request
    return str(request.scope.get("state", {}).get("visitor", ""))


def upload(text: str, taken: Callable[[str, bytes], Any], most: int, **options: Any) -> None:
    """A button that takes files.

    Args:
        text: on it.
        taken: called with the name and the bytes of each.
        most: bytes of a file.
        options: ``accept`` (endings), ``multiple``, and ``rejected`` (called where one is not).
    """

    async def hear(event: Any) -> None:
        await acting(partial(taken, event.file.name, await event.file.read()))()

    # Its own button has no name that a screen reader could say.
    made = ui.upload(
        multiple=options.get("multiple", False),
        auto_upload=True,
        max_file_size=most,
        on_upload=hear,
        on_rejected=options.get("rejected"),
    )
    made.props(f'accept="{options["accept"]}"').style("display:none")
    ui.button(text, on_click=lambda: made.run_method("pickFiles")).props("flat")


def choice(
    label: str,
    rows: Sequence[Mapping[str, Any]],
    value: str,
    chosen: Callable[[str], Any] = lambda name: None,
) -> ui.select:
    """A choice of what searches or answers; one whose model is not here says so and is not taken.

    Args:
        label: of the choice.
        rows: ``retrievers`` or ``generators`` of :meth:`~rulerag.studio.service.Studio.systems`.
        value: what is chosen at first.
        chosen: called with what is chosen then.
    """
    missing = {row["name"]: row["missing"] for row in rows}
    names = {row["name"]: row["title"] + " (not here)" * bool(row["missing"]) for row in rows}
    names.setdefault(value, f"{value} (unknown here)")
    made, before = ui.select(names, label=label, value=value), [value]

    def choose() -> None:
        if missing.get(made.value):
            ui.notify(missing[made.value], type="warning", multi_line=True)
            made.value = before[0]
        elif made.value != before[0]:
            before[0] = made.value
            chosen(made.value)

    made.on_value_change(acting(choose))
    return made


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
    # Not a caption: that is as narrow as its table.
    label = soft(caption)
    with (
        ui.element("div").classes("studio-wide").props('tabindex="0"'),
        ui.element("table").classes("studio-table").props(f'aria-labelledby="{label.html_id}"'),
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
                            button("Look", partial(look, number), label=f"Look at row {number + 1}")
                    for cell in row:
                        with ui.element("td").classes("studio-short" * (len(cell) <= _SHORT)):
                            text_label(cell)


def rank(number: int | None) -> str:
    """A rank, or a dash where there is none."""
    return "–" if number is None else str(number)
