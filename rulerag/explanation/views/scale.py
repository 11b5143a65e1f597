"""Texts whose parts are shaded by a number: which shade each gets, and the legend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Three shades, by how far a share is above what each part would have if all were alike.

    The strongest begins at four times that, the next at twice; of few parts earlier, where a share
    cannot be so large. A flat row of numbers stays pale however large they are.

    Args:
        even: the share of each part if all were alike.
    """

    even: float

    @property
    def bounds(self) -> tuple[float, float, float]:
        """Where the shades begin, the palest first."""
        room = 1 - self.even
        second = min(2 * self.even, self.even + room / 4)
        return self.even, second, min(4 * self.even, self.even + room / 2)

    def shade(self, share: float) -> int:
        """3 for the strongest, 0 for none."""
        if share <= self.even * (1 + 1e-9):  # all alike: rounding is no difference
            return 0
        return sum(share >= bound for bound in self.bounds)

    def legend(self) -> list[tuple[int, str]]:
        """The shades, the strongest first, with the percentages that they stand for."""
        low, middle, high = map(percent, self.bounds)
        return [(3, f"{high} and more"), (2, f"{middle} to {high}"), (1, f"{low} to {middle}")]


def percent(value: float) -> str:
    """A share as people read it: ``62 %``, ``3.4 %``, ``below 0.1 %``."""
    if 0 < value < 0.001:
        return "below 0.1 %"
    return f"{value:.0%}".replace("%", " %") if value >= 0.0995 else f"{100 * value:.1f} %"


def pieces(text: str, parts: Sequence[tuple[int, int]]) -> Iterator[tuple[str, int | None]]:
    """A text in order: what lies between parts (None), and each part by its place.

    Args:
        text: the whole.
        parts: where they begin and end, in order.
    """
    position = 0
    for place, (start, end) in enumerate(parts):
        if text[position:start]:
            yield text[position:start], None
        yield text[start:end], place
        position = end
    if text[position:]:
        yield text[position:], None
