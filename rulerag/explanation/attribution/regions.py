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
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rulerag.errors import ConfigError, ExplanationError, ProbeBudgetError
from rulerag.explanation.lattice import full_mask, mask_of
from rulerag.explanation.probing import (
    PartitionedDocuments,
    Piece,
    Predicate,
    PredicateValues,
    ProbeEngine,
    Source,
    stopped,
)
from rulerag.explanation.records import Record
from rulerag.explanation.wording import listing, shortened
from rulerag.protocols import Generator
from rulerag.types import Document, GenerationRequest

MASK = "_"
"""What stands in the place of a masked group of words."""

# Scripts that set no spaces between words: Thai, Lao, Burmese, Khmer, kana, Chinese characters.
_UNSPACED = (
    *((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF)),
    *((0x3040, 0x30FF), (0x3400, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF)),
)
_LETTERS = "".join(f"{chr(first)}-{chr(last)}" for first, last in _UNSPACED)
_MARKS = "".join(
    re.escape(chr(code))
    for first, last in _UNSPACED[:3]
    for code in range(first, last + 1)
    if unicodedata.category(chr(code)).startswith("M")
)
_WORD = re.compile(rf"[{_LETTERS}][{_MARKS}]*|[^\s{_LETTERS}]+")

Place = Literal["necessary", "sufficient", "straddles", "elsewhere", "absent"]


def region_words(text: str) -> list[tuple[int, int]]:
    """The spans of what is counted as a word: between spaces, or a character where none are set."""
    return [match.span() for match in _WORD.finditer(text)]


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
        said = "nothing to compare with" if self.score is None else f"faithfulness {self.score:.2f}"
        lines = [f"keywords of the model: {said}"]
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

    def fit(self, keywords: Sequence[str], documents: Sequence[Document]) -> KeywordFit:
        """The same score, with that of each region and the place of each keyword.

        Args:
            keywords: words or phrases that the model named as important.
            documents: those of the request that was explained.
        """
        cut = MaskedRegions(documents, self.parts, self.groups)
        places = tuple((keyword, self._place(keyword, cut)) for keyword in keywords)
        return KeywordFit(self.faithfulness(keywords), self._scores(keywords), places)

    def _scores(self, keywords: Iterable[str]) -> tuple[RegionScore, ...]:
        given = list(filter(None, map(_said, keywords)))

        def found(text: str) -> bool:
            said = _said(text)
            return any(keyword in said for keyword in given)

        return tuple(
            RegionScore(
                float(found(region.text)),
                sum(found(group.text) for group in region.keywords) / len(region.keywords)
                if region.keywords
                else None,
            )
            for region in self.regions
        )

    def _place(self, keyword: str, cut: MaskedRegions) -> Place:
        wanted = _said(keyword)
        if not wanted:
            return "absent"
        if any(wanted in _said(g.text) for region in self.regions for g in region.keywords):
            return "necessary"
        groups = [wanted in _said(source.text) for source in cut.sources]
        whole = any(wanted in _said(document.text) for document in cut.documents)
        for region in self.regions:
            if wanted in _said(region.text):
                inside = (
                    held and set(source.pieces) <= _pieces_within(source, region)
                    for source, held in zip(cut.sources, groups, strict=True)
                )
                return "sufficient" if any(inside) else "straddles"
        if any(wanted in _said(cut.text_of(part)) for part in cut.members):
            return "elsewhere"
        return "straddles" if whole else "absent"

    def most_probes(self) -> int:
        """So many requests it takes at most, the whole text's among them."""
        return 1 + self.parts * (1 + self.groups)

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
    words: list[str] = []
    spans: list[tuple[int, int]] = []
    for start, end in region_words(text):
        said = _said(text[start:end]).split()
        words += said
        spans += [(start, end)] * len(said)
    places: dict[str, list[int]] = {}
    for place, word in enumerate(words):
        places.setdefault(word, []).append(place)
    found = set()
    for wanted in filter(None, (_said(keyword).split() for keyword in keywords)):
        for place in places.get(wanted[0], ()):
            if words[place : place + len(wanted)] == wanted:
                found.add((spans[place][0], spans[place + len(wanted) - 1][1]))
    return sorted(found)


