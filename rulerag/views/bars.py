"""How much each source counts, as bars."""

from __future__ import annotations

from collections.abc import Sequence

from rulerag.errors import ConfigError
from rulerag.views.picture import WIDE, Picture, picture_of
from rulerag.views.svg import cut, label


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
    largest = set(sorted(order, key=lambda n: -abs(values[n]))[:most])
    visible = [n for n in order if n in largest]
    spread = errors or [0.0] * len(names)
    negative = any(values[n] - spread[n] < 0 for n in visible)
    rest = [values[n] for n in order if n not in largest]
    others = f"{len(rest)} further documents: {sum(rest):.3f} together" if rest else ""

    def draw(width: float) -> tuple[float, str]:
        bars = [(names[n], values[n], spread[n]) for n in visible]
        return _bars(bars, width, others, negative=negative)

    rows = tuple(
        (names[n], f"{values[n]:.4f}", *((f"± {spread[n]:.4f}",) if errors else ())) for n in order
    )
    headings = ("document", "value", *(("standard error",) if errors else ()))
    note = "Dashed bars speak against the claim." if negative else ""
    return picture_of(draw, title, headings, rows, note)


def _bars(
    bars: Sequence[tuple[str, float, float]], width: float, others: str, *, negative: bool
) -> tuple[float, str]:
    """A bar beside each name; below it where there is little room."""
    left, row, drop = (300.0, 24.0, 0.0) if width >= WIDE else (8.0, 42.0, 18.0)
    room = width - left - 62
    reach = max((abs(value) + error for _, value, error in bars), default=0.0) or 1.0
    zero = left + (room / 2 if negative else 0)
    unit = (room / 2 if negative else room) / reach
    height = row * len(bars) + 16
    parts = [f'<path class="axis" d="M{zero:.1f},4 V{height - 4:.1f}"/>']
    for place, (name, value, error) in enumerate(bars):
        y = 8 + row * place
        start, middle = min(zero, zero + unit * value), y + drop + 11.5
        parts.append(label(8, y + 15, cut(name, (left if not drop else width) - 20), tip=name))
        parts.append(
            f'<rect class="{"minus" if value < 0 else "bar"}" x="{start:.1f}" '
            f'y="{middle - 7.5:.1f}" width="{abs(unit * value):.1f}" height="15"/>'
        )
        if error:
            low, high = zero + unit * (value - error), zero + unit * (value + error)
            parts.append(f'<path class="spread" d="M{low:.1f},{middle:.1f} H{high:.1f}"/>')
        parts.append(label(width - 8, middle + 4, f"{value:.3f}", "end"))
    if others:
        parts.append(label(8, height + 12, others, "soft"))
        height += 22
    return height, "".join(parts)
