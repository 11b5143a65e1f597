"""The README says what the code does: its Python runs, its tables are the committed results."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from rulerag.cli import main

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", README, re.S)
SECONDS = re.compile(r"asked in [\d.]+ s|[\d.]+ s\.")


def test_there_are_examples_to_run() -> None:
    assert len(EXAMPLES) == 2


@pytest.mark.parametrize(("code", "shown"), EXAMPLES)
def test_the_python_examples_print_what_the_readme_shows(
    code: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(code.strip().splitlines()) <= 15
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert SECONDS.sub("", printed).strip() == SECONDS.sub("", shown).strip()


def test_the_commands_work_for_someone_who_has_only_the_clone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    block = README.partition("on what `make demo` leaves:\n\n```sh\n")[2].partition("```")[0]
    commands = [shlex.split(line, comments=True) for line in block.splitlines()]
    assert len(commands) == 7
    for name, *words in (["rulerag", "demo", "--out", "demo-out"], *commands):
        assert name == "rulerag"
        with pytest.raises(SystemExit) as stop:
            main(words)
        assert not stop.value.code, f"{words}\n{capsys.readouterr().err}"
    assert "visits" in (tmp_path / "rules.jsonl").read_text(encoding="utf-8")


def test_the_tables_are_the_committed_results() -> None:
    table = (ROOT / "benchmarks/results/ruleqa-i/table.md").read_text(encoding="utf-8")
    balanced = table.partition("## Query set: balanced")[2].partition("## ")[0]
    rows = [line for line in balanced.splitlines() if line.startswith("|")]
    assert len(rows) >= 8
    results = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    for row in rows:
        assert row in results
    missing = (ROOT / "benchmarks/results/missing-facts/table.md").read_text(encoding="utf-8")
    shown = [line for line in README.splitlines() if "·" in line and line.startswith("|")]
    assert len(shown) >= 8
    for row in shown:
        assert row in missing


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 150


def test_every_link_to_a_file_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if not target.startswith("http"):
            assert (ROOT / target).exists(), target
