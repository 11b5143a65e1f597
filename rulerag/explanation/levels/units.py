"""What is kept or removed as one: documents together, documents, sections, sentences, spans."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rulerag.errors import ConfigError, did_you_mean
from rulerag.explanation.levels.passages import Passage, origins_of

LEVELS = ("group", "document", "section", "sentence", "span")
"""From coarse to fine."""

MOST_UNITS = 20_000
"""A search over more parts than this takes longer than the calls it makes."""

_FEWEST_SENTENCES, _WORDS_A_SPAN, _FEWEST_WORDS = 10, 5, 3
_HEADING = re.compile(r"^[ \t]*#{1,6}[ \t]+\S.*$", re.MULTILINE)
_BLANK = re.compile(r"\n[ \t]*\n\s*")
_ITEM = re.compile(r"\n(?=[ \t]*(?:[-*•–]|\d{1,2}[.)])[ \t]+\S)")
_CLAUSE = re.compile(r"(?<=[,;:])\s+|\s+(?=[–—(])|(?<=[–—)])\s+")
_SAID, _WORD = re.compile(r"\w"), re.compile(r"\S+")

_MOST_NAMED = 6

Span = tuple[int, int]


@dataclass(frozen=True)
class Unit:
    """Something that is kept or removed as one.

    Args:
        passage: as it is cited; its index is the place among all units.
        spans: where it stands: places of documents from 0, the first character and the one behind
            the last; disjoint from those of every other unit.
        level: one of :data:`LEVELS`.
        inside: what it is a part of, from coarse to fine.
    """

    passage: Passage
    spans: tuple[tuple[int, int, int], ...]
    level: str
    inside: tuple[str, ...] = ()


def units_of(documents: Sequence[Any], passages: Sequence[Passage], level: str) -> list[Unit]:
    """All documents cut to one level, in order.

    Args:
        documents: as the answer function takes them; their metadata says what belongs together.
        passages: the same as they are read.
        level: one of :data:`LEVELS`. ``group`` is the documents of one origin, by the metadata, or
            blocks of neighbours. A section is what stands under a heading, a page, a paragraph, or
            a block of sentences: the first of these that the document has. A span is a clause, or
            five words. Parts without a letter or a digit belong to no unit and always stay.

    Raises:
        ConfigError: there is no such level, or there are too many parts.
    """
    check_level(level)
    origins = origins_of(documents)
    if level == "group":
        return _numbered(_groups(passages, origins))
    inside = [(name,) for name in origins] if origins else [()] * len(passages)
    whole = [
        Unit(one, ((one.index, 0, len(one.text)),), "document", held)
        for one, held in zip(passages, inside, strict=True)
    ]
    return _numbered([part for unit in whole for part in _down_to(unit, level)])


def opened(
    units: Sequence[Unit], places: Sequence[int], passages: Sequence[Passage], level: str | None
) -> list[Unit]:
    """The units with some of them cut finer, all others as they are.

    Args:
        units: what stands there.
        places: which of them are cut.
        passages: the whole documents.
        level: one of :data:`LEVELS`; for each the next that has two parts or more when None.

    Raises:
        ConfigError: there is no such level or place, none of them has parts there, or there are
            too many.
    """
    if level is not None:
        check_level(level)
    wrong = [place for place in places if not 0 <= place < len(units)]
    if wrong:
        raise ConfigError(f"{wrong[0]} is not among {len(units)} documents", key="documents")
    chosen, made = set(places), list[Unit]()
    for place, unit in enumerate(units):
        made += _finer(unit, passages, level) if place in chosen else [unit]
    if len(made) == len(units):
        names = [units[place].passage.label for place in sorted(chosen)]
        named = ", ".join([*names[:_MOST_NAMED], *(["…"] if len(names) > _MOST_NAMED else [])])
        at = f"at the level {level!r}" if level else "at a finer level"
        raise ConfigError(
            f"{named}: not two parts {at}" if names else "no document decides",
            key="level" if level else "documents",
            hint="documents=[…] opens others; the levels are " + ", ".join(LEVELS),
        )
    return _numbered(made)


def check_level(level: str) -> str:
    """The level, where there is one of that name.

    Raises:
        ConfigError: there is none.
    """
    if level not in LEVELS:
        raise ConfigError(
            f"unknown level {level!r}", key="level", hint=did_you_mean(str(level), LEVELS)
        )
    return level


def _finer(unit: Unit, passages: Sequence[Passage], level: str | None) -> list[Unit]:
    finer = LEVELS[LEVELS.index(unit.level) + 1 :]
    if level is not None:
        return _opened(unit, passages, level) if level in finer else [unit]
    parts = (_opened(unit, passages, one) for one in finer)
    return next((found for found in parts if len(found) > 1), [unit])


def _opened(unit: Unit, passages: Sequence[Passage], level: str) -> list[Unit]:
    if unit.level != "group":
        return _down_to(unit, level)
    held = (*unit.inside, unit.passage.label)
    members = [passages[document] for document, _, _ in unit.spans]
    whole = [Unit(one, ((one.index, 0, len(one.text)),), "document", held) for one in members]
    return [part for one in whole for part in _down_to(one, level)]


def _down_to(unit: Unit, level: str) -> list[Unit]:
    """A unit of one document cut level by level."""
    units = [unit]
    for step in LEVELS[LEVELS.index(unit.level) + 1 : LEVELS.index(level) + 1]:
        units = [part for one in units for part in _cut(one, step)]
    return units


def _cut(unit: Unit, level: str) -> list[Unit]:
    if not unit.passage.text.strip():
        return [unit]
    ((document, begin, _),) = unit.spans
    text = unit.passage.text
    found = _SPANS[level](text)
    if len(found) < 2:
        return [replace(unit, level=level, passage=replace(unit.passage, level=level))]
    number = unit.passage.part or str(unit.passage.index + 1)
    parts = []
    for place, (start, end) in enumerate(found, start=1):
        where = (document, begin + start, begin + end)
        passage = replace(
            unit.passage,
            text=text[start:end],
            part=f"{number}.{place}",
            level=level,
            spans=(where,),
        )
        parts.append(Unit(passage, (where,), level, (*unit.inside, number)))
    return parts


def _groups(passages: Sequence[Passage], origins: Sequence[str] | None) -> list[Unit]:
    """Documents of one origin, or blocks of neighbours about as long as there are blocks."""
    named: dict[str, list[Passage]] = {}
    size = math.ceil(math.sqrt(max(1, len(passages))))
    for place, passage in enumerate(passages):
        named.setdefault(origins[place] if origins else str(place // size), []).append(passage)
    units = []
    for name, members in named.items():
        spans = tuple((one.index, 0, len(one.text)) for one in members)
        text = "\n\n".join(one.text for one in members)
        title = name if origins else ""
        part = _ranges([one.index + 1 for one in members])
        units.append(Unit(Passage(0, text, title, "", part, "group", spans), spans, "group"))
    return units


def _ranges(numbers: Sequence[int]) -> str:
    """``1-4, 9``: ascending numbers with neighbours drawn together, cut after three runs."""
    found = [
        [number for _, number in run]
        for _, run in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    ]
    shown = [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in found[:3]]
    return ", ".join([*shown, "…"] if len(found) > 3 else shown)


def _numbered(units: Sequence[Unit]) -> list[Unit]:
    if len(units) > MOST_UNITS:
        raise ConfigError(
            f"there are {len(units):,} parts, {MOST_UNITS:,} at most can be looked at",
            key="level",
            hint="begin with a coarser level; why.finer() opens what decides",
        )
    made = []
    for place, unit in enumerate(units):
        passage = unit.passage
        # A whole document behind parts keeps the number that it has among the documents.
        part = passage.part or (None if place == passage.index else str(passage.index + 1))
        made.append(replace(unit, passage=replace(passage, index=place, part=part)))
    return made


# --- where a text is cut: trimmed character spans, in order ---------------------------------------


def section_spans(text: str) -> list[Span]:
    """What stands under each heading; else pages; else paragraphs; else blocks of sentences.

    A block has ten sentences, in a long text as many as there are blocks.
    """
    headings = [match.start() for match in _HEADING.finditer(text)]
    if len(headings) > (1 if not text[: headings[0] if headings else 0].strip() else 0):
        return _between(text, headings)
    if len(pages := _between(text, [m.start() for m in re.finditer("\f", text)])) > 1:
        return pages
    if len(paragraphs := _between(text, [m.end() for m in _BLANK.finditer(text)])) > 1:
        return paragraphs
    sentences = sentence_spans(text)
    every = max(_FEWEST_SENTENCES, math.ceil(math.sqrt(len(sentences))))
    runs = [sentences[n : n + every] for n in range(0, len(sentences), every)]
    return [(run[0][0], run[-1][1]) for run in runs]


def sentence_spans(text: str) -> list[Span]:
    """Sentences, headings and the items of lists; by nupunkt, which knows abbreviations."""
    import nupunkt

    cuts = {m.end() for m in _BLANK.finditer(text)} | {m.end() for m in _ITEM.finditer(text)}
    cuts |= {place for m in _HEADING.finditer(text) for place in m.span()}
    found = []
    for start, end in _between(text, sorted(cuts)):
        inside = nupunkt.sent_spans(text[start:end])
        found += [_trimmed(text, start + one, start + other) for one, other in inside]
    return [span for span in found if _SAID.search(text[slice(*span)])]


def clause_spans(text: str) -> list[Span]:
    """The clauses of a sentence, of three words at least; five words each where it has none."""
    pieces = _between(text, [match.end() for match in _CLAUSE.finditer(text)])
    found: list[Span] = []
    for start, end in pieces:
        short = bool(found) and len(text[slice(*found[-1])].split()) < _FEWEST_WORDS
        if found and (short or len(text[start:end].split()) < _FEWEST_WORDS):
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    if len(found) > 1:
        return found
    words = [match.span() for match in _WORD.finditer(text)]
    runs = [words[n : n + _WORDS_A_SPAN] for n in range(0, len(words), _WORDS_A_SPAN)]
    return [(run[0][0], run[-1][1]) for run in runs]


def _between(text: str, cuts: Sequence[int]) -> list[Span]:
    edges = itertools.pairwise([0, *cuts, len(text)])
    found = (_trimmed(text, start, end) for start, end in edges)
    return [span for span in found if _SAID.search(text[slice(*span)])]


def _trimmed(text: str, start: int, end: int) -> Span:
    piece = text[start:end]
    left = len(piece) - len(piece.lstrip())
    return start + left, start + left + len(piece.strip())


_SPANS: dict[str, Callable[[str], list[Span]]] = {
    "section": section_spans,
    "sentence": sentence_spans,
    "span": clause_spans,
}
