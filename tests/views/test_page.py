"""The one page: as it was, escaped everywhere, readable in light and dark."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from rulerag.errors import ConfigError
from rulerag.views import (
    AnswerText,
    Block,
    Columns,
    Highlights,
    Link,
    Mark,
    MarkedText,
    Node,
    Page,
    Pairs,
    Piece,
    Section,
    Table,
    Text,
    bars_picture,
    flow_picture,
    lattice_picture,
)
from rulerag.views.svg import PALETTE
from tests.outline import EVIL, Outline

GOLDEN = Path(__file__).parent / "page.html"
TEMPLATES = Path(__file__).parents[2] / "rulerag" / "views" / "templates"


def blocks(text: str, *, pictures: bool = True) -> tuple[Block, ...]:
    """Every kind of block with a text in each of its fields."""
    marks = (Mark(0, 3, "enough", text, "here"), Mark(1, 2, "needed", text))
    piece = Piece("", "claim", ((text, "here"), (text, "")))
    drawn = (
        flow_picture(
            {text: [Node(text, text, text)], f"2 {text}": [Node(text)]},
            [Link(0, 0, 0, "share", 1.0, text)],
            title=text,
            note=text,
        ),
        lattice_picture([text, "b"], {3: True, 1: True, 0: False}, [1], outputs={3: text}),
        bars_picture([text, "b"], [0.5, -0.5], errors=[0.1, 0.1], title=text),
        Highlights(text, (MarkedText(text, text, text, marks, text, "doc"),), text),
    )
    return (
        Text((text, text), "note"),
        Text((text,), "list"),
        Text((text,), "code"),
        Pairs(((text, text),)),
        AnswerText.of(f"{text} {text}", [(0, len(text), piece)], "right"),
        Table((text, "b"), ((text, "1"), ("x", "2")), text, frozenset({(1, 1)})),
        Columns((Section(text, (Text((text,)),), "card", "there", "wrong", "here"),)),
        Section(text, (Section(text, (Text((text,)),), "folded"),), "open"),
        *(drawn if pictures else drawn[3:]),
    )


def body(page: str) -> str:
    """A page without its style."""
    return re.sub(r"<style>.*?</style>\n", "", page, flags=re.DOTALL)


def golden_page() -> str:
    page = Page("A page", blocks("Rome & Paris", pictures=False), "brand", "foot")
    return body(page.html())


def test_the_page_is_as_it_was() -> None:
    """Written anew by ``python -m tests.views.test_page``, and then read."""
    assert golden_page() == GOLDEN.read_text(encoding="utf-8")


def test_every_field_of_every_block_is_escaped() -> None:
    page = Page(EVIL, blocks(EVIL), EVIL, EVIL)
    outline = Outline(page.html())
    assert outline.text.count("<script>alert('x')</script>") >= 45
    whole = Outline(page.fragment())
    assert whole.tags["h1"] == 1 and whole.tags["html"] == 0
    kinds = {one.kind for one in blocks(EVIL)}
    assert {block.kind for block in Block.__subclasses__()} <= kinds


@pytest.mark.parametrize("block", blocks(EVIL), ids=lambda block: type(block).__name__)
def test_a_block_stands_alone_in_a_notebook_and_on_a_page(block: Block, tmp_path: Path) -> None:
    outline = Outline(block.to_html().replace('href="#here"', ""))
    assert outline.tags["div"] and block._repr_html_() == block.to_html()
    saved = block.save(tmp_path / "a.html").read_text(encoding="utf-8")
    assert saved.startswith("<!doctype html>") and body(saved).count("<h1") == 0
    with pytest.raises(ConfigError, match=r"\.gif"):
        block.save(tmp_path / "a.gif")


def test_an_answer_is_whole_whatever_is_set_apart() -> None:
    piece = Piece("", "claim")
    answer = AnswerText.of("One. Two.", [(0, 4, piece), (2, 4, piece), (None, None, piece)])
    assert "".join(one.text for one in answer.pieces) == "One. Two."
    assert [one.style for one in answer.pieces] == ["claim", ""]
    assert AnswerText.of("", ()).pieces == (Piece("(no answer)"),)


def luminance(colour: str) -> float:
    """Of WCAG 2.2, https://www.w3.org/TR/WCAG22/#dfn-relative-luminance."""
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_every_colour_has_a_name_and_texts_stand_out(mode: int) -> None:
    sheets = "".join(path.read_text(encoding="utf-8") for path in TEMPLATES.glob("*.css"))
    assert set(re.findall(r"var\(--(\w+)\)", sheets)) == set(PALETTE)
    assert not re.findall(r"#[0-9a-f]{3,6}\b", sheets)
    marks = ("enough", "part", "needed", "against", "shade1", "shade2", "shade3", "note", "pale")
    pairs = [*product(("ink",), ("plate", "back", *marks)), *product(("soft",), ("plate", "back"))]
    pairs += [("blue", "plate"), ("green", "part"), ("red", "against"), ("plate", "blue")]
    for text, ground in pairs:
        light = sorted(luminance(PALETTE[name][mode]) for name in (text, ground))
        assert (light[1] + 0.05) / (light[0] + 0.05) >= 4.4, (text, ground)


if __name__ == "__main__":
    GOLDEN.write_text(golden_page(), encoding="utf-8")
