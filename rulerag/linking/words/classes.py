"""Classes of English words: what asks, joins or points, and which nouns name kinds of things."""

from __future__ import annotations

import re
import unicodedata

WORD = re.compile(r"\w+")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


INVERSE = "^"
"""Before a relation: the same relation read from its object, as in a SPARQL property path."""

COMMON = _words("""
answer case everyone everything going idea looking next wonder say somebody
a an and any are as at be been by can could did do does during for from had has have he her
him his how i in is it its kind me my name of on one or please she since some someone something
tell that the their them they thing things this to us was we were what when where which who
whom whose why will with would you
""")
"""What is no name in a question, as a name of one word."""

ASKING = _words("""
what who whom which whose where when did does do tell me please name can could you know
about i want to find out give list show
""")
"""Words that every question has and that tell relations apart by chance alone."""

JOINING = (COMMON | {"and", "or", "such", "been", "from"}) - {"kind", "name", "thing", "things"}
"""Words that join others."""

AUXILIARIES = _words("""
is are was were be been being am has have had does did do will would can could may might shall
should must
""")
"""What stands before the subject of a sentence that asks."""

PREPOSITIONS = _words("in at to for of with by from on against")
"""What may end a label, and stand before a name."""

INTERROGATIVES = _words("what which who whom whose where how when")
RELATIVES = _words("that who which whom whose where")
DETERMINERS = _words("the a an all any every each both")

STOP_WORDS = (COMMON | {"and", "against", "into", "onto"} | _words("""
under towards toward through among within few several listed registered known called named
primary main
all any each every both these those there here currently nowadays today ever also exactly
actually just too s t re d ll ve m him she they it someone anybody anyone somebody everybody
everyone else whichever has having had get gets got being am
""")) - _words("or case going idea looking next wonder kind")  # fmt: skip
"""Words of a question that need no account: they ask, join, or point."""

PARTICLES = _words("out off up down away over back")
"""What belongs to a verb: "set up"."""

TITLES = _words("dr doctor mr mrs ms miss prof professor sir madam lord lady st saint")
"""What stands before a name, and is no part of it."""

LIGHT_VERBS = _words("""
make makes made making take takes took taken hold holds held give gives gave given get gets got
put puts go goes went gone come comes came pay paid have keep kept set find found do done lay laid
lie choose chose send sends sent carry carried bring brought want wants about fall
falls fell receive receives received
""")
"""Verbs that say little beside a noun: "pay a visit"."""

SHARING = _words("together same share shares shared sharing common co alongside fellow also")
"""What asks for something that has what a name has: "who acted together with M"."""

ANYTHING = _words("""
person people somebody someone man woman men women individual thing things entity entities one
ones name names
""")
"""Nouns that any entity may be."""

PLACES = _words("""
place places location locations city cities town towns country countries village villages state
states region regions county counties province provinces area areas district districts continent
continents
""")
ORGANISATIONS = _words("""
firm firms company companies organisation organisations organization organizations business
businesses group groups institution institutions
""")

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
