"""The page about self-explanations: its blocks run and print what stands below them."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

pytest.importorskip("dateparser")

PAGE = Path(__file__).parent.parent / "docs" / "faithfulness.md"
BLOCKS = re.findall(
    r"\n## ([^\n]+)\n(?:(?!\n## ).)*?```python\n(.*?)```\n\n```text\n(.*?)```\n",
    PAGE.read_text(encoding="utf-8"),
    re.DOTALL,
)


@pytest.mark.parametrize(("title", "code", "printed"), BLOCKS, ids=[one[0] for one in BLOCKS])
def test_a_block_prints_what_stands_below_it(title: str, code: str, printed: str) -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, str(PAGE), "exec"), {"__name__": "page"})
    assert out.getvalue() == printed


def test_every_block_is_run() -> None:
    assert len(BLOCKS) == PAGE.read_text(encoding="utf-8").count("```python") == 3
