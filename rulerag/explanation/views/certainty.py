"""How certain an explanation became with each call, as curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rulerag.errors import ConfigError
from rulerag.explanation.views.figure import BLUE, GREEN, INK, LINE, ORANGE, RED, Picture, text_at
from rulerag.explanation.views.scale import percent
from rulerag.explanation.views.svg import clean, cut, wrapped

_WIDE, _NARROW, _PLOT, _LEFT, _RIGHT, _TOP = 720.0, 400.0, 230.0, 52.0, 26.0, 24.0
_LINE = 18.0
_KINDS = tuple(
    f'stroke="{colour}"{dash}'
    for colour, dash in (
        *((BLUE, ""), (RED, ' stroke-dasharray="8 4"'), (GREEN, ' stroke-dasharray="2 3"')),
        *((INK, ' stroke-dasharray="10 3 2 3"'), (ORANGE, ' stroke-dasharray="5 2"')),
    )
)
"""Curves differ by colour and by dash, and each has its number at its end."""
_MARKED = 8
"""So many marks have a line of words; the table has all."""


Place = Callable[[float, float], tuple[float, float]]
"""From calls and a share to pixels."""


@dataclass(frozen=True)
class Curve:
    """A guaranteed share that grew.

    Args:
        name: what it is the share of.
        points: ``(calls, share)`` in their order; a share stands until the next point.
    """

    name: str
    points: tuple[tuple[int, float], ...]


def certainty_picture(
    curves: Sequence[Curve],
    marks: Sequence[tuple[int, str]] = (),
    *,
    last: int = 0,
    aim: float | None = None,
    title: str = "How certain it became, call by call",
    note: str = "",
) -> Picture:
    """Draw guaranteed shares against the number of calls.

    Args:
        curves: the first five are drawn, all stand in the table.
        marks: ``(calls, words)``: what became known there.
        last: how many calls there were in all.
        aim: the share that was looked for.
        title: of the picture.
        note: what the share means.

    Raises:
        ConfigError: there is neither a curve nor a mark, calls do not grow, or a share lies
            outside 0 to 1.
    """
    _check(curves, marks)
    narrow, wide = (
        _drawn(width, curves, marks, last=last, aim=aim, title=title, note=note)
        for width in (_NARROW, _WIDE)
    )
    return replace(wide, narrow=narrow)


def _drawn(
    width: float,
    curves: Sequence[Curve],
    marks: Sequence[tuple[int, str]],
    *,
    last: int,
    aim: float | None,
    title: str,
    note: str,
) -> Picture:
    drawn = curves[: len(_KINDS)]
    last = max(1, last, *(p[0] for c in curves for p in c.points), *(at for at, _ in marks))

    def place(calls: float, share: float) -> tuple[float, float]:
        across = width - _LEFT - _RIGHT
        return _LEFT + across * calls / last, _TOP + _PLOT * (1 - share)

    parts = [*_frame(place, last, aim)]
    ends: list[float] = []
    for number, curve in enumerate(drawn):
        parts.append(_curve(curve, place, last, _KINDS[number]))
        if curve.points:
            x, y = place(last, curve.points[-1][1])
            while any(abs(y - other) < 12 for other in ends):
                y += 12
            ends.append(y)
            parts.append(text_at(x + 8, y + 4, str(number + 1), "bold"))
    below = _TOP + _PLOT + 44
    parts.append(text_at(_LEFT, below - 8, "calls of the answer function", "soft"))
    for number, curve in enumerate(drawn):
        end = percent(curve.points[-1][1]) if curve.points else "nothing yet"
        lines = wrapped(f"{number + 1}. {end} {curve.name}", width - _LEFT - 8, 2)
        y = below + _LINE
        parts.append(
            f'<path d="M8,{y - 4:.1f} h34" fill="none" stroke-width="3" {_KINDS[number]}/>'
        )
        for line in lines:
            below += _LINE
            parts.append(text_at(_LEFT, below, line, tip=curve.name))
    for number, (calls, words) in enumerate(marks[:_MARKED]):
        x, y = place(calls, 0)[0], below + _LINE * (number + 1)
        letter = chr(ord("a") + number)
        parts.append(
            f'<g><title>{clean(words)}</title><path d="M{x:.1f},{_TOP:.1f} v{_PLOT}" '
            f'stroke="{LINE}" stroke-dasharray="4 3"/></g>'
        )
        near = sum(abs(place(at, 0)[0] - x) < 12 for at, _ in marks[:number])
        parts.append(text_at(x, _TOP - 8 + 14 * near, letter, "mid bold"))
        told = cut(f"after {calls:,} calls: {words}", width - _LEFT - 8)
        parts.append(text_at(28, y, letter, "bold"))
        parts.append(text_at(_LEFT, y, told, tip=words))
    height = below + _LINE * min(len(marks), _MARKED) + 14
    rows = [(calls, percent(share), c.name) for c in curves for calls, share in c.points]
    rows += [(calls, "–", words) for calls, words in marks]
    rows.sort(key=lambda row: row[0])
    more = len(curves) - len(drawn)
    note += f" {more} further curves are in the table." if more else ""
    headings = ("calls", "guaranteed share", "of what, or what became known")
    table = tuple((f"{calls:,}", share, words) for calls, share, words in rows)
    return Picture(title, width, height, "".join(parts), headings, table, note.strip())


def _check(curves: Sequence[Curve], marks: Sequence[tuple[int, str]]) -> None:
    if not marks and not any(curve.points for curve in curves):
        raise ConfigError("nothing is known of how certainty grew", key="curves")
    for curve in curves:
        calls = [at for at, _ in curve.points]
        if calls != sorted(calls) or not all(0 <= share <= 1 for _, share in curve.points):
            what = f"the points of {curve.name!r} do not grow, or lie outside 0 to 1"
            raise ConfigError(what, key="curves")


def _frame(place: Place, last: int, aim: float | None) -> list[str]:
    """Lines at the quarters, numbers of calls, and the share that was looked for."""
    parts = []
    for step in range(5):
        y = place(0, step / 4)[1]
        parts.append(f'<path d="M{_LEFT},{y:.1f} H{place(last, 0)[0]:.1f}" stroke="{LINE}"/>')
        parts.append(text_at(_LEFT - 8, y + 4, f"{25 * step} %", "end soft"))
    for tick in sorted({0, last // 2, last}):
        x, y = place(tick, 0)
        parts.append(text_at(x, y + 18, f"{tick:,}", "mid soft"))
    if aim is not None:
        y = place(0, aim)[1]
        parts.append(
            f'<path d="M{_LEFT},{y:.1f} H{place(last, 0)[0]:.1f}" stroke="{INK}" '
            'stroke-dasharray="1 4"/>'
        )
        parts.append(text_at(_LEFT + 4, y + 14, f"looked for: {percent(aim)}", "soft"))
    return parts


def _curve(curve: Curve, place: Place, last: int, kind: str) -> str:
    """Steps: a share stands from its call on."""
    if not curve.points:
        return ""
    x, y = place(curve.points[0][0], 0)
    path = [f"M{x:.1f},{y:.1f}"]
    for calls, share in curve.points:
        x, y = place(calls, share)
        path.append(f"H{x:.1f} V{y:.1f}")
    end = place(last, curve.points[-1][1])[0]
    return (
        f'<path d="{" ".join(path)} H{end:.1f}" fill="none" stroke-width="2.5" {kind}>'
        f"<title>{clean(curve.name)}</title></path>"
    )
