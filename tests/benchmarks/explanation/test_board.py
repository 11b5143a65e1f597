"""The command from tables to the board, and the explainer that the docs add."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.explanation import board, views
from benchmarks.explanation.__main__ import main
from benchmarks.explanation.cases import Case
from benchmarks.explanation.explainers import EXPLAINERS
from rulerag.io import write_jsonl
from tests.benchmarks.explanation.test_explainers import planted

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "benchmarks" / "results" / "leaderboard"


def save(cases: list[Case], path: Path) -> Path:
    rows = [case.lattice.to_json() | {"id": f"q{n}"} for n, case in enumerate(cases)]
    write_jsonl(path, rows)
    return path


@pytest.fixture
def added(tmp_path: Path) -> Any:
    """The docs' explainer in a file; it leaves the board with the test."""
    docs = (ROOT / "docs" / "leaderboard.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", docs, re.S)
    file = tmp_path / "alone.py"
    file.write_text(code, encoding="utf-8")
    yield file
    EXPLAINERS.pop("alone", None)


def test_a_board_of_two_tables_with_an_explainer_of_ones_own(
    tmp_path: Path, added: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = save([planted({1, 4}), planted({1}), planted(set())], tmp_path / "m-nq.jsonl")
    one = save([planted({1}, {4})], tmp_path / "m-world.jsonl")
    out = tmp_path / "out"
    files = [str(both), str(one)]
    assert main(["board", *files, "--more", str(added), "--out", str(out)]) == 0
    result = json.loads((out / "leaderboard.json").read_text(encoding="utf-8"))
    assert result["tables"]["m-nq"]["questions"] == 2
    assert result["tables"]["m-nq"]["left_out"] == 1  # the answer stands without documents
    rows = {(r["table"], r["explainer"], r["budget"]): r for r in result["rows"]}
    mine = rows["m-world", "alone", None]
    assert mine["calls"] == 9 and mine["changed"] == mine["average_precision"] == 1
    assert rows["m-world", "leave-one-out", None]["calls"] == 9
    assert ("m-nq", "Shapley", 16) not in rows and ("m-nq", "Shapley", 32) in rows
    assert ("m-nq", "self-explanation", None) not in rows  # nobody asked the model
    tested = [r for r in result["rows"] if "p_corrected" in r]
    assert result["comparisons"] == 2 * len(tested)
    assert not any(r["kind"] == "baseline" for r in tested)
    shown = (out / "leaderboard.md").read_text(encoding="utf-8")
    assert "| own | alone | 9 |" in shown and shown in capsys.readouterr().out


def test_p_values_are_of_the_same_questions_and_corrected() -> None:
    def row(name: str, kind: str, each: list[float]) -> dict[str, Any]:
        both = [{"average_precision": value, "changed": value} for value in each]
        mean = sum(each) / len(each)
        return {
            "table": "t",
            "explainer": name,
            "kind": kind,
            "average_precision": mean,
            "changed": mean,
            "each": both,
        }

    rows = [
        row("low", "baseline", [0.0] * 12),
        row("high", "baseline", [0.5] * 12),
        row("better", "asks", [1.0] * 12),
        row("equal", "reads", [0.5] * 12),
    ]
    assert board.compared(rows) == 4
    better, equal = rows[2], rows[3]
    assert better["best_baseline"] == {"average_precision": "high", "changed": "high"}
    assert better["p_values"]["changed"] == pytest.approx(2 / 2**12, abs=2e-4)
    assert better["p_corrected"]["changed"] == pytest.approx(
        4 * min(better["p_values"].values()), rel=0.5
    )
    assert equal["p_corrected"]["changed"] == 1
    assert all("each" not in one for one in rows)
    result = {"rows": rows}
    assert views.mark(result, better, "changed") == "+"
    assert views.mark(result, equal, "changed") == ""


def test_the_committed_tables_are_those_of_the_committed_figures(tmp_path: Path) -> None:
    result = json.loads((RESULTS / "leaderboard.json").read_text(encoding="utf-8"))
    views.write_views(result, tmp_path)
    for name in ("leaderboard.md", "summary.md"):
        assert (tmp_path / name).read_text("utf-8") == (RESULTS / name).read_text("utf-8")
    page = (ROOT / "docs/leaderboard.md").read_text(encoding="utf-8")
    assert all(row in page for row in (RESULTS / "summary.md").read_text("utf-8").splitlines())
