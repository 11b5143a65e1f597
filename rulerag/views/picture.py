"""A picture, drawn for a screen and for a phone, with the table that says the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from rulerag.errors import ConfigError, MissingDependencyError
from rulerag.io import atomic_write, write_text
from rulerag.views.page import Block
from rulerag.views.svg import frame, printable, standalone

WIDE, NARROW = 900.0, 350.0
"""Pixels of a picture on a screen and on a phone."""

_PRINTED, _CELL = 40, 240
"""So many rows of a table are printed in a terminal, and letters of a cell."""

Draw = Callable[[float], tuple[float, str]]
"""Draws on so many pixels: the height, and elements whose texts are escaped."""


@dataclass(frozen=True)
class Picture(Block):
    """A drawing with its caption and its table.

    Args:
        title: what is seen, for the caption and for screen readers.
        wide: the height and the elements of the drawing for a screen.
        narrow: those for a phone.
        headings: of the table.
        rows: of the table, as texts.
        note: how to read the picture; what was left out.
        live: parts of it can be reached with the keyboard and say more.
    """

    kind = "picture"
    title: str
    wide: tuple[float, str]
    narrow: tuple[float, str]
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    live: bool = False

    @property
    def svg(self) -> str:
        """The picture as an SVG file that needs nothing else."""
        return standalone(WIDE, self.wide[0], self.title, self._frame(WIDE, self.wide))

    @property
    def phone(self) -> str:
        """The same for a phone."""
        return standalone(NARROW, self.narrow[0], self.title, self._frame(NARROW, self.narrow))

    @property
    def inline(self) -> tuple[Markup, Markup]:
        """The drawings for a page, for a screen and for a phone."""
        return self._frame(WIDE, self.wide), self._frame(NARROW, self.narrow)

    def _frame(self, width: float, drawing: tuple[float, str]) -> Markup:
        height, body = drawing
        note = f"{self.note} The table beside it says the same.".strip()
        return frame(width, height, self.title, body, note, live=self.live)

    def save(self, path: str | Path) -> Path:
        """Write the picture as ``.svg``, ``.png`` or ``.html``, by the end of the name.

        Raises:
            ConfigError: another end.
            MissingDependencyError: PNG without the extra ``pictures``.
            OutputError: the file cannot be written.
        """
        path = Path(path)
        if path.suffix == ".svg":
            write_text(path, self.svg)
        elif path.suffix == ".png":
            with atomic_write(path, "wb") as file:
                file.write(self.png())
        elif path.suffix == ".html":
            super().save(path)
        else:
            raise ConfigError(
                f"a picture is not written as {path.suffix or path.name!r}",
                key="path",
                hint="NAME.svg, NAME.png or NAME.html",
            )
        return path

    def png(self, zoom: int = 2) -> bytes:
        """The picture in pixels.

        Args:
            zoom: pixels of the file for one of the picture.

        Raises:
            MissingDependencyError: the extra ``pictures`` is not installed.
        """
        try:
            import resvg_py
        except ImportError as error:
            raise MissingDependencyError("resvg-py", "pictures") from error
        return bytes(resvg_py.svg_to_bytes(svg_string=self.svg, zoom=zoom))

    def __rich__(self) -> Any:
        """The picture in a terminal: its title, its table and how to read it."""
        from rich.box import SIMPLE_HEAD
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        for heading in self.headings:
            table.add_column(Text(printable(heading)), overflow="fold")
        for row in self.rows[:_PRINTED]:
            cells = [one if len(one) <= _CELL else f"{one[: _CELL - 1]}…" for one in row]
            table.add_row(*(Text(printable(cell)) for cell in cells))
        more = len(self.rows) - _PRINTED
        rest = [f"and {more:,} further rows"] if more > 0 else []
        below = [Text(printable(line), "dim") for line in (*rest, self.note) if line]
        return Group(Text(printable(self.title), "bold"), table, *below)

    def __str__(self) -> str:
        """The same as plain text, 80 columns wide."""
        from rich.console import Console

        console = Console(width=80, color_system=None, force_terminal=False, force_jupyter=False)
        with console.capture() as captured:
            console.print(self)
        return "\n".join(line.rstrip() for line in captured.get().rstrip().splitlines())


def picture_of(
    draw: Draw,
    title: str,
    headings: tuple[str, ...],
    rows: tuple[tuple[str, ...], ...],
    note: str = "",
    *,
    live: bool = False,
) -> Picture:
    """A picture of what a function draws on any width."""
    return Picture(title, draw(WIDE), draw(NARROW), headings, rows, note, live)
