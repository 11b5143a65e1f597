"""What pictures as inline SVG have in common: a frame, a style, and text that fits.

Every text is escaped where it is placed. A picture names what it shows (``aria-label``); its
numbers stand in a table beside it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from markupsafe import Markup, escape

_CHARACTER = 6.5  # pixels of 12-pixel text, on the wide side: nothing may run over its box
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff\ud800-\udfff]")


def picture(
    kind: str,
    width: float,
    height: float,
    label: str,
    parts: Sequence[str],
    *,
    style: str = "",
    description: str = "",
) -> Markup:
    """A picture of parts that are escaped already.

    Args:
        kind: its class.
        width: in pixels.
        height: in pixels.
        label: what it shows, for those who do not see it.
        parts: elements.
        style: a style sheet of its own.
        description: how to read it, for those who do not see it.
    """
    sheet = f"<desc>{clean(description)}</desc>" if description else ""
    sheet += f"<style>{style}</style>" if style else ""
    return Markup(  # every text in the parts is escaped where it is placed
        f'<svg class="{kind}" viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'aria-label="{clean(label)}">{sheet}{"".join(parts)}</svg>'
    )


def standalone(drawing: Markup) -> str:
    """A picture as the text of a file of its own, on as many pixels as it was drawn for."""
    width, height = re.findall(r'viewBox="0 0 (\d+) (\d+)"', drawing)[0]
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
    said = re.findall(r'aria-label="([^"]*)"', drawing)[0]
    named = re.sub(r"^<svg [^>]*>", lambda found: f"{found[0]}<title>{said}</title>", drawing)
    return f"{named}\n".replace("<svg ", opening, 1)


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
    kept, room = "", width - _CHARACTER
    for char in text:
        room -= _width_of(char)
        if room < 0:
            break
        kept += char
    return kept.rstrip() + "…"


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


def label(x: float, y: float, text: str, kind: str = "") -> str:
    """A line of text whose left edge is at ``x``, whichever way its script runs."""
    which = f' class="{kind}"' if kind else ""
    runs = ' direction="rtl" text-anchor="end"' if _runs_left(text) else ""
    return f'<text{which} x="{x:.1f}" y="{y:.1f}"{runs}>{clean(text)}</text>'


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
