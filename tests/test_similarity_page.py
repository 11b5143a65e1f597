"""The page about similarity: its blocks print what stands below them and draw its picture."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "similarity.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(
    r"\n## ([^\n]+)\n(?:(?!\n## ).)*?```python\n(.*?)```\n\n```text\n(.*?)```", TEXT, re.DOTALL
)


@pytest.mark.parametrize(("title", "code", "printed"), BLOCKS, ids=[one[0] for one in BLOCKS])
def test_a_block_prints_what_stands_below_it(
    title: str, code: str, printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, str(PAGE), "exec"), {"__name__": "page"})
    assert re.sub(r"\d+\.\d s\.", "0.0 s.", out.getvalue()) == printed
    drawn = tmp_path / "similarity.svg"
    if drawn.exists():
        assert drawn.read_text("utf-8") == (PAGE.parent / "similarity.svg").read_text("utf-8")


def test_every_section_with_code_is_run_and_every_figure_is_measured() -> None:
    assert len(BLOCKS) == TEXT.count("```python") == 2
    results = ROOT / "benchmarks" / "results" / "speed" / "similarity.json"
    measured = json.loads(results.read_text(encoding="utf-8"))
    rows = re.findall(r"\n\| (\S+)[^|]*\| ([\d.]+) \| ([\d.]+) \|", TEXT)
    assert len(rows) == 4
    for name, first, again in rows:
        assert float(first) == measured[name]["first_cpu_seconds"]
        assert float(again) == measured[name]["again_cpu_seconds"]
        assert measured[name]["sources"] == 1007
    assert f"a {measured['ratio']:.0f}nd of" in TEXT
