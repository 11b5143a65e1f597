"""Words that mean much the same, from WordNet: "condemn" and "criticize", "movie" and "film".

``thesaurus.txt.gz`` lists the senses of 41,000 English words and fixed phrases ("look into"): those
that occur in WordNet's tagged texts, and what shares a sense with them
(``python -m training.shipped.thesaurus`` makes it). A sense is a line: its words, each with the
number of the sense among those of the word, the most usual first; the more general senses; and
those derived from it or alike. Fellbaum (ed.), WordNet: An Electronic Lexical Database, MIT Press
1998.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rulerag.io import read_text
from rulerag.linking.words.classes import COMMON, PREPOSITIONS, STOP_WORDS

if TYPE_CHECKING:
    from scipy.sparse import csr_array

FILE, EVERYDAY_FILE = "thesaurus.txt.gz", "everyday.txt"
_SIGNS = (":", "=", "<", "~", ">")
# How alike two words of one group of the second file are.
_EVERYDAY = 0.6
# Chosen on validation questions: what a more general sense counts, and one derived or alike.
_GENERAL, _ALIKE = 0.7, 0.5
_LONGEST, _MOST_KEPT = 4, 50_000
_USUAL_SENSES = 3
_AGENT = ("", "r", "er")  # "cmdr" is short for who commanded
# Words of two letters and fewer that may stand in a label that runs together, and its limits.
_SHORT = frozenset({"in", "of", "to", "by", "at", "on", "is", "a", "has", "for", "from", "with"})
_LONGEST_WORD, _MOST_WORDS = 16, 5
# The letters of an abbreviation at least, and the words that it may stand for at most.
_LEAST_SHORT, _MOST_FULL = 3, 3
_ENDINGS = (
    ("ies", ("y",)), ("ied", ("y",)), ("es", ("", "e")), ("s", ("",)), ("ed", ("", "e")),
    ("ing", ("", "e")),
)  # fmt: skip


class Thesaurus:
    """Senses of words, and how alike two words are by them.

    Args:
        lines: senses, as the module says.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self._senses: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self._words: list[list[str]] = []
        self._general: list[list[int]] = []
        self._alike: list[list[int]] = []
        self._vectors: dict[str, dict[int, float]] = {}
        for number, line in enumerate(lines):
            words, general, alike = line.split("\t")
            self._words.append([word.replace("_", " ") for word in words.split()])
            for word in self._words[-1]:
                self._senses[word[:-1]].append((int(word[-1]), number))
            self._general.append([int(one) for one in general.split()])
            self._alike.append([int(one) for one in alike.split()])

    def tokens(self, words: Sequence[str]) -> list[tuple[str, int, int]]:
        """Words and fixed phrases among words, with the places where they start and end.

        Args:
            words: of a text, case folded.
        """
        found = []
        start = 0
        while start < len(words):
            end = start + 1
            token = words[start]
            for size in range(min(_LONGEST, len(words) - start), 1, -1):
                rest = words[start + 1 : start + size]
                if rest[-1] == "of":  # "kind of" asks for a kind, and is no adverb
                    continue
                phrases = (" ".join((first, *rest)) for first in self.bases(words[start]))
                known = (self._senses, _everyday_groups())
                phrase = next((one for one in phrases if any(one in each for each in known)), None)
                if phrase is not None:
                    token, end = phrase, start + size
                    break
            found.append((token, start, end))
            start = end
        return found

    def __len__(self) -> int:
        return len(self._words)

    def __contains__(self, word: str) -> bool:
        """Whether a word is known, in any form."""
        return any(one in self._senses for one in self.bases(word))

    def bases(self, word: str) -> list[str]:
        """The word, and what it may be a form of: "criticized" of "criticize"."""
        return list(dict.fromkeys(self._bases(word)))

    @staticmethod
    def _bases(word: str) -> Iterator[str]:
        yield word
        if word in _irregular():
            yield _irregular()[word]
        for ending, instead in _ENDINGS:
            start = word.removesuffix(ending)
            if start != word and len(start) > 1:
                yield from (start + letters for letters in instead)
                if ending in ("ed", "ing") and len(start) > 3 and start[-1] == start[-2]:
                    yield start[:-1]

    def vectors(self, words: Sequence[str]) -> csr_array:
        """A unit vector over senses for each word, zero for a word without any.

        The product of two is how alike the words are, from 0 to 1; less usual senses count less.

        Args:
            words: words or phrases, as :meth:`tokens` gives them.

        Returns:
            Shape (words, senses).
        """
        from scipy.sparse import csr_array

        data: list[float] = []
        columns: list[int] = []
        starts = [0]
        for word in words:
            vector = self._vector(word)
            columns += vector
            data += vector.values()
            starts.append(len(columns))
        return csr_array((data, columns, starts), shape=(len(words), len(self._general)))

    def alike(self, word: str, other: str) -> float:
        """How alike two words are: the product of their vectors."""
        theirs = self._vector(other)
        return sum(value * theirs.get(sense, 0.0) for sense, value in self._vector(word).items())

    def everyday(self, word: str, other: str) -> float:
        """How alike two words are that people use for one relation: "boss" and "reports" (to).

        Args:
            word: of a question.
            other: of a relation; it may have a wider meaning.
        """
        for short, full in ((word, other), (other, word)):
            if any(is_short(short, base + end) for base in self.bases(full) for end in _AGENT):
                return 1.0
        groups = _everyday_groups()
        mine, theirs = (
            {n for base in self.bases(one) for n in groups.get(base, ())} for one in (word, other)
        )
        wider = any(
            {*self.bases(word)} & narrow and {*self.bases(other)} & wide
            for narrow, wide in _everyday_wider()
        )
        return _EVERYDAY if mine & theirs or wider else 0.0

    def is_a(self, noun: str, kind: str) -> bool:
        """Whether one of the usual senses of a noun falls under another noun: "nurse", "person"."""
        (_, goal), *_ = sorted(self._senses[kind])
        usual = (one for base in self.bases(noun) for one in self._senses.get(base, ()))
        todo = [sense for _, sense in sorted(usual)[:_USUAL_SENSES]]
        seen = set(todo)
        while todo:
            fresh = set(self._general[todo.pop()]) - seen
            seen |= fresh
            todo += fresh
        return goal in seen

    def is_kind(self, noun: str, word: str) -> bool:
        """Whether a noun names what stands at an end of what a word says: films of "directed"."""
        kinds = _everyday_kinds()
        words = set(self.bases(word))
        return any(words & kinds.get(base, frozenset()) for base in self.bases(noun))

    def _vector(self, word: str) -> dict[int, float]:
        if word in self._vectors:
            return self._vectors[word]
        found: dict[int, float] = {}
        for base in self.bases(word):
            for rank, sense in self._senses.get(base, ()):
                weight = 1 / math.sqrt(rank)
                for one, share in self.near(sense):
                    found[one] = max(found.get(one, 0.0), weight * share)
        size = math.sqrt(sum(value * value for value in found.values()))
        vector = {sense: value / size for sense, value in found.items()}
        if len(self._vectors) < _MOST_KEPT:
            self._vectors[word] = vector
        return vector

    def near(self, sense: int) -> Iterator[tuple[int, float]]:
        """The sense itself, those derived from it, and two steps to more general ones.

        Args:
            sense: its number.

        Yields:
            Senses and how near they are, from 0 to 1.
        """
        yield sense, 1.0
        for one in self._alike[sense]:
            yield one, _ALIKE
        for one in self._general[sense]:
            yield one, _GENERAL
            for more in self._general[one]:
                yield more, _GENERAL**2


