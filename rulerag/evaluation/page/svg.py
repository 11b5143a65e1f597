"""Drawings of measurements for the report: recall curves and confidence marks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from markupsafe import Markup

from rulerag.explanation.views import Picture, cut, label, picture

# Okabe and Ito 2008, without the yellow that is too pale for print; dashes tell lines apart too.
_LINES = (
    ("#0072b2", ""),
    ("#d55e00", "7 3"),
    ("#009e73", "2 3"),
    ("#a8558a", "10 3 2 3"),
    ("#b87f00", "5 5"),
    ("#2f6b5e", "1 4"),
)
_GRID, _INK = "#d9dee4", "#1b1f24"


def recall_curves(
    series: Mapping[str, Sequence[tuple[int, float]]], benchmark: str = ""
) -> Picture:
    """Answer recall against the number of documents, one line a method, each named at its end.

    Args:
        series: method → ``(k, recall)`` by growing k; recall in [0, 1].
        benchmark: whose, where there are several.
    """
    left, right, top, bottom = 40.0, 560.0, 14.0, 236.0
    cutoffs = sorted({k for points in series.values() for k, _ in points})
    most = max((value for points in series.values() for _, value in points), default=0.0)
    tick = next((t for t in (0.02, 0.05, 0.1, 0.2) if 5 * t >= most), 0.25)
    lines = max(1, math.ceil(round(most / tick, 9)))
    ceiling = lines * tick
    step = (right - left) / max(1, len(cutoffs) - 1)

    def place(k: int, value: float) -> tuple[float, float]:
        return left + step * cutoffs.index(k), bottom - (bottom - top) * value / ceiling

    parts = []
    for line in range(lines + 1):
        y = place(cutoffs[0], line * tick)[1]
        parts.append(f'<path d="M{left},{y:.1f} H{right}" stroke="{_GRID}"/>')
        text = f"{100 * line * tick:.0f}"
        parts.append(f'<text class="soft end" x="{left - 8}" y="{y + 4:.1f}">{text}</text>')
    for k in cutoffs:
        x = place(k, 0)[0]
        parts.append(f'<text class="soft mid" x="{x:.1f}" y="{bottom + 18}">{k}</text>')
    middle = (left + right) / 2
    parts.append(f'<text class="soft mid" x="{middle}" y="{bottom + 36}">documents (k)</text>')
    ends = []
    for number, (name, points) in enumerate(series.items()):
        spots = [place(k, value) for k, value in points]
        path = " L".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        colour, dash = _LINES[number % len(_LINES)]
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        parts.append(
            f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2.5"{dashed}/>'
        )
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}" stroke="#ffffff"/>'
            for x, y in spots
        ]
        ends.append((spots[-1][1], number, f"{cut(name, 300)}  {100 * points[-1][1]:.1f}"))
    lowest = top - 14
    for y, number, text in sorted(ends):
        lowest = max(y + 4, lowest + 16)  # labels keep apart, in the order of their lines
        drawn = label(right + 12, lowest, text, "bold name")
        fill = _LINES[number % len(_LINES)][0]
        parts.append(drawn.replace("<text", f'<text style="fill:{fill}"', 1))
    return Picture(
        "Answer recall by the number of documents read" + (f", {benchmark}" if benchmark else ""),
        900,
        max(bottom + 44, lowest + 10),
        "".join(parts),
        ("method", *(f"first {k}" for k in cutoffs)),
        tuple(
            (name, *(f"{100 * dict(points)[k]:.1f}" if k in dict(points) else "–" for k in cutoffs))
            for name, points in series.items()
        ),
        "The share of questions, per cent, with an accepted answer in the first k documents.",
    )


def confidence_mark(planted: float | None, mined: float | None) -> Markup:
    """A scale from 0 to 1 with the planted confidence as a line and the mined one as a dot."""
    width = 120
    parts = [f'<path d="M4,10 H{width - 4}" stroke="{_GRID}"/>']
    if planted is not None:
        x = 4 + (width - 8) * planted
        parts.append(f'<path d="M{x:.1f},3 V17" stroke="{_INK}" stroke-width="2"/>')
    if mined is not None:
        x = 4 + (width - 8) * mined
        parts.append(f'<circle cx="{x:.1f}" cy="10" r="4.5" fill="{_LINES[0][0]}"/>')
    told = [f"{n} {v:.3f}" for n, v in (("planted", planted), ("mined", mined)) if v is not None]
    return picture("scale", width, 20, ", ".join(told) or "unknown", parts)
