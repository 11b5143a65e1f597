"""Which parts of the text are enough for the answer, and which words in them it needs.

Coarse to fine with a fixed number of questions: the text in some equal parts, each asked alone;
in each part that is enough, some equal groups of words, each masked in turn.

References:
    Fragkathoulas and Chlapanis 2024 (SETN, doi 10.1145/3688671.3688775): Algorithm 1 (sufficient
    regions), Algorithm 2 (necessary keywords) and section 3.6 (faithfulness of keywords).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rulerag.errors import ConfigError, ExplanationError
from rulerag.explanation.probing import Piece, Predicate, PredicateValues
from rulerag.explanation.records import Record
from rulerag.explanation.wording import shortened
from rulerag.protocols import Generator
from rulerag.text import contains_answer, word_spans
from rulerag.types import Document, GenerationRequest

_MASK = "_"


@dataclass(frozen=True)
class Keywords(Record):
    """Neighbouring words without which a region is not enough."""

    text: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Region(Keywords):
    """A part of the text that is enough by itself.

    Args:
        text: what it says.
        pieces: where it stands.
        keywords: the groups of its words that it needs, in their order.
    """

    keywords: tuple[Keywords, ...] = ()


@dataclass(frozen=True)
class RegionExplanation(Record):
    """The sufficient regions of a request, with their necessary keywords.

    Args:
        regions: the sufficient regions, in their order.
        parts: into how many parts the text was cut.
        groups: into how many groups of words each region was cut.
        num_probes: how many requests were asked.
    """

    regions: tuple[Region, ...]
    parts: int
    groups: int
    num_probes: int

    def faithfulness(self, keywords: Iterable[str]) -> float | None:
        """How well keywords that a model gave itself agree with what it needs, in [0, 1].

        For each region the mean of two numbers: whether a keyword stands in it, and the share of
        its necessary groups in which one stands; the best region counts.

        Args:
            keywords: words or phrases that the model named as important.

        Returns:
            None when no region with a necessary group was found: there is nothing to compare.
        """
        given = [word for word in keywords if word.strip()]
        scores = []
        for region in self.regions:
            if region.keywords:
                found = [contains_answer(group.text, given) for group in region.keywords]
                inside = contains_answer(region.text, given)
                scores.append((inside + sum(found) / len(found)) / 2)
        return max(scores, default=None)

    def __str__(self) -> str:
        """The regions and their keywords, one a line."""
        count = len(self.regions)
        lines = [
            f"{count} of {self.parts} parts {'is' if count == 1 else 'are'} enough alone "
            f"({self.num_probes:,} probes)"
        ]
        for region in self.regions:
            needed = "; ".join(shortened(group.text, 40) for group in region.keywords)
            lines.append(f"  {shortened(region.text)}  [needs {needed or 'no single group'}]")
        return "\n".join(lines)


def explain_regions(
    generator: Generator,
    request: GenerationRequest,
    predicate: Predicate,
    *,
    parts: int = 3,
    groups: int = 5,
) -> RegionExplanation:
    """Find the sufficient regions and their necessary keywords.

    At most ``parts * (1 + groups)`` requests, whatever the length of the text.

    Args:
        generator: what answers.
        request: the whole request.
        predicate: whether an output is right.
        parts: into how many parts of equally many words the text is cut.
        groups: into how many groups of equally many words each sufficient region is cut.

    Raises:
        ConfigError: an argument is below 1.
        ExplanationError: the documents hold no word.
        PredicateError: the predicate raised or did not return a Boolean.
    """
    for name, value in (("parts", parts), ("groups", groups)):
        if value < 1:
            raise ConfigError(f"expected a number from 1, found {value}", key=name)
    search = _RegionSearch(generator, request, predicate)
    if not search.words:
        raise ExplanationError("the documents hold no word to keep or to mask")
    regions = search.sufficient(parts)
    found = zip(regions, search.necessary(regions, groups), strict=True)
    described = tuple(Region(*search.place(region), keywords) for region, keywords in found)
    return RegionExplanation(described, parts, groups, search.num_probes)


@dataclass
class _RegionSearch:
    """The words of the documents as pieces, and the questions about ranges of them."""

    generator: Generator
    request: GenerationRequest
    predicate: Predicate
    num_probes: int = 0

    def __post_init__(self) -> None:
        self.words = [
            Piece(place, start, end)
            for place, document in enumerate(self.request.documents)
            for start, end in word_spans(document.text)
        ]

    def sufficient(self, parts: int) -> list[list[Piece]]:
        """The parts of the text that are enough alone."""
        candidates = _cut(self.words, parts)
        values = self._ask([self._alone(part) for part in candidates])
        return [part for part, holds in zip(candidates, values, strict=True) if holds]

    def necessary(self, regions: Sequence[list[Piece]], groups: int) -> list[tuple[Keywords, ...]]:
        """For each region, the groups of words whose masking makes it fail."""
        cuts = [_cut(region, groups) for region in regions]
        pairs = zip(regions, cuts, strict=True)
        values = iter(
            self._ask([self._alone(region, masked=group) for region, cut in pairs for group in cut])
        )
        needed = [[group for group in cut if not next(values)] for cut in cuts]
        return [tuple(Keywords(*self.place(group)) for group in one) for one in needed]

    def place(self, words: Sequence[Piece]) -> tuple[str, tuple[Piece, ...]]:
        """What some neighbouring words say, a line for each document, and where they stand."""
        spans: dict[int, Piece] = {}
        for word in words:
            before = spans.get(word.document, word)
            spans[word.document] = Piece(word.document, before.start, word.end)
        lines = [self.request.documents[p.document].text[p.start : p.end] for p in spans.values()]
        return "\n".join(lines), tuple(spans.values())

    def _alone(self, words: Sequence[Piece], *, masked: Sequence[Piece] = ()) -> GenerationRequest:
        """The request with these words only, some of them masked."""
        documents = []
        for piece in self.place(words)[1]:
            document = self.request.documents[piece.document]
            text = document.text[: piece.end]
            for word in reversed([word for word in masked if word.document == piece.document]):
                text = f"{text[: word.start]}{_MASK}{text[word.end :]}"
            text = text[piece.start :]
            whole = text == document.text.strip()
            documents.append(document if whole else Document(document.id, text))
        return replace(self.request, documents=tuple(documents))

    def _ask(self, requests: Sequence[GenerationRequest]) -> list[bool]:
        outputs = [one.text for one in self.generator.generate(requests)] if requests else []
        self.num_probes += len(requests)
        evaluate = PredicateValues(self.predicate, distinct := list(dict.fromkeys(outputs)))
        codes = [distinct.index(output) for output in outputs]
        return list(evaluate(np.array(codes, dtype=np.int32)))


def _cut(words: list[Piece], parts: int) -> list[list[Piece]]:
    """Some parts of equally many words, as far as that goes; never an empty one."""
    bounds = np.linspace(0, len(words), min(parts, len(words)) + 1).round().astype(int).tolist()
    return [words[a:b] for a, b in itertools.pairwise(bounds) if b > a]
