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
from typing import TYPE_CHECKING, Any

import numpy as np

from rulerag.errors import ConfigError, ExplanationError
from rulerag.explanation.judging import Judge, Predicate
from rulerag.explanation.sources import Piece
from rulerag.explanation.wording import shortened
from rulerag.text import contains_answer, word_spans
from rulerag.types import Document, GenerationRequest

if TYPE_CHECKING:
    from rulerag.protocols import Generator

__all__ = ["MASK", "Keywords", "Region", "RegionExplanation", "explain_regions"]

MASK = "_"


@dataclass(frozen=True, slots=True)
class Keywords:
    """Neighbouring words without which a region is not enough."""

    text: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Region:
    """A part of the text that is enough by itself.

    Args:
        text: what it says.
        pieces: where it stands.
        keywords: the groups of its words that it needs, in their order.
    """

    text: str
    pieces: tuple[Piece, ...]
    keywords: tuple[Keywords, ...] = ()


@dataclass(frozen=True, slots=True)
class RegionExplanation:
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

    def to_json(self) -> dict[str, Any]:
        """The regions as a JSON object."""
        return {
            "regions": [
                {
                    "text": region.text,
                    "pieces": [list(piece) for piece in region.pieces],
                    "keywords": [
                        {"text": group.text, "pieces": [list(piece) for piece in group.pieces]}
                        for group in region.keywords
                    ],
                }
                for region in self.regions
            ],
            "parts": self.parts,
            "groups": self.groups,
            "num_probes": self.num_probes,
        }


def explain_regions(
    generator: Generator,
    request: GenerationRequest,
    predicate: Predicate,
    *,
    parts: int = 3,
    groups: int = 5,
    depth: int = 1,
) -> RegionExplanation:
    """Find the sufficient regions and their necessary keywords.

    At most ``parts * (1 + groups)`` requests for a depth of 1, whatever the length of the text.

    Args:
        generator: what answers.
        request: the whole request.
        predicate: whether an output is right.
        parts: into how many parts of equally many words the text is cut.
        groups: into how many groups of equally many words each sufficient region is cut.
        depth: how often a sufficient region is cut again, as long as a part of it is enough.

    Raises:
        ConfigError: an argument is below 1.
        ExplanationError: the documents hold no word.
        PredicateError: the predicate raised or did not return a Boolean.
    """
    for name, value in (("parts", parts), ("groups", groups), ("depth", depth)):
        if value < 1:
            raise ConfigError(f"expected a number from 1, found {value}", key=name)
    search = _Search(generator, request, predicate)
    if not search.words:
        raise ExplanationError("the documents hold no word to keep or to mask")
    regions = search.sufficient([search.words], parts)
    for _ in range(depth - 1):
        regions = search.refined(regions, parts)
    needed = search.necessary(regions, groups)
    return RegionExplanation(
        tuple(
            Region(search.text(region), search.pieces(region), keywords)
            for region, keywords in zip(regions, needed, strict=True)
        ),
        parts,
        groups,
        search.num_probes,
    )


class _Search:
    """The words of the documents as pieces, and the questions about ranges of them."""

    def __init__(
        self, generator: Generator, request: GenerationRequest, predicate: Predicate
    ) -> None:
        self._generator = generator
        self._request = request
        self._predicate = predicate
        self.num_probes = 0
        self.words = [
            Piece(place, start, end)
            for place, document in enumerate(request.documents)
            for start, end in word_spans(document.text)
        ]

    def sufficient(self, regions: Sequence[list[Piece]], parts: int) -> list[list[Piece]]:
        """The parts of some regions that are enough alone."""
        candidates = [part for region in regions for part in _cut(region, parts)]
        verdicts = self._ask([self._alone(part) for part in candidates])
        return [part for part, holds in zip(candidates, verdicts, strict=True) if holds]

    def refined(self, regions: Sequence[list[Piece]], parts: int) -> list[list[Piece]]:
        """Each region replaced by its sufficient parts, where it has some."""
        finer = self.sufficient([region for region in regions if len(region) > 1], parts)
        kept = []
        for region in regions:
            inside = [part for part in finer if part[0] in region]
            kept += inside or [region]
        return kept

    def necessary(self, regions: Sequence[list[Piece]], groups: int) -> list[tuple[Keywords, ...]]:
        """For each region, the groups of words whose masking makes it fail."""
        cuts = [_cut(region, groups) for region in regions]
        requests = [
            self._alone(region, masked=group)
            for region, cut in zip(regions, cuts, strict=True)
            for group in cut
        ]
        verdicts = iter(self._ask(requests))
        return [
            tuple(
                Keywords(self.text(group), self.pieces(group))
                for group in cut
                if not next(verdicts)
            )
            for cut in cuts
        ]

    def text(self, words: Sequence[Piece]) -> str:
        """What some words say, a line for each document."""
        return "\n".join(
            self._request.documents[p.document].text[p.start : p.end] for p in self.pieces(words)
        )

    def pieces(self, words: Sequence[Piece]) -> tuple[Piece, ...]:
        """Where some neighbouring words stand: one piece for each document."""
        spans: dict[int, Piece] = {}
        for word in words:
            before = spans.get(word.document, word)
            spans[word.document] = Piece(word.document, before.start, word.end)
        return tuple(spans.values())

    def _alone(self, words: Sequence[Piece], *, masked: Sequence[Piece] = ()) -> GenerationRequest:
        """The request with these words only, some of them masked."""
        documents = []
        for piece in self.pieces(words):
            document = self._request.documents[piece.document]
            text = document.text[: piece.end]
            for word in reversed([word for word in masked if word.document == piece.document]):
                text = f"{text[: word.start]}{MASK}{text[word.end :]}"
            text = text[piece.start :]
            whole = text == document.text.strip()
            documents.append(document if whole else Document(document.id, text))
        return replace(self._request, documents=tuple(documents))

    def _ask(self, requests: Sequence[GenerationRequest]) -> list[bool]:
        if not requests:
            return []
        outputs = [completion.text for completion in self._generator.generate(requests)]
        self.num_probes += len(requests)
        distinct = list(dict.fromkeys(outputs))
        verdicts = Judge(self._predicate, distinct)(np.arange(len(distinct), dtype=np.int32))
        judged = dict(zip(distinct, verdicts.tolist(), strict=True))
        return [judged[output] for output in outputs]


def _cut(words: list[Piece], parts: int) -> list[list[Piece]]:
    """Some parts of equally many words, as far as that goes; never an empty one."""
    bounds = np.linspace(0, len(words), min(parts, len(words)) + 1).round().astype(int).tolist()
    return [words[a:b] for a, b in itertools.pairwise(bounds) if b > a]
