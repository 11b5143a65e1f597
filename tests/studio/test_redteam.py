"""Red-team runs: what breaks, how few sources do it, files that others read."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from rulerag.studio.service import RedTeamCell, RedTeamReport, Studio


def test_the_weak_reader_breaks_and_the_strong_one_does_not(studio: Studio) -> None:
    report = studio.red_team("finance", ["weak-reader", "strong-reader"])
    rows = {(row["generator"], row["attack"]): row for row in report.rows()}
    assert len(rows) == 14
    assert all(row["broken"] == 0 for (who, _), row in rows.items() if who == "strong-reader")
    weak = rows["weak-reader", "exception"]
    assert (weak["broken"], weak["needed"]) == (3, 2)
    # 3 of 4: the exact interval, as tables of Clopper and Pearson give it.
    assert (round(weak["low"], 4), round(weak["high"], 4)) == (0.1941, 0.9937)
    assert rows["weak-reader", "poisoned-knowledge"]["broken"] == 0
    for cell in report.broken:
        assert studio.replay(cell.model_dump())
        assert set(cell.repair)


def test_without_instructions_nothing_is_broken_by_an_attack_that_was_not_needed(
    studio: Studio,
) -> None:
    question = "What is the customer service number of Penhallow Credit Union?"
    report = studio.red_team(
        "finance", ["weak-reader"], questions=[question], names=["exception"], instructed=False
    )
    assert report.broken == ()  # the corpus gives a number away by itself


def test_a_run_goes_on_where_it_was_interrupted(studio: Studio, tmp_path: Path) -> None:
    kept = tmp_path / "run" / "cells.jsonl"
    part = studio.red_team("finance", ["weak-reader"], names=["exception"], kept=kept)
    whole = studio.red_team("finance", ["weak-reader"], names=["exception", "indirect"], kept=kept)
    assert whole.cells[:4] == part.cells
    assert len(kept.read_text().splitlines()) == 8


def test_files_hold_what_others_read(studio: Studio, tmp_path: Path) -> None:
    nasty = RedTeamCell(
        system="finance",
        generator="weak-reader",
        attack="exception",
        question="=cmd() <b>&\x01",
        broken=True,
        needed=1,
        sources=("a",),
        repair=("a",),
        output="<script>alert(1)</script>",
        instructions="x",
        texts=({"title": "'''", "text": '"""\\'},),
    )
    files = RedTeamReport(cells=(nasty,)).write(tmp_path)
    rows = list(csv.DictReader(io.StringIO((tmp_path / "red-team.csv").read_text())))
    assert rows[0]["question"].startswith("'=cmd()")
    suite = ElementTree.parse(tmp_path / "red-team.xml").getroot()
    assert suite.get("failures") == "1"
    assert "<script>" not in (tmp_path / "red-team.html").read_text()
    assert json.loads((tmp_path / "red-team.json").read_text())["cells"][0]["needed"] == 1
    held: dict[str, Any] = {}
    code = (tmp_path / "test_red_team.py").read_text()
    exec(compile(code, "test_red_team.py", "exec"), held)
    assert held["CASES"][0]["texts"] == [{"title": "'''", "text": '"""\\'}]
    assert len(files) == 5


def test_the_command_says_by_its_status_whether_something_broke(rulerag: Any) -> None:
    out = rulerag("redteam", "finance", "--generator", "weak-reader")
    assert out.code == 1
    assert "weak-reader, exception: 3 of 4 broken (19–99 %), 2 sources needed" in out.out
    again = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "red-team/test_red_team.py",
            "-p",
            "no:cacheprovider",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode == 1 and "18 failed" in again.stdout, again.stdout + again.stderr
    Path("suite.yaml").write_text(
        "system: finance\ngenerators: [strong-reader]\nattacks: [exception, combined]\n"
    )
    strong = rulerag("redteam", "suite.yaml", "--out", "strong")
    assert (strong.code, strong.err) == (0, "")
    assert rulerag("redteam", "finanze").code == 2


@pytest.fixture
def rulerag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command, in a folder of its own."""
    from types import SimpleNamespace

    from rulerag.cli import main

    monkeypatch.chdir(tmp_path)
    root = str(Path(__file__).resolve().parents[2])
    monkeypatch.setenv("PYTHONPATH", root)

    def run(*words: str) -> Any:
        import contextlib

        out, err, code = io.StringIO(), io.StringIO(), 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main(list(words))
            except SystemExit as stop:
                code = int(stop.code or 0)
        return SimpleNamespace(code=code, out=out.getvalue(), err=err.getvalue())

    return run
