"""Whom a text names: known names, and others by their capitals, each by one canonical name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rulerag.linking import MentionFinder
from rulerag.text import sentence_spans

_WORD = re.compile(r"\w[\w'\u2019-]*")
_RUN = re.compile(
    r"(?!\d)[^\W\d_a-zß-ÿ][\w'\u2019.&-]*(?<!\.)"
    r"(?:(?:\s(?:of|the|de|von|van|der|du|la|al|and(?=\s&))\b)*\s[^\W\d_a-zß-ÿ][\w'\u2019&-]*)*"
)
_NEVER_LIST = """
january february march april may june july august september october november december
monday tuesday wednesday thursday friday saturday sunday i
"""
_NEVER = frozenset(_NEVER_LIST.split())
_FUNCTION_LIST = """
a an the this that these those what who whom whose which when where why how if whether while whereas
although though because since after before until once as at by for from in into of on onto to with
without under over about against among between through during and but or nor so yet not no nobody
none nothing someone somebody something everyone everybody anyone he she it they we you his her its
their our my your him them us there here then also only even both either neither each every some any
all most many few several one two three four five six seven eight nine ten another other such was is
are were be been has have had do does did will would can could may might must should according
despite following rumours rumors
"""
_FUNCTION = frozenset(_FUNCTION_LIST.split())
_JOINS = frozenset(["of", "the", "de", "von", "van", "der", "du", "la", "al", "and"])


# "Anna Meyer's mother": the name ends before it. At the end of a clause it may belong to the name.
_POSSESSIVE = re.compile(r"['\u2019]s?(?=\s)")
# Of the small words of English prose some two in five are function words.
_LEAST_ENGLISH, _FEW = 0.2, 30


def looks_english(texts: Iterable[str]) -> bool:
    """Whether texts look English, by their function words; so do texts of a few words.

    Args:
        texts: of documents.
    """
    small = [word for text in texts for word in _WORD.findall(text) if word.islower()]
    common = sum(word in _FUNCTION for word in small)
    return len(small) < _FEW or common >= _LEAST_ENGLISH * len(small)


class Named(NamedTuple):
    """A name in a text.

    Args:
        start: where it begins, in characters.
        end: where it ends.
        entity: the canonical name.
    """

    start: int
    end: int
    entity: str


class NameReader:
    """Finds names in texts.

    Known names are found as they are spelt. Other runs of capitalised words are names too, where
    their first word is none that texts also write small (at the start of a sentence every word has
    a capital). A run that is the first or last word of a longer name in the same document stands
    for it, if for no other ("Meyer" for "Anna Meyer").

    Args:
        texts: all texts, which show what words are written small.
        known: for each known raw name, its spellings.
    """

    def __init__(self, texts: Iterable[str], known: Mapping[str, Sequence[str]]) -> None:
        self._finder = MentionFinder(known)
        self._small: Counter[str] = Counter()
        self._large: Counter[str] = Counter()
        for text in texts:
            starts = {start for start, _ in sentence_spans(text)}
            for match in _WORD.finditer(text):
                word = match.group()
                if word[0].islower():
                    self._small[word.casefold()] += 1
                elif word[0].isupper() and match.start() not in starts:
                    self._large[word.casefold()] += 1

    def read(self, text: str, blank: Sequence[tuple[int, int]] = ()) -> list[Named]:
        """The names of a text, from left to right.

        Args:
            text: a document's text.
            blank: spans that hold no names, such as dates.
        """
        found = [
            Named(start, end, entities[0]) for start, end, entities in self._finder.spans(text)
        ]
        taken = [(one.start, one.end) for one in found] + list(blank)
        starts = {start for start, _ in sentence_spans(text)}
        for whole in (one for match in _RUN.finditer(text) for one in _owners(text, match.span())):
            for span in _free(whole, taken):
                words = text[slice(*span)].split()
                if span != whole and words and not _JOINS & {words[0], words[-1]}:
                    continue  # "Acme Works" where "Acme" is known: who that is, is not
                start, end = self._trimmed(text, span, starts)
                if start < end:
                    found.append(Named(start, end, " ".join(text[start:end].split())))
        return self._in_full(sorted(found))

    def _trimmed(self, text: str, span: tuple[int, int], starts: set[int]) -> tuple[int, int]:
        """A run without leading words that are no name, such as the first of a sentence."""
        start, end = span
        while start < end:
            match = _WORD.match(text, start, end)
            if match is None:
                return end, end
            word = match.group().casefold()
            if match.group() in _JOINS:
                start = match.end() + 1
                continue
            common = self._small[word] > self._large[word] or word in _FUNCTION
            last = not text[match.end() : end].strip()
            # An article within a name: "The Silent Harbour".
            article = word == "the" and not last and self._large["the"] > 0
            first = start in starts and common and not article
            if word not in _NEVER and not first and not (common and last):
                break
            start = match.end()
            while start < end and text[start].isspace():
                start += 1
        # "Anna Meyer of" before a known name: what joins the two belongs to neither.
        while start < end and (words := text[start:end].rsplit(None, 1))[-1] in _JOINS:
            end = start + (len(words[0]) if len(words) > 1 else 0)
        while start < end and text[end - 1].isspace():
            end -= 1
        return start, end

    def _in_full(self, found: list[Named]) -> list[Named]:
        """Short forms replaced by the one longer name that they begin or end."""
        longer: dict[str, set[str]] = {}
        for one in found:
            words = one.entity.split()
            if len(words) > 1:
                for short in (words[0], words[-1]):
                    longer.setdefault(short, set()).add(one.entity)
        named = {one.entity for one in found}

        def full(name: str) -> str:
            if f"The {name}" in named:
                return f"The {name}"
            known = longer.get(name, set())
            return min(known) if " " not in name and len(known) == 1 else name

        return [one._replace(entity=full(one.entity)) for one in found]


def _owners(text: str, span: tuple[int, int]) -> list[tuple[int, int]]:
    """A run of capitals in parts, each as far as a possessive "'s"."""
    parts, (start, end) = [], span
    for match in _POSSESSIVE.finditer(text, start):
        if match.start() >= end:
            break
        parts.append((start, match.start()))
        start = min(end, match.end() + 1)
    return [(a, b) for a, b in (*parts, (start, end)) if a < b]


def _free(span: tuple[int, int], taken: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The parts of a span that nothing has taken."""
    free, (start, end) = [], span
    for a, b in sorted(taken):
        if a < end and start < b:
            free.append((start, a))
            start = max(start, b)
    return [one for one in (*free, (start, end)) if one[0] < one[1]]