class MaskedRegions(PartitionedDocuments):
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

    def __init__(self, documents: Sequence[Document], parts: int = 3, groups: int = 5) -> None:
        for name, value in (("parts", parts), ("groups", groups)):
            if value < 1:
                raise ConfigError(f"expected a number from 1, found {value}", key=name)
        words = [
            Piece(place, start, end)
            for place, document in enumerate(documents)
            for start, end in region_words(document.text)
        ]
        if not words:
            raise ExplanationError(
                "the documents hold no word to keep or to mask",
                hint="give a text; an answer without one has no regions",
            )
        sources: list[Source] = []
        self.members: list[range] = []
        for number, part in enumerate(_cut(words, parts), start=1):
            first = len(sources)
            for count, group in enumerate(_cut(part, groups), start=1):
                pieces = tuple(_joined(group))
                text = _text(documents, pieces)
                sources.append(Source(f"part {number}, group {count}", text, pieces))
            self.members.append(range(first, len(sources)))
        super().__init__(documents, sources)

    @property
    def parts(self) -> list[int]:
        """The mask of each part."""
        return [mask_of(part) for part in self.members]

    def masked(self, part: int) -> list[int]:
        """The masks of one part with each of its groups masked in turn."""
        return [mask_of(self.members[part]) & ~(1 << group) for group in self.members[part]]

    def pieces_of(self, groups: Iterable[int]) -> tuple[Piece, ...]:
        """Where neighbouring groups stand: one piece for each document."""
        pieces = (piece for group in groups for piece in self.sources[group].pieces)
        return tuple(_joined(pieces))

    def text_of(self, groups: Iterable[int]) -> str:
        """What neighbouring groups say, a line for each document."""
        return _text(self.documents, self.pieces_of(groups))

    def keep(self, kept: Iterable[int]) -> tuple[Document, ...]:
        """The documents when only these groups stay: whole ones as they are, with their facts."""
        left = frozenset(kept)
        # Nothing in the place of a part that goes, an underscore in that of a group.
        removed: dict[int, list[tuple[Piece, str]]] = {}
        for part in self.members:
            mask = MASK if left.intersection(part) else ""
            for group in part:
                if group not in left:
                    for piece in self.sources[group].pieces:
                        removed.setdefault(piece.document, []).append((piece, mask))
        documents = []
        for place, document in enumerate(self.documents):
            if place not in removed:
                documents.append(document)
            elif text := _without(document.text, removed[place]):
                documents.append(Document(document.id, text, title=document.title))
        # A document without a word says nothing: it goes with the first part that goes.
        return tuple(d for d in documents if d.text.strip() or len(left) == len(self.sources))


def explain_regions(
    generator: Generator,
    request: GenerationRequest,
    predicate: Predicate,
    *,
    parts: int = 3,
    groups: int = 5,
    max_probes: int | None = None,
) -> RegionExplanation:
    """Find the sufficient regions and their necessary keywords.

    At most ``parts * (1 + groups)`` requests, whatever the length of the text.

    Args:
        generator: what answers.
        request: the whole request.
        predicate: whether an output is right.
        parts: into how many parts of equally many words the text is cut.
        groups: into how many groups of equally many words each sufficient region is cut.
        max_probes: how many requests may be asked.

    Raises:
        ConfigError: an argument is below 1.
        ExplanationError: the documents hold no word.
        PredicateError: the predicate raised or did not return a Boolean.
        ProbeBudgetError: the budget ran out; ``partial`` holds what was found.
        SamplingError: the generator decodes by chance.
        DroppedDocumentsError: its prompt does not hold every document.
    """
    cut = MaskedRegions(request.documents, parts, groups)
    engine = ProbeEngine.from_generator(generator, request, cut, max_probes=max_probes)
    return search_regions(engine, cut, predicate, parts=parts, groups=groups)


