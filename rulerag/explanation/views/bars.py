"""How much each source counts, as bars."""

from __future__ import annotations

from collections.abc import Sequence

from rulerag.errors import ConfigError
from rulerag.explanation.views.figure import BLUE, INK, RED, SOFT, Picture, text_at
from rulerag.explanation.views.svg import cut

_WIDTH, _LEFT, _RIGHT, _ROW = 900.0, 300.0, 70.0, 24.0


def bars_picture(
    names: Sequence[str],
    values: Sequence[float],
    *,
    errors: Sequence[float] | None = None,
    title: str = "How much each document counts",
    most: int = 30,
) -> Picture:
    """Draw attributions, the greatest first.

    Args:
        names: of the sources.
        values: one number a source; below 0 it speaks against the claim.
        errors: the standard error of each.
        title: of the picture.
        most: so many sources have a bar; the others are one line that says what they sum to.

    Raises:
        ConfigError: there are not as many values as names, or none.
    """
    if not names or len(values) != len(names) or (errors and len(errors) != len(names)):
        raise ConfigError(f"{len(values)} values for {len(names)} sources", key="values")
    order = sorted(range(len(names)), key=lambda n: -values[n])
    drawn = sorted(order, key=lambda n: -abs(values[n]))[:most]
    drawn, rest = [n for n in order if n in drawn], [n for n in order if n not in drawn]
    spread = errors or [0.0] * len(names)
    reach = max((abs(values[n]) + spread[n] for n in drawn), default=0.0) or 1.0
    negative = any(values[n] - spread[n] < 0 for n in drawn)
    room = _WIDTH - _LEFT - _RIGHT
    zero = _LEFT + (room / 2 if negative else 0)
    unit = (room / 2 if negative else room) / reach
    height = _ROW * len(drawn) + 16
    parts = [f'<path d="M{zero:.1f},4 V{height - 4:.1f}" stroke="{SOFT}"/>']
    for place, index in enumerate(drawn):
        y, value = 8 + _ROW * place, values[index]
        start, length = min(zero, zero + unit * value), abs(unit * value)
        tip = f"{names[index]}: {value:.3f}"
        dash = ' stroke-dasharray="4 2"' if value < 0 else ""
        fill = "#ffffff" if value < 0 else BLUE
        parts.append(text_at(8, y + 15, cut(names[index], _LEFT - 20), tip=tip))
        parts.append(
            f'<rect x="{start:.1f}" y="{y + 4:.1f}" width="{length:.1f}" height="{_ROW - 9}" '
            f'fill="{fill}" stroke="{RED if value < 0 else BLUE}"{dash}/>'
        )
        if spread[index]:
            low, high = (zero + unit * (value + sign * spread[index]) for sign in (-1, 1))
            middle = y + _ROW / 2 - 0.5
            parts.append(
                f'<path d="M{low:.1f},{middle:.1f} H{high:.1f}" stroke="{INK}" stroke-width="2"/>'
            )
        parts.append(text_at(_WIDTH - 8, y + 15, f"{value:.3f}", "end"))
    note = "Dashed bars speak against the claim." if negative else ""
    if rest:
        total = sum(values[n] for n in rest)
        parts.append(
            text_at(8, height + 12, f"{len(rest)} further documents: {total:.3f} together", "soft")
        )
        height += 22
    rows = tuple(
        (names[n], f"{values[n]:.4f}", *((f"± {spread[n]:.4f}",) if errors else ())) for n in order
    )
    headings = ("document", "value", *(("standard error",) if errors else ()))
    return Picture(title, _WIDTH, height, "".join(parts), headings, rows, note)
