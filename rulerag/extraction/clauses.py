"""Clauses of subject, words and object, by the order of names in a sentence (English).

General patterns, the same for all relations: an active clause has its subject before its verb, a
passive one behind "by", a cleft one ("it was Y that X joined") behind "that"; "X did A and did B"
has one subject; words in commas behind a name are an aside, or say what it is ("Ann, a clerk at
Acme", "Acme, founded by Ann"); an owner has what is named last ("Ann's mother is Eva", "the mother
of Ann is Eva"); of names with "and" between them each is subject or object. What did not happen
("did not", "never", "would") is no clause. A pronoun may be the subject; who it is, is found later.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from rulerag.extraction.names import Named
from rulerag.extraction.records import Span
from rulerag.linking import stem

_TOKEN = re.compile(r"[\w'\u2019-]+|[;:,()]")
_PRONOUNS = frozenset(["he", "she", "it", "they"])
BE = frozenset(["is", "was", "are", "were", "be", "been", "being"])
_DENIED_LIST = """
not never nobody neither nor without would could should might may can cannot will refused failed
declined didn't wasn't hasn't doesn't isn't almost nearly hardly rumoured rumored planned hoped
wanted expected
"""
_DENIED = frozenset(_DENIED_LIST.split())
_DOUBTED = frozenset(["nobody", "neither", "rumours", "rumors", "if", "whether"])
_BEFORE_LIST = """
has have had also then later soon again finally first once just even already now next afterwards
since eventually meanwhile reportedly officially
"""
BEFORE = frozenset(_BEFORE_LIST.split())
# Verbs that only introduce another one: "went on to join", "decided to join".
_INTRODUCE = re.compile(
    r"^(?:went on|goes on|decided|chose|began|started|managed|continued|proceeded|agreed) to (?=\w)"
)
_SAME = re.compile(
    r"\b(?:on )?(?:that|the) same (?:day|date|year)\b|\bon that day\b", re.IGNORECASE
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
_LINKING = frozenset({"and", "then"})
_JOINING = frozenset({"and", "but"})
_PLAIN = ("word", "date", "pronoun", "number")
_OWNING = frozenset(["'s", "\u2019s", "'", "\u2019", "whose"])
_RELATIVE = frozenset(["who", "which", "that"])
_NO_VERB_LIST = """
about above across against along amid among and around at before behind below beneath besid between
beyond but by down during for from in insid into like near next of off on onto or out over past per
plus than that the through to toward towards under until up upon via with within who which as
"""
_NO_VERB = frozenset(_NO_VERB_LIST.split())
PREPOSITIONS = _NO_VERB - {"the", "who", "which", "as", "than", "plus"} | {"beside"}
ARTICLES = frozenset(["a", "an", "the", "his", "her", "its", "their", "some"])


NAME = "\u2026"
"""Stands for a name in a frame."""


class Clause(NamedTuple):
    """Two names and the words that join them.

    Args:
        subject: the name, or None for a pronoun.
        object: the other name.
        words: what joins them, as stems, in order; without articles and auxiliary verbs. Empty
            where no general pattern fits.
        said: the same as it is written.
        span: of the clause with its date, in characters of the document.
        sentence: the span of its sentence.
        time: the timestamp that it states; None for none.
        subject_words: the subject as it is written; empty where the clause leaves it out.
        same_day: whether it says that its time is that of what came before.
        names: the two names in the order of the text; None for a pronoun.
        around: the stems before the first name, between the two and behind the second, for words
            that are known and stand where no general pattern has them.
        frame: all words around two names, which stand as :data:`NAME` in it: "the music of … is by
            …"; empty with a pronoun, or where a mark stands between the two.
    """

    subject: Named | None
    object: Named
    words: tuple[str, ...]
    said: str
    span: Span
    sentence: Span
    time: int | None
    subject_words: str
    same_day: bool = False
    names: tuple[Named | None, Named | None] = (None, None)
    around: tuple[tuple[str, ...], ...] = ((), (), ())
    frame: str = ""


@dataclass(frozen=True, slots=True)
class _Part:
    """One element of a sentence: a word, a name, a date, a pronoun or a mark."""

    kind: str
    text: str
    start: int
    end: int
    name: Named | None = None
    time: int | None = None


def verb_stem(word: str) -> str:
    """A word without inflection, as far as its letters tell: bought, buys and buy are one."""
    word = word.casefold().replace("\u2019", "'")
    if len(word) == 4 and word.endswith("ed") and not word.endswith("eed"):
        word = word[:-1]  # sued, used: too short for the stems of longer words
    short = stem(_FORMS.get(word, word))
    return short[:-1] if len(short) > 3 and short[-1] == short[-2] else short


def clauses_of(
    text: str,
    sentence: Span,
    names: Sequence[Named],
    dates: Sequence[tuple[int, Span]],
) -> Iterator[Clause]:
    """The clauses of a sentence.

    Args:
        text: of the document.
        sentence: the span of the sentence.
        names: of the whole document.
        dates: timestamps of the whole document and where they stand.
    """
    parts, partners = _grouped(_without_asides(_parts(text, sentence, names, dates)))
    places = [n for n, part in enumerate(parts) if part.kind in ("name", "pronoun")]
    leading = _leading_date(parts, places)
    subject: _Part | None = None
    skip: set[int] = set()
    for number, (first, second) in enumerate(pairwise(places)):
        if number in skip or parts[second].name is None:
            # An object pronoun says nothing; a pronoun behind "and" or ";" is a subject.
            subject = None if parts[second].kind == "pronoun" else subject
            continue
        after = places[number + 2] if number + 2 < len(places) else len(parts)
        start = places[number - 1] + 1 if number else 0
        found = _opening(parts, start, first, second) or _between(
            parts, first, second, after, subject
        )
        agent, patient, words, last = found or (parts[first], parts[second], [], second)
        if found is not None:
            # Behind a passive clause the subject is the one that something was done to.
            subject = parts[first] if patient is parts[first] and last == second else agent
        if patient.name is None or _is_denied(parts, first, second, words):
            continue
        key = trigger(words)
        key = key if set(key) - _NO_VERB - {"be"} else ()
        around = [parts[start:first], parts[first + 1 : second], parts[second + 1 : after]]
        # Behind it, else between its names, else before everything.
        date = _date(parts[last + 1 : after]) or _date(parts[first:second]) or leading
        same = any(part.kind == "same" for part in parts[last + 1 : after]) or (
            leading is None and any(p.kind == "same" for p in parts[: places[0]])
        )
        elided = agent is not parts[first] and agent is not parts[second]
        verb = next(
            (p for p in parts[first + 1 : second] if p.kind == "word" and p.text not in _LINKING),
            parts[second],
        )
        inside = [verb if elided else parts[first], parts[last], parts[second]]
        ends = [one.end for one in inside] + ([date.end] if date and date is not leading else [])
        starts = [one.start for one in inside]
        one = Clause(
            agent.name,
            patient.name,
            key,
            " ".join(words),
            (min(starts), max(ends)),
            sentence,
            None if date is None else date.time,
            "" if elided else agent.text,
            same and date is None,
            (parts[first].name, parts[second].name),
            tuple(trigger([p.text for p in one if p.kind == "word"]) for one in around),
            _frame(parts[first], parts[second], around),
        )
        yield one
        if found is not None:
            yield from _of_partners(one, agent, patient, partners)


def _of_partners(
    clause: Clause, agent: _Part, patient: _Part, partners: Mapping[int, Sequence[_Part]]
) -> Iterator[Clause]:
    """The same clause of those who are named with its subject or its object."""
    for one in (agent, *partners.get(agent.start, ())):
        for other in (patient, *partners.get(patient.start, ())):
            if one is agent and other is patient:
                continue
            start = min(clause.span[0], one.start, other.start)
            yield clause._replace(
                subject=one.name,
                object=other.name or clause.object,
                subject_words=clause.subject_words if one is agent else one.text,
                span=(start, max(clause.span[1], one.end, other.end)),
                names=(None, None),
                around=((), (), ()),
                frame="",
            )


def trigger(words: Sequence[str]) -> tuple[str, ...]:
    """Words that join two names as the stems that tell relations apart."""
    kept = [w for w in bare(" ".join(words)).split() if w.casefold() not in ARTICLES]
    return tuple(
        "be" if word.casefold() in BE else verb_stem(word)
        for word in kept
        if not (word.endswith("ly") and len(word) > 5)
    )


def bare(said: str) -> str:
    """Words without auxiliary verbs and those that only introduce: "went on to join" is "join"."""
    line = " ".join(word for word in said.split() if word.casefold() not in BEFORE)
    return _INTRODUCE.sub("", line)


def _parts(
    text: str, sentence: Span, names: Sequence[Named], dates: Sequence[tuple[int, Span]]
) -> list[_Part]:
    start, end = sentence
    same = [_Part("same", m.group(), *m.span()) for m in _SAME.finditer(text, start, end)]
    taken = [_Part("date", text[a:b], a, b, time=t) for t, (a, b) in dates if start <= a < end]
    taken += [
        one for one in same if not any(a.start < one.end and one.start < a.end for a in taken)
    ]
    for one in names:
        if start <= one.start < end:
            taken.append(_Part("name", text[one.start : one.end], one.start, one.end, one))
    taken.sort(key=lambda part: part.start)
    parts: list[_Part] = []
    place = start
    for part in [*taken, None]:
        until = end if part is None else part.start
        for match in _TOKEN.finditer(text, place, until):
            word = match.group()
            kind = "word" if word[0].isalnum() or word[0] in "'\u2019-" else "mark"
            if word.casefold() in _PRONOUNS:
                kind = "pronoun"
            elif word.isdecimal():
                kind = "number"
            parts.append(_Part(kind, word, *match.span()))
        if part is not None:
            parts.append(part)
            place = part.end
    # "It was Acme that …": this "it" is nobody.
    for n, part in enumerate(parts[:-2]):
        follows = parts[n + 1].text.casefold() in BE and parts[n + 2].kind == "name"
        if part.kind == "pronoun" and part.text.casefold() == "it" and follows:
            parts[n] = _Part("word", part.text, part.start, part.end)
    return parts


def _without_asides(parts: list[_Part]) -> list[_Part]:
    """Without words in commas or brackets right behind a name, which say something else."""
    kept: list[_Part] = []
    place = 0
    while place < len(parts):
        part = parts[place]
        before = kept[-1].kind if kept else ""
        if part.text in (",", "(") and before in ("name", "pronoun"):
            closing = "," if part.text == "," else ")"
            end = next((n for n in range(place + 1, len(parts)) if parts[n].text == closing), None)
            inside = parts[place + 1 : end] if end is not None else []
            plain = inside and len(inside) <= 8 and all(p.kind in _PLAIN for p in inside)
            if plain and inside[0].text.casefold() not in _JOINING:
                place = (end or 0) + 1
                continue
        kept.append(part)
        place += 1
    return kept


def _grouped(parts: list[_Part]) -> tuple[list[_Part], dict[int, list[_Part]]]:
    """One name instead of several with "and" between them; the others, by where that one starts.

    Before the verb the last one stays, behind it the first; where what follows may have the last
    one as its subject ("Ann joined Acme and Ben left"), all stay.
    """
    kept: list[_Part] = []
    partners: dict[int, list[_Part]] = {}
    place, named = 0, False
    while place < len(parts):
        run, end = _run_of_names(parts, place)
        after = parts[end] if end < len(parts) else None
        low = "" if after is None else after.text.casefold()
        verb = after is not None and after.kind == "word" and low not in PREPOSITIONS | _JOINING
        between = bool(kept) and kept[-1].text.casefold() == "between"
        if len(run) > 1 and not between and named != verb:
            one = run[-1] if verb else run[0]
            partners[one.start] = [other for other in run if other is not one]
            kept.append(one)
            place = end
        else:
            kept.append(parts[place])
            place += 1
        named = (named or kept[-1].kind in ("name", "pronoun")) and kept[-1].text != ";"
    return kept, partners


def _run_of_names(parts: Sequence[_Part], place: int) -> tuple[list[_Part], int]:
    """Names from a place on with commas and one "and" between them, and where they end."""
    run: list[_Part] = []
    end, last = place, False
    while place < len(parts) and parts[place].kind == "name":
        run.append(parts[place])
        place += 1
        if last:
            return run, place
        mark = place
        while mark < len(parts) and parts[mark].text.casefold() in (",", "and"):
            last = last or parts[mark].text != ","
            mark += 1
        if mark == place:
            break
        place = mark
    return [], end


def _opening(
    parts: list[_Part], start: int, first: int, second: int
) -> tuple[_Part, _Part, list[str], int] | None:
    """As :func:`_between`, where words before the first name say what joins the two.

    "The mother of Ann is Eva", "the death of Ann in Ulm", "born in Ulm, Ann …".
    """
    before = [one.text for one in parts[start:first] if one.kind == "word"]
    middle = parts[first + 1 : second]
    marks = [one.text for one in middle if one.kind == "mark"]
    low = [one.text.casefold() for one in middle if one.kind == "word"]
    if not before or any(one.kind == "mark" for one in parts[start:first]):
        return None
    noun = next((before[n:] for n, one in enumerate(before) if one.casefold() == "the"), [])
    if len(noun) > 2 and noun[-1] == "of" and not marks and low:
        one, other = parts[second], parts[first]
        if low[0] in BE and set(low[1:]) <= {"by"}:
            said = noun[1:-1] if low[1:] else ["is", *noun]
            return one, other, said, second
        if len(low) == 1 and low[0] in PREPOSITIONS and start == 0:
            said = [*noun[1:-1], *low]
            return (one, other, said[:-1], second) if low == ["by"] else (other, one, said, second)
    if start == 0 and marks == [","] and not low and is_participle(before[0]):
        if before[-1] == "by":
            return parts[first], parts[second], before[:-1], second
        if before[-1] in PREPOSITIONS:
            return parts[second], parts[first], ["was", *before], second
    return None


def _behind_a_mark(
    parts: list[_Part], first: int, second: int, subject: _Part | None
) -> tuple[_Part, _Part, list[str], int] | None:
    """As :func:`_between`, where words behind a mark say what the first name is.

    "Ann, a clerk at Acme", "Acme (founded by Ann)", "Ann, born in Ulm".
    """
    opening, *middle = parts[first + 1 : second]
    words = [one.text for one in middle if one.kind == "word"]
    if opening.text not in (",", "(") or len(words) < 2 or words[-1] not in PREPOSITIONS:
        return None
    if any(one.kind == "mark" for one in middle):
        return None
    article = words[0].casefold() in ("a", "an", "the")
    by = words[-1] == "by"
    # "Ann joined Acme, moved to Ulm and left": what has a subject already goes on.
    alone = subject is None or by or opening.text == "("
    if not (article or (is_participle(words[0]) and alone)):
        return None
    if by:
        return parts[second], parts[first], words[:-1], second
    return parts[first], parts[second], ["is" if article else "was", *words], second


def _between(
    parts: list[_Part], first: int, second: int, after: int, subject: _Part | None
) -> tuple[_Part, _Part, list[str], int] | None:
    """Agent, patient and words of two neighbouring names, and the last part that is used."""
    middle = parts[first + 1 : second]
    words = [one.text for one in middle if one.kind == "word"]
    low = [word.casefold() for word in words]
    before = [one.text.casefold() for one in parts[max(0, first - 2) : first]]
    if before == ["it", "was"] and low in (["that"], ["who"], ["whom"]):
        tail = second
        while tail + 1 < after and parts[tail + 1].kind == "word":
            tail += 1
        said = [one.text for one in parts[second + 1 : tail + 1]]
        return parts[second], parts[first], said, tail
    marks = {one.text for one in middle if one.kind == "mark"}
    if marks and (found := _behind_a_mark(parts, first, second, subject)):
        return found
    if low and low[0] in _OWNING:
        noun = words[1 : -1 if low[-1] in BE else None]
        if not noun or marks - {","} or (low[-1] not in BE and len(noun) > 1):
            return None
        return parts[second], parts[first], ["is", *noun, "of"], second
    if marks & {";", ":"} or low[:1] in (["while"], ["whereas"], ["but"]):
        return None
    if low[:1] in (["and"], ["then"]) or ("," in marks and not _RELATIVE & set(low[:1])):
        rest = words[1:] if low[:1] in (["and"], ["then"]) else words
        rest = rest[1:] if [w.casefold() for w in rest[:1]] in (["and"], ["then"]) else rest
        if not rest or subject is None or parts[second].name is None:
            return None
        return subject, parts[second], rest, second
    if low[:1] and low[0] in _RELATIVE:
        words, low = words[1:], low[1:]
    if low[-1:] == ["by"] and set(low) & BE:
        kept = [word for word in words[:-1] if word.casefold() not in BE]
        return parts[second], parts[first], kept, second
    return parts[first], parts[second], words, second


def is_participle(word: str) -> bool:
    """Whether a word may be a past participle, by its form."""
    low = word.casefold()
    return low in _FORMS or low == "born" or (low.endswith("ed") and len(low) > 4)


def _frame(first: _Part, second: _Part, around: Sequence[Sequence[_Part]]) -> str:
    """The words around two names as far as the next marks, with :data:`NAME` for each."""
    before, between, behind = around
    if "pronoun" in (first.kind, second.kind) or any(one.kind == "mark" for one in between):
        return ""
    marks = [n for n, one in enumerate(before, start=1) if one.kind == "mark"]
    before = before[max(marks, default=0) :]
    behind = behind[: next((n for n, p in enumerate(behind) if p.kind == "mark"), len(behind))]
    words = [[p.text for p in one if p.kind == "word"] for one in (before, between, behind)]
    return " ".join([*words[0], NAME, *words[1], NAME, *words[2]])


def _is_denied(parts: list[_Part], first: int, second: int, words: Sequence[str]) -> bool:
    """Whether the sentence says that it did not happen, or only might."""
    said = [*words, *(one.text for one in parts[first:second] if one.kind == "word")]
    return is_denied(said, [one.text for one in parts[:first] if one.kind == "word"])


def is_denied(said: Iterable[str], before: Iterable[str]) -> bool:
    """Whether words say that something did not happen, or only might.

    Args:
        said: what joins two names.
        before: what stands before them.
    """
    near = {word.casefold() for word in before}
    return not (_DENIED.isdisjoint(map(str.casefold, said)) and _DOUBTED.isdisjoint(near))


def _leading_date(parts: list[_Part], places: Sequence[int]) -> _Part | None:
    return _date(parts[: places[0]]) if places else None


def _date(parts: Sequence[_Part]) -> _Part | None:
    return next((part for part in parts if part.kind == "date"), None)
