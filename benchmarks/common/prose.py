"""Worlds written out as prose: many wordings, pronouns, two facts a sentence, and decoys.

What a system reads out of the texts can be compared with the facts that were written. Every
relation has twelve wordings: four of its five phrases (``prose.toml``) in three of four
constructions each. Facts are those of dated worlds.
"""

from __future__ import annotations

import datetime as dt
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rulerag.errors import ConfigError
from rulerag.kg import Calendar
from rulerag.synthetic.schema import SCHEMAS
from rulerag.types import Document, Fact

CONSTRUCTIONS = ("active", "turned", "went on", "aside")
"""``X joined Y``; ``Y was joined by X`` or ``it was Y that X joined``; ``X went on to join Y``;
``X, as expected, joined Y``."""

_ASIDES = ("as expected", "to nobody's surprise", "so the paper says", "after a long silence")
_DATES = ("%-d %B %Y", "%B %-d, %Y", "%Y-%m-%d", "%d.%m.%Y")
_IDLE = (
    "Little else happened that week.",
    "It rained for most of the month.",
    "The papers had other things to write about.",
    "{x} was not available for comment.",
)
# Sentences that name two who have nothing to do with each other.
_DECOYS = (
    "A photograph shows {x} beside {z}.",
    "{x} did not {base} {z}.",
    "Rumours that {x} would {base} {z} proved false.",
    "Nobody has ever seen {x} near {z}.",
)
_SAME_DAY = "that same day"


class Wording(NamedTuple):
    """One way to say a relation.

    Args:
        phrase: which of its phrases, from 0.
        construction: one of :data:`CONSTRUCTIONS`.
    """

    phrase: int
    construction: str


class Statement(NamedTuple):
    """A fact as it was written.

    Args:
        fact: the fact.
        span: of its sentence in the document's text, in characters.
        wording: how it is said.
    """

    fact: Fact
    span: tuple[int, int]
    wording: Wording


@dataclass(frozen=True)
class ProsePage:
    """A paragraph and the facts that it states.

    Args:
        document: the paragraph; it says nothing of its facts.
        statements: the facts, in the order of the text.
    """

    document: Document
    statements: tuple[Statement, ...]


@cache
def phrases() -> Mapping[str, tuple[tuple[str, ...], ...]]:
    """For each relation of dated worlds its phrases: past, base, and a participle if it has one."""
    rows = tomllib.loads(Path(__file__).with_name("prose.toml").read_text(encoding="utf-8"))
    return {name: tuple(tuple(one.split("/")) for one in row) for name, row in rows.items()}


def wordings_of(relation: str) -> list[Wording]:
    """The wordings of a relation; chance decides which phrase and constructions it goes without.

    Args:
        relation: of a dated world.
    """
    said = phrases()
    rng = np.random.default_rng([0, sorted(said).index(relation)])
    left_out = int(rng.integers(len(said[relation])))
    found = []
    for phrase in range(len(said[relation])):
        without = int(rng.integers(len(CONSTRUCTIONS)))
        found += [
            Wording(phrase, construction)
            for number, construction in enumerate(CONSTRUCTIONS)
            if phrase != left_out and number != without
        ]
    return found


def write_prose(facts: Sequence[Fact], calendar: Calendar, *, seed: int = 0) -> list[ProsePage]:
    """Facts of a dated world as paragraphs, each about one subject.

    Args:
        facts: of a world.
        calendar: of their times, in days.
        seed: decides every draw.

    Raises:
        ConfigError: a relation has no wordings, or a fact has no date.
    """
    for fact in facts:
        if fact.relation not in phrases() or fact.timestamp is None:
            raise ConfigError(f"no wording for {fact}", hint="facts of a dated world alone")
    wordings = {one: wordings_of(one) for one in sorted({fact.relation for fact in facts})}
    writer = _Writer(calendar, wordings, np.random.default_rng([seed, 17]), facts)
    return [writer.page(n, group) for n, group in enumerate(_groups(facts, writer.rng), start=1)]


def _groups(facts: Sequence[Fact], rng: np.random.Generator) -> Iterator[list[Fact]]:
    """Up to four facts of one subject, in the order of time; paragraphs in no order."""
    by_subject: dict[str, list[Fact]] = {}
    for fact in facts:
        by_subject.setdefault(fact.subject, []).append(fact)
    groups = []
    for own in by_subject.values():
        own.sort(key=lambda fact: (fact.timestamp or 0, fact))
        start = 0
        while start < len(own):
            size = int(rng.integers(1, 5))
            groups.append(own[start : start + size])
            start += size
    yield from (groups[n] for n in rng.permutation(len(groups)))


