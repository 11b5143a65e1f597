"""English words as they are compared: without inflection, articles and auxiliary verbs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rulerag.linking import stem

_BE = frozenset(["is", "was", "are", "were", "be", "been", "being"])
_DENIED_LIST = """
not never nobody neither nor without would could should might may can cannot will refused failed
declined didn't wasn't hasn't doesn't isn't almost nearly hardly rumoured rumored planned hoped
wanted expected
"""
_DENIED = frozenset(_DENIED_LIST.split())
_DOUBTED = frozenset(["nobody", "neither", "rumours", "rumors", "if", "whether"])
_ADVERBS_LIST = """
has have had also then later soon again finally first once just even already now next afterwards
since eventually meanwhile reportedly officially
"""
_ADVERBS = frozenset(_ADVERBS_LIST.split())
# Verbs that only introduce another one: "went on to join", "decided to join".
_INTRODUCE = re.compile(
    r"^(?:went on|goes on|decided|chose|began|started|managed|continued|proceeded|agreed) to (?=\w)"
)
_FORMS_LIST = """
took take taken take sent send bought buy brought bring made make went go gone go sold sell gave
give given give ran run paid pay sought seek became become came come spoke speak spoken speak
wrote write written write met meet got get sat sit had have left leave bore bear borne bear drank
drink spent spend told tell found find held hold led lead built build grew grow grown grow knew
know known know chose choose chosen choose rose rise won win lost lose fought fight taught teach
thought think caught catch kept keep felt feel stood stand wore wear drew draw drawn draw drove
drive driven drive flew fly began begin begun begin sang sing saw see seen see shown show ate eat
fell fall fallen fall broke break broken break beat beat beaten beat parted part underbade
underbid did do done do struck strike shot shoot
"""
_FORMS = dict(zip(*[iter(_FORMS_LIST.split())] * 2, strict=True))
_JOINING_LIST = """
about above across against along amid among and around at before behind below beneath besid between
beyond but by down during for from in insid into like near next of off on onto or out over past per
plus than that the through to toward towards under until up upon via with within who which as be
"""
_JOINING = frozenset(_JOINING_LIST.split())
_ARTICLES = frozenset(["a", "an", "the", "his", "her", "its", "their", "some"])


def verb_stem(word: str) -> str:
    """A word without inflection, as far as its letters tell: bought, buys and buy are one."""
    word = word.casefold().replace("\u2019", "'")
    if len(word) == 4 and word.endswith("ed") and not word.endswith("eed"):
        word = word[:-1]  # sued, used: too short for the stems of longer words
    short = stem(_FORMS.get(word, word))
    return short[:-1] if len(short) > 3 and short[-1] == short[-2] else short


def stems_of(words: Sequence[str]) -> tuple[str, ...]:
    """The stems by which words that join two names tell relations apart.

    Articles, auxiliary verbs and adverbs are left out. Empty where no other word than those that
    only join is left: "in" alone says no relation.

    Args:
        words: as they are written, in order.
    """
    line = " ".join(word for word in words if word.casefold() not in _ADVERBS)
    stems = tuple(
        "be" if word.casefold() in _BE else verb_stem(word)
        for word in _INTRODUCE.sub("", line).split()
        if word.casefold() not in _ARTICLES and not (word.endswith("ly") and len(word) > 5)
    )
    return stems if set(stems) - _JOINING else ()


def is_denied(words: Iterable[str], before: Iterable[str]) -> bool:
    """Whether words say that something did not happen, or only might.

    Args:
        words: what joins two names.
        before: what stands before them.
    """
    near = {word.casefold() for word in before}
    return not (_DENIED.isdisjoint(map(str.casefold, words)) and _DOUBTED.isdisjoint(near))
