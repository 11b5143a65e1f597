"""What a probe keeps and removes: the evidence of an answer cut into sources.

A source is a part of the evidence that is kept or removed as one: a document, a sentence, a word,
or a group of them. What no source covers stands in every probe. Whatever is kept stays in its
original order.

References:
    Cohen-Wang et al. 2024 (ContextCite, arXiv:2409.00729), section 2: context, sources, ablation.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rulerag.errors import ConfigError, ExplanationError, did_you_mean
from rulerag.text import sentence_spans, word_spans
from rulerag.types import Document

_UNITS: dict[str, Callable[[str], list[tuple[int, int]]]] = {
    "document": lambda text: [(0, len(text))],
    "sentence": lambda text: list(sentence_spans(text)),
    "word": lambda text: list(word_spans(text)),
}


class Piece(NamedTuple):
    """The characters ``start`` to ``end`` of the document at place ``document``, from 0."""

    document: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Source:
    """A part of the evidence that is kept or removed as one.

    Args:
        name: how explanations call it, such as ``D2`` or ``D2.1`` (first sentence of D2).
        text: what it says.
        pieces: where it stands.
    """

    name: str
    text: str
    pieces: tuple[Piece, ...]


def partition(documents: Sequence[Document], unit: str = "document") -> tuple[Source, ...]:
    """Cut documents into sources named D1, D2, … or D1.1, D1.2, …, in their order.

    Args:
        documents: the evidence, in the order that the generator saw.
        unit: ``document``, ``sentence`` or ``word``.

    Raises:
        ConfigError: the unit is unknown.
        ExplanationError: two documents have the same id.
    """
    if unit not in _UNITS:
        raise ConfigError(f"unknown unit {unit!r}", key="unit", hint=did_you_mean(unit, _UNITS))
    _refuse_repeats([document.id for document in documents], "document")
    sources = []
    for place, document in enumerate(documents):
        for number, (start, end) in enumerate(_UNITS[unit](document.text), start=1):
            name = f"D{place + 1}" if unit == "document" else f"D{place + 1}.{number}"
            piece = Piece(place, start, end)
            sources.append(Source(name, document.text[start:end], (piece,)))
    return tuple(sources)


def group(sources: Iterable[Source], name: str) -> Source:
    """One source made of several, kept or removed together."""
    members = list(sources)
    pieces = tuple(piece for member in members for piece in member.pieces)
    return Source(name, "\n".join(member.text for member in members), pieces)


class PartitionedDocuments:
    """Documents and the sources they are cut into; gives the documents that a subset leaves.

    Args:
        documents: the evidence, in the order that the generator saw.
        sources: disjoint sources over it.

    Raises:
        ExplanationError: a name stands twice, a piece lies outside its document, or two sources
            cover the same text.
    """

    def __init__(self, documents: Sequence[Document], sources: Sequence[Source]) -> None:
        self.documents = tuple(documents)
        self.sources = tuple(sources)
        _refuse_repeats([source.name for source in self.sources], "source")
        self._check_pieces()

    def keep(self, kept: Iterable[int]) -> tuple[Document, ...]:
        """The documents left when only the sources ``kept`` (indices) stay, in their order.

        A document that loses a part keeps its id and title; its facts are dropped, since which
        sentence states which fact is not recorded. A document without text left is left out.
        """
        removed = set(range(len(self.sources))).difference(kept)
        cuts: dict[int, list[Piece]] = {}
        for index in removed:
            for piece in self.sources[index].pieces:
                cuts.setdefault(piece.document, []).append(piece)
        left = (_cut(d, cuts.get(place, [])) for place, d in enumerate(self.documents))
        return tuple(document for document in left if document is not None)

    def _check_pieces(self) -> None:
        owned = sorted((piece, source.name) for source in self.sources for piece in source.pieces)
        for piece, name in owned:
            if not 0 <= piece.document < len(self.documents):
                what = f"source {name} names document {piece.document} of {len(self.documents)}"
                raise ExplanationError(what, hint="make the sources with partition(documents)")
            if not 0 <= piece.start <= piece.end <= len(self.documents[piece.document].text):
                raise ExplanationError(f"source {name} reaches outside its document")
        for (before, first), (after, second) in itertools.pairwise(owned):
            crossing = after.start < before.end or before[1:] == after[1:]
            if before.document == after.document and crossing:
                what = f"sources {first} and {second} cover the same text"
                raise ExplanationError(what, hint="give disjoint sources")


def _cut(document: Document, pieces: list[Piece]) -> Document | None:
    """The document without some pieces and the white space after each; None when none is left."""
    if not pieces:
        return document
    kept, position = [], 0
    for piece in sorted(pieces):
        kept.append(document.text[position : piece.start])
        tail = document.text[piece.end :]
        position = piece.end + len(tail) - len(tail.lstrip())
    text = "".join([*kept, document.text[position:]]).strip()
    return Document(document.id, text, title=document.title) if text else None


def _refuse_repeats(names: Sequence[str], what: str) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            hint = f"give every {what} once"
            raise ExplanationError(f"the {what} {name!r} is given twice", hint=hint)
