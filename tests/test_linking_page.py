"""The page about questions in one's own words: its blocks print what stands below them."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "linking.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(
    r"\n## ([^\n]+)\n(?:(?!\n## ).)*?```python\n(.*?)```\n\n```text\n(.*?)```", TEXT, re.DOTALL
)


@pytest.mark.parametrize(("title", "code", "printed"), BLOCKS, ids=[one[0] for one in BLOCKS])
def test_a_block_prints_what_stands_below_it(title: str, code: str, printed: str) -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, str(PAGE), "exec"), {"__name__": "page"})
    assert out.getvalue() == printed


def test_every_block_is_run_and_every_figure_is_measured() -> None:
    assert len(BLOCKS) == TEXT.count("```python") == 2
    table = (ROOT / "benchmarks" / "results" / "linking" / "linking.md").read_text("utf-8")
    rows = re.findall(r"^\| ruleqa-.*$", TEXT, re.MULTILINE)
    assert rows and set(rows) <= set(table.splitlines())
