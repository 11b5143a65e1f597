"""Which entities a question mentions: names and aliases, whole words, one slip of the pen or two.

Names are looked up as runs of words in a dictionary. A question has some twenty words and a name
a dozen at most, so that is some two hundred look-ups however many names there are; an automaton
over all names finds the same runs and has to be built first. (Of RuleQA-N's 75,449 names the one of
pyahocorasick 2 finds the same in its sentences, 1.1 times as fast, and 1.8 times in texts of thirty
sentences, when it was built for half as long as this dictionary takes.) Names with a slip are found
by the words that they share with the question (:mod:`~rulerag.linking.slips`).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rulerag.linking.slips import NearNames
from rulerag.linking.thesaurus import thesaurus

WORD = re.compile(r"\w+")
_ASIDE = re.compile(r"\s*\([^()]*\)\s*$")
# A name of one word that is any of these is no name in a question.
_COMMON_LIST = """
answer case everyone everything going idea looking next wonder say somebody
a an and any are as at be been by can could did do does during for from had has have he her
him his how i in is it its kind me my name of on one or please she since some someone something
tell that the their them they thing things this to us was we were what when where which who
whom whose why will with would you
"""
COMMON = frozenset(_COMMON_LIST.split())
# What a slip takes off a name's score, and what a word that is none adds to it.
_SLIP, _STRANGE = 1.3, 2.0
# The most unlikely slip from words that mean something else.
_MOST_KNOWN = 1.5
# How much less a name counts that was shortened: "Citizen" for "Citizen (India)".
_SHORTENED = 0.6
_CAPITAL = 1.15
# Of names that differ in capital letters alone ("poetry", "Poetry") the one that stands there.
_AS_WRITTEN = 1.05


@dataclass(frozen=True, slots=True)
class Mention:
    """A name in a question, and the entity that it may stand for.

    Args:
        entity: the raw name.
        span: where it stands in the question, in characters.
        score: how much of the question it explains; larger is better, comparable in one question.
        name: the words of the entity that were found; another spelling where it was a slip.
        exact: whether it is spelt as the entity is.
    """

    entity: str
    span: tuple[int, int]
    score: float
    name: str
    exact: bool = True


def words_of(text: str) -> list[str]:
    """The words of a text as names are compared: case folded, without marks."""
    return [word.casefold() for word in WORD.findall(text)]


class MentionFinder:
    """Finds the entities that a question mentions.

    Args:
        names: for each raw name, its label and aliases.
        other_words: words that questions are made of, such as those of relations: a run of words
            with none but known words is not taken for a misspelt name.
    """

    def __init__(
        self, names: Mapping[str, Sequence[str]], other_words: Collection[str] = ()
    ) -> None:
        self._spellings = names
        self._entities: dict[str, list[str]] = {}
        self._shortened: dict[str, list[str]] = {}
        self._uncapitalised: set[str] = set()
        frequency: Counter[str] = Counter()
        for entity, spellings in names.items():
            for spelling in spellings:
                key = words_of(spelling)
                if len(key) == 1 and spelling.islower():
                    self._uncapitalised.add(key[0])
                frequency.update(set(key))
                self._add(self._entities, key, entity)
                short = words_of(_ASIDE.sub("", spelling))
                if short != key:
                    self._add(self._shortened, short, entity)
        self._frequency = frequency
        self._total = max(len(names), 1)
        self._known = set(frequency) | {w for one in other_words for w in words_of(one)} | COMMON
        keys = (*self._entities, *self._shortened)
        self._longest = max((key.count(" ") + 1 for key in keys), default=0)

    @staticmethod
    def _add(index: dict[str, list[str]], words: Sequence[str], entity: str) -> None:
        if words and not (len(words) == 1 and words[0] in COMMON):
            known = index.setdefault(" ".join(words), [])
            if entity not in known:
                known.append(entity)

    def find(self, text: str) -> list[Mention]:
        """The mentions of a question, best first; several entities may share one name.

        Args:
            text: the question.
        """
        tokens = [(m.group().casefold(), m.start(), m.end()) for m in WORD.finditer(text)]
        found: dict[str, Mention] = {}
        mentions = [*self._exact(text, tokens), *self._misspelt(text, tokens, every=False)]
        for mention in mentions or self._misspelt(text, tokens, every=True):
            known = found.get(mention.entity)
            if known is None or mention.score > known.score:
                found[mention.entity] = mention
        return sorted(found.values(), key=lambda one: (-one.score, one.entity))

    def spans(self, text: str) -> list[tuple[int, int, tuple[str, ...]]]:
        """The names in a text, from left to right, without overlap; of two the longer counts.

        Only whole spellings count, without slips, and a name of one word that is written with a
        capital needs it here too: "May" is no month's "may".

        Args:
            text: of any length.

        Returns:
            For each its start and end, in characters, and the entities that have the name.
        """
        tokens = list(WORD.finditer(text))
        words = [token.group().casefold() for token in tokens]
        found = []
        place = 0
        while place < len(words):
            longest = self._starts.get(words[place], 0)
            for end in range(min(place + longest, len(words)), place, -1):
                entities = self._entities.get(" ".join(words[place:end]))
                start = tokens[place].start()
                lower = end == place + 1 and text[start].islower()
                if entities and not (lower and words[place] not in self._uncapitalised):
                    found.append((start, tokens[end - 1].end(), tuple(entities)))
                    place = end - 1
                    break
            place += 1
        return found

    @cached_property
    def _starts(self) -> dict[str, int]:
        """The first word of every name, and the most words of a name that begins so."""
        longest: dict[str, int] = {}
        for key in self._entities:
            first, size = key.partition(" ")[0], key.count(" ") + 1
            longest[first] = max(size, longest.get(first, 0))
        return longest

    def nearest(self, text: str, limit: int = 3) -> list[str]:
        """Names with a word of a question, else those that look most like some run of its words.

        A first name alone may be that of several; those are named, rare words before common ones.

        Args:
            text: the question.
            limit: how many.
        """
        from rapidfuzz import fuzz, process

        words = [word for word in words_of(text) if word not in COMMON]
        unknown = [word for word in words if word not in self._known] or words
        if not unknown:
            return []
        found: dict[str, float] = {}
        for run in {" ".join(unknown), *unknown}:
            for key, score, _ in process.extract(run, self._keys, scorer=fuzz.ratio, limit=limit):
                found[key] = max(score, found.get(key, 0.0))
        said = self._frequency.keys() & set(words)
        for key in self._keys if said else ():
            if shared := said & set(key.split()):
                found[key] = 100.0 + sum(1 / self._frequency[word] for word in shared)
        best = sorted(found, key=lambda key: (-found[key], key))
        return list(dict.fromkeys(self._entities[key][0] for key in best))[:limit]

    def _weight(self, key: str) -> float:
        """How much of a question a name explains: rare words count more than common ones."""
        return sum(
            0.2
            if word in COMMON
            else 1.0 + math.log((self._total + 1) / (self._frequency[word] + 1)) / 4
            for word in key.split()
        )

    def _exact(self, text: str, tokens: Sequence[tuple[str, int, int]]) -> Iterator[Mention]:
        for start in range(len(tokens)):
            for end in range(start + 1, min(start + self._longest, len(tokens)) + 1):
                key = " ".join(word for word, *_ in tokens[start:end])
                span = tokens[start][1], tokens[end - 1][2]
                capital = _CAPITAL if start and text[span[0]].isupper() else 1.0
                for index, share in ((self._entities, 1.0), (self._shortened, _SHORTENED)):
                    said = text[slice(*span)]
                    for entity in index.get(key, ()):
                        score = share * capital * self._weight(key)
                        if said in self._spellings[entity]:
                            score *= _AS_WRITTEN
                        yield Mention(entity, span, score, said)

    def _misspelt(
        self, text: str, tokens: Sequence[tuple[str, int, int]], *, every: bool
    ) -> Iterator[Mention]:
        """Mentions with slips; of words that are known on their own only where nothing else is."""
        words = [word for word, *_ in tokens]

        def apart(word: str) -> bool:
            return word not in (COMMON if every else self._known)

        for start, end, key, slips in self._near.near(words, apart):
            run = " ".join(words[start:end])
            parted = run.replace(" ", "") == key.replace(" ", "")
            strange = any(self._strange(word, parted=parted) for word in words[start:end])
            if not strange and slips > _MOST_KNOWN and not every:
                continue
            capital = _CAPITAL if start and text[tokens[start][1]].isupper() else 1.0
            score = capital * self._weight(key) + _STRANGE * strange
            if run in self._entities:  # a name as it stands is likelier than another with a slip
                score = min(score, capital * self._weight(run))
            score -= _SLIP * slips
            for entity in self._entities[key]:
                span = tokens[start][1], tokens[end - 1][2]
                yield Mention(entity, span, score, key, exact=False)

    def _strange(self, word: str, *, parted: bool) -> bool:
        """Whether only a slip explains a word: the graph has it not, and it is not English.

        The parts of a name that a blank parts ("basket ball") may well be English.
        """
        return word not in self._known and (parted or word not in thesaurus())

    @cached_property
    def _near(self) -> NearNames:
        return NearNames(self._entities, COMMON)

    @cached_property
    def _keys(self) -> list[str]:
        return list(self._entities)


def spellings(
    names: Iterable[str],
    labels: Mapping[str, str],
    aliases: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, tuple[str, ...]]:
    """The label, the raw name and the aliases of each entity, the label first.

    Args:
        names: raw names.
        labels: the words of those that have any.
        aliases: what else some are called.
    """
    also = aliases or {}
    return {
        name: tuple(dict.fromkeys((labels.get(name, name), name, *also.get(name, ()))))
        for name in sorted(names)
    }
