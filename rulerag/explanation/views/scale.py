"""Texts whose parts are shaded by a number: which shade each gets, and the legend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_FRACTIONS = (0.1, 0.25, 0.5)  # of the way from an even share to a whole one


@dataclass(frozen=True)
class Scale:
    """Three shades, by how far a share is on the way from an even one to a whole one.

    Flat numbers stay without shades, however large they are.

    Args:
        even: the share of each part if all were alike.
        whole: the share of a part that has something for itself; twice an even share at least.
    """

    even: float
    whole: float = 1.0

    @property
    def bounds(self) -> tuple[float, ...]:
        """Where the shades begin, the palest first."""
        way = min(1.0, max(self.whole, 2 * self.even)) - self.even
        return tuple(self.even + fraction * way for fraction in _FRACTIONS)

    def shade(self, share: float) -> int:
        """3 for the strongest, 0 for none."""
        return sum(share >= bound for bound in self.bounds) if self.even < 1 else 0

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
