"""The page that says what rules add: its lines, its words and its picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.experiments.matrix.rows import PAIRS, READING_PAIRS, reading_row, row
from benchmarks.experiments.retrieval.tables import COMPARED
from benchmarks.experiments.what_rules_add import LINES, main, page
from rulerag.errors import DataError


def results(difference: float, p: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Results files of one benchmark in which every comparison comes out alike."""
    told = {"benchmark": "ruleqa-n", "other": 0.5, "p_holm": p}
    comparisons = {
        title: [
            {
                "ours": row(ours).title,
                "against": row(other).title,
                "value": 0.5 + difference,
                **told,
            }
            for ours, other, measure in pairs
            if measure == "answer_recall@10" and "+" not in ours
        ]
        for title, pairs in COMPARED.items()
    }
    rules = [
        {"names": [ours, other], "row": reading_row(ours).title, "ours": 0.5 + difference, **told}
        for ours, other, _ in READING_PAIRS
    ]
    best = [{"row": "best row: hybrid", "ours": 0.5 + difference, **told}]
    return {"comparisons": comparisons}, {"rules_add": rules, "against_baselines": best}


def test_every_line_is_a_comparison_of_the_tables() -> None:
    assert len(LINES) <= 10
    assert LINES[0].table == "What rules add at equal budget"  # first rules, merging last
    pairs = {*PAIRS, *((ours, other) for ours, other, _ in READING_PAIRS)}
    pairs |= {(ours, other) for table in COMPARED.values() for ours, other, _ in table}
    assert all((line.ours, line.other) in pairs for line in LINES if line.other)


@pytest.mark.parametrize(
    ("difference", "p", "cell"),
    [
        (0.031, 0.01, "**+3.1**"),
        (-0.02, 0.049, "**-2.0**"),
        (0.02, 0.05, "+2.0"),
    ],
)
def test_bold_is_beyond_chance(difference: float, p: float, cell: str) -> None:
    text, cells = page(*results(difference, p))
    table = [line for line in text.splitlines() if line.startswith("| ")][2:]
    assert len(table) == len(LINES) and all(line.endswith(f"| {cell} |") for line in table)
    assert all(found[:-1] == [None] * 4 for found in cells)


def test_the_command_writes_page_and_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, told in zip(("table2-retrieval", "table2"), results(0.1, 0.2), strict=True):
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.json").write_text(json.dumps(told))
    assert main(["--results", str(tmp_path), "--out", str(tmp_path / "docs")]) == 0
    assert (tmp_path / "docs" / "what-rules-add.png").read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out == (tmp_path / "docs" / "what-rules-add.md").read_text()
    assert main(["--results", str(tmp_path / "none"), "--out", str(tmp_path)]) == 2
    assert "none" in capsys.readouterr().err
    with pytest.raises(DataError, match="none of the page's comparisons"):
        page({}, {})
