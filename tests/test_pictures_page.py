"""The page about pictures: its block prints what stands there, its pictures are those drawn."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
from pathlib import Path

import pytest

from benchmarks.pictures import DRAWN, chromium, explained, photograph, similarity
from rulerag.explanation.explaining.why import PICTURES

DOCS = Path(__file__).parent.parent / "docs"
TEXT = (DOCS / "pictures.md").read_text(encoding="utf-8")


def test_the_block_prints_what_stands_below_it() -> None:
    ((code, printed),) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", TEXT, re.DOTALL)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "pictures.md", "exec"), {"__name__": "page"})
    assert out.getvalue() == printed


def test_every_kind_of_picture_is_named_and_every_file_is_there_and_small() -> None:
    assert all(f'why.picture("{kind}"' in TEXT for kind in PICTURES)
    named = re.findall(r"!\[[^\]]*\]\((\S+?)\)", TEXT)
    sizes = {name: (DOCS / name).stat().st_size for name in named}
    assert {f"pictures/{file.name}" for file in (DOCS / "pictures").iterdir()} == set(sizes)
    assert max(sizes.values()) < 300_000 and sum(sizes.values()) < 2_000_000


@pytest.mark.parametrize("kind", DRAWN)
def test_the_committed_pictures_are_those_that_are_drawn(kind: str, tmp_path: Path) -> None:
    file = explained().picture(kind, DRAWN[kind]).save(tmp_path / "drawn.svg")
    committed = DOCS / "pictures" / f"{kind}.svg"
    assert file.read_text(encoding="utf-8") == committed.read_text(encoding="utf-8")


def test_a_page_is_photographed_at_its_width(tmp_path: Path) -> None:
    if not shutil.which("chromium"):
        pytest.skip("no chromium on PATH")
    page = similarity(DOCS)["similarity.html"]
    with chromium() as browser:
        files = list(photograph(browser, page, tmp_path / "page"))
    assert [file.name for file in files] == [
        f"page-{name}.png" for name in ("screen", "screen-dark", "phone", "phone-dark")
    ]
    for file, width in zip(files, (1280, 1280, 390, 390), strict=True):
        taken = file.read_bytes()
        assert int.from_bytes(taken[16:20], "big") == width
        assert int.from_bytes(taken[20:24], "big") > 900
