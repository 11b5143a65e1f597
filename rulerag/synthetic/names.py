"""Ever-new readable names: people, cities, countries, organisations and works, without end.

A name is made of words, a word of syllables and an ending, and each role of a word (first name,
city, ...) has endings of its own, none of which ends another. So no word serves two roles, every
name of one kind has the same number of words, and **no name stands inside another name** on token
boundaries: finding an answer in a text is never an accident of spelling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt

from rulerag.arrays import Longs
from rulerag.composition import check_choice

ENTITY_KINDS = ("person", "city", "country", "organisation", "work")


def _words(text: str) -> list[str]:
    return text.split()


# Every syllable is consonants, one vowel and at most one closing l, n or r; no opening starts
# with two of those, so a word splits into its syllables in one way only.
_OPENINGS = _words("b br d dr f g h j k kr l m n p r s st t tr v z")
_VOWELS = _words("a e i o u")
_CLOSINGS = ["", "l", "n", "r"]

_ENDINGS = {
    "first": _words("ka na mi lo ris thea dan jo beth vi"),
    "last": _words("wick sson mann zky dez quist kova by tzer shaw"),
    "city": _words("mora burg stad haven ford dale vik minster port mere"),
    "country": _words("land stan garde goria sia thal"),
    "firm": _words("tek dyne soft gen lux nix plex sys"),
    "noun": _words("light song fall wood gate stone mark tide"),
}

_FIRMS = _words("""
    Institute Foundation Academy Laboratories Press Works Society Guild Observatory Theatre
    Orchestra Museum Archive Bank Airways Railways Shipyard Brewery Pictures Records
""")
_ADJECTIVES = _words("""
    Silent Hollow Golden Crimson Distant Broken Hidden Restless Patient Frozen Burning Gentle
    Wandering Forgotten Second Northern Paper Glass Iron Amber Bitter Quiet Drowned Endless
    Last Little Secret Winter Midnight Painted
""")
_NOUNS = _words("""
    Harbour Garden Mirror Orchard Lantern Bridge Voyage Letter Summer River Tower Clock Window
    Forest Island Shadow Feather Compass Market Kitchen Ladder Anchor Violin Candle Meadow
    Chapel Engine Valley Horizon Staircase
""")


@dataclass(frozen=True)
class _Level:
    """A block of names of one length: every part picks one of its words, independently."""

    parts: tuple[tuple[Sequence[str], ...], ...]

    @cached_property
    def capacity(self) -> int:
        """How many different names there are."""
        return prod(len(table) for part in self.parts for table in part)

    def spell(self, index: Longs) -> list[str]:
        """The names of indices below the capacity."""
        words: list[list[str]] = []
        rest = index
        for part in reversed(self.parts):
            pieces: list[list[str]] = []
            for table in reversed(part):
                rest, digit = np.divmod(rest, len(table))
                pieces.insert(0, [table[d] for d in digit.tolist()])
            joined = map("".join, zip(*pieces, strict=True))
            words.insert(0, [word[:1].upper() + word[1:] for word in joined])
        return list(map(" ".join, zip(*words, strict=True)))


@dataclass(frozen=True)
class NameMaker:
    """Spells the i-th name of a kind; a different seed spells other names.

    Names are unique, also after :func:`rulerag.text.normalize_answer`, and none contains another.
    Short names come first; when they run out, the words grow by a syllable. Indices below 2**31
    are spelt.

    Args:
        seed: chooses the order of the names, from 0.
    """

    seed: int = 0

    def names(self, kind: str, index: npt.ArrayLike) -> list[str]:
        """The names of a kind at these indices.

        Args:
            kind: one of :data:`ENTITY_KINDS`.
            index: whole numbers from 0, of shape (n,).

        Raises:
            ConfigError: the kind is unknown.
        """
        check_choice("kind", kind, ENTITY_KINDS, "kind of name")
        numbers = np.asarray(index, dtype=np.int64).reshape(-1)
        spelt = np.empty(len(numbers), dtype=object)
        start = 0
        for depth, level in enumerate(_LEVELS[kind]):
            here = np.flatnonzero((numbers >= start) & (numbers < start + level.capacity))
            if len(here):
                mixed = self._mix(numbers[here] - start, level.capacity, kind, depth)
                spelt[here] = level.spell(mixed)
            start += level.capacity
        prefix = "The " if kind == "work" else ""
        return [prefix + name for name in spelt.tolist()]

    def _mix(self, index: Longs, capacity: int, kind: str, depth: int) -> Longs:
        """A permutation of ``range(capacity)`` chosen by the seed, so that neighbours differ."""
        rng = np.random.default_rng([self.seed, ENTITY_KINDS.index(kind), depth])
        bound = min(capacity, 2**31)  # the product below stays under 2**62
        step = int(rng.integers(bound // 3, bound))
        while np.gcd(step, capacity) != 1:
            step = int(rng.integers(bound // 3, bound))
        shift = int(rng.integers(0, min(capacity, 2**61)))
        return (index * step % capacity + shift) % capacity


_SYLLABLES = ["".join(letters) for letters in product(_OPENINGS, _VOWELS, _CLOSINGS)]


def _word(role: str, syllables: int) -> tuple[Sequence[str], ...]:
    return (*[_SYLLABLES] * syllables, _ENDINGS[role])


_LEVELS: dict[str, tuple[_Level, ...]] = {
    "person": (
        _Level((_word("first", 1), _word("last", 1))),
        _Level((_word("first", 1), _word("last", 2))),
    ),
    "city": tuple(_Level((_word("city", n),)) for n in (1, 2, 3, 4)),
    "country": tuple(_Level((_word("country", n),)) for n in (1, 2, 3, 4)),
    "organisation": tuple(_Level((_word("firm", n), (_FIRMS,))) for n in (1, 2, 3, 4)),
    "work": (
        _Level(((_ADJECTIVES,), (_NOUNS,))),
        *(_Level(((_ADJECTIVES,), _word("noun", n))) for n in (1, 2, 3, 4)),
    ),
}
