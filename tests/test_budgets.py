"""A budget of code lines for each package: what is added is paid for with a deletion."""

from __future__ import annotations

import ast
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}

BUDGETS = {
    "rulerag/assembly": 780,
    "rulerag/candidates": 1_720,
    "rulerag/cli": 2_310,
    "rulerag/composition": 580,
    "rulerag/data": 120,
    "rulerag/evaluation": 1_560,
    "rulerag/explanation": 6_650,
    "rulerag/folders": 230,
    "rulerag/extraction": 1_130,
    "rulerag/generation": 3_350,
    "rulerag/integrations": 790,
    "rulerag/kg": 3_480,
    "rulerag/linking": 3_170,
    "rulerag/mining": 3_750,
    "rulerag/models": 480,
    "rulerag/parallel": 200,
    "rulerag/retrieval": 4_450,
    "rulerag/ruleqa": 2_080,
    "rulerag/studio": 4_640,
    "rulerag/synthetic": 900,
    "rulerag/texts": 280,
    "rulerag/views": 945,
    "training": 3_680,
    "benchmarks": 8_655,
    "tests": 33_200,
}
"""The most lines of code, without docstrings, comments and blank lines. Whoever raises one says why
in the commit."""


def code_lines(file: Path) -> int:
    """The lines of a file that hold code."""
    with open(file, "rb") as content:
        tokens = list(tokenize.tokenize(content.readline))
    lines = {
        line
        for token in tokens
        if token.type not in _NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if ast.get_docstring(node) is not None and first is not None:
                lines -= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(lines)


def lines_of(place: str) -> int:
    return sum(map(code_lines, (ROOT / place).rglob("*.py")))


def test_lines_are_counted_without_docstrings_and_comments(tmp_path: Path) -> None:
    file = tmp_path / "one.py"
    file.write_text('"""What it is."""\n\n# why\nx = (\n    1\n)\n\n\ndef f():\n    """Says."""\n')
    assert code_lines(file) == 4


@pytest.mark.parametrize("place", BUDGETS)
def test_a_package_keeps_to_its_budget(place: str) -> None:
    lines = lines_of(place)
    assert lines <= BUDGETS[place], f"{place}: {lines:,} lines of code, {BUDGETS[place]:,} allowed"


def test_every_package_has_a_budget() -> None:
    packages = {f"rulerag/{one.parent.name}" for one in ROOT.glob("rulerag/*/__init__.py")}
    assert packages | {"training", "benchmarks", "tests"} == set(BUDGETS)
