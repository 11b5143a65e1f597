"""The page about the studio: its block prints what stands below it, its system opens."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

pytest.importorskip("re2")

from rulerag.studio.service import Studio

PAGE = Path(__file__).parent.parent / "docs" / "studio.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_block_prints_what_stands_below_it() -> None:
    ((code, printed),) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", TEXT, re.DOTALL)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, str(PAGE), "exec"), {"__name__": "page"})
    assert out.getvalue() == printed


def test_the_system_of_the_page_opens(tmp_path: Path) -> None:
    (settings,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "systems" / "notes").mkdir(parents=True)
    (tmp_path / "systems" / "notes.yaml").write_text(settings, encoding="utf-8")
    (tmp_path / "systems" / "notes" / "one.txt").write_text("A visit costs 12 euros.")
    studio = Studio(tmp_path)
    session = studio.retrieve(studio.new_session("notes").id)
    assert [source.text for source in session.state.sources] == ["A visit costs 12 euros."]
    assert str(studio.system("notes").condition("local")) == "the answer names a price"
    studio.close()
