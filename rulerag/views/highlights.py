"""Texts with what counts in them marked: enough, needed, named by the model; or shaded by a number.

No mark rests on its colour: each kind has a line of its own (single, double, dashed, dotted), bold
stands for words that a model named, and the first words of a mark say what it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from rulerag.text import shortened
from rulerag.views.page import Block
from rulerag.views.svg import printable

Kind = Literal["enough", "part", "against", "needed", "keyword", "shade1", "shade2", "shade3"]
"""What a mark says; a needed part and a keyword may lie inside another mark."""

_SHADES: tuple[Kind, ...] = ("shade1", "shade1", "shade2", "shade3")  # a number below all has none
_WORDS: dict[str, str] = {
    "enough": "enough alone",
    "part": "enough together with the others of its set",
    "needed": "needed: without it nothing is enough",
    "against": "speaks against it",
    "keyword": "a word that the model named",
    "shade1": "counts a little",
    "shade2": "counts",
    "shade3": "counts most",
}
_TERMINAL = {
    "enough": "underline",
    "part": "underline",
    "needed": "bold underline",
    "against": "italic",
    "keyword": "bold",
    "shade1": "underline",
    "shade2": "bold underline",
    "shade3": "bold reverse",
}
_LONG, _RUN, _ENDS = 60_000, 3_000, 600
"""Characters of all texts from which on runs of so many without a change are cut to their ends."""
_OPEN = 3
"""So many texts without a mark stand open."""
_FRACTIONS = (0.1, 0.25, 0.5)
"""Where shades begin, on the way from an even share to a whole one."""


@dataclass(frozen=True)
class Mark:
    """A part of a text that counts.

    Args:
        start: where it begins, in characters.
        end: where it ends.
        kind: what it says.
        tag: a few words that stand before it; for a keyword none.
        anchor: the id of the mark on a page, to link to.
    """

    start: int
    end: int
    kind: Kind
    tag: str = ""
    anchor: str = ""


class StyledText(NamedTuple):
    """A stretch of a text whose marks are the same, and how many words behind it are left out."""

    text: str
    kinds: str = ""
    tags: tuple[str, ...] = ()
    anchor: str = ""
    gap: int = 0


@dataclass(frozen=True)
class MarkedText:
    """A document, or the parts of one, with its marks.

    Args:
        label: how it is cited, such as ``[2]``.
        title: what people know it by; may be empty.
        text: what it says.
        marks: what counts in it.
        note: what it is to the answer, in words.
        anchor: the id of its card on a page, to link to.
    """

    label: str
    title: str
    text: str
    marks: tuple[Mark, ...] = ()
    note: str = ""
    anchor: str = ""

    def runs(self, long: bool = False) -> Iterator[StyledText]:
        """The text in order; a tag stands where its mark begins.

        Args:
            long: runs of very many characters are cut to both ends.
        """
        size = len(self.text)
        marks = sorted(self.marks, key=lambda mark: (mark.start, -mark.end))
        ends = {0, size} | {end for mark in marks for end in (mark.start, mark.end)}
        active: list[Mark] = []
        bounds = sorted(end for end in ends if 0 <= end <= size)
        for start, end in itertools.pairwise(bounds):
            active = [mark for mark in active if mark.end > start]
            while marks and marks[0].start <= start:
                active.append(marks.pop(0))
            begun = [mark for mark in active if mark.start == start]
            run = StyledText(
                self.text[start:end],
                " ".join(dict.fromkeys(mark.kind for mark in active)),
                tuple(mark.tag for mark in begun if mark.tag),
                next((mark.anchor for mark in begun if mark.anchor), ""),
            )
            if long and end - start > _RUN:
                words = len(run.text[_ENDS:-_ENDS].split())
                yield run._replace(text=run.text[:_ENDS], gap=words)
                run = StyledText(run.text[-_ENDS:], run.kinds)
            yield run


@dataclass(frozen=True)
class Highlights(Block):
    """Texts with their marks, a legend and a table that says the same.

    Args:
        title: what is seen.
        texts: in their order.
        note: how to read it.
        legend: kinds with what they stand for; of those that occur by default.
    """

    kind = "highlights"
    title: str
    texts: tuple[MarkedText, ...]
    note: str = ""
    legend: tuple[tuple[Kind, str], ...] = ()

    headings = ("document", "what it is", "words")

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """A row for each mark."""
        return tuple(
            (one.label, mark.tag or _WORDS[mark.kind], shortened(words, 160))
            for one in self.texts
            for mark in sorted(one.marks, key=lambda m: (m.start, -m.end))
            for words in [" ".join(one.text[mark.start : mark.end].split())]
        )

    @property
    def legend_items(self) -> tuple[tuple[str, str], ...]:
        """The legend, by default of the kinds that occur."""
        kinds = {mark.kind for one in self.texts for mark in one.marks}
        return self.legend or tuple((kind, _WORDS[kind]) for kind in _WORDS if kind in kinds)

    @property
    def folded_texts(self) -> tuple[MarkedText, ...]:
        """The texts without a mark, where they are more than a few."""
        idle = tuple(one for one in self.texts if not one.marks)
        return idle if len(idle) > _OPEN else ()

    @property
    def open_texts(self) -> tuple[MarkedText, ...]:
        """The others."""
        return tuple(one for one in self.texts if one.marks) if self.folded_texts else self.texts

    @property
    def long(self) -> bool:
        """Whether the texts are so long that what is not marked is cut."""
        return sum(len(one.text) for one in self.texts) > _LONG

    def __rich__(self) -> Any:
        """The same in a terminal: the legend, then the texts with their marks."""
        from rich.console import Group
        from rich.text import Text

        legend = Text()
        for kind, words in self.legend_items:
            legend.append(printable(words), _TERMINAL[kind]).append("  ")
        lines = [Text(printable(self.title), "bold"), legend]
        for one in self.open_texts:
            lines.append(Text(printable(f"\n{one.label} {one.title} {one.note}"), "bold"))
            text = Text()
            for run in one.runs(self.long):
                kinds = run.kinds.split()
                text.append("".join(f"[{printable(tag)}] " for tag in run.tags), "dim")
                text.append(printable(run.text), " ".join(_TERMINAL[kind] for kind in kinds))
                text.append(f" [… {run.gap:,} words …] " if run.gap else "", "dim")
            lines.append(text)
        if self.folded_texts:
            lines.append(Text(f"\nand {len(self.folded_texts)} others without a mark"))
        return Group(*lines)


@dataclass(frozen=True)
class Scale:
    """Three shades, by how far a share is on the way from an even one to a whole one.

    Flat numbers stay without shades, however large they are.

    Args:
        even: the share of each part if all were alike.
        whole: the share of a part that has something for itself; twice an even share at least.
    """

    even: float
    whole: float = 1.0

    @property
    def bounds(self) -> tuple[float, ...]:
        """Where the shades begin, the palest first."""
        way = min(1.0, max(self.whole, 2 * self.even)) - self.even
        return tuple(self.even + fraction * way for fraction in _FRACTIONS)

    def kind(self, share: float) -> Kind | None:
        """The shade of a share, if it has one."""
        shade = sum(share >= bound for bound in self.bounds) if self.even < 1 else 0
        return _SHADES[shade] if shade else None

    def legend(self, of: str = "") -> tuple[tuple[Kind, str], ...]:
        """The shades, the strongest first, with the percentages that they stand for."""
        low, middle, high = map(percent, self.bounds)
        words = (f"{high} and more", f"{middle} to {high}", f"{low} to {middle}")
        return tuple(zip(reversed(_SHADES[1:]), (f"{one}{of}" for one in words), strict=True))


def percent(value: float) -> str:
    """A share as people read it: ``62 %``, ``3.4 %``, ``below 0.1 %``."""
    if 0 < value < 0.001:
        return "below 0.1 %"
    return f"{value:.0%}".replace("%", " %") if value >= 0.0995 else f"{100 * value:.1f} %"


def shaded(
    values: Sequence[float], errors: Sequence[float] | None = None
) -> tuple[list[Mark | None], tuple[tuple[Kind, str], ...]]:
    """A mark for each of some numbers, by its share of all, and the legend; none where it is small.

    Args:
        values: what each text counts; below 0 it speaks against.
        errors: standard errors, said beside them.

    Returns:
        Marks whose ends are 0: they are for whole texts, which the caller knows.
    """
    total = sum(map(abs, values)) or 1.0
    scale = Scale(1 / max(2, len(values)))  # of one alone, all is more than an even share
    spread = errors or [0.0] * len(values)
    marks: list[Mark | None] = []
    for value, error in zip(values, spread, strict=True):
        kind = scale.kind(abs(value) / total)
        tag = f"{value:.2f}" + (f" ± {error:.2f}" if error else "")
        marks.append(Mark(0, 0, "against" if value < 0 else kind, tag) if kind else None)
    legend = scale.legend(" of all that counts") if any(values) else ()
    against: tuple[tuple[Kind, str], ...] = (("against", _WORDS["against"]),)
    return marks, (*legend, *(against if min(values, default=0) < 0 else ()))