def search_regions(
    engine: ProbeEngine, cut: MaskedRegions, predicate: Predicate, *, parts: int, groups: int
) -> RegionExplanation:
    """The same with an engine over the groups that a text was cut into.

    Args:
        engine: answers for subsets of the groups.
        cut: the text and its groups.
        predicate: whether an output is right.
        parts: into how many parts the text was to be cut.
        groups: into how many groups each part was to be cut.

    Raises:
        PredicateError: the predicate raised or did not return a Boolean.
        ProbeBudgetError: the budget ran out; ``partial`` holds what was found.
    """
    before, values = engine.num_probes, PredicateValues(predicate, engine.outputs)

    def known(masks: Sequence[int]) -> list[bool | None]:
        codes = engine.known_codes(list(masks))
        asked = iter(values(codes[codes >= 0]).tolist())
        return [next(asked) if code >= 0 else None for code in codes.tolist()]

    ended: ProbeBudgetError | None = None
    enough: list[int] = []
    try:
        engine.probe_codes(cut.parts)
        enough = [part for part, holds in enumerate(known(cut.parts)) if holds]
        # All groups of all regions together: one batch.
        engine.probe_codes([mask for part in enough for mask in cut.masked(part)])
    except ProbeBudgetError as error:
        ended = error
        enough = [part for part, holds in enumerate(known(cut.parts)) if holds]
    regions = []
    for part in enough:
        members = cut.members[part]
        holds = known(cut.masked(part))
        needed = [group for group, one in zip(members, holds, strict=True) if one is False]
        described = (cut.sources[group] for group in needed)
        keywords = tuple(Keywords(source.text, source.pieces) for source in described)
        regions.append(Region(cut.text_of(members), cut.pieces_of(members), keywords))
    asked = engine.num_probes - before
    found = RegionExplanation(tuple(regions), parts, groups, asked, ended is None)
    if ended is not None:
        raise stopped(ended, f"{len(regions)} parts are known to be enough", found)
    return found


def whole(cut: MaskedRegions) -> int:
    """The mask of the whole text."""
    return full_mask(len(cut.sources))


def _pieces_within(source: Source, region: Region) -> set[Piece]:
    """The pieces of a group that lie in a region."""
    return {
        piece
        for piece in source.pieces
        for around in region.pieces
        if piece.document == around.document
        and around.start <= piece.start
        and piece.end <= around.end
    }


def _cut(words: list[Piece], parts: int) -> list[list[Piece]]:
    """Some parts of equally many words, as far as that goes; never an empty one."""
    bounds = np.linspace(0, len(words), min(parts, len(words)) + 1).round().astype(int).tolist()
    return [words[a:b] for a, b in itertools.pairwise(bounds) if b > a]


def _joined(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Neighbouring pieces of a document as one."""
    for document, group in itertools.groupby(pieces, key=lambda piece: piece.document):
        inside = list(group)
        yield Piece(document, inside[0].start, inside[-1].end)


def _text(documents: Sequence[Document], pieces: Iterable[Piece]) -> str:
    return "\n".join(documents[p.document].text[p.start : p.end] for p in pieces)


def _without(text: str, removed: Sequence[tuple[Piece, str]]) -> str:
    """A text with some pieces replaced; what is replaced by nothing takes the space behind it."""
    kept, position = [], 0
    for piece, instead in removed:
        kept += [text[position : piece.start], instead]
        position = piece.end
        if not instead:
            position += len(text[position:]) - len(text[position:].lstrip())
    return "".join([*kept, text[position:]]).strip()


def _said(text: str) -> str:
    """The words of a text in one form, each between blanks; empty where it has none.

    Of a script without spaces each character is a word.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    bare = "".join(c for c in folded if unicodedata.category(c)[0] not in "PSC" or c.isspace())
    words = [bare[start:end] for start, end in region_words(bare)]
    return f" {' '.join(words)} " if words else ""
