"""From mined rule to document to claim: what found which document, and what each claim rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rulerag.errors import ConfigError
from rulerag.explanation.views.figure import BLUE, GREEN, LINE, RED, SOFT, Picture, text_at
from rulerag.explanation.views.svg import clean, wrapped

Role = Literal["found", "drives", "against"]
_LINES: Mapping[str, str] = {
    "found": f'stroke="{SOFT}" stroke-width="1.5"',
    "drives": f'stroke="{GREEN}" stroke-width="3"',
    "against": f'stroke="{RED}" stroke-width="3" stroke-dasharray="7 4"',
}
_WORDS = {"found": "found by", "drives": "the claim rests on it", "against": "speaks against it"}
_IDLE = 4
"""So many documents are drawn at most that no claim rests on: they explain nothing."""
_BETWEEN = 12.0


@dataclass(frozen=True)
class _Size:
    """Pixels of a column, between columns and of a box, and lines in it."""

    column: float
    gap: float
    box: float
    lines: int


_WIDE, _NARROW = _Size(300, 60, 52, 2), _Size(158, 32, 68, 3)


@dataclass(frozen=True)
class Link:
    """A line of the picture.

    Args:
        start: the place of a rule (``found``) or of a document.
        end: the place of a document (``found``) or of a claim.
        role: ``found`` from rule to document; ``drives`` or ``against`` from document to claim.
    """

    start: int
    end: int
    role: Role


def rule_flow_picture(
    rules: Sequence[str],
    documents: Sequence[str],
    claims: Sequence[str],
    links: Sequence[Link],
    *,
    title: str = "From rule to document to claim",
    most: int = 30,
) -> Picture:
    """Draw what found the documents and what the claims rest on.

    A document without a line to a claim is drawn pale, and has none: it contributed nothing.

    Args:
        rules: in words; may be empty.
        documents: titles or texts.
        claims: in words.
        links: lines between them.
        title: of the picture.
        most: so many documents are drawn, those with a line to a claim first and few of the others;
            the note counts the rest.

    Raises:
        ConfigError: a link ends nowhere, or there is no document or no claim.
    """
    _check(rules, documents, claims, links)
    parts = rules, documents, claims, links
    wide = _flow(*parts, title, most, _WIDE)
    # Three columns do not fit on a phone.
    return wide if rules else replace(wide, narrow=_flow(*parts, title, most, _NARROW))


def _flow(
    rules: Sequence[str],
    documents: Sequence[str],
    claims: Sequence[str],
    links: Sequence[Link],
    title: str,
    most: int,
    size: _Size,
) -> Picture:
    used = {link.start for link in links if link.role != "found"}
    met = {link.end for link in links if link.role == "found"}
    ranked = sorted(range(len(documents)), key=lambda n: (n not in used, n not in met, n))
    kept = sorted(ranked[: min(most, max(_IDLE, len(used) + _IDLE))])
    columns = [rules, [documents[n] for n in kept], claims] if rules else None
    columns = columns or [[documents[n] for n in kept], claims]
    heads = ["rules", "documents", "claims"][-len(columns) :]
    rows = max(len(column) for column in columns)
    height = 34 + rows * (size.box + _BETWEEN)
    width = len(columns) * size.column + (len(columns) - 1) * size.gap
    tops = [34 + (height - 34 - len(column) * (size.box + _BETWEEN)) / 2 for column in columns]

    def entry(column: int, place: int) -> tuple[float, float]:
        left = column * (size.column + size.gap)
        return left, tops[column] + place * (size.box + _BETWEEN) + size.box / 2

    shift, at = len(columns) - 2, {index: place for place, index in enumerate(kept)}
    lines, rows_of_table = [], []
    for link in sorted(links, key=lambda one: one.role != "found"):
        found = link.role == "found"
        document = link.end if found else link.start
        other, text = (rules, link.start) if found else (claims, link.end)
        rows_of_table.append((documents[document], _WORDS[link.role], other[text]))
        if document not in at:
            continue
        if found:
            (x, y), end = entry(0, link.start), entry(shift, at[document])
        else:
            (x, y), end = entry(shift, at[document]), entry(shift + 1, link.end)
        x += size.column
        middle = (x + end[0]) / 2
        lines.append(
            f'<path d="M{x:.1f},{y:.1f} C{middle:.1f},{y:.1f} {middle:.1f},{end[1]:.1f} '
            f'{end[0]:.1f},{end[1]:.1f}" fill="none" {_LINES[link.role]}/>'
        )
    boxes = []
    for column, texts in enumerate(columns):
        boxes.append(text_at(entry(column, 0)[0] + 2, 20, heads[column], "soft"))
        for place, words in enumerate(texts):
            pale = heads[column] == "documents" and kept[place] not in used
            boxes.append(_boxed(*entry(column, place), words, heads[column], pale, size))
    note = "Dashed lines speak against the claim. " if "against" in _roles(links) else ""
    if len(kept) < len(documents):
        rest = len(documents) - len(kept)
        idle_too = "" if used - set(kept) else ": no claim rests on them"
        note += f"{rest} further documents are not drawn{idle_too}."
    if any(n not in used for n in kept):
        note = f"No claim rests on a document in a dashed box. {note}"
    idle = [(documents[n], "no claim rests on it", "") for n in kept if n not in used]
    headings = ("document", "how", "rule or claim")
    drawn = "".join(lines + boxes)
    return Picture(title, width, height, drawn, headings, (*rows_of_table, *idle), note)


def _roles(links: Sequence[Link]) -> set[str]:
    return {link.role for link in links}


def _check(
    rules: Sequence[str], documents: Sequence[str], claims: Sequence[str], links: Sequence[Link]
) -> None:
    if not documents or not claims:
        raise ConfigError("there is no document or no claim to draw", key="documents")
    for link in links:
        first, second = (rules, documents) if link.role == "found" else (documents, claims)
        if not (0 <= link.start < len(first) and 0 <= link.end < len(second)):
            raise ConfigError(f"{link} ends at something that is not there", key="links")


def _boxed(x: float, y: float, text: str, kind: str, pale: bool, size: _Size) -> str:
    edge = {"rules": BLUE, "documents": SOFT, "claims": GREEN}[kind]
    dash = ""
    if pale:
        edge, dash = LINE, ' stroke-dasharray="3 3"'
    lines = wrapped(text, size.column - 24, size.lines)
    first = y + 4 - 8 * (len(lines) - 1)
    kind = "soft" if pale else ""
    texts = "".join(text_at(x + 12, first + 16 * n, line, kind) for n, line in enumerate(lines))
    return (
        f'<g><title>{clean(text)}</title><rect x="{x + 1:.1f}" y="{y - size.box / 2:.1f}" '
        f'width="{size.column - 2}" height="{size.box}" '
        f'rx="{16 if edge == GREEN else 6}" fill="#ffffff" '
        f'stroke="{edge}"{dash} stroke-width="1.5"/>{texts}</g>'
    )
