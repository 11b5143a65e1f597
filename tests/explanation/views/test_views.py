"""What pictures are made of: shades, text that fits, bands that carry all that flows."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from rulerag.explanation.views import (
    Node,
    Scale,
    cut,
    folded,
    label,
    percent,
    pieces,
    sankey,
    standalone,
    wrapped,
)
from rulerag.explanation.views.svg import text_width


def test_shades_begin_on_the_way_from_an_even_share_to_a_whole_one() -> None:
    scale = Scale(0.1, 0.5)
    assert scale.bounds == pytest.approx((0.14, 0.2, 0.3))
    shades = [scale.shade(share) for share in (0.05, 0.1, 0.13, 0.15, 0.21, 0.31, 1.0)]
    assert shades == [0, 0, 0, 1, 2, 3, 3]
    assert scale.legend() == [(3, "30 % and more"), (2, "20 % to 30 %"), (1, "14 % to 20 %")]


def test_of_few_parts_a_whole_share_is_more_than_an_even_one() -> None:
    assert Scale(0.5, 0.2).bounds == pytest.approx((0.55, 0.625, 0.75))
    assert Scale(0.25, 0.2).bounds == pytest.approx((0.275, 0.3125, 0.375))
    assert Scale(1.0).shade(1.0) == 0


@pytest.mark.parametrize(
    ("share", "told"),
    [(0, "0.0 %"), (0.0004, "below 0.1 %"), (0.034, "3.4 %"), (0.0999, "10 %"), (0.616, "62 %")],
)
def test_percentages(share: float, told: str) -> None:
    assert percent(share) == told


def test_pieces_are_the_whole_text_in_order() -> None:
    found = list(pieces("One. Two. End", [(0, 4), (5, 9)]))
    assert found == [("One.", 0), (" ", None), ("Two.", 1), (" End", None)]


def test_no_line_is_wider_than_its_room() -> None:
    texts = [
        "a few words that go on",
        "東京は日本の首都です大阪は大都市です",
        "x" * 90,
        "",
        "a\tb\nc",
    ]
    for text in texts:
        for width in (60, 130):
            lines = wrapped(text, width, 3)
            assert 1 <= len(lines) <= 3
            assert all(text_width(line) <= width for line in lines)
            assert text_width(cut(text, width)) <= width
    assert wrapped("one two three four", 60, 2) == ["one two", "three…"]
    assert wrapped("one two", 60, 1) == ["one two"]


def test_a_label_is_escaped_and_runs_as_its_script_does() -> None:
    assert 'direction="rtl" text-anchor="end"' in label(0, 0, "1 القاهرة")
    assert "direction" not in label(0, 0, "1 Cairo القاهرة")
    assert "&lt;b&gt;\ufffd" in label(0, 0, "<b>\x07")


def test_what_is_folded_is_not_lost() -> None:
    flows = np.array([[0.5, 0.1, 0.3, 0.1], [0.0, 0.2, 0.0, 0.8]])
    kept, table = folded(flows, 2)
    assert kept == [0, 3]
    np.testing.assert_allclose(table, [[0.5, 0.1, 0.4], [0.0, 0.8, 0.2]])
    assert folded(flows, 4)[0] == [0, 1, 2, 3]


@pytest.mark.parametrize("width", [350, 960])
def test_bands_are_as_wide_as_what_flows_and_stay_inside(width: int) -> None:
    flows = np.array([[0.75, 0.25], [0.0, 1.0]])
    left = [Node("1", "first & <b>best</b>"), Node("2", "القاهرة عاصمة مصر")]
    right = [Node("[1]", "Atlas", "38 %"), Node("", "198 other documents", "62 %", rest=True)]
    drawing = sankey(left, right, flows, titles=("answer", "documents"), caption="C", width=width)
    root = ElementTree.fromstring(standalone(drawing))
    space = "{http://www.w3.org/2000/svg}"
    bars = [float(bar.attrib["height"]) for bar in root.iter(f"{space}rect")]
    assert bars == [40, 40, 30, 50]
    bands = [path.attrib["d"] for path in root.iter(f"{space}path")]
    assert len(bands) == 3  # nothing flows from 2 to [1]
    numbers = [float(n) for band in bands for n in re.findall(r"-?\d+\.\d+", band)]
    assert min(numbers) >= 0 and max(numbers) <= max(width, float(root.attrib["height"]))
    told = " ".join(root.itertext())
    assert "first & <b>best</b>" in told and "198 other documents" in told and "62 %" in told
    assert root.attrib["aria-label"] == "C" and root.attrib["role"] == "img"
