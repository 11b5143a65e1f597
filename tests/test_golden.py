"""The golden set: every check and item has a recording, and what differs is said with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import golden


@pytest.mark.parametrize("check", golden.CHECKS)
def test_every_item_of_a_check_is_recorded(check: str, tmp_path: Path) -> None:
    checkout = golden.Checkout(golden.ROOT, tmp_path, tmp_path)
    recorded = golden.read_json(golden.RECORDED / f"{check}.json")
    assert list(recorded) == list(golden.CHECKS[check](checkout))


def test_a_file_is_compared_by_its_bytes_and_the_other_lines_are_named(tmp_path: Path) -> None:
    lines = [f"line {number}" for number in range(1, 1001)]
    path = golden.write(tmp_path / "file", lines)
    recorded = golden.as_recorded({"file": path})
    assert list(golden.differences(recorded, {"file": path})) == []
    lines[501] = "another line"
    golden.write(path, lines)
    (said,) = golden.differences(recorded, {"file": path})
    assert said.startswith("file: 1,000 lines were recorded, now 1,000")
    assert "among 501 to 504" in said and "'line 501\\n'" in said
    golden.write(path, lines[:300])
    assert "now 300" in next(golden.differences(recorded, {"file": path}))


def test_a_bounded_figure_may_become_better_but_not_worse() -> None:
    recorded = {"calls": {"value": 80, "at_most": 80}, "right": {"value": 10, "at_least": 10}}
    better = {"calls": {"value": 70}, "right": {"value": 10}}
    assert list(golden.differences(recorded, better)) == []
    worse = {"calls": {"value": 81}, "right": {"value": 9}}
    assert [said.split(":")[0] for said in golden.differences(recorded, worse)] == [
        "calls",
        "right",
    ]


def test_other_values_must_be_equal_and_none_may_go() -> None:
    said = list(golden.differences({"a": 1, "b": {"c": "x"}}, {"b": {"c": "y"}, "d": 2}))
    assert said == [
        "a: 1 was recorded, now None",
        "b c: 'x' was recorded, now 'y'",
        "d: None was recorded, now 2",
    ]


def test_what_is_not_known_is_refused_with_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert golden.main(["compare", "--only", "no-check"]) == 2
    assert "no check is called 'no-check'; there are datasets" in capsys.readouterr().err
    monkeypatch.setenv("RULERAG_DATA", str(tmp_path / "no-graphs"))
    assert golden.main(["compare"]) == 2
    assert "no-graphs: no folder of graphs; set RULERAG_DATA" in capsys.readouterr().err
    monkeypatch.setenv("RULERAG_DATA", str(tmp_path))
    assert golden.main(["compare", "--checkout", "no-folder", "--only", "demo"]) == 2
    assert "no-folder: no checkout" in capsys.readouterr().err
