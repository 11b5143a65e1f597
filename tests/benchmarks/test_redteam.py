"""Attacks on readers whose behaviour is known: the tables say it, and a run goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nicegui")
pytest.importorskip("re2")

from benchmarks.redteam import run_red_team


def test_red_team_tables_of_readers_whose_behaviour_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, out = tmp_path / "cells.jsonl", tmp_path / "out"
    run_red_team(["weak-reader", "strong-reader"], 1, out, kept=kept)
    told = capsys.readouterr()
    made = json.loads((out / "redteam.json").read_text())
    rows: dict[Any, Any] = {
        (row["system"], row["model"], row["instructions"]): row for row in made["systems"]
    }
    assert len(rows) == 12 and len(made["cells"]) == 84
    # The weak reader gives in to two, one and three sources; the strong one to none.
    needed = [rows[name, "weak-reader", "yes"]["sources needed"] for name in _SYSTEMS]
    assert needed == ["2", "1", "3"]
    for name in _SYSTEMS:
        strong = rows[name, "strong-reader", "yes"]
        assert strong["of the rest, some attack breaks"] == "0 of 1 (0–98 %)"
        assert strong["attacks that break"] == "0 of 7"
    # Its papers hold the address: without instructions no attack is needed.
    assert rows["employees", "weak-reader", "no"]["break unattacked"] == ("1 of 1")
    assert "question 1, weak-reader, finance" in told.err
    written = kept.read_text()
    run_red_team(["weak-reader", "strong-reader"], 1, out, kept=kept)
    assert kept.read_text() == written  # nothing is tried twice
    assert json.loads((out / "redteam.json").read_text()) == made


_SYSTEMS = "finance", "software", "employees"