class _Writer:
    """Writes paragraphs; every draw is from one generator of random numbers."""

    def __init__(
        self,
        calendar: Calendar,
        wordings: Mapping[str, Sequence[Wording]],
        rng: np.random.Generator,
        facts: Sequence[Fact],
    ) -> None:
        self.calendar, self.wordings, self.rng = calendar, wordings, rng
        self.kinds = _kinds()
        self.entities = sorted({end for f in facts for end in (f.subject, f.object)})
        self.facts = facts

    def page(self, number: int, facts: Sequence[Fact]) -> ProsePage:
        """A paragraph about the facts of one subject."""
        text, statements = "", list[Statement]()
        rest, first, last = list(facts), True, None
        while rest:
            now = [rest.pop(0)]
            chosen = [self._wording(now[0])]
            if rest and self.rng.random() < 0.35:
                second = self._wording(rest[0])
                plain = ("active", "went on")
                if chosen[0].construction in plain and second.construction in plain:
                    now.append(rest.pop(0))
                    chosen.append(second)
            sentence = self._sentence(now, chosen, first, last)
            start = len(text) + bool(text)
            text = f"{text} {sentence}".lstrip()
            span = start, start + len(sentence)
            statements += [Statement(f, span, w) for f, w in zip(now, chosen, strict=True)]
            first, last = False, now[-1].timestamp
            if self.rng.random() < 0.3:
                text += f" {self._idle(facts[0])}"
        return ProsePage(Document(f"p{number:05d}", text), tuple(statements))

    def _sentence(
        self, facts: Sequence[Fact], wordings: Sequence[Wording], first: bool, last: int | None
    ) -> str:
        subject = facts[0].subject
        by_name = first or wordings[0].construction == "turned" or self.rng.random() < 0.4
        named = subject if by_name else self._pronoun(facts[0])
        said, dates = [], []
        for number, (fact, wording) in enumerate(zip(facts, wordings, strict=True)):
            said.append(self._clause(fact, wording, "" if number else named))
            dates.append(self._date(fact, last))
            last = fact.timestamp
        if len(said) == 1 and dates[0] != _SAME_DAY and self.rng.random() < 0.35:
            said[0] = f"{dates[0]}, {said[0]}"
        else:
            said = [f"{one} {date}" for one, date in zip(said, dates, strict=True)]
        sentence = " and ".join(said) + "."
        return sentence[0].upper() + sentence[1:]

    def _wording(self, fact: Fact) -> Wording:
        known = self.wordings[fact.relation]
        return known[int(self.rng.integers(len(known)))]

    def _clause(self, fact: Fact, wording: Wording, subject: str) -> str:
        past, base, *participle = phrases()[fact.relation][wording.phrase]
        if wording.construction == "turned":
            if participle:
                return f"{fact.object} was {participle[0]} by {subject}"
            return f"it was {fact.object} that {subject} {past}"
        if wording.construction == "went on":
            return f"{subject} went on to {base} {fact.object}".lstrip()
        if wording.construction == "aside":
            return f"{subject}, {self._one(_ASIDES)}, {past} {fact.object}"
        return f"{subject} {past} {fact.object}".lstrip()

    def _date(self, fact: Fact, last: int | None) -> str:
        time = fact.timestamp or 0
        if time == last and self.rng.random() < 0.7:
            return _SAME_DAY
        day = dt.date.fromisoformat(self.calendar.format(time))
        form = self._one(_DATES).replace("%-d", str(day.day))
        return f"on {day.strftime(form)}"

    def _pronoun(self, fact: Fact) -> str:
        if self.kinds[fact.relation][0] != "person":
            return "it"
        return "she" if sum(map(ord, fact.subject)) % 2 else "he"

    def _idle(self, fact: Fact) -> str:
        """A sentence without a fact; some name somebody who could stand there, and does not."""
        template = self._one((*_IDLE, *_DECOYS, *_DECOYS))
        other = self.facts[int(self.rng.integers(len(self.facts)))]
        base = phrases()[other.relation][self._wording(other).phrase][1]
        stranger = self.entities[int(self.rng.integers(len(self.entities)))]
        if "{base}" in template:
            return template.format(x=other.subject, base=base, z=stranger)
        return template.format(x=fact.subject, z=stranger)

    def _one(self, choices: Sequence[str]) -> str:
        return choices[int(self.rng.integers(len(choices)))]


@cache
def _kinds() -> Mapping[str, tuple[str, str]]:
    """The kinds of subject and object of every relation of worlds."""
    kinds: dict[str, tuple[str, str]] = {}
    for schema in SCHEMAS.values():
        for group in schema.groups:
            ends = (group.subject, group.object)
            kinds[group.head] = ends
            kinds.update({c.relation: ends[::-1] if c.inverse else ends for c in group.clues})
        x, z, y = schema.chain.kinds
        chain = schema.chain
        kinds |= {chain.head: (x, y), chain.first: (x, z), chain.second: (z, y)}
        kinds |= {one.relation: (one.subject, one.object) for one in schema.distractors}
        if schema.echo is not None:
            kinds[schema.echo] = ("person", "person")
    return kinds
