"""Columns of boxes with links between them: lines by their role, or bands as wide as their share.

From rules to documents to claims; from the sentences of an answer to documents; from how answers
began to how they ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rulerag.errors import ConfigError
from rulerag.views.picture import WIDE, Picture, picture_of
from rulerag.views.svg import clean, label, labels, wrapped

Role = Literal["found", "drives", "against", "share"]
_WORDS = {"found": "found", "drives": "is what it rests on", "against": "speaks against"}
_IDLE = 4
"""So many boxes without a link are drawn at most: they explain nothing."""
_BETWEEN, _TOP, _LINE = 12.0, 30.0, 16.0
_LINK, _MARKED, _FAINTEST = 4.0, 9.0, 0.1
"""Pixels that a line takes at its box, of a band that has room for a mark, of the thinnest band."""
_LEAST, _MOST, _EACH = 160.0, 480.0, 40.0
"""Pixels of all bands together: at least, at most, and for each box that they begin at."""


@dataclass(frozen=True)
class Node:
    """A box.

    Args:
        text: what it is.
        mark: a number or letter before the text, and on the bands that begin here.
        note: a line below the text, such as its share.
    """

    text: str
    mark: str = ""
    note: str = ""

    @property
    def name(self) -> str:
        """Mark and text."""
        return f"{self.mark} {self.text}".strip()


@dataclass(frozen=True)
class Link:
    """A link from a box to one of the next column.

    Args:
        column: the place of the column that it begins in.
        start: the place of the box there.
        end: the place of the box in the next column.
        role: ``found`` (thin), ``drives``, ``against`` (dashed), or ``share``, a band.
        size: of a band, how much it stands for.
        words: what the table says of it; by its role, or its size, where empty.
    """

    column: int
    start: int
    end: int
    role: Role
    size: float = 0.0
    words: str = ""


@dataclass
class _Box:
    """A box in its place on one width."""

    lines: list[str]
    note: str
    high: float
    top: float = 0.0

    @property
    def middle(self) -> float:
        return self.top + self.high / 2


def flow_picture(
    columns: Mapping[str, Sequence[Node]],
    links: Sequence[Link],
    *,
    title: str,
    note: str = "",
    most: int = 30,
    idle: str = "nothing goes on from it",
) -> Picture:
    """Draw two columns or three, and what links them.

    A box from which nothing goes on is dashed.

    Args:
        columns: by their headings, from left to right; an empty one is left out, but no other.
        links: between neighbouring columns.
        title: of the picture.
        note: how to read it.
        most: so many boxes of a column are drawn, those with most links first and few without
            any; the others are one box together.
        idle: what a dashed box means.

    Raises:
        ConfigError: there is nothing to draw, or a link ends nowhere.
    """
    shift = int(not next(iter(columns.values()), ()))
    heads = list(columns)[shift:]
    nodes = [list(column) for column in columns.values()][shift:]
    moved = [replace(link, column=link.column - shift) for link in links]
    if len(nodes) < 2 or not all(nodes):
        raise ConfigError("there is nothing to draw in a column", key="columns")
    for one in moved:
        ends = nodes[one.column : one.column + 2] if one.column >= 0 else []
        if len(ends) < 2 or not (0 <= one.start < len(ends[0]) and 0 <= one.end < len(ends[1])):
            raise ConfigError(f"{one} ends at something that is not there", key="links")
    rows = []
    for one in moved:
        start, end = nodes[one.column][one.start], nodes[one.column + 1][one.end]
        words = one.words or _WORDS.get(one.role, f"{one.size:g}")
        rows.append((start.name, words, end.name))
    nodes, moved = _fold(nodes, moved, most)
    starts = {(one.column, one.start) for one in moved}
    dashed = {
        (place, index)
        for place, column in enumerate(nodes[:-1])
        for index in range(len(column))
        if (place, index) not in starts
    }
    if dashed:
        note = f"Dashed boxes: {idle}. {note}".strip()
        rows += [(nodes[place][index].name, idle, "") for place, index in sorted(dashed)]
    if any(one.role == "against" for one in moved):
        note += " Dashed lines speak against the claim."
    return picture_of(
        lambda width: _drawing(heads, nodes, moved, dashed, width),
        title,
        ("from", "how", "to"),
        tuple(rows),
        note.strip(),
    )


def _fold(
    nodes: list[list[Node]], links: list[Link], most: int
) -> tuple[list[list[Node]], list[Link]]:
    """The boxes that are drawn, the others as one, and the links between them."""
    weights = [[0.0] * len(column) for column in nodes]
    for one in links:
        weight = one.size or 1.0
        weights[one.column][one.start] += weight
        weights[one.column + 1][one.end] += 0.0001 if one.role == "found" else weight
    columns, places = [], list[dict[int, int]]()
    for column, heavy in zip(nodes, weights, strict=True):
        ranked = sorted(range(len(column)), key=lambda place: -heavy[place])
        carrying = [place for place in ranked if heavy[place] >= 0.01]
        others = [place for place in ranked if heavy[place] < 0.01][:_IDLE]
        visible = sorted(carrying[:most] + others[: max(0, most - len(carrying))])
        rest = len(column) - len(visible)
        if rest == 1:  # a box for one is that one
            visible, rest = list(range(len(column))), 0
        where = {place: number for number, place in enumerate(visible)}
        places.append({place: where.get(place, len(visible)) for place in range(len(column))})
        others_together = [Node(f"{rest:,} others")] if rest else []
        columns.append([*(column[place] for place in visible), *others_together])
    joined: dict[tuple[int, int, int, Role], float] = {}
    for one in links:
        start, end = places[one.column][one.start], places[one.column + 1][one.end]
        key = one.column, start, end, one.role
        joined[key] = joined.get(key, 0.0) + one.size
    return columns, [Link(*key, size) for key, size in joined.items()]


def _drawing(
    heads: Sequence[str],
    nodes: Sequence[Sequence[Node]],
    links: Sequence[Link],
    dashed: set[tuple[int, int]],
    width: float,
) -> tuple[float, str]:
    """The height, and the elements."""
    gap = width * (0.2 if len(nodes) == 2 else 0.08)
    wide = (width - gap * (len(nodes) - 1)) / len(nodes)
    total = sum(one.size for one in links) / (len(nodes) - 1)
    unit = min(_MOST, max(_LEAST, _EACH * len(nodes[0]))) / (total or 1.0)

    def pixels(link: Link) -> float:
        return link.size * unit if link.role == "share" else _LINK

    sizes = [[[0.0, 0.0] for _ in column] for column in nodes]  # of what comes, of what goes
    for one in links:
        sizes[one.column][one.start][1] += pixels(one)
        sizes[one.column + 1][one.end][0] += pixels(one)
    most = 3 if width >= WIDE else 6
    boxes = [
        [_box(node, max(size), wide - 20, most) for node, size in zip(column, both, strict=True)]
        for column, both in zip(nodes, sizes, strict=True)
    ]
    height = max(sum(box.high + _BETWEEN for box in column) for column in boxes)
    for column in boxes:
        spare = (height - sum(box.high for box in column)) / len(column)
        top = _TOP + spare / 2
        for box in column:
            box.top, top = top, top + box.high + spare
    lines, marks = _links(nodes, links, boxes, sizes, pixels, (wide, gap))
    parts = [*lines]
    for place, column in enumerate(boxes):
        x = place * (wide + gap)
        edge = "first" if place == 0 else "last" if place == len(boxes) - 1 else ""
        parts.append(label(x + 2, 18, heads[place], "soft"))
        parts += [
            _boxed(box, x, wide, nodes[place][index].name, "idle" if idle else edge)
            for index, box in enumerate(column)
            for idle in [(place, index) in dashed]
        ]
    return _TOP + height, "".join([*parts, *marks])


def _box(node: Node, size: float, room: float, most: int) -> _Box:
    lines = wrapped(node.name, room, most)
    text = _LINE * (len(lines) + bool(node.note)) + 14
    return _Box(lines, node.note, max(size, text))


def _boxed(box: _Box, x: float, wide: float, name: str, edge: str) -> str:
    first = box.middle + 4 - _LINE / 2 * (len(box.lines) + bool(box.note) - 1)
    kind = "soft" if edge == "idle" else ""
    note = label(x + 10, first + _LINE * len(box.lines), box.note, "soft") if box.note else ""
    return (
        f'<g><title>{clean(name)}</title><rect class="box {edge}" x="{x + 1:.1f}" '
        f'y="{box.top:.1f}" width="{wide - 2:.1f}" height="{box.high:.1f}" rx="6"/>'
        f"{labels(x + 10, first, box.lines, kind)}{note}</g>"
    )


def _links(
    nodes: Sequence[Sequence[Node]],
    links: Sequence[Link],
    boxes: Sequence[Sequence[_Box]],
    sizes: Sequence[Sequence[Sequence[float]]],
    pixels: Callable[[Link], float],
    room: tuple[float, float],
) -> tuple[list[str], list[str]]:
    """The links, in the order of the boxes at both ends, and the marks upon bands."""
    wide, gap = room
    places: dict[tuple[Link, str], float] = {}
    for end, order in (("start", lambda one: one.end), ("end", lambda one: one.start)):
        used: dict[tuple[int, int], float] = {}
        for one in sorted(links, key=order):
            column, index = (one.column, one.start) if end == "start" else (one.column + 1, one.end)
            box, size = boxes[column][index], sizes[column][index][end == "start"]
            before = used.get((column, index), 0.0)
            places[one, end] = box.middle - size / 2 + before + pixels(one) / 2
            used[column, index] = before + pixels(one)
    lines, marks = [], []
    for one in sorted(links, key=lambda one: one.role != "found"):
        y, to_y, size = places[one, "start"], places[one, "end"], pixels(one)
        if size < _FAINTEST:
            continue
        x = one.column * (wide + gap) + wide
        middle, to_x = x + gap / 2, x + gap
        kind: str = one.role
        if one.role == "share":
            kind = f'band tone{one.start % 5}" stroke-width="{size:.2f}'
            if size >= _MARKED and (mark := nodes[one.column][one.start].mark):
                marks.append(label(to_x - 6, to_y + 4, mark, "bold end"))
        lines.append(
            f'<path class="{kind}" d="M{x:.1f},{y:.2f} C{middle:.1f},{y:.2f} '
            f'{middle:.1f},{to_y:.2f} {to_x:.1f},{to_y:.2f}"/>'
        )
    return lines, marks
