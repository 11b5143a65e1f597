"""What pictures show, that they are valid, alone and readable, and that their tables agree."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from rulerag.errors import ConfigError
from rulerag.explanation.views import (
    Link,
    Picture,
    bars_picture,
    lattice_picture,
    rule_flow_picture,
)

SVG = "{http://www.w3.org/2000/svg}"
SCRIPT = "<script>alert(1)</script> & “شجرة” 日本"


def values(count: int, sets: tuple[int, ...]) -> dict[int, bool]:
    return {mask: any(one & ~mask == 0 for one in sets) for mask in range(1 << count)}


def lattice(count: int = 4, outputs: Mapping[int, str] | None = None) -> Picture:
    names = [SCRIPT, *(f"Document {n}" for n in range(2, count + 1))]
    return lattice_picture(names, values(count, (1, 6)), [1, 6], outputs=outputs)


PICTURES: Mapping[str, Callable[[], Picture]] = {
    "lattice": lambda: lattice(4, {15: SCRIPT}),
    "lattice of twelve": lambda: lattice(12),
    "borders": lambda: lattice_picture(
        [SCRIPT] * 200, {(1 << 200) - 1: True, 0: False, 12: False}, [1 << 150, 3]
    ),
    "bars": lambda: bars_picture([SCRIPT] * 200, [n / 100 - 0.5 for n in range(200)]),
    "flow": lambda: rule_flow_picture(
        [SCRIPT],
        [SCRIPT] * 200,
        [SCRIPT],
        [Link(0, 0, "found"), Link(150, 0, "drives"), Link(3, 0, "against")],
    ),
}


@pytest.mark.parametrize("name", PICTURES)
def test_it_is_one_valid_file_that_fetches_nothing(name: str, tmp_path: Path) -> None:
    picture = PICTURES[name]()
    root = ET.fromstring(picture.svg)
    assert root.get("aria-label") == picture.title
    assert not list(root.iter(f"{SVG}script"))
    assert "url(" not in picture.svg and "<image" not in picture.svg
    fetched = [value for one in root.iter() for key, value in one.items() if key.endswith("href")]
    assert all(value.startswith("#") for value in fetched)
    assert len(picture.svg) < 500_000
    assert all(len(row) == len(picture.headings) for row in picture.rows) and picture.rows
    html = picture.to_html()
    assert "<script" not in html and html.count("<tr>") == len(picture.rows) + 1
    assert picture.save(tmp_path / "a.svg").read_text(encoding="utf-8") == picture.svg
    assert "<figure" in picture.save(tmp_path / "a.html").read_text(encoding="utf-8")
    with pytest.raises(ConfigError, match=r"\.gif"):
        picture.save(tmp_path / "a.gif")


@pytest.mark.parametrize("name", PICTURES)
def test_it_becomes_pixels(name: str, tmp_path: Path) -> None:
    pytest.importorskip("resvg_py")
    drawn = PICTURES[name]()
    pixels = drawn.save(tmp_path / "a.png").read_bytes()
    assert pixels[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(pixels[16:20], "big") == pytest.approx(2 * drawn.width, abs=2)


@pytest.mark.parametrize("name", PICTURES)
def test_nothing_is_drawn_outside(name: str) -> None:
    picture = PICTURES[name]()
    for one in ET.fromstring(picture.svg).iter():
        if one.tag in (f"{SVG}rect", f"{SVG}circle", f"{SVG}text", f"{SVG}use"):
            for key, most in (("x", picture.width), ("cx", picture.width), ("y", picture.height)):
                value = one.get(key)
                if value is not None and one.get("id") is None and picture.width > 0:
                    assert -9 <= float(value) <= most, (name, one.attrib)


def test_a_lattice_has_a_cell_for_each_subset_and_counts_them() -> None:
    known = values(4, (1, 6))
    del known[8], known[9]
    picture = lattice_picture(list("abcd"), known, [1, 6], outputs={15: "Paris"})
    assert [row[:4] for row in picture.rows] == [
        ("4", "1", "0", "0"),
        ("3", "4", "0", "0"),
        ("2", "3", "2", "1"),
        ("1", "1", "2", "1"),
        ("0", "0", "1", "0"),
    ]
    assert [row[4] for row in picture.rows] == ["–", "–", "b, c", "a", "–"]
    told = re.findall(r"<title>(.*?)</title>", picture.to_html())
    assert len(told) == 16 and sum(one.endswith("a minimal set") for one in told) == 2
    assert "kept: a, b, c, d: the claim is made, “Paris”" in told
    assert "kept: d: not asked" in told


def test_a_lattice_beyond_twelve_is_its_borders() -> None:
    names = [f"D{n}" for n in range(50)]
    asked = {(1 << 50) - 1: True, 1: True, 6: True, 4: False, 0: False, (1 << 40) | 8: False}
    picture = lattice_picture(names, asked, [1, 6])
    assert [row[1:] for row in picture.rows] == [
        ("1", "enough"),
        ("2", "enough"),
        ("2", "not enough"),
        ("1", "not enough"),
    ]
    assert picture.rows[0][0] == "D0" and picture.rows[1][0] == "D1, D2"
    assert "47 further documents" in picture.svg
    assert picture.note.startswith("6 of 2^50 subsets")


def test_bars_show_the_greatest_and_say_what_the_others_sum_to() -> None:
    picture = bars_picture(list("abcd"), [0.5, -0.25, 0.1, 0.05], errors=[0.1] * 4, most=2)
    assert [row[0] for row in picture.rows] == ["a", "c", "d", "b"]
    assert "2 further documents: 0.150 together" in picture.svg
    assert "speak against" in picture.note
    zero, both = re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', picture.svg)[-2:]
    assert float(zero[1]) == pytest.approx(2 * float(both[1]), abs=0.2)  # 0.5 and 0.25


def test_only_documents_with_a_claim_have_a_line_to_it() -> None:
    links = [Link(0, 0, "found"), Link(0, 2, "found"), Link(0, 0, "drives"), Link(1, 0, "against")]
    picture = rule_flow_picture(["r"], ["a", "b", "c"], ["claim"], links)
    assert ("c", "no claim rests on it", "") in picture.rows
    assert ("b", "speaks against it", "claim") in picture.rows
    assert len(re.findall("<path", picture.svg)) == 4
    assert "against the claim" in picture.note


@pytest.mark.parametrize(
    "made",
    [
        lambda: lattice_picture([], {}),
        lambda: lattice_picture(["a"], {2: True}),
        lambda: bars_picture(["a"], []),
        lambda: rule_flow_picture([], [], ["claim"], []),
        lambda: rule_flow_picture([], ["a"], ["claim"], [Link(1, 0, "drives")]),
    ],
)
def test_what_cannot_be_drawn_is_named(made: Callable[[], Picture]) -> None:
    with pytest.raises(ConfigError):
        made()


@pytest.mark.parametrize("name", PICTURES)
def test_a_terminal_shows_the_table_in_eighty_columns(name: str) -> None:
    picture = PICTURES[name]()
    shown = str(picture)
    lines = shown.splitlines()
    assert lines[0] == picture.title and max(map(cell_len, lines)) <= 80
    headings = "".join(shown.split())
    for heading in picture.headings:  # a narrow column breaks a heading, but loses no letter
        assert all(word in headings for word in heading.split())
    assert "\x1b" not in shown and "<script>" in shown
    numbers = [cell for row in picture.rows[:40] for cell in row if re.fullmatch(r"-?[\d.]+", cell)]
    assert all(number in shown for number in numbers)
    assert len(lines) < 200
    told = Console(width=80, file=StringIO(), record=True)
    told.print(picture)
    assert [line.rstrip() for line in told.export_text().rstrip().splitlines()] == lines
    assert (f"and {len(picture.rows) - 40} further rows" in lines) == (len(picture.rows) > 40)
