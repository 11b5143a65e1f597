"""Which entities a question mentions: names and aliases, whole words, one slip of the pen or two.

Names are looked up as runs of words in a dictionary. A question has some twenty words and a name
a dozen at most, so that is some two hundred look-ups however many names there are; an automaton
over all names finds the same runs and has to be built first. (Of RuleQA-N's 75,449 names the one of
pyahocorasick 2 finds the same in its sentences, 1.1 times as fast, and 1.8 times in texts of thirty
sentences, when it was built for half as long as this dictionary takes.) Names with a slip are found
by the words that they share with the question (:mod:`~rulerag.linking.words.slips`).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from rulerag.linking.words.classes import (
    AUXILIARIES,
    COMMON,
    INTERROGATIVES,
    PREPOSITIONS,
    SHARING,
    STOP_WORDS,
    WORD,
    folded,
    stem,
    words_of,
)
from rulerag.linking.words.slips import NearNames
from rulerag.linking.words.wordnet import of_country, thesaurus

_ASIDE = re.compile(r"\s*\([^()]*\)\s*$")
# How much less a part of a name counts, and a word that is one but for its ending.
_PART, _INFLECTED = 0.85, 0.8
# Entities of one spelling differ by less than this; a word that is part of more names is none.
_EQUAL, _MOST_NAMES = 0.1, 4
_LONG_PART, _MOST_TURNED = 3, 80
# Names of a question that are looked at; the words of more are left without an account.
_MOST_PLACES = 6
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
        part: whether it is a part of the name alone.
    """

    entity: str
    span: tuple[int, int]
    score: float
    name: str
    exact: bool = True
    part: bool = False


