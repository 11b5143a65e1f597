"""Which parts of the text are enough for the answer, and which words in them it needs.

Coarse to fine with a fixed number of questions, whatever the length: the text in some equal parts,
each asked alone; in each part that is enough, some equal groups of words, each masked in turn. What
a model names as its keywords can be compared with what it needs.

References:
    Fragkathoulas and Chlapanis 2024 (SETN, doi 10.1145/3688671.3688775): Algorithm 1 (sufficient
    regions), Algorithm 2 (necessary keywords) and section 3.6 (faithfulness of keywords).
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rulerag.composition import check_range
from rulerag.errors import ExplanationError, ProbeBudgetError
from rulerag.explanation.lattice import full_mask, mask_of
from rulerag.explanation.probing import Predicate, PredicateValues, ProbeEngine
from rulerag.explanation.records import Record
from rulerag.explanation.units import Context, Passage, Unit
from rulerag.explanation.wording import listing
from rulerag.text import UNSPACED, shortened

MASK = "_"
"""What stands in the place of a masked group of words."""

# The marks of letters of Thai, Lao, Burmese and Khmer.
_MARKS = (
    "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece"
    "\u102b-\u103e\u1056-\u1059\u105e-\u1060\u1062-\u1064\u1067-\u106d\u1071-\u1074\u1082-\u108d"
    "\u108f\u109a-\u109d\u17b4-\u17d3\u17dd"
)
_WORD = re.compile(f"[{UNSPACED}][{_MARKS}]*|[^\\s{UNSPACED}]+")

Span = tuple[int, int, int]
"""A place of a document, the first character and the one behind the last."""

Place = Literal["necessary", "sufficient", "straddles", "elsewhere", "absent"]


def region_words(text: str) -> list[tuple[int, int]]:
    """The spans of what is counted as a word: between spaces, or a character where none are set."""
    return [match.span() for match in _WORD.finditer(text)]


@dataclass(frozen=True)
class Keywords(Record):
    """Neighbouring words without which a region is not enough."""

    text: str
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class Region(Keywords):
    """A part of the text that is enough by itself.

    Args:
        text: what it says.
        spans: where it stands: documents from 0, with the characters from and to.
        keywords: the groups of its words that it needs, in their order.
    """

    keywords: tuple[Keywords, ...] = ()


@dataclass(frozen=True)
class RegionScore(Record):
    """How the keywords of a model fit one sufficient region (section 3.6), each in [0, 1].

    Args:
        sufficient: ``f_SR``: 1 where a keyword stands in the region.
        necessary: ``f_NK``: the share of its necessary groups in which a keyword stands; None
            where it has no necessary group, of which the paper defines no share.
    """

    sufficient: float
    necessary: float | None

    @property
    def mean(self) -> float | None:
        """The mean of both; None without a necessary group."""
        return None if self.necessary is None else (self.sufficient + self.necessary) / 2


@dataclass(frozen=True)
class KeywordFit(Record):
    """The keywords of a model beside what it needs.

    Args:
        score: ``f_i``, the best region's mean, in [0, 1]; None where no region with a necessary
            group was found, so that there is nothing to compare.
        regions: the scores of each sufficient region.
        keywords: each keyword and where it stands: in a ``necessary`` group; in a ``sufficient``
            region besides; it ``straddles`` the border of two groups or parts and counts for
            neither; ``elsewhere`` in the text; or it is ``absent`` from it.
    """

    score: float | None
    regions: tuple[RegionScore, ...]
    keywords: tuple[tuple[str, Place], ...]

    def __str__(self) -> str:
        """The score and the places of the keywords, a line each."""
        score = (
            "nothing to compare with" if self.score is None else f"faithfulness {self.score:.2f}"
        )
        lines = [f"keywords of the model: {score}"]
        for place, words in _PLACES.items():
            named = [f"“{keyword}”" for keyword, at in self.keywords if at == place]
            if named:
                lines.append(f"  {words}: {listing(named)}")
        return "\n".join(lines)


_PLACES: dict[Place, str] = {
    "necessary": "in a necessary group",
    "sufficient": "in a sufficient part, not necessary there",
    "straddles": "across the border of two groups, which counts for neither",
    "elsewhere": "in a part that is not enough",
    "absent": "not in the text",
}


@dataclass(frozen=True)
class RegionExplanation(Record):
    """The sufficient regions of a request, with their necessary keywords.

    Args:
        regions: the sufficient regions, in their order.
        parts: into how many parts the text was cut.
        groups: into how many groups of words each region was cut.
        num_probes: how many requests were asked.
        complete: whether each part was asked, and each group of those that are enough.
    """

    regions: tuple[Region, ...]
    parts: int
    groups: int
    num_probes: int
    complete: bool = True

    def faithfulness(self, keywords: Iterable[str]) -> float | None:
        """How well keywords that a model gave itself agree with what it needs, in [0, 1].

        ``f_i`` of section 3.6: for each region the mean of two numbers, whether a keyword stands in
        it and the share of its necessary groups in which one stands; the best region counts. A
        keyword stands in a text whose words hold all of its words side by side, whatever their case
        and punctuation.

        Args:
            keywords: words or phrases that the model named as important.

        Returns:
            None when no region with a necessary group was found: there is nothing to compare.
        """
        means = (score.mean for score in self._scores(keywords))
        return max((mean for mean in means if mean is not None), default=None)

    def fit(self, keywords: Sequence[str], cut: MaskedRegions) -> KeywordFit:
        """The same score, with that of each region and the place of each keyword.

        Args:
            keywords: words or phrases that the model named as important.
            cut: the text that was explained.
        """
        places = tuple((keyword, self._place(keyword, cut)) for keyword in keywords)
        return KeywordFit(self.faithfulness(keywords), self._scores(keywords), places)

    def _scores(self, keywords: Iterable[str]) -> tuple[RegionScore, ...]:
        words, scores = list(keywords), []
        for region in self.regions:
            groups = [bool(keyword_spans(group.text, words)) for group in region.keywords]
            necessary = sum(groups) / len(groups) if groups else None
            scores.append(RegionScore(float(bool(keyword_spans(region.text, words))), necessary))
        return tuple(scores)

    def _place(self, keyword: str, cut: MaskedRegions) -> Place:
        spots = [
            (place, start, end)
            for place, document in enumerate(cut.whole)
            for start, end in keyword_spans(document.text, [keyword])
        ]
        regions = [region.spans for region in self.regions]
        groups = [group.spans for region in self.regions for group in region.keywords]
        if _any_within(spots, groups):
            return "necessary"
        inside = [spot for spot in spots if _any_within([spot], regions)]
        if inside:
            whole = _any_within(inside, [unit.spans for unit in cut.units])
            return "sufficient" if whole else "straddles"
        if _any_within(spots, map(cut.spans_of, cut.members)):
            return "elsewhere"
        return "straddles" if spots else "absent"

    @property
    def sentence(self) -> str:
        """How many parts are enough, without a full stop."""
        count = len(self.regions)
        if not count:
            return f"None of the {self.parts} parts is enough alone: no sufficient region"
        return f"{count} of {self.parts} parts {'is' if count == 1 else 'are'} enough alone"

    def __str__(self) -> str:
        """The regions and their keywords, one a line."""
        more = "" if self.complete else ", and not all of them were asked"
        count = f"{self.num_probes:,} probe{'' if self.num_probes == 1 else 's'}"
        lines = [f"{self.sentence} ({count}{more})"]
        nothing = "no single group" if self.complete else "no group that was asked"
        for region in self.regions:
            needed = "; ".join(shortened(group.text, 40) for group in region.keywords)
            lines.append(f"  {shortened(region.text)}  [needs {needed or nothing}]")
        return "\n".join(lines)


def keyword_spans(text: str, keywords: Iterable[str]) -> list[tuple[int, int]]:
    """Where keywords stand in a text: their words side by side, whatever case and punctuation.

    The rule of :meth:`RegionExplanation.faithfulness`, with places.

    Args:
        text: what is searched.
        keywords: words or phrases.

    Returns:
        Pairs of beginning and end, in order; they may overlap.
    """
    words, spans = list[str](), list[tuple[int, int]]()
    for span in region_words(text):
        plain = _plain_words(text[slice(*span)])
        words += plain
        spans += [span] * len(plain)
    return sorted(
        {
            (spans[first][0], spans[first + len(wanted) - 1][1])
            for wanted in filter(None, map(_plain_words, keywords))
            for first in range(len(words) - len(wanted) + 1)
            if words[first : first + len(wanted)] == wanted
        }
    )


class MaskedRegions(Context):
    """Documents cut into parts of equally many words, and these into groups, which are masked.

    The groups are the sources. A part none of whose groups is kept is left out; of a part that is
    kept, groups that are not are replaced by one underscore (one in each document that they reach
    into).

    Args:
        documents: the evidence, in the order that the generator saw.
        parts: into how many parts of equally many words the text is cut, as far as that goes.
        groups: into how many groups of words each part is cut, likewise.

    Attributes:
        members: for each part the indices of its groups.

    Raises:
        ConfigError: a number is below 1.
        ExplanationError: the documents hold no word.
    """

    def __init__(self, documents: Sequence[Any], parts: int = 3, groups: int = 5) -> None:
        check_range("parts", parts, 1)
        check_range("groups", groups, 1)
        super().__init__(documents)
        words = [
            (place, start, end)
            for place, passage in enumerate(self.whole)
            for start, end in region_words(passage.text)
        ]
        if not words:
            raise ExplanationError(
                "the documents hold no word to keep or to mask",
                hint="give a text; an answer without one has no regions",
            )
        self.asked = parts, groups
        self.members: list[range] = []
        units: list[Unit] = []
        for number, part in enumerate(_cut(words, parts), start=1):
            first = len(units)
            for count, group in enumerate(_cut(part, groups), start=1):
                spans = tuple(_joined(group))
                passage = Passage(len(units), self._text(spans), part=f"{number}.{count}")
                units.append(Unit(passage, spans, "span"))
            self.members.append(range(first, len(units)))
        self.cut(units)

    @property
    def full(self) -> int:
        """The mask of the whole text."""
        return full_mask(len(self.units))

    @property
    def parts(self) -> list[int]:
        """The mask of each part."""
        return [mask_of(part) for part in self.members]

    def masked(self, part: int) -> list[int]:
        """The masks of one part with each of its groups masked in turn."""
        return [mask_of(self.members[part]) & ~(1 << group) for group in self.members[part]]

    def spans_of(self, groups: Iterable[int]) -> tuple[Span, ...]:
        """Where neighbouring groups stand: one span for each document."""
        spans = (span for group in groups for span in self.units[group].spans)
        return tuple(_joined(spans))

    def text_of(self, groups: Iterable[int]) -> str:
        """What neighbouring groups say, a line for each document."""
        return self._text(self.spans_of(groups))

    def instead(self, source: int, length: int, kept: frozenset[int]) -> str | None:
        """An underscore in the place of a group, nothing in that of a part that goes."""
        (part,) = (part for part in self.members if source in part)
        return MASK if kept.intersection(part) else None

    def _text(self, spans: Iterable[Span]) -> str:
        return "\n".join(self.whole[place].text[start:end] for place, start, end in spans)


def search_regions(
    engine: ProbeEngine, cut: MaskedRegions, predicate: Predicate
) -> RegionExplanation:
    """Find the sufficient regions and their necessary keywords.

    At most ``parts * (1 + groups)`` requests, whatever the length of the text; what is certain, and
    not ``complete``, where the engine's budget ran out.

    Args:
        engine: answers for subsets of the groups.
        cut: the text and its groups.
        predicate: whether an output is right.

    Raises:
        PredicateError: the predicate raised or did not return a Boolean.
    """
    before, values = engine.num_probes, PredicateValues(predicate, engine.outputs)

    def verdicts(masks: Sequence[int]) -> list[bool | None]:
        """What is known, once as much as the budget allows is asked; None for the rest."""
        with suppress(ProbeBudgetError):
            engine.probe_codes(masks)
        codes = engine.known_codes(masks)
        known = iter(values(codes[codes >= 0]).tolist())
        return [next(known) if code >= 0 else None for code in codes.tolist()]

    parts = verdicts(cut.parts)
    enough = [part for part, holds in enumerate(parts) if holds]
    # All groups of all regions together: one batch.
    groups = verdicts([mask for part in enough for mask in cut.masked(part)])
    regions, rest = list[Region](), iter(groups)
    for part in enough:
        members = cut.members[part]
        needed = [cut.units[group] for group in members if next(rest) is False]
        keywords = tuple(Keywords(unit.passage.text, unit.spans) for unit in needed)
        regions.append(Region(cut.text_of(members), cut.spans_of(members), keywords))
    complete = None not in [*parts, *groups]
    return RegionExplanation(tuple(regions), *cut.asked, engine.num_probes - before, complete)


def _any_within(spots: Iterable[Span], areas: Iterable[Sequence[Span]]) -> bool:
    """Whether a span lies in one of some areas."""
    borders = [span for area in areas for span in area]
    return any(
        place == document and first <= start and end <= last
        for place, start, end in spots
        for document, first, last in borders
    )


def _cut(words: list[Span], parts: int) -> list[list[Span]]:
    """Some parts of equally many words, as far as that goes; never an empty one."""
    bounds = np.linspace(0, len(words), min(parts, len(words)) + 1).round().astype(int).tolist()
    return [words[a:b] for a, b in itertools.pairwise(bounds) if b > a]


def _joined(spans: Iterable[Span]) -> Iterator[Span]:
    """Neighbouring spans of a document as one."""
    for place, group in itertools.groupby(spans, key=lambda span: span[0]):
        inside = list(group)
        yield place, inside[0][1], inside[-1][2]


def _plain_words(text: str) -> list[str]:
    """The words of a text in one form, without case and punctuation."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    bare = "".join(c for c in folded if unicodedata.category(c)[0] not in "PSC" or c.isspace())
    return [bare[slice(*span)] for span in region_words(bare)]
