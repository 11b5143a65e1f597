"""How certain an explanation became with each probe, as a curve."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from rulerag.errors import ConfigError
from rulerag.explanation.views.figure import BLUE, LINE, ORANGE, Picture, text_at
from rulerag.explanation.views.svg import cut

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 900.0, 280.0, 56.0, 24.0, 30.0, 44.0


def certainty_picture(
    points: Sequence[tuple[int, float]],
    events: Sequence[tuple[int, str]] = (),
    *,
    title: str = "How certainty grew",
    measure: str = "shown of the subsets",
) -> Picture:
    """Draw a fraction against the number of probes.

    Args:
        points: ``(probes, fraction)`` by growing number of probes; fractions in [0, 1].
        events: ``(probes, words)``: what happened there.
        title: of the picture.
        measure: what the fraction is.

    Raises:
        ConfigError: there is no point, or they do not grow.
    """
    if not points or any(b[0] < a[0] for a, b in itertools.pairwise(points)):
        raise ConfigError("expected points by growing number of probes", key="points")
    last = max(1, points[-1][0], *(at for at, _ in events))

    def place(probes: float, value: float) -> tuple[float, float]:
        x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * probes / last
        return x, _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * value

    parts = []
    for step in range(5):
        y = place(0, step / 4)[1]
        parts.append(f'<path d="M{_LEFT},{y:.1f} H{_WIDTH - _RIGHT}" stroke="{LINE}"/>')
        parts.append(text_at(_LEFT - 8, y + 4, f"{25 * step} %", "end soft"))
    path, before = [], None
    for probes, value in points:
        x, y = place(probes, value)
        path.append(f"M{x:.1f},{y:.1f}" if before is None else f"H{x:.1f} V{y:.1f}")
        before = y
    parts.append(f'<path d="{" ".join(path)}" fill="none" stroke="{BLUE}" stroke-width="2.5"/>')
    for number, (probes, words) in enumerate(events):
        x, top = place(probes, 1)
        parts.append(
            f'<path d="M{x:.1f},{top:.1f} V{_HEIGHT - _BOTTOM}" stroke="{ORANGE}" '
            'stroke-width="2" stroke-dasharray="5 3"/>'
        )
        right = x > _WIDTH * 0.6
        parts.append(
            text_at(
                x + (-6 if right else 6),
                top - 8 + 16 * (number % 3),
                cut(words, 300),
                "end" if right else "",
                words,
            )
        )
    for tick in sorted({0, last // 2, last}):
        parts.append(text_at(place(tick, 0)[0], _HEIGHT - _BOTTOM + 18, f"{tick:,}", "mid soft"))
    parts.append(text_at(_WIDTH / 2, _HEIGHT - 8, f"probes; vertical: {measure}", "mid soft"))
    rows = [(f"{probes:,}", f"{100 * value:.1f} %", "") for probes, value in points]
    rows += [(f"{probes:,}", "", words) for probes, words in events]
    rows.sort(key=lambda row: int(row[0].replace(",", "")))
    headings = ("probes", measure, "what happened")
    return Picture(title, _WIDTH, _HEIGHT, "".join(parts), headings, tuple(rows))
