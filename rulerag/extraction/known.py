"""Which known facts texts state: both ends stand in one sentence, in words that say the relation.

A sentence with both ends of a fact may state it, or say something else of the same two (Riedel et
al. 2010, section 1). What its words say is learned from the texts themselves: words that stand
beside the ends of many facts of one relation, and seldom beside two of whom nothing is known, say
that relation (naive Bayes; who has several relations counts for each as much as his words say it).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, permutations
from typing import NamedTuple

from rulerag.extraction.words import is_denied, verb_stem
from rulerag.kg import Calendar
from rulerag.linking import MentionFinder, stated_times
from rulerag.text import sentence_spans
from rulerag.types import Document, Fact

Signs = tuple[str, ...]
"""The stems of a sentence around two names, with their places."""
Meant = tuple[str, bool]
"""A relation, and whether its subject is the first of two names."""

# Rounds of expectation maximisation; the part of the average words in each relation's, and
# pseudo-occurrences of them.
_ROUNDS, _AVERAGE, _PRIOR = 4, 0.1, 2.0
# How likely words must be where the fact is known, against where nothing is known of two names.
_LEAST_LIFT = 0.2
# Words leave open what is at most this many times less likely than the likeliest.
_OPEN = 2.0
_TINY = 1e-9
# Texts about nobody of whom something is known together, which show what other words say.
_OTHERS = 10_000
# A sentence with more names than this is a list.
_MOST_NAMES = 8
_NOTHING: Meant = ("", False)
_MARKS = ("before", "between", "behind")
_WORD = re.compile(r"[\w'\u2019-]+")
# "Ann, as expected, joined …": words in commas behind a name say something else.
_ASIDE = re.compile(r"^\s*,[^,;:()]{0,60},")


class _Place(NamedTuple):
    """Two names of a sentence, the words around them, and the facts that it may state."""

    row: int
    signs: Signs
    facts: tuple[tuple[Meant, Fact], ...]


def with_known_facts(
    documents: Sequence[Document],
    facts: Iterable[Fact],
    names: Mapping[str, Sequence[str]],
    calendar: Calendar | None = None,
) -> list[Document]:
    """The same documents; texts state those facts of a graph that their words say.

    A dated fact is stated only by a sentence with its date. Documents that state facts already are
    kept. A sentence that says "she" for one of the two states nothing here.

    Args:
        documents: texts that say whom they mention (:func:`rulerag.linking.link_mentions`).
        facts: of the graph.
        names: for each raw name, its label and aliases.
        calendar: of dated facts.
    """
    known: dict[tuple[str, str], list[Fact]] = {}
    for fact in facts:
        known.setdefault((fact.subject, fact.object), []).append(fact)
    finder = MentionFinder(names)
    places: list[_Place] = []
    others = 0
    for row, document in enumerate(documents):
        if document.facts or len(document.entities) < 2:
            continue
        if not _may_state(document, known):
            others += 1
            if others > _OTHERS:
                continue
        places += _places(row, document.text, known, finder, calendar)
    said = _Words(places)
    stated: dict[int, list[Fact]] = {}
    for place in places:
        own = stated.setdefault(place.row, [])
        own += (fact for fact in said.chosen(place) if fact not in own)
    return [
        replace(document, facts=tuple(stated[row])) if stated.get(row) else document
        for row, document in enumerate(documents)
    ]


def _may_state(document: Document, known: Mapping[tuple[str, str], Sequence[Fact]]) -> bool:
    return any(pair in known for pair in permutations(document.entities, 2))


def _places(
    row: int,
    text: str,
    known: Mapping[tuple[str, str], Sequence[Fact]],
    finder: MentionFinder,
    calendar: Calendar | None,
) -> Iterator[_Place]:
    """Every two names of a sentence, with what is known of them."""
    spans = finder.spans(text)
    stated = stated_times(text, calendar) if calendar is not None else ()
    # A date may begin with the blank before its sentence.
    dates = [(time, (b - len(text[a:b].lstrip(" ,(\n")), b)) for time, (a, b) in stated]
    for start, end in sentence_spans(text):
        named = [one for one in spans if start <= one[0] < end]
        times = {time for time, (a, _) in dates if start <= a < end}
        if not 2 <= len(named) <= _MOST_NAMES:
            continue
        blanks = [span for _, span in dates if start <= span[0] < end]
        said = [_words(text, a, b, blanks) for a, b in _gaps(start, end, named)]
        stems = [[verb_stem(word) for word in part] for part in said]
        for first in range(len(named)):
            for second in range(first + 1, len(named)):
                between = [word for part in said[first + 1 : second + 1] for word in part]
                if is_denied(between, (word for part in said[: first + 1] for word in part)):
                    continue
                may = tuple(_facts_of(named[first][2], named[second][2], known, times))
                yield _Place(row, _signs(stems, first, second), may)


def _gaps(
    start: int, end: int, named: Sequence[tuple[int, int, tuple[str, ...]]]
) -> list[tuple[int, int]]:
    """What stands between the names of a sentence, before the first and behind the last."""
    edges = [start, *(edge for a, b, _ in named for edge in (a, b)), end]
    return list(zip(edges[::2], edges[1::2], strict=True))


def _words(text: str, start: int, end: int, blanks: Sequence[tuple[int, int]]) -> list[str]:
    """The words of a part of a text, without its dates."""
    cut = sorted((max(a, start), min(b, end)) for a, b in blanks if a < end and start < b)
    edges = [(start, start), *cut, (end, end)]
    said = " ".join(text[b:a] for (_, b), (a, _) in pairwise(edges))
    return _WORD.findall(_ASIDE.sub(" ", said))


def _signs(words: Sequence[Sequence[str]], first: int, second: int) -> Signs:
    """The words around two names: before the first, right before the second, and behind it."""
    around = words[first], words[second], words[second + 1]
    near = "" if second == first + 1 else "far"
    said = [f"{mark}:{word}" for mark, part in zip(_MARKS, around, strict=True) for word in part]
    return (*dict.fromkeys(said), *([near] if near else ()))


def _facts_of(
    first: Sequence[str],
    second: Sequence[str],
    known: Mapping[tuple[str, str], Sequence[Fact]],
    times: set[int],
) -> Iterator[tuple[Meant, Fact]]:
    for one in first:
        for other in second:
            for pair, forward in (((one, other), True), ((other, one), False)):
                for fact in known.get(pair, ()) if one != other else ():
                    if fact.timestamp is None or fact.timestamp in times:
                        yield (fact.relation, forward), fact


class _Words:
    """How likely words are beside the ends of facts of each relation, and of no known fact.

    Args:
        places: all that were found.
    """

    def __init__(self, places: Iterable[_Place]) -> None:
        groups = Counter(
            (place.signs, tuple(sorted({meant for meant, _ in place.facts})) or (_NOTHING,))
            for place in places
        )
        total = sum(groups.values())
        every = Counter[str]()
        for (signs, _), count in groups.items():
            every.update(dict.fromkeys(signs, count))
        self._average = {sign: count / (total + 1.0) for sign, count in every.items()}
        shares = {key: [1 / len(key[1])] * len(key[1]) for key in groups}
        for _ in range(_ROUNDS):
            self._sums: dict[Meant, dict[str, float]] = {}
            self._sizes: dict[Meant, float] = {}
            for (signs, choices), count in groups.items():
                for meant, share in zip(choices, shares[signs, choices], strict=True):
                    self._add(meant, signs, share * count)
            for signs, choices in groups:
                if len(choices) > 1:
                    shares[signs, choices] = self._shares(signs, choices)

    def _add(self, meant: Meant, signs: Signs, weight: float) -> None:
        self._sizes[meant] = self._sizes.get(meant, 0.0) + weight
        sums = self._sums.setdefault(meant, {})
        for sign in signs:
            sums[sign] = sums.get(sign, 0.0) + weight

    def _shares(self, signs: Signs, choices: Sequence[Meant]) -> list[float]:
        logs = [self._log(signs, one) + math.log(self._sizes[one] + _TINY) for one in choices]
        most = max(logs)
        weights = [math.exp(one - most) for one in logs]
        return [one / sum(weights) for one in weights]

    def _log(self, signs: Signs, meant: Meant) -> float:
        """How likely words are where they mean this; the average for what was never seen."""
        sums: Mapping[str, float] = self._sums.get(meant, {})
        size = self._sizes.get(meant, 0.0)
        # A part of the average however much was seen: unseen words say as little of many as of few.
        own = (1 - _AVERAGE) / (size + _PRIOR)
        rest = 1 - own * size
        return sum(
            math.log(own * sums.get(sign, 0.0) + rest * self._average[sign]) for sign in signs
        )

    def chosen(self, place: _Place) -> list[Fact]:
        """The known facts that the words of a place state; none where they say something else.

        Several where words leave open which: "A and B were nominated together".
        """
        scored = [(self._log(place.signs, meant), fact) for meant, fact in place.facts]
        best = max((score for score, _ in scored), default=0.0)
        nothing = self._log(place.signs, _NOTHING) + math.log(_LEAST_LIFT)
        return [fact for score, fact in scored if score >= max(best - math.log(_OPEN), nothing)]