class NamedPlace(NamedTuple):
    """A place in a question where a name stands.

    Args:
        span: in characters.
        entities: who it may be, the likeliest first; more than one where several have the name.
        doubtful: whether it may as well be a word of the sentence: one that is not written as a
            name.
    """

    span: tuple[int, int]
    entities: tuple[str, ...]
    doubtful: bool = False


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
        found: dict[str, Mention] = {}
        for mention in self._every(text, _tokens(text)):
            known = found.get(mention.entity)
            if known is None or mention.score > known.score:
                found[mention.entity] = mention
        return sorted(found.values(), key=lambda one: (-one.score, one.entity))

    def _every(self, text: str, tokens: Sequence[tuple[str, int, int]]) -> list[Mention]:
        """The mentions of whole names; with slips where there are no others."""
        mentions = [*self._exact(text, tokens), *self._misspelt(text, tokens, every=False)]
        return mentions or list(self._misspelt(text, tokens, every=True))

    def names(self, text: str, free: Sequence[tuple[int, int]] = ()) -> list[NamedPlace]:
        """The names of a question, from left to right, without overlap: the likeliest.

        Besides whole names and slips of the pen, parts of names count ("Harbour Analytics" of
        "Harbour Analytics Ltd", "Dr Nowicka" of "Dr. Marta Nowicka"), and values in the plural.

        Args:
            text: the question.
            free: places that hold none, such as its times.
        """
        tokens = _tokens(text)
        found: dict[tuple[int, int], list[Mention]] = {}
        others = (
            *self._parts_of_names(text, tokens),
            *self._inflected(tokens),
            *self._turned(tokens),
        )
        for mention in (*self._every(text, tokens), *others):
            found.setdefault(mention.span, []).append(mention)
        ranked = sorted(found.items(), key=lambda one: (-max(m.score for m in one[1]), one[0]))
        names: list[NamedPlace] = []
        parts: list[NamedPlace] = []
        for span, mentions in ranked:
            words = [word for word, start, end in tokens if span[0] <= start and end <= span[1]]
            written = [
                text[start] for _, start, end in tokens if start >= span[0] and end <= span[1]
            ]
            capital = any(one.isupper() for one in written) or any(map(str.isdigit, "".join(words)))
            lower = not capital and (
                len(words) == 1 or all(word in thesaurus() or word in STOP_WORDS for word in words)
            )
            taken = (*(one.span for one in names), *free)
            mentions = [one for one in mentions if one.exact or self._may_slip(words, one.name)]
            if not mentions or _overlaps(span, taken):
                continue
            best = max(one.score for one in mentions)
            if not self._is_sentence(words, lower=lower):
                near = (one.entity for one in mentions if one.score >= best - _EQUAL)
                name = NamedPlace(span, tuple(dict.fromkeys(near)), lower)
                names.append(name)
                parts += [name] * (lower and mentions[0].part)
        # "clinic" is the name of a clinic only where there is no other name.
        rest = [name for name in names if name not in parts]
        return sorted(rest or names)[:_MOST_PLACES]

    @staticmethod
    def _may_slip(words: Sequence[str], name: str) -> bool:
        """Whether words may be a name with a slip: one that is not English is changed."""
        changed = [word for word in words if word not in words_of(name)]
        if any(word in STOP_WORDS | PREPOSITIONS for word in changed):
            return False
        return not all(word in thesaurus() or word in STOP_WORDS for word in words)

    @staticmethod
    def _is_sentence(words: Sequence[str], *, lower: bool) -> bool:
        """Whether words belong to the sentence, though somebody is called so."""
        if all(word in INTERROGATIVES | AUXILIARIES | {"or"} for word in words):
            return True
        return lower and len(words) == 1 and words[0] in STOP_WORDS | SHARING | {"made"}

    def _inflected(self, tokens: Sequence[tuple[str, int, int]]) -> Iterator[Mention]:
        """Values in the plural: "engineers"."""
        for word, start, end in tokens:
            if word in STOP_WORDS or word.endswith(("ed", "ing")):
                continue
            others = (*thesaurus().bases(word)[1:], " ".join(of_country(word)))
            base = next((one for one in others if one != word and one in self._entities), "")
            for entity in self._entities.get(base, ()):
                yield Mention(entity, (start, end), _INFLECTED * self._weight(base), word)

    def _turned(self, tokens: Sequence[tuple[str, int, int]]) -> Iterator[Mention]:
        """Names in other forms: "clinical drugs", "Ugandan police" of "Police (Uganda)"."""
        words = [word for word, *_ in tokens[:_MOST_TURNED]]
        for first in range(len(words)):
            for last in range(first + 2, min(first + self._longest + 2, len(words)) + 1):
                run = words[first:last]
                if {run[0], run[-1]} & (STOP_WORDS | PREPOSITIONS):
                    continue
                for entity in self._by_stems.get(_stems(run), ()):
                    span = tokens[first][1], tokens[last - 1][2]
                    yield Mention(entity, span, _INFLECTED * self._weight(" ".join(run)), "")

    @cached_property
    def _by_stems(self) -> dict[frozenset[str], list[str]]:
        """The entities whose names have several words, by the stems of these."""
        found: dict[frozenset[str], list[str]] = {}
        for entity, spellings in self._spellings.items():
            for key in {_stems(words_of(one)) for one in spellings}:
                if len(key) > 1:
                    found.setdefault(key, []).append(entity)
        return found

    def _parts_of_names(
        self, text: str, tokens: Sequence[tuple[str, int, int]]
    ) -> Iterator[Mention]:
        """Runs of words that stand in a name in this order, written as names are."""
        for first in range(len(tokens)):
            known = len(tokens)
            for last in range(first, min(first + self._longest, len(tokens))):
                if tokens[last][0] not in self._names_with:
                    known = last
                    break
            for last in range(min(known, first + self._longest), first, -1):
                run = [word for word, *_ in tokens[first:last]]
                span = tokens[first][1], tokens[last - 1][2]
                key = " ".join(run)
                like_name = self._like_name(text, run, span, tokens[last - 1])
                # Of a long name any words will do: "the Polish winter expedition".
                long = len(set(run) - COMMON - PREPOSITIONS) >= _LONG_PART
                if key in self._entities or not (like_name or long):
                    continue
                names = min((self._names_with[word] for word in run), key=len)
                whole = [name for name in names if _holds_in_order(name.split(), run)]
                if not like_name and len(whole) > 1:
                    continue
                if whole and (len(run) > 1 or len(whole) <= _MOST_NAMES):
                    score = _PART * self._weight(key)
                    for entity in dict.fromkeys(e for name in whole for e in self._entities[name]):
                        yield Mention(entity, span, score, text[slice(*span)], part=True)

    @staticmethod
    def _like_name(
        text: str, run: Sequence[str], span: tuple[int, int], last: tuple[str, int, int]
    ) -> bool:
        """Whether a run of words is written as a name is, or is no English."""
        if all(word in STOP_WORDS | PREPOSITIONS or word.isdigit() for word in run):
            return False
        if len(run) == 1 and run[0] in thesaurus():
            return False
        capital = text[span[0]].isupper() and text[last[1]].isupper()
        english = STOP_WORDS | PREPOSITIONS
        return capital or not any(word in english or word in thesaurus() for word in run)

    @cached_property
    def _names_with(self) -> dict[str, list[str]]:
        """The names that each word stands in."""
        found: dict[str, list[str]] = {}
        for key in self._entities:
            for word in set(key.split()):
                found.setdefault(word, []).append(key)
        return found

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
        words = [folded(token.group()) for token in tokens]
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
                        part = index is self._shortened and len(index[key]) > 1
                        yield Mention(entity, span, score, said, part=part)

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


def _tokens(text: str) -> list[tuple[str, int, int]]:
    return [(folded(m.group()), m.start(), m.end()) for m in WORD.finditer(text)]


def _stems(words: Iterable[str]) -> frozenset[str]:
    """The stems of a name in any form: of countries for what is called after them."""
    plain = (one for word in words for one in of_country(word))
    return frozenset(stem(word) for word in plain if word not in COMMON | PREPOSITIONS)


def _overlaps(span: tuple[int, int], others: Iterable[tuple[int, int]]) -> bool:
    return any(start < span[1] and span[0] < end for start, end in others)


def _holds_in_order(words: Sequence[str], run: Sequence[str]) -> bool:
    """Whether the words of a run stand among others in the same order."""
    rest = iter(words)
    return all(any(word == other for other in rest) for word in run)


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
