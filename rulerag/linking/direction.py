"""Which end of a relation a question asks for: what Anna works for, or who works for Anna."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rulerag.linking.relations import shared_words
from rulerag.linking.words import AUXILIARIES, JOINING, PREPOSITIONS, stem, words_of

_ASKING = r"(?:what|who|whom|which|whose|where)"
_SURE, _NOUN, _LIKELY = 0.95, 0.9, 0.8
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
_WHOSE = re.compile(r"['\u2019]s?\s+((?:\w+\s+){0,2}\w+)")
# "who gave", "who": what asks is the sentence's subject.
_WHO_DOES = re.compile(rf"^\W*who(?! (?:{'|'.join(sorted(AUXILIARIES))})\b)", re.IGNORECASE)
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
    # "hired by" is a relation in the passive: its subject is the object of hiring.
    passive = last == "by"
    before = text[max(0, start - _LONGEST) : start]
    content = {stem(word) for word in words if word not in JOINING}
    noun = _NOUN_OF.search(before) or _WHOSE.match(text[end:])
    if noun:
        # "the capital of M" asks for the subject of "capital of", and for the object of "capital".
        stems = {stem(word) for word in words_of(noun[1])}
        if any(agent in content for agent in _agents(noun[1])):
            # "the founder of M" is who founded it, the object of "founded by".
            return (1 - _SURE if passive else _SURE), True
        return (_SURE if last in PREPOSITIONS and stems & content else 1 - _NOUN), True
    if last in PREPOSITIONS and re.search(rf"\b{last}(?: the)? $", before, re.IGNORECASE):
        return _SURE, True  # "located in M", "hired by M"
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
