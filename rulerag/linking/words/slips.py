"""Names with slips of the pen: a letter left out, added, changed or swapped, a blank too many.

A slip spoils one word, or two at a word's edge, so a name of several words keeps another of its
own: runs of words of a question are compared with the names that have one of their words, and only
words that nothing known has with every name of their length. Distances are those of optimal string
alignment (Damerau 1964), by rapidfuzz.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

# The shortest text that may be a name with a slip, and the length from which on two are likely.
_SHORTEST, _LONG = 3, 9
_CLOSEST = 4
# How unlikely a letter is that is another or too many, and two slips in one name, beside one.
_OTHER, _TWO = 1.5, 4.0
# A longer question is looked through for names as they are; slips are looked for in its start.
_MOST_WORDS, _MOST_APART = 80, 24


class NearNames:
    """Finds the names that runs of words are near to.

    Args:
        names: as words joined by blanks, case folded.
        but: words that so many names and questions have that they say nothing.
    """

    def __init__(self, names: Iterable[str], but: Collection[str]) -> None:
        self._with: dict[str, list[str]] = defaultdict(list)
        self._by_length: dict[int, list[str]] = defaultdict(list)
        self._longest = 0
        for name in sorted(names, key=len):
            self._by_length[len(name)].append(name)
            words = name.split()
            self._longest = max(self._longest, len(words))
            if len(words) > 1:
                for word in set(words).difference(but):
                    self._with[word].append(name)

    def near(
        self, words: Sequence[str], apart: Callable[[str], bool]
    ) -> Iterator[tuple[int, int, str, float]]:
        """The names near to runs of words: start, end, the name, and how unlikely the slip is.

        Args:
            words: of a question, case folded.
            apart: whether a word is compared with every name, even on its own.

        Returns:
            The last number is 1 for a usual slip and larger for others, see :func:`slips`.
        """
        words = words[:_MOST_WORDS]
        known = [word in self._with for word in words]
        for start in range(len(words)):
            for end in range(start + 1, min(start + self._longest + 1, len(words)) + 1):
                if any(known[start:end]):
                    yield from self._best(words, start, end, self._sharing)
        alone = [n for n, word in enumerate(words) if apart(word)][:_MOST_APART]
        runs = (
            {(n, n + 1) for n in alone}
            | {(n, n + 2) for n in alone}
            | {(n - 1, n + 1) for n in alone if n}
        )
        for start, end in sorted(runs):
            if end <= len(words):
                yield from self._best(words, start, end, self._all)

    def _best(
        self,
        words: Sequence[str],
        start: int,
        end: int,
        source: Callable[[Sequence[str], int, int], list[str]],
    ) -> Iterator[tuple[int, int, str, float]]:
        run = " ".join(words[start:end])
        if len(run) < _SHORTEST:
            return
        most = 1 if len(run) < _LONG else 2
        names = source(words[start:end], len(run) - most, len(run) + most)
        if not names:
            return
        from rapidfuzz import process
        from rapidfuzz.distance import OSA

        near = process.extract(run, names, scorer=OSA.distance, score_cutoff=most, limit=_CLOSEST)
        for name, distance, _ in near:
            # Two slips spare the first letter: "Ruritania" is not Mauritania.
            if distance > 1 and name[0] != run[0]:
                continue
            if distance and len(name) > _SHORTEST:
                yield start, end, name, slips(run, name, int(distance))

    def _sharing(self, run: Sequence[str], least: int, most: int) -> list[str]:
        """The names with a word of the run, of some length in letters."""
        found: dict[str, None] = {}
        for word in dict.fromkeys(run):
            names = self._with.get(word)
            if names:
                low = bisect_left(names, least, key=len)
                found.update(dict.fromkeys(names[low : bisect_right(names, most, key=len)]))
        return list(found)

    def _all(self, run: Sequence[str], least: int, most: int) -> list[str]:
        del run
        return [name for size in range(least, most + 1) for name in self._by_length.get(size, ())]


def slips(written: str, name: str, distance: int) -> float:
    """How unlikely it is to write one text for another.

    A letter that is left out, doubled or swapped with the next can be so in one way, but another
    letter may stand in its place in 25: what is written says less for such a name (the noisy
    channel of Kernighan, Church and Gale 1990).

    Args:
        written: what stands there.
        name: what may be meant.
        distance: the number of slips.

    Returns:
        1 for a usual slip, more for the others.
    """
    if distance != 1:
        return _TWO
    start = next((n for n, (a, b) in enumerate(zip(written, name)) if a != b), None)  # noqa: B905
    if len(written) == len(name):
        swapped = start is not None and written[start : start + 2] == name[start : start + 2][::-1]
        return 1.0 if swapped else _OTHER
    if len(written) < len(name):
        return 1.0
    place = len(name) if start is None else start
    doubled = place > 0 and written[place] == written[place - 1]
    return 1.0 if doubled or not written[place].isalnum() else _OTHER
