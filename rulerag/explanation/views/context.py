"""Texts with what counts in them marked: enough, needed, named by the model; or shaded by a number.

No mark rests on its colour: each kind has a line of its own (single, double, dashed, dotted), bold
stands for words that a model named, and the first words of a mark say what it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rulerag.errors import ConfigError
from rulerag.explanation.views.figure import folded_table, page_around
from rulerag.explanation.views.scale import Scale
from rulerag.explanation.views.svg import clean
from rulerag.explanation.wording import shortened
from rulerag.io import write_text

Kind = Literal["enough", "part", "against", "needed", "keyword", "shade1", "shade2", "shade3"]
"""What a mark says; a needed part lies inside another mark or beside it, a keyword anywhere."""

_SHADES: tuple[Kind, ...] = ("shade1", "shade1", "shade2", "shade3")  # a number below all has none
_LAYERS = {"needed": 1, "keyword": 2}  # all others lie below
_WORDS: dict[str, str] = {
    "enough": "enough alone",
    "part": "enough together with the others of its set",
    "needed": "needed: without it, it is not enough",
    "against": "speaks against it",
    "keyword": "a word that the model named",
    "shade1": "counts a little",
    "shade2": "counts",
    "shade3": "counts most",
}
_LONG, _RUN, _ENDS = 60_000, 3_000, 600
"""Characters of all texts from which on runs of so many without a change are cut to their ends."""
_OPEN = 3
"""So many texts without a mark stand open."""

_STYLE = """<style>
.rulerag-context{color:#1b1f24}
.rulerag-context .text{white-space:pre-wrap;overflow-wrap:anywhere;max-height:24rem;overflow:auto}
.rulerag-context .card{background:#fff;border:1px solid #d9dee4;border-radius:8px;
padding:.7rem .9rem;margin:.5rem 0}
.rulerag-context .card:target{outline:3px solid #0b5cad}
.rulerag-context :focus-visible{outline:3px solid #0b5cad}
.rulerag-context mark{color:inherit;border-radius:2px;-webkit-box-decoration-break:clone;
box-decoration-break:clone;print-color-adjust:exact;-webkit-print-color-adjust:exact}
.rulerag-context .text{line-height:1.9;padding-bottom:8px}
.rulerag-context .enough,.rulerag-context .part{padding-bottom:5px}
.rulerag-context .enough{background:#d3eee2;border-bottom:2px solid #00704f}
.rulerag-context .part{background:#e9f6f0;border-bottom:2px dashed #00704f}
.rulerag-context .needed{background:#c6def3;border-bottom:4px double #004f91}
.rulerag-context .against{background:#fbe4d8;border-bottom:3px dotted #b34700}
.rulerag-context .shade1{background:#eef4fa;border-bottom:1px dotted #08519c}
.rulerag-context .shade2{background:#cfe1f2;border-bottom:2px solid #08519c}
.rulerag-context .shade3{background:#93c3df;border-bottom:4px solid #08306b}
.rulerag-context strong{font-weight:800}
.rulerag-context .tag{font-size:.72rem;font-weight:400;border:1px solid #57606a;
border-radius:1em;padding:0 .4em;margin-right:.25em;background:#fff;white-space:nowrap}
.rulerag-context .gap{color:#57606a;font-style:italic}
.rulerag-context .role{font-size:.86rem;color:#1a5d45}
.rulerag-context .idle{color:#57606a}
.rulerag-context ul.legend{display:flex;flex-wrap:wrap;gap:.3rem 1rem;list-style:none;
margin:.4rem 0;padding:0;font-size:.9rem}
.rulerag-context summary{cursor:pointer;padding:.3rem 0}
@media print{.rulerag-context .text{max-height:none}}
</style>"""


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


@dataclass(frozen=True)
class Highlights:
    """Texts with their marks, a legend and a table that says the same.

    Args:
        title: what is seen.
        texts: in their order.
        note: how to read it.
        legend: kinds with what they stand for; of those that occur by default.
    """

    title: str
    texts: tuple[MarkedText, ...]
    note: str = ""
    legend: tuple[tuple[Kind, str], ...] = ()

    headings = ("document", "what it is", "words")

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """A row for each mark."""
        return tuple(
            (one.label, mark.tag or _WORDS[mark.kind], shortened(_of(one, mark), 160))
            for one in self.texts
            for mark in sorted(one.marks, key=lambda m: (m.start, -m.end))
        )

    def to_html(self) -> str:
        """A section of a page: legend, texts, and the table, folded."""
        marked = [one for one in self.texts if one.marks]
        idle = [one for one in self.texts if not one.marks]
        shown = self.texts if len(idle) <= _OPEN else marked
        cut = sum(len(one.text) for one in self.texts) > _LONG
        cards = "".join(_card(one, cut) for one in shown)
        if len(idle) > _OPEN:
            cards += (
                f"<details><summary>{len(idle)} documents without a mark</summary>"
                f"{''.join(_card(one, cut) for one in idle)}</details>"
            )
        if not self.texts:
            cards = "<p>There is no document.</p>"
        elif not marked:
            cards = f"<p>Nothing is marked in the documents.</p>{cards}"
        return (  # all texts are escaped where they are placed
            f'{_STYLE}<section class="rulerag-context" aria-label="{clean(self.title)}">'
            f"<p><strong>{clean(self.title)}</strong> {clean(self.note)}</p>{self._legend()}"
            f"{cards}{folded_table(self.headings, self.rows) if self.rows else ''}</section>"
        )

    def save(self, path: str | Path) -> Path:
        """Write a page of its own.

        Raises:
            ConfigError: the name does not end in ``.html``.
            OutputError: the file cannot be written.
        """
        path = Path(path)
        if path.suffix != ".html":
            what = f"marked texts are not written as {path.suffix or path.name!r}"
            raise ConfigError(what, key="path", hint="NAME.html; a browser prints it")
        write_text(path, page_around(self.title, self.to_html()))
        return path

    def _legend(self) -> str:
        kinds = {mark.kind: None for one in self.texts for mark in one.marks}
        told = self.legend or tuple((kind, _WORDS[kind]) for kind in _WORDS if kind in kinds)
        items = "".join(f"<li>{_wrapped(kind, clean(words))}</li>" for kind, words in told)
        return f'<ul class="legend" aria-label="legend">{items}</ul>' if told else ""

    def _repr_html_(self) -> str:
        return self.to_html()

    def __html__(self) -> str:
        """The same for templates, which escape other texts."""
        return self.to_html()


def _of(one: MarkedText, mark: Mark) -> str:
    return " ".join(one.text[mark.start : mark.end].split())


def _card(one: MarkedText, cut: bool) -> str:
    """A document with its marks."""
    where = f' id="{clean(one.anchor)}"' if one.anchor else ""
    name = clean(f"{one.label} {one.title}".strip())
    note = f'<span class="role{"" if one.marks else " idle"}">{clean(one.note)}</span>'
    inside = _layer(one, 0, len(one.text), 0, cut)
    return (
        f'<section class="card"{where} aria-label="document {clean(one.label)}">'
        f'<bdi><strong dir="auto">{name}</strong></bdi> {note if one.note else ""}'
        f'<div class="text" dir="auto" tabindex="0" role="group" '
        f'aria-label="text of {clean(one.label)}">{inside}</div></section>'
    )


def _layer(one: MarkedText, start: int, end: int, layer: int, cut: bool) -> str:
    """The text from ``start`` to ``end`` with its marks from one layer up."""
    if layer > 2:
        return _run(one.text[start:end], cut)
    parts, position = [], start
    for mark in _joined(mark for mark in one.marks if _LAYERS.get(mark.kind, 0) == layer):
        left, right = max(mark.start, position), min(mark.end, end)
        if left >= right:
            continue
        parts.append(_layer(one, position, left, layer + 1, cut))
        inside = _layer(one, left, right, layer + 1, cut)
        first = left == mark.start
        tag = f'<span class="tag">{clean(mark.tag)}</span>' if mark.tag and first else ""
        parts.append(_wrapped(mark.kind, tag + inside, mark.anchor if first else ""))
        position = right
    return "".join([*parts, _layer(one, position, end, layer + 1, cut)])


def _joined(marks: Iterable[Mark]) -> Sequence[Mark]:
    """The marks of one layer in order; keywords that overlap are one."""
    kept: list[Mark] = []
    for mark in sorted(marks, key=lambda one: (one.start, -one.end)):
        if kept and mark.kind == kept[-1].kind == "keyword" and mark.start < kept[-1].end:
            kept[-1] = Mark(kept[-1].start, max(kept[-1].end, mark.end), "keyword")
        else:
            kept.append(mark)
    return kept


def _wrapped(kind: str, inside: str, anchor: str = "") -> str:
    where = f' id="{clean(anchor)}"' if anchor else ""
    if kind == "keyword":
        return f"<strong{where}>{inside}</strong>"
    return f'<mark class="{kind}"{where}>{inside}</mark>'


def _run(text: str, cut: bool) -> str:
    """A run of text without a change; of very long ones both ends."""
    if not cut or len(text) <= _RUN:
        return str(clean(text))
    words = len(text[_ENDS:-_ENDS].split())
    gap = f'<span class="gap"> [… {words:,} words that are not shown …] </span>'
    return f"{clean(text[:_ENDS])}{gap}{clean(text[-_ENDS:])}"


def shaded(values: Sequence[float], errors: Sequence[float] | None = None) -> list[Mark | None]:
    """A mark for each of some numbers, by its share of all, as a scale; none where it is small.

    Args:
        values: what each text counts; below 0 it speaks against.
        errors: standard errors, told beside them.

    Returns:
        Marks whose ends are 0: they are for whole texts, which the caller knows.
    """
    total = sum(map(abs, values)) or 1.0
    scale = Scale(1 / max(2, len(values)))  # of one alone, all is more than an even share
    spread = errors or [0.0] * len(values)
    marks: list[Mark | None] = []
    for value, error in zip(values, spread, strict=True):
        shade = scale.shade(abs(value) / total)
        told = f"{value:.2f}" + (f" ± {error:.2f}" if error else "")
        kind: Kind = "against" if value < 0 else _SHADES[shade]
        marks.append(Mark(0, 0, kind, told) if shade else None)
    return marks


def scale_legend(values: Sequence[float]) -> tuple[tuple[Kind, str], ...]:
    """What the shades of :func:`shaded` stand for."""
    scale = Scale(1 / max(2, len(values)))
    told = [(_SHADES[shade], f"{words} of all that counts") for shade, words in scale.legend()]
    return (*told, *((("against", "speaks against it"),) if min(values, default=0) < 0 else ()))
