"""The lattice of kept sources: which subsets make the claim, which do not, which nobody asked.

Up to twelve sources every subset has a cell, a level for each number of sources kept (Rorseth et
al. 2025, arXiv:2510.22689, figure 2). Beyond, no screen holds the lattice: what is drawn is its
borders, a column for each minimal set with a claim and each maximal set without one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from rulerag.errors import ConfigError
from rulerag.explanation.lattice import full_mask, indices_of
from rulerag.explanation.views.figure import (
    BLUE,
    LINE,
    ORANGE,
    PALE,
    SOFT,
    Picture,
    named,
    text_at,
)
from rulerag.explanation.views.svg import clean, cut, wrapped

MOST_WHOLE = 12
_LABELLED = 5
"""Up to so many sources each cell is large enough to name them."""
_MOST_COLUMNS = 40
_WIDTH = 900.0


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
        outputs: what was answered, by mask; told at the cells of up to five sources.
        title: of the picture.

    Raises:
        ConfigError: there is no source, or a mask names a source that is not there.
    """
    count = len(names)
    outside = [mask for mask in (*values, *minimal) if not 0 <= mask <= full_mask(count)]
    if not count or outside:
        wrong = f"the subset {outside[0]} is none of {count} sources" if outside else "no source"
        raise ConfigError(wrong, key="values" if outside else "names")
    if count > MOST_WHOLE:
        return _borders(names, values, minimal, title)
    return _whole(names, values, frozenset(minimal), outputs or {}, title)


def _whole(
    names: Sequence[str],
    values: Mapping[int, bool],
    minimal: frozenset[int],
    outputs: Mapping[int, str],
    title: str,
) -> Picture:
    count = len(names)
    levels: list[list[int]] = [[] for _ in range(count + 1)]
    for mask in range(1 << count):
        levels[mask.bit_count()].append(mask)
    large = count <= _LABELLED
    wide, high = (76.0, 46.0) if large else (18.0, 18.0)
    left = 86.0
    a_line = max(1, int((_WIDTH - left - 10) / wide))
    places: dict[int, tuple[float, float]] = {}
    parts, rows, top = [], [], 16.0
    for kept in range(count, -1, -1):
        level = sorted(levels[kept], key=indices_of)
        lines = [level[n : n + a_line] for n in range(0, len(level), a_line)]
        parts.append(text_at(8, top + high / 2 + 4, f"{kept} kept", "soft"))
        for line in lines:
            start = left + (_WIDTH - left - 10 - wide * len(line)) / 2
            for place, mask in enumerate(line):
                places[mask] = start + wide * (place + 0.5), top + high / 2
            top += high
        top += 22 if large else 8
        told = [values.get(mask) for mask in level]
        least = [named(indices_of(mask), names) for mask in level if mask in minimal]
        rows.append(
            (
                str(kept),
                *(str(told.count(one)) for one in (True, False, None)),
                "; ".join(least) or "–",
            )
        )
    if large:
        parts += _edges(places, values, count)
    else:
        parts += _small_cells(places, values, minimal)
    bottom = top + 6
    if large:
        bottom += 40  # what is told of a cell stands here
        parts += [
            _cell(m, p, values.get(m), m in minimal, names, outputs.get(m), bottom - 24)
            for m, p in places.items()
        ]
    top = _legend(parts, bottom)
    return Picture(
        title,
        _WIDTH,
        top,
        "".join(parts),
        ("documents kept", "claim made", "not made", "not asked", "minimal sets"),
        tuple(rows),
        "From all documents kept (top) to none (bottom); numbers are their places."
        + (
            " Rest on a cell, or go there with Tab, and what was answered is told." if large else ""
        ),
        live=large,
    )


def _edges(
    places: Mapping[int, tuple[float, float]], values: Mapping[int, bool], count: int
) -> Iterable[str]:
    """Lines from each subset to those with one source fewer; strong where both hold."""
    for mask, (x, y) in places.items():
        for index in indices_of(mask):
            below = mask & ~(1 << index)
            to_x, to_y = places[below]
            both = values.get(mask) and values.get(below)
            line = f'stroke="{BLUE}" stroke-width="2"' if both else f'stroke="{LINE}"'
            yield f'<path d="M{x:.1f},{y:.1f} L{to_x:.1f},{to_y:.1f}" fill="none" {line}/>'


def _cell(
    mask: int,
    place: tuple[float, float],
    holds: bool | None,
    is_minimal: bool,
    names: Sequence[str],
    output: str | None,
    foot: float,
) -> str:
    """A cell that a mouse or the keyboard reaches; what is told of it stands at ``foot``."""
    kept = named(indices_of(mask), names)
    told = "not asked" if holds is None else "the claim is made" if holds else "it is not made"
    tip = f"kept: {kept}: {told}" + (", a minimal set" if is_minimal else "")
    if output is not None:
        tip += f", “{cut(output, 400)}”"
    short = _numbers(mask) or "∅"
    lines = wrapped(tip, _WIDTH - 16, 2)
    told = "".join(text_at(8, foot + 16 * n, line, "tip") for n, line in enumerate(lines))
    told = told.replace("<text", '<text display="none"')
    return (
        f'<g tabindex="0" role="img" aria-label="{clean(tip)}">'
        f"{_box(*place, holds, is_minimal, 32, 14, tip)}"
        f'<text x="{place[0]:.1f}" y="{place[1] + 4:.1f}" class="mid" '
        f'style="pointer-events:none{";fill:#ffffff" if holds else ""}">{short}</text>{told}</g>'
    )


def _numbers(mask: int) -> str:
    return " ".join(str(index + 1) for index in indices_of(mask))