@lru_cache(maxsize=10_000)
def parted(label: str) -> str:
    """A label whose words run together as words: "militaryalliance", "locatedin", "exports3".

    Args:
        label: of a relation; one that is more than a word, or English, stays as it is.
    """
    letters, known = label[:1].casefold() + label[1:], thesaurus()
    number = letters[len(letters.rstrip("0123456789")) :]
    letters = letters.removesuffix(number)
    if not (letters.isascii() and letters.isalpha() and letters.islower()) or letters in known:
        return label
    # The fewest words, and of as many the most uneven: "located in", not "locate din".
    best: dict[int, list[str]] = {0: []}
    for end in range(1, len(letters) + 1):
        for start in range(max(0, end - _LONGEST_WORD), end):
            word = letters[start:end]
            if start in best and (word in _SHORT or (len(word) > 2 and word in known)):
                words = [*best[start], word]
                if end not in best or _unevenness(words) < _unevenness(best[end]):
                    best[end] = words
    words = best.get(len(letters), [])
    return " ".join([*words, *[number] * bool(number)]) if 1 < len(words) <= _MOST_WORDS else label


def written_out(label: str) -> list[str]:
    """A label, and what it may be with an abbreviation written out: "infl by", "influence by".

    Args:
        label: of a relation; abbreviations are the starts of words by which relations are asked.
    """
    words, known = parted(label).split(), thesaurus()
    short = [one for one in words if one not in known]
    found = {
        " ".join(full if word == one else word for word in words): None
        for one in short
        for full in sorted(_everyday_groups(), key=len)
        if is_short(one.casefold(), full)
    }
    return [parted(label), *list(found)[:_MOST_FULL]]


