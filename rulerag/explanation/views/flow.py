"""A Sankey diagram: bands from things on the left to things on the right, as wide as they count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from rulerag.arrays import Doubles
from rulerag.explanation.views.svg import clean, label, picture, wrapped

# Okabe and Ito 2008, the colours that colour-blind people tell apart; yellow is too pale for print.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#a8558a", "#b87f00", "#3b8fc2", "#2f6b5e")
_STYLE = """
.rulerag-sankey{background:#fff;font:12px system-ui,sans-serif}
.rulerag-sankey text{fill:#1b1f24}
.rulerag-sankey .head{font-weight:600;fill:#4a5560}
.rulerag-sankey .share{fill:#4a5560}
.rulerag-sankey .bar{fill:#4a5560}
.rulerag-sankey .rest{fill:#fff;stroke:#4a5560;stroke-dasharray:3 2}
.rulerag-sankey path{fill-opacity:.38;stroke-opacity:.9;stroke-width:.7}
.rulerag-sankey .mark{font-weight:600;font-size:11px;text-anchor:end}
.rulerag-sankey .mark{paint-order:stroke;stroke:#fff;stroke-width:3px}
"""
_LINE, _GAP, _BAR, _TOP = 15.0, 10.0, 8.0, 30.0
_UNIT, _TALLEST = 40.0, 480.0  # pixels of a flow of 1, and of all together at most
_MARKED = 9.0  # pixels of a band that has room for the number of where it begins
_FAINTEST = 0.1  # pixels of the thinnest band that is drawn


@dataclass(frozen=True)
class Node:
    """One end of bands.

    Args:
        mark: a number or letter for it.
        text: what it is.
        note: a line below it, such as its share.
        rest: whether it stands for several that are not drawn.
    """

    mark: str
    text: str
    note: str = ""
    rest: bool = False


def folded(flows: Doubles, most: int) -> tuple[list[int], Doubles]:
    """The columns that are drawn, in order, and the table with all others as one last column.

    Args:
        flows: shape (rows, columns), from 0.
        most: columns drawn at most.

    Returns:
        The columns that are kept, and a table of shape (rows, kept), or (rows, kept + 1) where
        some are not.
    """
    totals = flows.sum(axis=0)
    if flows.shape[1] <= most:
        return list(range(flows.shape[1])), flows
    order = sorted(range(len(totals)), key=lambda column: (-totals[column], column))
    kept = sorted(order[:most])
    return kept, np.column_stack([flows[:, kept], flows[:, sorted(order[most:])].sum(axis=1)])


def sankey(
    left: Sequence[Node],
    right: Sequence[Node],
    flows: Doubles,
    *,
    titles: tuple[str, str],
    caption: str,
    width: float = 960,
) -> Markup:
    """Bands from each left node to each right node; a node is as tall as what flows through it.

    Args:
        left: the rows.
        right: the columns.
        flows: shape (rows, columns), from 0; 1 is 40 pixels, or less where there is much.
        titles: headings of both sides.
        caption: what the picture shows, in words.
        width: in pixels; below 600 texts get less room than bands need.
    """
    total = float(flows.sum())
    flows = flows * min(_UNIT, _TALLEST / (total or 1.0))
    side = width * 0.365
    lines = 3 if width >= 600 else 4
    columns = [
        _column(nodes, sizes, side - _BAR - 8, lines)
        for nodes, sizes in ((left, flows.sum(axis=1)), (right, flows.sum(axis=0)))
    ]
    height = max(sum(end.slot for end in column) + _GAP * (len(column) - 1) for column in columns)
    for column in columns:
        _spread(column, height)
    start, end = side, width - side
    text = end + _BAR + 8
    parts = _bands(flows, columns[0], columns[1], (start, end))
    parts += [label(0, 14, titles[0], "head"), label(text, 14, titles[1], "head")]
    for column, x, text_x in ((columns[0], start - _BAR, 0.0), (columns[1], end, text)):
        for one in column:
            parts += _drawn(one, x, text_x)
    return picture("rulerag-sankey", width, height + _TOP + 6, caption, parts, style=_STYLE)


@dataclass
class _End:
    """A node in its place: the lines of its text, its bar, and the room that both take."""

    node: Node
    lines: list[str]
    size: float
    slot: float
    top: float = 0.0

    @property
    def bar(self) -> float:
        return self.top + (self.slot - self.size) / 2


def _column(nodes: Sequence[Node], sizes: Doubles, room: float, lines: int) -> list[_End]:
    ends = []
    for node, size in zip(nodes, sizes.tolist(), strict=True):
        rows = wrapped(f"{node.mark} {node.text}".strip(), room, lines)
        count = len(rows) + bool(node.note)
        ends.append(_End(node, rows, size, max(size, _LINE * count)))
    return ends


def _spread(column: Sequence[_End], height: float) -> None:
    """Put the nodes of one side under each other, over the whole height."""
    spare = height - sum(one.slot for one in column)
    gap = spare / (len(column) - 1) if len(column) > 1 else 0.0
    top = _TOP + (spare / 2 if len(column) == 1 else 0.0)
    for one in column:
        one.top = top
        top += one.slot + gap


def _drawn(one: _End, x: float, text_x: float) -> list[str]:
    """The bar of a node, and its text."""
    count = len(one.lines) + bool(one.node.note)
    first = one.top + (one.slot - _LINE * count) / 2 + 11
    kind = "rest" if one.node.rest else "bar"
    parts = [
        f'<rect class="{kind}" x="{x:.1f}" y="{one.bar:.1f}" width="{_BAR}" '
        f'height="{max(one.size, 1):.1f}"><title>{clean(one.node.text)}</title></rect>'
    ]
    parts += [label(text_x, first + _LINE * n, row) for n, row in enumerate(one.lines)]
    if one.node.note:
        parts.append(label(text_x, first + _LINE * len(one.lines), one.node.note, "share"))
    return parts


def _bands(
    flows: Doubles, left: Sequence[_End], right: Sequence[_End], edges: tuple[float, float]
) -> list[str]:
    """The bands, and on those that are wide enough the mark of where they come from."""
    out, into = [one.bar for one in left], [one.bar for one in right]
    start, end = edges
    middle = (start + end) / 2
    bands, marks = [], []
    for row, source in enumerate(left):
        colour = "#8a939c" if source.node.rest else _COLOURS[row % len(_COLOURS)]
        for column in range(len(right)):
            size = float(flows[row, column])
            a, b = out[row], into[column]
            c, d = a + size, b + size
            out[row], into[column] = c, d
            if size < _FAINTEST:
                continue
            curve = (
                f"M{start:.1f},{a:.2f} "
                f"C{middle:.1f},{a:.2f} {middle:.1f},{b:.2f} {end:.1f},{b:.2f} V{d:.2f} "
                f"C{middle:.1f},{d:.2f} {middle:.1f},{c:.2f} {start:.1f},{c:.2f} Z"
            )
            edge = f' stroke="{colour}"' if size >= 1 else ""
            bands.append(f'<path d="{curve}" fill="{colour}"{edge}/>')
            if size >= _MARKED:
                at = f'x="{end - 5:.1f}" y="{b + size / 2 + 4:.1f}"'
                marks.append(f'<text class="mark" {at}>{clean(source.node.mark)}</text>')
    return bands + marks
