"""Ever new names and relation phrases, so that a reader must copy them and cannot know them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from rulerag.synthetic import ENTITY_KINDS, NameMaker

Random = random.Random


def _split(words: str) -> list[str]:
    return words.split()


_ONSETS = _split("b br c d dr f g gr h j k kr l m n p r s st t tr v z")
_VOWELS = _split("a e i o u")
_CODAS = ["", "", "n", "r", "l", "s"]
_JOINTS = (" ", " ", " ", " ", "-", " of ", " & ", "'s ", ", ", " the ")
_VERBS = _split("""
    make host visit accuse praise consult reject demand provide engage threaten express use impose
    sign arrest appeal return plays wins leads was has is born created located owns works member
    held award part acts directed produced speaks sells trades teaches lives knows belongs won
""")
_TAILS = _split("""
    in of to for with at by from on as intent aid statement visit cooperation meeting policy team
    league film country city person music genre award company organization place language state
    rally force support rights demand agreement protest action charge
""")


class NameSource:
    """Draws names of entities and relations, in another style for every episode.

    Styles: random syllables; few parts in many combinations, as in ``Police (India)``; the names
    of generated worlds; and real labels where some are given.

    Args:
        entities: real labels of entities.
        relations: real labels of relations, one list for each graph.
    """

    def __init__(
        self, entities: Sequence[str] = (), relations: Sequence[Sequence[str]] = ()
    ) -> None:
        self.real = list(entities)
        self.graphs = [list(labels) for labels in relations]
        self.sorted = sorted(self.real)

    def entities(self, rng: Random, number: int, near: float = 0.0) -> list[str]:
        """Different names; by the chance ``near`` real ones that stand side by side in order."""
        if near and self.real and rng.random() < near / 2:
            first = rng.randrange(max(1, len(self.sorted) - 4 * number))
            block = list(dict.fromkeys(self.sorted[first : first + 4 * number]))
            known = rng.sample(block, min(number, len(block)))
            return known + _distinct(lambda: invented(rng, 1), number - len(known), known)
        styles = [_words, _words, _combined, _world]
        if self.real:
            styles += [self._labels, self._labels]
        return _distinct(rng.choice(styles)(rng, number), number)

    def relations(self, rng: Random, number: int, near: float = 0.0) -> list[str]:
        """Different phrases; by the chance ``near`` real ones that stand side by side in order."""
        if near and self.graphs and rng.random() < near / 2:
            labels = sorted(rng.choice(self.graphs))
            first = rng.randrange(max(1, len(labels) - 2 * number))
            known = labels[first : first + 2 * number]
            known = rng.sample(known, min(number, len(known)))
            return known + _distinct(lambda: phrase(rng), number - len(known), known)
        if self.graphs and rng.random() < 0.5:
            labels = rng.choice(self.graphs)
            known = rng.sample(labels, min(number, len(labels)))
            return known + _distinct(lambda: phrase(rng), number - len(known), known)
        if rng.random() < 0.3:  # phrases that share most of their words
            heads = [phrase(rng) for _ in range(2)]
            return _distinct(lambda: f"{rng.choice(heads)} {phrase(rng, _TAILS)}", number)
        return _distinct(lambda: phrase(rng), number)

    def _labels(self, rng: Random, number: int) -> Callable[[], str]:
        return lambda: rng.choice(self.real)


def invented(rng: Random, words: int) -> str:
    """A name of syllables, with now and then a number or an odd sign."""
    spelt = [_word(rng) for _ in range(words)]
    if rng.random() < 0.05:
        spelt.append(str(rng.randint(1, 2030)))
    name = spelt[0]
    for word in spelt[1:]:
        name += rng.choice(_JOINTS) + word
    return name


def phrase(rng: Random, first: Sequence[str] = _VERBS) -> str:
    """One to four words, known and new ones."""
    words = [rng.choice(first) if rng.random() < 0.7 else _word(rng).lower()]
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        words.append(rng.choice(_TAILS) if rng.random() < 0.7 else _word(rng).lower())
    return " ".join(words)


def _word(rng: Random) -> str:
    parts = [
        rng.choice(_ONSETS) + rng.choice(_VOWELS) + rng.choice(_CODAS)
        for _ in range(rng.choice((1, 2, 2)))
    ]
    return "".join(parts).capitalize()


def _words(rng: Random, number: int) -> Callable[[], str]:
    longest = rng.choice((1, 1, 2, 2, 3))
    return lambda: invented(rng, rng.randint(1, longest))


def _combined(rng: Random, number: int) -> Callable[[], str]:
    fronts = [invented(rng, rng.choice((1, 1, 2))) for _ in range(2 + number // 3)]
    backs = [_word(rng) for _ in range(2 + number // 3)]
    return lambda: f"{rng.choice(fronts)} ({rng.choice(backs)})"


def _world(rng: Random, number: int) -> Callable[[], str]:
    maker = NameMaker(rng.randrange(10**6))
    pool: list[str] = []
    for kind in rng.sample(ENTITY_KINDS, 2):
        pool += maker.names(kind, [rng.randrange(10**5) for _ in range(number)])
    return lambda: rng.choice(pool)


def _distinct(draw: Callable[[], str], number: int, known: Sequence[str] = ()) -> list[str]:
    seen = dict.fromkeys(known)
    start, tries = len(seen), 0
    while len(seen) < start + number:
        name = draw()
        tries += 1
        seen[name if tries < 50 * number else f"{name} {tries}"] = None
    return list(seen)[start:]
