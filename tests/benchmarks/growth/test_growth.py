"""The benchmark of large corpora, at a size that takes seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.growth import texts
from benchmarks.growth.paragraphs import run, table
from rulerag.io import read_json


def test_paragraphs_are_indexed_linked_and_found(tmp_path: Path) -> None:
    result = run(tmp_path / "out", tmp_path / "work", sizes=[2000])
    (row,) = result["rows"]
    assert row["index"]["linked"] > 0.99
    assert row["search"]["found"] > 0.7
    assert row["index"]["memory_mb"] > 50
    assert table(result["rows"]) == (tmp_path / "out" / "paragraphs.md").read_text()
    assert read_json(tmp_path / "out" / "paragraphs.json") == result


@pytest.mark.slow
def test_texts_are_read_once(tmp_path: Path) -> None:
    result = texts.run(tmp_path / "out", tmp_path / "work", sizes=[600])
    (row,) = result["rows"]
    assert row["same"] and row["megabytes"] > 0
    assert row["share"] == row["kept"] / row["anew"]
    assert row["alone"]["index"] > 0 and row["alone"]["dataset"] > 0
    assert texts.table(result["rows"]) == (tmp_path / "out" / "texts.md").read_text()
