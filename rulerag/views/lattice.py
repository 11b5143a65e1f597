"""The lattice of kept sources: which subsets make the claim, which do not, which nobody asked.

Up to twelve sources every subset has a cell, a level for each number of sources kept (Rorseth et
al. 2025, arXiv:2510.22689, figure 2). Beyond, and from nine on a phone, no screen holds the
lattice: what is drawn is its borders, a column for each minimal set with a claim and each maximal
set without one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rulerag.errors import ConfigError
from rulerag.views.picture import WIDE, Picture, picture_of
from rulerag.views.svg import clean, cut, label, labels, wrapped

_WHOLE, _WHOLE_ON_PHONE, _LABELLED = 12, 8, 5
"""Most sources of which every subset has a cell, and whose cells are large enough to name them."""
_COLUMNS = 40
"""So many sets, and sources, of the borders are drawn."""
_LEGEND = {
    "yes": "the claim is made",
    "least": "minimal: enough, and nothing of it can go",
    "no": "it is not made",
    "unasked": "not asked",
}


@dataclass(frozen=True)
class _Lattice:
    """What is known of the subsets, as masks of the sources kept."""

    names: Sequence[str]
    values: Mapping[int, bool]
    minimal: frozenset[int]
    outputs: Mapping[int, str]

    def kind(self, mask: int) -> str:
        """A key of the legend."""
        if mask in self.minimal:
            return "least"
        return {True: "yes", False: "no", None: "unasked"}[self.values.get(mask)]

    def words(self, mask: int) -> str:
        """What is said of a cell where a mouse or the keyboard reaches it."""
        kind = self.kind(mask)
        text = f"kept: {self.named(mask)}: "
        text += f"{_LEGEND['yes']}, a minimal set" if kind == "least" else _LEGEND[kind]
        output = self.outputs.get(mask)
        return text if output is None else f"{text}, “{cut(output, 400)}”"

    def named(self, mask: int) -> str:
        """The sources of a subset."""
        return ", ".join(self.names[place] for place in _places(mask)) or "nothing"


def lattice_picture(
    names: Sequence[str],
    values: Mapping[int, bool],
    minimal: Collection[int] = (),
    *,
    outputs: Mapping[int, str] | None = None,
    title: str = "Which documents are enough",
) -> Picture:
    """Draw what is known of a lattice.

    Args:
        names: of the sources, in order.
        values: for each subset that was asked, as a mask of the sources kept, whether it held.
        minimal: the masks of the minimal sets that are enough.
        outputs: what was answered, by mask; said at the cells of up to five sources.
        title: of the picture.

    Raises:
        ConfigError: there is no source, or a mask names a source that is not there.
    """
    count = len(names)
    outside = [mask for mask in (*values, *minimal) if not 0 <= mask <= ((1 << count) - 1)]
    if not count or outside:
        wrong = f"the subset {outside[0]} is none of {count} sources" if outside else "no source"
        raise ConfigError(wrong, key="values" if outside else "names")
    known = _Lattice(names, values, frozenset(minimal), outputs or {})
    if count > _WHOLE:
        return _borders_picture(known, title)

    def draw(width: float) -> tuple[float, str]:
        if width < WIDE and count > _WHOLE_ON_PHONE:
            return _borders(known, *_border(known), width)
        return _whole(known, width)

    large = count <= _LABELLED
    note = "From all documents kept (top) to none (bottom); numbers are their places."
    if large:
        note += " Rest on a cell, or go there with Tab, and what was answered is said."
    elif count > _WHOLE_ON_PHONE:
        note += " On a phone only the borders are drawn: what is enough, and what just is not."
    headings = ("documents kept", "claim made", "not made", "not asked", "minimal sets")
    return picture_of(draw, title, headings, tuple(_level_rows(known)), note, live=large)


def _levels(count: int) -> Iterator[tuple[int, list[int]]]:
    """The subsets by how many sources they keep, all first."""
    levels: dict[int, list[int]] = {size: [] for size in range(count, -1, -1)}
    for mask in range(1 << count):
        levels[mask.bit_count()].append(mask)
    for size, masks in levels.items():
        yield size, sorted(masks, key=_places)


def _level_rows(known: _Lattice) -> Iterator[tuple[str, ...]]:
    for size, masks in _levels(len(known.names)):
        values = [known.values.get(mask) for mask in masks]
        counts = (str(values.count(one)) for one in (True, False, None))
        least = "; ".join(known.named(mask) for mask in masks if mask in known.minimal)
        yield str(size), *counts, least or "–"


def _whole(known: _Lattice, width: float) -> tuple[float, str]:
    """A cell for every subset; of few sources with their numbers, and lines between them."""
    large, left = len(known.names) <= _LABELLED, 86.0 if width >= WIDE else 48.0
    wide, high = (76.0 if width >= WIDE else 66.0, 46.0) if large else (18.0, 18.0)
    a_line = max(1, int((width - left - 10) / wide))
    places: dict[int, tuple[float, float]] = {}
    parts, top = [], 16.0
    for size, level in _levels(len(known.names)):
        parts.append(label(8, top + high / 2 + 4, f"{size} kept", "soft"))
        for first in range(0, len(level), a_line):
            line = level[first : first + a_line]
            start = left + (width - left - 10 - wide * len(line)) / 2
            for number, mask in enumerate(line):
                places[mask] = start + wide * (number + 0.5), top + high / 2
            top += high
        top += 22 if large else 8
    if not large:
        parts += [
            f'{_cell(*place, 6, 6, known.kind(mask))[:-2]} data-kept="{mask}">'
            f"<title>{_numbers(mask)}</title></path>"
            for mask, place in places.items()
        ]
        return _legend(parts, top + 6, width)
    parts += _edges(places, known.values)
    lines = 2 if width >= WIDE else 5
    foot = top + 16  # what is said of a cell stands here
    for mask, place in places.items():
        words = clean(known.words(mask))
        tip = labels(8, foot, wrapped(known.words(mask), width - 16, lines), "tip")
        tip = tip.replace("<text", '<text display="none"')
        upon = "upon" if known.kind(mask) in ("yes", "least") else "under"
        numbers = label(place[0], place[1] + 4, _numbers(mask), f"mid {upon}")
        parts.append(
            f'<g tabindex="0" role="img" data-kept="{mask}"><title>{words}</title>'
            f"{_cell(*place, 30, 14, known.kind(mask))}{numbers}{tip}</g>"
        )
    return _legend(parts, foot + 16 * lines - 8, width)


def _edges(places: Mapping[int, tuple[float, float]], values: Mapping[int, bool]) -> Iterable[str]:
    """Lines from each subset to those with one source fewer; strong where both hold."""
    for mask, (x, y) in places.items():
        for index in _places(mask):
            below = mask & ~(1 << index)
            to_x, to_y = places[below]
            kind = "strong" if values.get(mask) and values.get(below) else "axis"
            yield f'<path class="{kind}" d="M{x:.1f},{y:.1f} L{to_x:.1f},{to_y:.1f}"/>'


def _cell(x: float, y: float, half: float, high: float, kind: str) -> str:
    """Full where the claim is made, struck through where it is not, dotted where nobody asked."""
    shape = f"M{x - half:.4g},{y - high:.4g}h{2 * half:g}v{2 * high:g}h{-2 * half:g}z"
    strike = f"l{2 * half:g},{2 * high:g}" if kind == "no" else ""
    return f'<path class="{kind}" d="{shape}{strike}"/>'


def _legend(parts: list[str], top: float, width: float) -> tuple[float, str]:
    """The height and the elements, with the kinds of cells in words below them."""
    x = 16.0
    for kind, words in _LEGEND.items():
        wide = 46 + 6.5 * len(words)
        if x > 16 and x + wide > width:
            x, top = 16.0, top + 24
        parts += [_cell(x, top + 10, 8, 8, kind), label(x + 16, top + 14, words)]
        x += wide
    return top + 30, "".join(parts)


def _border(known: _Lattice) -> tuple[list[int], list[int]]:
    """The minimal sets that are enough, and the largest that were asked and are not."""
    maximal: list[int] = []
    for mask in sorted((m for m, holds in known.values.items() if not holds), key=_smaller_last):
        if len(maximal) < _COLUMNS and not any(mask & ~other == 0 for other in maximal):
            maximal.append(mask)
    return sorted(known.minimal, key=lambda mask: (mask.bit_count(), _places(mask))), maximal


def _borders_picture(known: _Lattice, title: str) -> Picture:
    least, maximal = _border(known)
    everything = (1 << len(known.names)) - 1
    rows = [(known.named(mask), str(mask.bit_count()), "enough") for mask in least]
    rows += [
        (f"all but {known.named(everything ^ mask)}", str(mask.bit_count()), "not enough")
        for mask in maximal
    ]
    note = f"{len(known.values):,} of 2^{len(known.names)} subsets were asked."
    if len(least) + len(maximal) > _COLUMNS:
        note += f" {_COLUMNS} sets at most are drawn."
    return picture_of(
        lambda width: _borders(known, least, maximal, width),
        title,
        ("documents kept", "how many", "the claim"),
        tuple(rows),
        note,
    )


def _borders(
    known: _Lattice, least: Sequence[int], maximal: Sequence[int], width: float
) -> tuple[float, str]:
    """A column for each minimal set and each maximal set without the claim; a row for a source."""
    left, row, top = (300.0 if width >= WIDE else 150.0), 22.0, 40.0
    most = min(_COLUMNS, int((width - left - 10) / 15))
    columns = [(mask, "in") for mask in least[:most]]
    columns += [(mask, "out") for mask in maximal[: max(0, most - len(columns))]]
    sources = sorted({place for mask in least for place in _places(mask)})[:_COLUMNS]
    wide = min(22.0, (width - left - 10) / max(1, len(columns)))
    parts = []
    for line, place in enumerate(sources):
        y, name = top + row * line, known.names[place]
        if line % 2 == 0:
            parts.append(f'<rect class="stripe" y="{y:.1f}" width="{width}" height="{row}"/>')
        parts.append(label(8, y + 15, cut(name, left - 24), tip=name))
        for column, (mask, kind) in enumerate(columns):
            inside = mask >> place & 1
            parts.append(
                f'<circle class="{kind if inside else "axis"}" r="{6 if inside else 2}" '
                f'cx="{left + wide * (column + 0.5):.1f}" cy="{y + row / 2:.1f}"/>'
            )
    enough = sum(kind == "in" for _, kind in columns)
    if enough:
        parts.append(label(left, 16, "enough", "bold"))
    if len(columns) > enough:
        words = "kept together and still not enough"
        x = min(left + wide * enough, width - 6.5 * len(words))
        parts.append(label(x, 32, words, "soft"))
    bottom = top + row * len(sources) + 24
    if rest := len(known.names) - len(sources):
        parts.append(
            label(8, bottom - 6, f"{rest} further documents are in no minimal set", "soft")
        )
    return bottom + 8, "".join(parts)


def _numbers(mask: int) -> str:
    return " ".join(str(place + 1) for place in _places(mask)) or "∅"


def _smaller_last(mask: int) -> int:
    return -mask.bit_count()


def _places(mask: int) -> tuple[int, ...]:
    """The places that a mask holds, ascending."""
    return tuple(place for place in range(mask.bit_length()) if mask >> place & 1)
