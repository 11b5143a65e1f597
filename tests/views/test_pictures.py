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
from rulerag.views import Link, Node, Picture, bars_picture, flow_picture, lattice_picture
from rulerag.views.svg import cut, label, text_width, wrapped
from tests.outline import EVIL, Outline

SVG = "{http://www.w3.org/2000/svg}"
STRANGE = f"{EVIL} “شجرة” 日本"


def values(count: int, sets: tuple[int, ...]) -> dict[int, bool]:
    return {mask: any(one & ~mask == 0 for one in sets) for mask in range(1 << count)}


def lattice(count: int, outputs: Mapping[int, str] | None = None) -> Picture:
    names = [STRANGE, *(f"Document {n}" for n in range(2, count + 1))]
    return lattice_picture(names, values(count, (1, 6)), [1, 6], outputs=outputs)


def flow(documents: int, *links: Link) -> Picture:
    columns = {
        "rules": [Node(STRANGE, "R1")],
        "documents": [Node(f"{STRANGE} {n}") for n in range(documents)],
        "claims": [Node(STRANGE)],
    }
    return flow_picture(columns, links, title="Flow")


FOUND, DRIVES, AGAINST = Link(0, 0, 0, "found"), Link(1, 2, 0, "drives"), Link(1, 1, 0, "against")
PICTURES: Mapping[str, Callable[[], Picture]] = {
    "lattice": lambda: lattice(4, {15: STRANGE}),
    "lattice of five": lambda: lattice(5),
    "lattice of twelve": lambda: lattice(12),
    "borders": lambda: lattice_picture(
        [STRANGE] * 200, {(1 << 200) - 1: True, 0: False, 12: False}, [1 << 150, 3]
    ),
    "bars": lambda: bars_picture([STRANGE] * 200, [n / 100 - 0.5 for n in range(200)]),
    "flow": lambda: flow(200, FOUND, DRIVES, AGAINST),
    "bands": lambda: flow_picture(
        {"left": [Node(STRANGE, str(n)) for n in range(30)], "right": [Node("a"), Node("b")]},
        [Link(0, n, n % 2, "share", n) for n in range(30)],
        title="Bands",
    ),
}


@pytest.mark.parametrize("name", PICTURES)
def test_it_is_one_valid_file_for_light_and_dark_that_fetches_nothing(
    name: str, tmp_path: Path
) -> None:
    picture = PICTURES[name]()
    root = ET.fromstring(picture.svg)
    assert root.get("aria-label") == root.findtext(f"{SVG}title") == picture.title
    assert not list(root.iter(f"{SVG}script")) and not list(root.iter(f"{SVG}use"))
    assert "url(" not in picture.svg and "href" not in picture.svg and "var(" not in picture.svg
    assert "@media(prefers-color-scheme:dark)" in picture.svg and len(picture.svg) < 500_000
    assert all(len(row) == len(picture.headings) for row in picture.rows) and picture.rows
    outline = Outline(picture.to_html())
    assert outline.tags["tr"] == len(picture.rows) + 1 and outline.tags["svg"] == 2
    assert picture.save(tmp_path / "a.svg").read_text(encoding="utf-8") == picture.svg
    with pytest.raises(ConfigError, match=r"\.gif"):
        picture.save(tmp_path / "a.gif")


@pytest.mark.parametrize("name", PICTURES)
def test_nothing_is_drawn_outside_on_a_screen_and_on_a_phone(name: str) -> None:
    picture = PICTURES[name]()
    for drawing in picture.inline:
        root = ET.fromstring(drawing)
        _, _, width, height = map(float, (root.get("viewBox") or "").split())
        for one in root.iter():
            for key, most in (("x", width), ("cx", width), ("y", height), ("cy", height)):
                assert 0 <= float(one.get(key) or 0) <= most, (name, one.attrib)
            for x, y in re.findall(r"[ML]([-\d.]+),([-\d.]+)", one.get("d") or ""):
                assert 0 <= float(x) <= width and 0 <= float(y) <= height, (name, one.attrib)


@pytest.mark.parametrize("name", ["lattice", "flow"])
def test_it_becomes_pixels(name: str, tmp_path: Path) -> None:
    pytest.importorskip("resvg_py")
    pixels = PICTURES[name]().save(tmp_path / "a.png").read_bytes()
    assert pixels[:8] == b"\x89PNG\r\n\x1a\n" and int.from_bytes(pixels[16:20], "big") == 1800


