"""English for sets of sources and for numbers: "R1 and R4 to R7 are kept together"."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERED = re.compile(r"(\D*)(\d+)")


def listing(words: Sequence[str], last: str = "and") -> str:
    """``A``, ``A and B``, ``A, B and C``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def runs(names: Iterable[str]) -> list[str]:
    """The names with three or more neighbours drawn together: ``D1``, ``D4 to D7``."""

    def neighbourhood(item: tuple[int, str]) -> tuple[str, int]:
        place, name = item
        match = _NUMBERED.fullmatch(name)
        return (match[1], int(match[2]) - place) if match else (name, place)

    drawn: list[str] = []
    for _, group in itertools.groupby(enumerate(names), neighbourhood):
        near = [name for _, name in group]
        drawn += [f"{near[0]} to {near[-1]}"] if len(near) > 2 else near
    return drawn


def in_words(number: int) -> str:
    """The number as a word up to ten, in digits beyond."""
    return _NUMBERS[number] if number < len(_NUMBERS) else f"{number:,}"


def capital(text: str) -> str:
    """The text with a capital in front."""
    return text[:1].upper() + text[1:]


def condition(names: Sequence[str], done: str) -> str:
    """When a set of sources is wholly kept, or wholly removed, in words.

    Args:
        names: of the sources, at least one.
        done: ``kept`` or ``removed``.
    """
    if len(names) == 1:
        return f"{names[0]} is {done}"
    who = f"{listing(runs(names))} are"
    if done == "kept":
        return f"{who} kept together"
    return f"{who} {'both' if len(names) == 2 else 'all'} {done}"