def _small_cells(
    places: Mapping[int, tuple[float, float]], values: Mapping[int, bool], minimal: Collection[int]
) -> Iterable[str]:
    """One short element a cell: there may be four thousand."""
    kinds = {(True, False): "m", (True, True): "l", (False, False): "n", (None, False): "u"}
    shapes = "".join(
        f'<g id="rulerag-cell-{name}">{_box(0, 0, holds, least, 6, 6, "")}</g>'
        for (holds, least), name in kinds.items()
    )
    yield f"<defs>{shapes}</defs>"
    for mask, (x, y) in places.items():
        kind = "l" if mask in minimal else kinds[values.get(mask), False]
        yield (
            f'<use href="#rulerag-cell-{kind}" x="{x:.0f}" y="{y:.0f}">'
            f"<title>{_numbers(mask) or 'none'}</title></use>"
        )


def _box(
    x: float, y: float, holds: bool | None, is_minimal: bool, half: float, high: float, tip: str
) -> str:
    """Full where the claim is made, struck through where it is not, dotted where nobody asked."""
    title = f"<title>{clean(tip)}</title>" if tip else ""
    fill = BLUE if holds else "#ffffff"
    edge = f'stroke="{ORANGE}" stroke-width="4"' if is_minimal else f'stroke="{SOFT}"'
    if holds is None:
        fill, edge = PALE, f'stroke="{LINE}" stroke-dasharray="2 2"'
    shape = (
        f'<rect x="{x - half:.1f}" y="{y - high:.1f}" width="{2 * half}" height="{2 * high}" '
        f'rx="{high if is_minimal else 3}" fill="{fill}" {edge}>{title}</rect>'
    )
    if holds is False:
        shape += (
            f'<path d="M{x - half:.1f},{y + high:.1f} L{x + half:.1f},{y - high:.1f}" '
            f'stroke="{LINE}" pointer-events="none"/>'
        )
    return shape


def _legend(parts: list[str], top: float) -> float:
    """The four kinds of cells in words; the height below them."""
    x = 16.0
    for text, holds, is_minimal in (
        ("the claim is made", True, False),
        ("minimal: enough, and nothing of it can go", True, True),
        ("it is not made", False, False),
        ("not asked", None, False),
    ):
        parts.append(_box(x, top + 10, holds, is_minimal, 8, 8, ""))
        parts.append(text_at(x + 16, top + 14, text))
        x += 46 + 6.5 * len(text)
    return top + 30


def _borders(
    names: Sequence[str], values: Mapping[int, bool], minimal: Collection[int], title: str
) -> Picture:
    """A column for each minimal set and each maximal set without the claim; a row for a source."""
    failed = [mask for mask, holds in values.items() if not holds]
    failed.sort(key=int.bit_count, reverse=True)
    maximal: list[int] = []
    for mask in failed:
        if len(maximal) == _MOST_COLUMNS:
            break
        if not any(mask & ~other == 0 for other in maximal):
            maximal.append(mask)
    least = sorted(minimal, key=lambda mask: (mask.bit_count(), indices_of(mask)))
    columns = [(mask, True) for mask in least[:_MOST_COLUMNS]]
    columns += [(mask, False) for mask in maximal[: max(0, _MOST_COLUMNS - len(columns))]]
    told = {index for mask in least for index in indices_of(mask)}
    shown = sorted(told)[:_MOST_COLUMNS]
    rest = len(names) - len(shown)
    left, row, top = 300.0, 22.0, 40.0
    wide = min(22.0, (_WIDTH - left - 10) / max(1, len(columns)))
    parts = []
    for place, index in enumerate(shown):
        y = top + row * place
        if place % 2 == 0:
            parts.append(f'<rect x="0" y="{y:.1f}" width="{_WIDTH}" height="{row}" fill="{PALE}"/>')
        parts.append(text_at(8, y + 15, cut(names[index], left - 24), tip=names[index]))
    for place, (mask, holds) in enumerate(columns):
        x = left + wide * (place + 0.5)
        for spot, index in enumerate(shown):
            inside = bool(mask >> index & 1)
            fill = (BLUE if holds else "#ffffff") if inside else "none"
            edge = (ORANGE if holds else SOFT) if inside else LINE
            parts.append(
                f'<circle cx="{x:.1f}" cy="{top + row * (spot + 0.5):.1f}" '
                f'r="{6 if inside else 2}" fill="{fill}" stroke="{edge}" '
                f'stroke-width="{2.5 if holds and inside else 1}"/>'
            )
    enough = sum(holds for _, holds in columns)
    if enough:
        parts.append(text_at(left, 16, "enough", "bold"))
    if len(columns) > enough:
        parts.append(
            text_at(left + wide * enough, 30, "kept together and still not enough", "soft")
        )
    bottom = top + row * len(shown) + 24
    note = f"{len(values):,} of 2^{len(names)} subsets were asked."
    if rest:
        parts.append(
            text_at(8, bottom - 6, f"{rest} further documents are in no minimal set", "soft")
        )
    if len(least) + len(maximal) > len(columns):
        note += f" {len(columns)} sets are drawn."
    rows = [(named(indices_of(mask), names), str(mask.bit_count()), "enough") for mask in least]
    rows += [
        (f"all but {named(_lacking(mask, len(names)), names)}", str(mask.bit_count()), "not enough")
        for mask in maximal
    ]
    headings = ("documents kept", "how many", "the claim")
    return Picture(title, _WIDTH, bottom + 8, "".join(parts), headings, tuple(rows), note)


def _lacking(mask: int, count: int) -> tuple[int, ...]:
    return indices_of(full_mask(count) ^ mask)
