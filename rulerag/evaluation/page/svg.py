"""Small drawings for the report, as inline SVG: evidence flow, recall curves, confidence marks.

Colours and fonts come from the page's style sheet by class, so that light and dark pages share
one drawing. Every text is escaped here.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from rulerag.explanation.records import document_of
from rulerag.explanation.views import cut, picture

# Columns of the evidence flow in pixels: left edge and width.
_RULES, _DOCUMENTS, _ANSWER = (0, 318), (392, 428), (892, 148)
_WIDTH, _HEIGHT, _GAP = 1040, 50, 10
_CHARACTER = 6.5  # of 12-pixel text, on the wide side: nothing may run over its box


@dataclass(frozen=True)
class _Box:
    left: float
    top: float
    width: float
    height: float = _HEIGHT

    @property
    def exit(self) -> tuple[float, float]:
        return self.left + self.width, self.top + self.height / 2

    @property
    def entry(self) -> tuple[float, float]:
        return self.left, self.top + self.height / 2


def evidence_flow(explanation: Mapping[str, Any]) -> Markup:
    """Which rule found which document, and which documents the answer needs.

    Args:
        explanation: an object of ``explanations.jsonl``.
    """
    documents = explanation["documents"]
    rules = _boxed_rules(explanation)
    rows = max(len(documents), len(rules), 2)
    height = rows * (_HEIGHT + _GAP) + 24
    rule_boxes = dict(zip(rules, _stack(len(rules), _RULES, height), strict=True))
    document_boxes = _stack(len(documents), _DOCUMENTS, height)
    answer_box = _Box(_ANSWER[0], (height + 24) / 2 - 42, _ANSWER[1], 84)
    role_of = document_roles(explanation)
    roles = [role_of[document["alias"]] for document in documents]
    parts: list[str] = []
    for document, box, role in sorted(
        zip(documents, document_boxes, roles, strict=True), key=lambda item: _ORDER[item[2]]
    ):
        for hit in document["found_by"]:
            tip = f"{hit['rule'] or 'the question'} → {document['alias']}: rank {hit['rank']}"
            tip += f", score {hit['score']:.4g}"
            parts.append(_edge(rule_boxes[hit["rule"]].exit, box.entry, f"found {role}", tip))
        parts.append(_edge(box.exit, answer_box.entry, f"read {role}", _ROLE_TIPS[role]))
    parts += [_heading(_RULES, "found by"), _heading(_DOCUMENTS, "documents")]
    parts.append(_heading(_ANSWER, "answer"))
    for alias, box in rule_boxes.items():
        lines = _rule_lines(rules[alias])
        parts.append(_box(box, "rule" if alias else "question", alias or "Q", lines))
    for document, box, role in zip(documents, document_boxes, roles, strict=True):
        lines = _wrap(document["text"], box.width, 2)
        parts.append(_box(box, f"document {role}", document["alias"], lines, document["text"]))
    parts.append(_answer(answer_box, explanation["answer"]))
    label = f"Evidence for the answer {explanation['answer'] or '(none)'}"
    return picture("flow", _WIDTH, height, label, parts)


_ORDER = {"unused": 0, "removable": 1, "supporting": 2}
_ROLE_TIPS = {
    "unused": "the answer does not depend on this document",
    "removable": "stands in a minimal omission rule",
    "supporting": "stands in a minimal retention rule",
}


def _boxed_rules(explanation: Mapping[str, Any]) -> dict[str | None, str]:
    """What found documents: rules by their short name, then the question alone (None)."""
    rules: dict[str | None, str] = {rule["alias"]: rule["text"] for rule in explanation["rules"]}
    hits = [hit["rule"] for document in explanation["documents"] for hit in document["found_by"]]
    for rule in hits:
        if rule is not None:
            rules.setdefault(rule, "a rule that is not among the guiding rules")
    if None in hits:
        rules[None] = "the question alone"
    return rules


def document_roles(explanation: Mapping[str, Any]) -> dict[str, str]:
    """What each document does, by its short name: ``supporting``, ``removable`` or ``unused``.

    Sentences and words count for the document that they are in; rules that were not shown to
    hold count for nothing.

    Args:
        explanation: an object of ``explanations.jsonl``.
    """
    roles = {document["alias"]: "unused" for document in explanation["documents"]}
    for kind, role in (("omission", "removable"), ("retention", "supporting")):
        for rule in explanation["certificates"][kind]:
            if rule["kind"] in ("exact", "certified"):
                shown = {document_of(name) for name in rule["names"]}
                roles |= dict.fromkeys(shown & roles.keys(), role)
    return roles


def _stack(count: int, column: tuple[int, int], height: float) -> list[_Box]:
    """Boxes one under the other, centred below the headings."""
    needed = count * (_HEIGHT + _GAP) - _GAP
    top = 24 + (height - 24 - needed) / 2
    return [_Box(column[0], top + n * (_HEIGHT + _GAP), column[1]) for n in range(count)]


def _rule_lines(text: str) -> list[str]:
    body, leads, head = text.partition(" leads to ")
    plain = [_bare(body), f"→ {_bare(head)}"] if leads else _wrap(text, _RULES[1], 2)
    return [cut(line, _RULES[1] - 56) for line in plain]


def _bare(atoms: str) -> str:
    return atoms.replace("] and [", " ∧ ").strip("[]").replace(", ", " ")


def _wrap(text: str, width: float, lines: int) -> list[str]:
    most = int((width - 56) / _CHARACTER)
    return textwrap.wrap(text, most, max_lines=lines, placeholder="…") or [""]


def _edge(start: tuple[float, float], end: tuple[float, float], kind: str, tip: str) -> str:
    middle = (start[0] + end[0]) / 2
    curve = f"M{start[0]:.1f},{start[1]:.1f} C{middle:.1f},{start[1]:.1f} "
    curve += f"{middle:.1f},{end[1]:.1f} {end[0]:.1f},{end[1]:.1f}"
    return f'<path class="edge {kind}" d="{curve}"><title>{escape(tip)}</title></path>'


def _heading(column: tuple[int, int], text: str) -> str:
    return f'<text class="heading" x="{column[0]}" y="12">{escape(text)}</text>'


def _box(box: _Box, kind: str, alias: str, lines: Sequence[str], tip: str = "") -> str:
    first = box.top + box.height / 2 + 4 - 8 * (len(lines) - 1)
    texts = "".join(
        f'<text x="{box.left + 48}" y="{first + 16 * n:.1f}">{escape(line)}</text>'
        for n, line in enumerate(lines)
    )
    title = f"<title>{escape(tip)}</title>" if tip else ""
    return (
        f'<g class="box {kind}">{title}<rect x="{box.left + 0.5}" y="{box.top:.1f}" '
        f'width="{box.width - 1}" height="{box.height}" rx="8"/>'
        f'<text class="alias" x="{box.left + 12}" y="{box.top + box.height / 2 + 4:.1f}">'
        f"{escape(alias[:4])}</text>{texts}</g>"
    )


def _answer(box: _Box, answer: str) -> str:
    lines = textwrap.wrap(answer or "(none)", 13, max_lines=3, placeholder="…")
    middle, first = box.left + box.width / 2, box.top + box.height / 2 + 5 - 10 * (len(lines) - 1)
    texts = "".join(
        f'<text x="{middle}" y="{first + 20 * n:.1f}">{escape(line)}</text>'
        for n, line in enumerate(lines)
    )
    return (
        f'<g class="box answer"><rect x="{box.left}" y="{box.top:.1f}" width="{box.width - 1}" '
        f'height="{box.height}" rx="10"/>{texts}</g>'
    )


def recall_curves(series: Mapping[str, Sequence[tuple[int, float]]]) -> Markup:
    """Answer recall against the number of documents, one line a method, each named at its end.

    Args:
        series: method → ``(k, recall)`` by growing k; recall in [0, 1].
    """
    left, right, top, bottom = 40.0, 560.0, 14.0, 236.0
    cutoffs = sorted({k for points in series.values() for k, _ in points})
    most = max((value for points in series.values() for _, value in points), default=0.0)
    tick = next((t for t in (0.02, 0.05, 0.1, 0.2) if 5 * t >= most), 0.25)
    lines = max(1, math.ceil(round(most / tick, 9)))
    ceiling = lines * tick
    step = (right - left) / max(1, len(cutoffs) - 1)

    def place(k: int, value: float) -> tuple[float, float]:
        return left + step * cutoffs.index(k), bottom - (bottom - top) * value / ceiling

    parts = []
    for line in range(lines + 1):
        y = place(cutoffs[0], line * tick)[1]
        parts.append(f'<path class="grid" d="M{left},{y:.1f} H{right}"/>')
        text = f"{100 * line * tick:.0f}"
        parts.append(f'<text class="tick end" x="{left - 8}" y="{y + 4:.1f}">{text}</text>')
    for k in cutoffs:
        parts.append(
            f'<text class="tick mid" x="{place(k, 0)[0]:.1f}" y="{bottom + 18}">{k}</text>'
        )
    parts.append(
        f'<text class="tick mid" x="{(left + right) / 2}" y="{bottom + 36}">documents (k)</text>'
    )
    ends = []
    for number, (name, points) in enumerate(series.items()):
        spots = [place(k, value) for k, value in points]
        path = " L".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        parts.append(f'<path class="curve s{number % 6}" d="M{path}"/>')
        parts += [
            f'<circle class="s{number % 6}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in spots
        ]
        ends.append((spots[-1][1], number, f"{cut(name, 300)}  {100 * points[-1][1]:.1f}"))
    lowest = top - 14
    for y, number, label in sorted(ends):
        lowest = max(y + 4, lowest + 16)  # labels keep apart, in the order of their lines
        place_of = f'x="{right + 12}" y="{lowest:.1f}"'
        parts.append(f'<text class="name s{number % 6}" {place_of}>{escape(label)}</text>')
    height = max(bottom + 44, lowest + 10)
    return picture("curves", 900, height, "Answer recall at k, per cent", parts)


def confidence_mark(planted: float | None, mined: float | None) -> Markup:
    """A scale from 0 to 1 with the planted confidence as a line and the mined one as a dot."""
    width = 120
    parts = [f'<path class="grid" d="M4,10 H{width - 4}"/>']
    if planted is not None:
        x = 4 + (width - 8) * planted
        parts.append(f'<path class="planted" d="M{x:.1f},3 V17"/>')
    if mined is not None:
        x = 4 + (width - 8) * mined
        parts.append(f'<circle class="mined" cx="{x:.1f}" cy="10" r="4.5"/>')
    told = [f"{n} {v:.3f}" for n, v in (("planted", planted), ("mined", mined)) if v is not None]
    return picture("scale", width, 20, ", ".join(told) or "unknown", parts)
