"""Marked texts: whole, marked where they should be, in shades that mean something."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from rulerag.views import Highlights, Kind, Mark, MarkedText, Scale, percent, shaded
from tests.outline import EVIL, Outline


def test_a_text_is_whole_in_runs_and_tags_stand_where_marks_begin() -> None:
    marks = (
        Mark(4, 8, "needed", "needed", "here"),
        Mark(0, 8, "enough", "enough alone"),
        Mark(7, 12, "keyword"),
        Mark(40, 50, "part", "beyond the end"),
    )
    runs = list(MarkedText("[1]", "", "One. Two. Three.", marks).runs())
    assert [(run.text, run.kinds, run.tags, run.anchor) for run in runs] == [
        ("One.", "enough", ("enough alone",), ""),
        (" Tw", "enough needed", ("needed",), "here"),
        ("o", "enough needed keyword", (), ""),
        (". Th", "keyword", (), ""),
        ("ree.", "", (), ""),
    ]


def test_of_a_long_text_what_counts_is_shown_and_gaps_are_said() -> None:
    text = "Rome is it. " + "Words that say little. " * 4_000
    made = Highlights("t", (MarkedText("[1]", "", text, (Mark(0, 11, "enough"),)),))
    outline = Outline(made.to_html())
    assert made.long and len(made.to_html()) < 30_000 and "Rome is it." in outline.text
    assert "words that are not shown" in outline.text
    short = Highlights("t", (MarkedText("[1]", "", text[:50_000]),))
    assert "".join(run.text for run in short.texts[0].runs(short.long)) == text[:50_000]


def test_texts_without_a_mark_are_folded_where_they_are_many() -> None:
    idle = tuple(MarkedText(f"[{n}]", "", f"Filler {n}.") for n in range(2, 7))
    marked = MarkedText("[1]", EVIL, f"Rome {EVIL}", (Mark(0, 4, "enough", EVIL),), EVIL)
    made = Highlights("t", (marked, *idle))
    outline = Outline(made.to_html())
    assert "5 documents without a mark" in outline.text and made.open_texts == (marked,)
    assert made.rows == (("[1]", EVIL, "Rome"),) and outline.classes["enough"] == 2
    assert Highlights("t", (marked, *idle[:3])).folded_texts == ()
    assert "There is no document" in Highlights("t", ()).to_html()
    assert "Nothing is marked" in Highlights("t", idle).to_html()


def test_a_terminal_shows_tags_beside_marks() -> None:
    out = StringIO()
    mark = Mark(0, 4, "shade2", "33 %")
    made = Highlights("Title", tuple(MarkedText(f"[{n}]", EVIL, "Rome.", (mark,)) for n in (1, 2)))
    Console(file=out, width=200, color_system=None).print(made)
    assert "[33 %] Rome." in out.getvalue() and "\x1b" not in out.getvalue()


def test_shades_begin_on_the_way_from_an_even_share_to_a_whole_one() -> None:
    scale = Scale(0.1, 0.5)
    assert scale.bounds == pytest.approx((0.14, 0.2, 0.3))
    kinds = [scale.kind(share) for share in (0.05, 0.13, 0.15, 0.21, 0.31, 1.0)]
    assert kinds == [None, None, "shade1", "shade2", "shade3", "shade3"]
    words = ("30 % and more", "20 % to 30 %", "14 % to 20 %")
    assert scale.legend() == tuple(zip(("shade3", "shade2", "shade1"), words, strict=True))
    assert Scale(0.5, 0.2).bounds == pytest.approx((0.55, 0.625, 0.75))
    assert Scale(1.0).kind(1.0) is None


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        ([1.0, 0.0], ["shade3", None]),
        ([0.6, -0.4, 0.0, 0.0], ["shade2", "against", None, None]),
        ([0.25] * 4, [None] * 4),
        ([0.0, 0.0], [None, None]),
        ([2.0], ["shade3"]),
    ],
)
def test_numbers_become_marks_by_their_share(values: list[float], kinds: list[Kind | None]) -> None:
    marks, legend = shaded(values, [0.1] * len(values))
    assert [mark.kind if mark else None for mark in marks] == kinds
    assert all("± 0.10" in mark.tag for mark in marks if mark)
    assert ("against" in dict(legend)) is (min(values) < 0) and bool(legend) is any(values)


@pytest.mark.parametrize(
    ("share", "words"),
    [(0, "0.0 %"), (0.0004, "below 0.1 %"), (0.034, "3.4 %"), (0.0999, "10 %"), (0.616, "62 %")],
)
def test_percentages(share: float, words: str) -> None:
    assert percent(share) == words
