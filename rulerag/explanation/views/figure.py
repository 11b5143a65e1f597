"""A picture and the table that says the same, for pages, notebooks and files.

Colours are those of Okabe and Ito (2008, "Color universal design"), which people with the common
kinds of colour blindness tell apart; no meaning rests on colour alone: fill, dash or shape says it
too, so that pictures survive a black and white printer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from rulerag.errors import ConfigError, MissingDependencyError
from rulerag.explanation.views.svg import clean, label, picture, standalone
from rulerag.io import atomic_write, write_text

INK, SOFT, LINE, PALE = "#1c2230", "#5f6b7d", "#c9ced8", "#eef0f4"
BLUE, GREEN, ORANGE, RED = "#0072b2", "#009e73", "#e69f00", "#d55e00"

_KIND = "rulerag-picture"
_STYLE = (
    f".{_KIND} text{{font:12px system-ui,'Segoe UI',Roboto,Arial,'DejaVu Sans',sans-serif;"
    f"fill:{INK}}}.{_KIND} .soft{{fill:{SOFT}}}.{_KIND} .bold{{font-weight:600}}"
    f".{_KIND} .mid{{text-anchor:middle}}.{_KIND} .end{{text-anchor:end}}"
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
    """

    title: str
    width: float
    height: float
    body: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    @property
    def svg(self) -> str:
        """The picture as an SVG file that needs nothing else."""
        return standalone(self._drawn)

    @property
    def _drawn(self) -> Markup:
        plate = '<rect width="100%" height="100%" fill="#ffffff"/>'
        parts = [plate, self.body]
        return picture(_KIND, self.width, self.height, self.title, parts, style=_STYLE)

    def to_html(self) -> str:
        """A figure for a page: the picture, how to read it, and its table, folded."""
        head = "".join(f'<th scope="col">{clean(one)}</th>' for one in self.headings)
        rows = "".join(
            "<tr>" + "".join(f"<td>{clean(cell)}</td>" for cell in row) + "</tr>"
            for row in self.rows
        )
        return Markup(  # all parts are escaped above
            f'<figure class="picture"><div style="max-width:{self.width:.0f}px">{self._drawn}</div>'
            f"<figcaption><strong>{clean(self.title)}</strong> {clean(self.note)}</figcaption>"
            '<details><summary>The same as a table</summary><div class="wide" tabindex="0"><table>'
            f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></details></figure>"
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
            write_text(
                path,
                f'<!doctype html><html lang="en"><meta charset="utf-8"><title>'
                f"{clean(self.title)}</title><meta name='viewport' "
                f"content='width=device-width'><body>{self.to_html()}</body></html>\n",
            )
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


def text_at(x: float, y: float, text: str, kind: str = "", tip: str = "") -> str:
    """A text at a point, its base line at ``y``; ``tip`` shows where a mouse rests."""
    drawn = label(x, y, text, kind)
    return drawn.replace("</text>", f"<title>{clean(tip)}</title></text>") if tip else drawn


def named(indices: Sequence[int], names: Sequence[str], nothing: str = "nothing") -> str:
    """Some sources in words."""
    return ", ".join(names[index] for index in indices) or nothing
