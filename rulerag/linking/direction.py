"""Which end of a relation a question asks for: what Anna works for, or who works for Anna."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rulerag.linking.relations import shared_words
from rulerag.linking.words import (
    AUXILIARIES,
    JOINING,
    PREPOSITIONS,
    TITLES,
    sides_of,
    stem,
    words_of,
)

_ASKING = r"(?:what|who|whom|which|whose|where|how many)"
_SURE, _NOUN, _LIKELY = 0.95, 0.9, 0.8
# Where words say who stands to whom.
_CERTAIN = 0.99
_BUT = rf"(?!(?:{'|'.join(sorted(PREPOSITIONS))})\b)"
# "which team did M", "was the film M": the mention is the sentence's subject.
_SUBJECT = re.compile(
    rf"\b(?:{'|'.join(sorted(AUXILIARIES))})\s+(?:the\s+(?:{_BUT}\w+\s+){{0,2}})?$", re.IGNORECASE
)
# "the place of birth of M", "the language of the film M": a noun, and whose it is.
_NOUN_OF = re.compile(
    rf"\b(?:the|an?)\s+((?:\w+\s+){{1,8}})(?:of|for)\s+(?:the\s+(?:{_BUT}\w+\s+){{0,2}})?$",
    re.IGNORECASE,
)
# "M's boss"
_WHOSE = re.compile(r"(?:['\u2019]s?|\W{0,2}s)\s+((?:\w+\s+){0,2}\w+)")
# "gets aid from M", "was hit by an attack from M": what M gives.
_FROM = re.compile(
    r"\b(?:gets?|got|receives?|received|accepts?|accepted|(?:been|was|were|is|are)\b.*\bby)\b"
    r".*\bfrom\s+(?:the\s+)?$",
    re.IGNORECASE,
)
# "has an office in M": whose it is stands before it.
_HAS = re.compile(
    r"\b(?:has|have|had)\s+(?:an?\s+)?[\w\s]+\b(?:in|at|on|with)\s+(?:the\s+)?$", re.IGNORECASE
)
# "who has M for a boss" asks for the other end than "whom M has as boss", and so does "who calls M
# the boss" than "who is called the boss by M".
_HAVING, _AS = re.compile(r"\b(?:has|have|had)\s+$"), re.compile(r"(?:for|as)\b")
_HAS_AS = re.compile(r"(?:has|have|had)\s+(?:for|as)\b")
_CALLED = re.compile(r"\bcalled\s+(?:\w+\s+){1,2}by\s+(?:both\s+)?$")
_CALLS = re.compile(r"^\W*(?:who|(?:which|what|how many)\s+\w+)\s+calls?\s+$", re.IGNORECASE)
# "who gave", "who": what asks is the sentence's subject.
# "who was the first to give"
_WHO_DOES = re.compile(
    rf"^\W*who(?:(?! (?:{'|'.join(sorted(AUXILIARIES))})\b)| (?:is|was|were) the\b.* to\b)",
    re.IGNORECASE,
)
_LONGEST = 200  # characters before a mention that are looked at


def subject_asked(text: str, mention: tuple[int, int], label: str) -> tuple[float, bool]:
    """The probability that a question asks for the subject of a relation, and whether that is sure.

    Args:
        text: the question, without its times.
        mention: where the known entity stands, in characters.
        label: the relation in words.

    Returns:
        The probability; and whether it rests on words that say the relation or on how the sentence
        is built, so that it speaks against relations that cannot be asked for at this end.
    """
    start, end = mention
    words = words_of(label)
    last = words[-1] if words else ""
    before = text[max(0, start - _LONGEST) : start]
    noun = _NOUN_OF.search(before) or _WHOSE.match(text[end:])
    firsts = _subject_first(words)
    others = words_of(noun[1]) if noun else [*words_of(before), *words_of(text[end:])]
    for side in (one for word in others for one in sides_of(word)):
        if side.pair in firsts and side.verb == (noun is None):
            # "M's boss" of "reports to", "who manages M": whom the label's subject stands to.
            asked, stated = 1.0, True
            if side.verb:
                joint = [word for word in words_of(before) if word not in TITLES][-1:]
                joint = joint if {*joint} <= PREPOSITIONS - {"by"} | {"under"} else []
                asked, stated = _by_syntax(text, mention, words, "".join(joint), noun)
                if joint == ["under"] and side.first:  # who "trained under M" was trained
                    asked = 1 - asked
            same = asked if side.first == firsts[side.pair] else 1 - asked
            certain = _CERTAIN if stated else _SURE
            return min(max(same, 1 - certain), certain), stated
    # "hired by" is a relation in the passive: its subject is the object of hiring.
    return _by_syntax(text, mention, words, last, noun)


def _subject_first(label: Sequence[str]) -> dict[int, bool]:
    """Of which of two that stand to each other the subject of a label is the first, by pair."""
    last = label[-1] if label else ""
    found: dict[int, bool] = {}
    for place, word in enumerate(label):
        behind = label[place + 1] if place + 1 < len(label) else ""
        for side in sides_of(word):
            verb = word.endswith(("s", "ed")) or behind in PREPOSITIONS - {"of"} | {"under"}
            if side.verb and verb:
                turned = last == "by" or (last == "under" and side.first)
                found.setdefault(side.pair, side.first != turned)
            elif not side.verb and not verb:
                found.setdefault(side.pair, side.first == (last in ("of", "to", "for")))
    return found


def _by_syntax(
    text: str,
    mention: tuple[int, int],
    words: Sequence[str],
    last: str,
    noun: re.Match[str] | None,
) -> tuple[float, bool]:
    """As :func:`subject_asked`, by the order of words alone."""
    start, end = mention
    label, passive = " ".join(words), last == "by"
    before = text[max(0, start - _LONGEST) : start]
    content = {stem(word) for word in words if word not in JOINING}
    if noun:
        # "the capital of M" asks for the subject of "capital of", and for the object of "capital".
        stems = {stem(word) for word in words_of(noun[1])}
        if any(agent in content for agent in _agents(noun[1])):
            # "the founder of M" is who founded it, the object of "founded by".
            return (1 - _SURE if passive else _SURE), True
        return (_SURE if last in PREPOSITIONS and stems & content else 1 - _NOUN), True
    if last in PREPOSITIONS and re.search(rf"\b{last}(?: the)? $", before, re.IGNORECASE):
        return _SURE, True  # "located in M", "hired by M"
    after = text[end:].lstrip()
    if _CALLS.search(before) or (_HAVING.search(before) and _AS.match(after)):
        return _SURE, True
    if _CALLED.search(before) or _HAS_AS.match(after):
        return 1 - _SURE, True
    if _FROM.search(before):
        return (_NOUN if passive else 1 - _NOUN), True
    if _HAS.search(before) and not passive:
        return _LIKELY, True
    if _SUBJECT.search(before):
        subject = _of_sentence_subject(before, text[end:], words)
        return (1 - subject if passive else subject), True
    blanked = f"{text[:start]}\0{' ' * (end - start - 1)}{text[end:]}"
    spans, stated = shared_words(blanked, label, but=("by",) if passive else ())
    # In "employed by M" the last word is of the sentence, unless the label ends with it too.
    own = [
        (a, b)
        for a, b in spans
        if text[a:b].casefold() == last
        or text[a:b].casefold() not in PREPOSITIONS
        or b > start
        or text[b:start].strip()
    ]
    parts = skeleton(text, mention, own or spans)
    if parts is None:
        return 0.5, False
    before, between, after, first = parts
    if (
        not passive and not first and between.split()[-1:] == [last]
    ):  # "married to M" says "is married to"
        between = between.rstrip().removesuffix(last)
    subject = asks_for_subject(before, between, after, mention_first=first)
    return (1 - subject if passive else subject), stated


def _agents(noun: str) -> Iterator[str]:
    """The stems of the verbs whose doers words name: "found" of "founders"."""
    for word in words_of(noun):
        for ending in ("er", "or", "ers", "ors"):
            if word.endswith(ending) and len(word) - len(ending) >= 3:
                yield stem(word.removesuffix(ending) + "ed")


def _of_sentence_subject(before: str, after: str, label: Sequence[str]) -> float:
    """As :func:`subject_asked` where the mention is the subject of the sentence."""
    before, after = before.casefold(), " ".join(after.casefold().split())
    asking = rf"{_ASKING}\b"
    if re.search(rf"\bby {asking}", f"{before} {after}") or re.search(r"\bby\W*$", after):
        return _SURE
    whose = re.search(rf"\b(?:of|for) {asking}", before) or re.search(r"\b(?:of|for)\W*$", after)
    noun = re.match(r"(?:an?|the) (\w+)(?: (\w+))?", after)
    stems = {stem(word) for word in noun.groups() if word} if whose and noun else set()
    last = label[-1] if label else ""
    # "of whom is M the employer": M is the object of "employer".
    return _NOUN if last not in PREPOSITIONS and stem(last) in stems else 1 - _SURE


def asks_for_subject(before: str, between: str, after: str, *, mention_first: bool) -> float:
    """The probability that the subject is asked for, the mention being the object.

    In an active sentence the subject stands before the relation ("what does China consult ?"), in
    a passive one behind "by" ("who is consulted by China ?"), and before "of" stands the noun of
    what is asked ("the capital of China").

    Args:
        before: the words of the question before mention and relation.
        between: those between the two.
        after: those behind both.
        mention_first: whether the mention stands before the relation.
    """
    before, between, after = (
        " ".join(part.split()).casefold() for part in (before, between, after)
    )
    if mention_first:
        # "by whom is M consulted", "who is M consulted by", "M is consulted by whom"
        by = re.search(rf"\bby {_ASKING}\b", f"{before} {after}") or re.match(r"by\b", after)
        # "of whom is M the employer", "for which things is M the capital"
        whose = re.search(rf"\b(?:of|for) {_ASKING}\b", before) or re.match(
            rf"of(?: {_ASKING}\b|$)", after
        )
        if by or whose or re.search(r"\b(?:as|the|be)$", between):
            return _SURE if by or whose else _LIKELY
        return 1 - _SURE
    if re.search(r"\b(?:by|of|for|from)$", between):  # "consulted by M", "the capital of M"
        return 1 - _LIKELY
    if re.search(r"\b(?:with|at|in|to|on|against)$", between):  # "won a prize at M"
        return _LIKELY if _WHO_DOES.match(f"{before} ") else 0.5
    return _SURE


def skeleton(
    text: str, mention: tuple[int, int], relation: Sequence[tuple[int, int]]
) -> tuple[str, str, str, bool] | None:
    """The words around a mention and a relation; None where the relation's words are not found.

    Args:
        text: the question.
        mention: where the mention stands, in characters.
        relation: where words of the relation stand.
    """
    spans = [one for one in relation if one[1] <= mention[0] or one[0] >= mention[1]]
    if not spans:
        return None
    behind = [one for one in spans if one[0] >= mention[1]]
    first = len(behind) * 2 >= len(spans)
    kept = behind if first else [one for one in spans if one[1] <= mention[0]]
    start, end = min(one[0] for one in kept), max(one[1] for one in kept)
    low, high = sorted((mention, (start, end)))
    return text[: low[0]], text[low[1] : high[0]], text[high[1] :], first
