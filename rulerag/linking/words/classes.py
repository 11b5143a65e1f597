"""Classes of English words: what asks, joins or points, and which nouns name kinds of things."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

from rulerag.io import read_text

WORD = re.compile(r"\w+")


def _read() -> dict[str, frozenset[str]]:
    """The words of each class; the file says what it is for."""
    found: dict[str, set[str]] = {}
    for line in read_text(Path(__file__).with_name("classes.txt")).splitlines():
        if line.startswith("["):
            words = found.setdefault(line[1:].partition("]")[0], set())
        elif not line.startswith("#"):
            words |= {*line.split()}
    return {name: frozenset(words) for name, words in found.items()}


CLASSES = _read()
"""The words of each class of ``classes.txt``, which says what it is for."""
INVERSE = "^"
"""Before a relation: the same relation read from its object, as in a SPARQL property path."""

COMMON, ASKING = CLASSES["COMMON"], CLASSES["ASKING"]
JOINING = (COMMON | {"and", "or", "such", "been", "from"}) - {"kind", "name", "thing", "things"}
"""Words that join others."""
AUXILIARIES, PREPOSITIONS = CLASSES["AUXILIARIES"], CLASSES["PREPOSITIONS"]
INTERROGATIVES, RELATIVES = CLASSES["INTERROGATIVES"], CLASSES["RELATIVES"]
DETERMINERS, PRONOUNS = CLASSES["DETERMINERS"], CLASSES["PRONOUNS"]
STOP_WORDS = (COMMON | CLASSES["STOP_WORDS"]) - CLASSES["NO_STOP_WORDS"]
PARTICLES, TITLES, RANKS = (CLASSES[name] for name in ("PARTICLES", "TITLES", "RANKS"))
LIGHT_VERBS, SHARING = CLASSES["LIGHT_VERBS"], CLASSES["SHARING"]
ANYTHING, PLACES = CLASSES["ANYTHING"], CLASSES["PLACES"]
ORGANISATIONS = CLASSES["ORGANISATIONS"]

_PLAIN = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ð": "d", "æ": "ae", "œ": "oe"})


def folded(word: str) -> str:
    """A word as names are compared: without case, and Latin letters without their accents."""
    word = word.casefold()
    if word.isascii():
        return word
    plain: list[str] = []
    for letter in unicodedata.normalize("NFKD", word):
        if not (unicodedata.combining(letter) and plain and plain[-1].isascii()):
            plain.append(letter)
    return "".join(plain).translate(_PLAIN)


def words_of(text: str) -> list[str]:
    """The words of a text as names are compared: folded, without marks."""
    return [folded(word) for word in WORD.findall(text)]


def stem(word: str) -> str:
    """A word without its most usual endings, for comparing words alone."""
    for ending in ("ing", "ied", "ies", "ed", "es", "s", "e", "y"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word