@pytest.mark.parametrize("name", PICTURES)
def test_a_terminal_shows_the_table_in_eighty_columns(name: str) -> None:
    picture = PICTURES[name]()
    lines = str(picture).splitlines()
    assert lines[0] == picture.title and max(map(cell_len, lines)) <= 80 and len(lines) < 250
    assert "\x1b" not in str(picture)
    console = Console(width=80, file=StringIO(), record=True)
    console.print(picture)
    assert [line.rstrip() for line in console.export_text().rstrip().splitlines()] == lines


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
    for drawing in map(str, picture.inline):
        titles = re.findall(r"<title>(.*?)</title>", drawing)
        assert len(titles) == 16 and sum(one.endswith("a minimal set") for one in titles) == 2
        assert "kept: a, b, c, d: the claim is made, “Paris”" in titles
        assert "kept: d: not asked" in titles
        cells = [drawing.count(f'<path class="{kind}"') for kind in ("yes", "least", "no")]
        assert cells == [8, 3, 6]  # with the legend


def test_beyond_twelve_and_from_nine_on_a_phone_a_lattice_is_its_borders() -> None:
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
    wide, narrow = map(str, lattice(12).inline)
    assert wide.count("<path") == 4096 + 4 and narrow.count("<circle") == 3 * (2 + 2)


def test_bars_show_the_greatest_and_say_what_the_others_sum_to() -> None:
    picture = bars_picture(list("abcd"), [0.5, -0.25, 0.1, 0.05], errors=[0.1] * 4, most=2)
    assert [row[0] for row in picture.rows] == ["a", "c", "d", "b"]
    assert "2 further documents: 0.150 together" in picture.svg and "against" in picture.note
    widths = re.findall(r'class="(bar|minus)".*? width="([\d.]+)"', picture.svg)
    assert [kind for kind, _ in widths] == ["bar", "minus"]
    assert float(widths[0][1]) == pytest.approx(2 * float(widths[1][1]), abs=0.2)


def test_only_documents_with_a_claim_have_a_line_to_it() -> None:
    links = [FOUND, Link(0, 0, 2, "found"), Link(1, 0, 0, "drives"), AGAINST]
    columns = {"rules": [Node("r")], "documents": list(map(Node, "abc")), "claims": [Node("claim")]}
    picture = flow_picture(columns, links, title="t", idle="no claim rests on it")
    assert ("c", "no claim rests on it", "") in picture.rows
    assert ("b", "speaks against", "claim") in picture.rows
    assert picture.svg.count("<path") == 4 and picture.svg.count('"box idle"') == 1
    bare = flow_picture({**columns, "rules": []}, links[2:], title="t")
    assert bare.svg.count("<path") == 2 and ">rules<" not in bare.svg


def test_of_many_boxes_the_others_are_one_and_their_bands_are_joined() -> None:
    nodes = [Node(f"D{n}") for n in range(40)]
    links = [Link(0, 0, n, "share", 1 + (n == 39), f"{n} %") for n in range(40)]
    picture = flow_picture({"a": [Node("s", "1")], "b": nodes}, links, title="t", most=2)
    assert len(picture.rows) == 40 and ">38 others<" in picture.svg and ">D39<" in picture.svg
    sizes = [float(one) for one in re.findall(r'stroke-width="([\d.]+)', picture.svg)]
    assert sorted(sizes) == pytest.approx([160 / 41, 320 / 41, 38 * 160 / 41], abs=0.01)
    lines = flow(200, DRIVES, Link(1, 150, 0, "drives"))
    assert lines.svg.count('"box idle"') == 1 + 4 + 1 and ">194 others<" in lines.svg


@pytest.mark.parametrize(
    "made",
    [
        lambda: lattice_picture([], {}),
        lambda: lattice_picture(["a"], {2: True}),
        lambda: bars_picture(["a"], []),
        lambda: flow_picture({"a": [], "b": [Node("claim")]}, [], title="t"),
        lambda: flow_picture({"a": [Node("a")], "b": [Node("b")]}, [DRIVES], title="t"),
        lambda: flow(2, DRIVES),
    ],
)
def test_what_cannot_be_drawn_is_named(made: Callable[[], Picture]) -> None:
    with pytest.raises(ConfigError):
        made()


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
            assert all(text_width(line) <= width for line in [*lines, cut(text, width)])
    assert wrapped("one two three four", 60, 2) == ["one two", "three…"]
    assert wrapped("one two", 60, 1) == ["one two"]


def test_a_label_is_escaped_and_runs_as_its_script_does() -> None:
    assert 'direction="rtl" text-anchor="end"' in label(0, 0, "1 القاهرة")
    assert "direction" not in label(0, 0, "1 Cairo القاهرة")
    assert "&lt;b&gt;\ufffd" in label(0, 0, "<b>\x07")
