"""What pictures share: colours for light and dark, texts that fit, and the frame of an SVG.

Every text is escaped where it is placed. Colours are those of Okabe and Ito (2008, "Color universal
design"), which people with the common kinds of colour blindness tell apart; no meaning rests on
colour alone: fill, dash or shape says it too, so that pictures survive a black and white printer.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from markupsafe import Markup, escape

PALETTE: Mapping[str, tuple[str, str]] = {
    "ink": ("#1b1f24", "#e6e9ee"),
    "soft": ("#57606a", "#a7b0bb"),
    "line": ("#d0d7de", "#424a54"),
    "pale": ("#eef1f4", "#262c34"),
    "plate": ("#ffffff", "#1b2027"),
    "back": ("#f6f7f9", "#12161b"),
    "blue": ("#0072b2", "#5db0e8"),
    "green": ("#00704f", "#4cc79a"),
    "orange": ("#e69f00", "#f0b13c"),
    "red": ("#b3380b", "#ff9166"),
    "purple": ("#a8558a", "#d993c0"),
    "enough": ("#d3eee2", "#124434"),
    "part": ("#e9f6f0", "#17332b"),
    "needed": ("#c6def3", "#1a4268"),
    "against": ("#fbe4d8", "#4d2917"),
    "shade1": ("#eef4fa", "#1c2d3d"),
    "shade2": ("#cfe1f2", "#20476a"),
    "shade3": ("#93c3df", "#2c6a98"),
    "note": ("#fff7e0", "#39310f"),
    "edge": ("#e2c65a", "#857325"),
}
"""Colours by name, in light and in dark."""

_CHARACTER = 6.5  # pixels of 12-pixel text, on the wide side: nothing may run over its box
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff\ud800-\udfff]")


def frame(
    width: float, height: float, title: str, body: str, note: str = "", *, live: bool = False
) -> Markup:
    """The SVG around parts that are escaped already, for a page that has the style sheets.

    Args:
        width: in pixels.
        height: in pixels.
        title: what it shows, for those who do not see it.
        body: elements.
        note: how to read it, for those who do not see it.
        live: parts of it can be reached with the keyboard and say more.
    """
    about = f"<desc>{clean(note)}</desc>" if note else ""
    return Markup(  # every text in the body is escaped where it is placed
        f'<svg class="rulerag-picture" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'role="{"group" if live else "img"}" aria-label="{clean(title)}">{about}'
        f'<rect class="plate" width="100%" height="100%"/>{body}</svg>'
    )


def standalone(width: float, height: float, title: str, drawing: Markup) -> str:
    """A picture as the text of a file of its own, light or dark as its viewer prefers."""
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
    light, dark = _sheets()
    sheet = f"<style>{light}@media(prefers-color-scheme:dark){{{dark}}}</style>"
    head = f"><title>{clean(title)}</title>{sheet}"
    return f"{str(drawing).replace('<svg ', opening, 1).replace('>', head, 1)}\n"


@cache
def _sheets() -> list[str]:
    """The sheet of pictures with its colours written out, in light and in dark."""
    file = files(__package__).joinpath("templates", "pictures.css")
    sheet = file.read_text(encoding="utf-8").replace("\n", "")
    return [
        re.sub(r"var\(--(\w+)\)", lambda name, mode=mode: PALETTE[name[1]][mode], sheet)  # type: ignore[misc]
        for mode in (0, 1)
    ]


def printable(text: str) -> str:
    """A text without characters that no page may hold and that would steer a terminal."""
    return _UNPRINTABLE.sub("\ufffd", text)


def clean(text: str) -> Markup:
    """A text escaped, for a picture."""
    return escape(printable(text))


def text_width(text: str) -> float:
    """About the pixels that a text of 12 pixels takes at most; East Asian letters take two."""
    return sum(_width_of(char) for char in text)


def cut(text: str, width: float) -> str:
    """The text, cut with an ellipsis where it is wider than so many pixels."""
    if text_width(text) <= width:
        return text
    beginning, room = "", width - _CHARACTER
    for char in text:
        room -= _width_of(char)
        if room < 0:
            break
        beginning += char
    return beginning.rstrip() + "…"


def wrapped(text: str, width: float, lines: int) -> list[str]:
    """The text in lines of so many pixels, the last of which is cut where there is more."""
    rows = [""]
    for word in _pieces(text, width):
        if rows[-1] and text_width(rows[-1] + word.rstrip()) > width:
            rows[-1] = rows[-1].rstrip()
            rows.append("")
        rows[-1] += word
    rows = [row.strip() for row in rows]
    if len(rows) > lines:
        rows[lines - 1] = cut(rows[lines - 1] + " " * 200 + ".", width)
        rows[lines - 1] = rows[lines - 1].rstrip(" …") + "…"
    return rows[:lines]


def label(x: float, y: float, text: str, kind: str = "", tip: str = "") -> str:
    """A line of text whose left edge is at ``x``, whichever way its script runs.

    Args:
        x: the left edge.
        y: the base line.
        text: what it says.
        kind: its classes.
        tip: shows where a mouse rests.
    """
    which = f' class="{kind}"' if kind else ""
    runs = ' direction="rtl" text-anchor="end"' if _runs_left(text) else ""
    more = f"<title>{clean(tip)}</title>" if tip else ""
    return f'<text{which} x="{x:.1f}" y="{y:.1f}"{runs}>{clean(text)}{more}</text>'


def labels(x: float, y: float, lines: Sequence[str], kind: str = "") -> str:
    """Lines of text under each other, 16 pixels apart."""
    return "".join(label(x, y + 16 * n, line, kind) for n, line in enumerate(lines))


def _pieces(text: str, width: float) -> list[str]:
    """Words with the space behind them; letter by letter where a word is wider than the line."""
    words = re.findall(r"\S+\s*", text)
    return [
        piece
        for word in words
        for piece in (word if text_width(word.rstrip()) > width else [" ".join(word.split()) + " "])
    ]


def _width_of(char: str) -> float:
    if unicodedata.combining(char):
        return 0.0
    return 2 * _CHARACTER if unicodedata.east_asian_width(char) in "WF" else _CHARACTER


def _runs_left(text: str) -> bool:
    """Whether the first letter with a direction is of a script that runs from right to left."""
    strong = (unicodedata.bidirectional(char) for char in text)
    return next((one for one in strong if one in ("L", "R", "AL")), "L") != "L"
