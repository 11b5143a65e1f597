"""A picture and the table that says the same, for pages, notebooks and files.

Colours are those of Okabe and Ito (2008, "Color universal design"), which people with the common
kinds of colour blindness tell apart; no meaning rests on colour alone: fill, dash or shape says it
too, so that pictures survive a black and white printer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from rulerag.errors import ConfigError, MissingDependencyError
from rulerag.explanation.views.svg import clean, label, picture, printable, standalone
from rulerag.io import atomic_write, write_text

INK, SOFT, LINE, PALE = "#1c2230", "#5f6b7d", "#c9ced8", "#eef0f4"
BLUE, GREEN, ORANGE, RED = "#0072b2", "#009e73", "#e69f00", "#d55e00"

_KIND = "rulerag-picture"
_PRINTED, _CELL = 40, 240
"""So many rows of a table are printed in a terminal, and letters of a cell."""
_STYLE = (
    f".{_KIND} text{{font:12px system-ui,'Segoe UI',Roboto,Arial,'DejaVu Sans',sans-serif;"
    f"fill:{INK}}}.{_KIND} .soft{{fill:{SOFT}}}.{_KIND} .bold{{font-weight:600}}"
    f".{_KIND} .mid{{text-anchor:middle}}.{_KIND} .end{{text-anchor:end}}"
    f".{_KIND} g:focus-visible{{outline:none}}"
    f".{_KIND} g:focus-visible rect{{stroke:{INK};stroke-width:5}}"
    f".{_KIND} g:focus .tip,.{_KIND} g:hover .tip{{display:inline}}"
)
_BY_WIDTH = (
    "<style>.rulerag-on-phone{display:none}@media (max-width:640px){.rulerag-on-phone{display:"
    "block}.rulerag-on-screen{display:none}}</style>"
)


@dataclass(frozen=True)
class Picture:
    """A drawing with its caption and its table.

    Args:
        title: what is seen, for the caption and for screen readers.
        width: in pixels.
        height: in pixels.
        body: the inside of the SVG; every text in it is escaped.
        headings: of the table.
        rows: of the table, as texts.
        note: how to read the picture; what was left out.
        live: parts of it can be reached with the keyboard and say more.
        narrow: the same drawn for a phone; without one, it scrolls there.
    """

    title: str
    width: float
    height: float
    body: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    live: bool = False
    narrow: Picture | None = None

    @property
    def svg(self) -> str:
        """The picture as an SVG file that needs nothing else."""
        return standalone(self._drawn)

    @property
    def _drawn(self) -> Markup:
        plate = '<rect width="100%" height="100%" fill="#ffffff"/>'
        parts = [plate, self.body]
        told = f"{self.note} The table beside it says the same.".strip()
        drawn = picture(
            _KIND, self.width, self.height, self.title, parts, style=_STYLE, description=told
        )
        return Markup(str(drawn).replace('role="img"', 'role="group"', 1)) if self.live else drawn

    def to_html(self) -> str:
        """A figure for a page: the picture, how to read it, and its table, folded."""
        drawn = self._scrolling
        if self.narrow is not None:
            drawn = (
                f'{_BY_WIDTH}<div class="rulerag-on-screen">{drawn}</div>'
                f'<div class="rulerag-on-phone">{self.narrow._scrolling}</div>'
            )
        return (  # all parts are escaped above
            f'<figure class="picture" style="margin:1rem 0">{drawn}'
            f"<figcaption><strong>{clean(self.title)}</strong> {clean(self.note)}</figcaption>"
            f"{folded_table(self.headings, self.rows)}</figure>"
        )

    @property
    def _scrolling(self) -> str:
        """Drawn so large that its letters can be read; it scrolls where there is less room."""
        return (
            f'<div style="max-width:{self.width:.0f}px;overflow-x:auto" tabindex="0" role="group" '
            f'aria-label="{clean(self.title)}">'
            f'<div style="min-width:{0.85 * self.width:.0f}px">{self._drawn}</div></div>'
        )

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
        elif path.suffix == ".html":
            write_text(path, page_around(self.title, self.to_html()))
        elif path.suffix == ".png":
            with atomic_write(path, "wb") as file:
                file.write(self.png())
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

    def _repr_html_(self) -> str:
        return self.to_html()

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

    def __html__(self) -> str:
        """The same for templates, which escape other texts."""
        return self.to_html()


def folded_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    summary: str = "The same as a table",
) -> Markup:
    """A table that opens where somebody wants it; every text is escaped."""
    head = "".join(f'<th scope="col">{clean(one)}</th>' for one in headings)
    body = "".join(
        "<tr>" + "".join(f'<td dir="auto">{clean(cell)}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    return Markup(  # all cells are escaped above
        f'<details><summary>{clean(summary)}</summary><div class="wide" tabindex="0" '
        'role="group" aria-label="table" style="overflow-x:auto"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></details>"
    )


def page_around(title: str, body: str) -> str:
    """A page of its own that fetches nothing, around a part that is escaped already."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{clean(title)}</title>"
        '<meta name="viewport" content="width=device-width, initial-scale=1"><style>'
        "body{font:16px/1.55 system-ui,sans-serif;color:#1b1f24;max-width:62rem;margin:0 auto;"
        "padding:1rem}table{border-collapse:collapse;font-size:.9rem}td,th{border-bottom:1px solid "
        f"#d9dee4;padding:.25rem .6rem;text-align:left}}</style></head><body>{body}</body></html>\n"
    )


def text_at(x: float, y: float, text: str, kind: str = "", tip: str = "") -> str:
    """A text at a point, its base line at ``y``; ``tip`` shows where a mouse rests."""
    drawn = label(x, y, text, kind)
    return drawn.replace("</text>", f"<title>{clean(tip)}</title></text>") if tip else drawn


def named(indices: Sequence[int], names: Sequence[str], nothing: str = "nothing") -> str:
    """Some sources in words."""
    return ", ".join(names[index] for index in indices) or nothing