@lru_cache(maxsize=200_000)
def is_short(word: str, full: str) -> bool:
    """Whether a word is no English and short for another: "infl" and "nbhd" for "neighbourhood"."""
    known = thesaurus()
    if not 1 < len(word) < len(full) or not word.isalpha() or word in known or full not in known:
        return False
    if word in COMMON | STOP_WORDS | PREPOSITIONS:
        return False
    letters = iter(full)
    skeleton = not set(word[1:]) & set("aeiou") and all(one in letters for one in word)
    start = len(word) >= _LEAST_SHORT and full.startswith(word)
    return start or (skeleton and full[0] == word[0])


def _unevenness(words: Sequence[str]) -> tuple[int, int]:
    return len(words), -sum(len(word) ** 2 for word in words)


@cache
def _everyday_lines() -> dict[str, list[str]]:
    """The lines of the file by the sign that tells their kind; groups have none."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in read_text(Path(__file__).with_name(EVERYDAY_FILE)).splitlines():
        if not line.startswith("#"):
            found[next((sign for sign in _SIGNS if sign in line), "")].append(line)
    return found


@cache
def _everyday_groups() -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for number, line in enumerate(_everyday_lines()[""]):
        for word in line.split():
            groups.setdefault(word.replace("_", " "), []).append(number)
    return groups


@cache
def _everyday_kinds() -> dict[str, frozenset[str]]:
    kinds: dict[str, frozenset[str]] = {}
    for nouns, words in (line.split(":") for line in _everyday_lines()[":"]):
        kinds |= {noun: kinds.get(noun, frozenset()) | set(words.split()) for noun in nouns.split()}
    return kinds


class Side(NamedTuple):
    """What a word says of two that stand to each other, as parent and child do.

    Args:
        pair: which two.
        first: whether it names the first of them, or is a verb whose subject that is.
        verb: whether it is a verb.
    """

    pair: int
    first: bool
    verb: bool


@cache
def _everyday_sides() -> dict[str, list[Side]]:
    sides: dict[str, list[Side]] = defaultdict(list)
    for pair, line in enumerate(_everyday_lines()["<"]):
        for first, part in zip((True, False), line.split("<"), strict=True):
            for verb, words in zip((False, True), part.split("|"), strict=True):
                for word in words.split():
                    sides[word].append(Side(pair, first, verb))
    return sides


def sides_of(word: str) -> list[Side]:
    """What a word in any form says of two that stand to each other."""
    known = _everyday_sides()
    return [side for base in thesaurus().bases(word) for side in known.get(base, ())]


@cache
def _everyday_wider() -> list[tuple[set[str], set[str]]]:
    pairs = (line.split(">") for line in _everyday_lines()[">"])
    return [({*narrow.split()}, {*wide.split()}) for narrow, wide in pairs]


@cache
def _irregular() -> dict[str, str]:
    pairs = (line.split(" ~ ") for line in _everyday_lines()["~"])
    return {form: base for base, forms in pairs for form in forms.split()}


@cache
def _adjectives() -> dict[str, list[str]]:
    pairs = (line.split(" = ") for line in _everyday_lines()["="])
    return {one: name.split() for words, name in pairs for one in words.split()}


def of_country(word: str) -> list[str]:
    """The words of a country that an adjective belongs to, "Ugandan"; else the word itself."""
    return _adjectives().get(word, [word])


@cache
def thesaurus() -> Thesaurus:
    """The one that is shipped, read once."""
    lines = read_text(Path(__file__).with_name(FILE)).splitlines()
    return Thesaurus([line for line in lines if not line.startswith("#")])
