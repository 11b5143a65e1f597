"""Body lengths: a graph whose only regularity takes two steps, measured for real and kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.link_prediction.temporal_lengths import main


@pytest.fixture
def relays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody's message goes on a day later, and arrives the day after that."""
    folder = tmp_path / "data" / "relays"
    folder.mkdir(parents=True)
    splits = {"train": range(0, 120, 3), "valid": range(120, 150, 3), "test": range(150, 160, 3)}
    for name, days in splits.items():
        lines = []
        for day in days:
            a, b, c = f"a{day // 3 % 7}", f"b{day % 7}", f"c{day // 3 * 5 % 7}"
            facts = ((a, "tells", b, day), (b, "passes to", c, day + 1), (a, "reaches", c, day + 2))
            lines += ["\t".join(map(str, fact)) + "\n" for fact in facts]
        (folder / f"{name}.txt").write_text("".join(lines))
    monkeypatch.setenv("RULERAG_DATA", str(tmp_path / "data"))


@pytest.mark.usefixtures("relays")
def test_rows_are_measured_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    command = ["--out", str(out), "--graphs", "relays", "--lengths", "1", "1,2"]
    assert main(command) == 0
    short, long = (json.loads((out / f"relays-{end}.json").read_text()) for end in ("1", "1_2"))
    assert short["config"]["split"] == long["config"]["split"] == "valid"
    assert (short["config"]["lengths"], long["config"]["lengths"]) == ([1], [1, 2])
    assert short["num_queries"] == long["num_queries"] == 60
    assert short["num_rules"] < long["num_rules"]
    assert short["config"]["num_walks"] > 1
    assert str(tmp_path) not in (out / "relays-1.json").read_text()

    long["num_rules"] = 123456
    (out / "relays-1_2.json").write_text(json.dumps(long))
    (out / "relays-1.json").unlink()
    capsys.readouterr()
    assert main(command) == 0
    text = capsys.readouterr().out
    assert text == (out / "table.md").read_text()
    assert f"| relays | 1 | {short['num_rules']} | {100 * short['metrics']['mrr']:.2f} |" in text
    assert "| relays | 1,2 | 123,456 |" in text
    assert "python -m benchmarks.link_prediction.temporal_lengths" in text

    assert main([*command, "--again"]) == 0
    assert json.loads((out / "relays-1_2.json").read_text())["num_rules"] != 123456


@pytest.mark.usefixtures("relays")
def test_a_missing_graph_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--out", str(tmp_path / "out"), "--graphs", "relay"]) == 2
    assert "RULERAG_DATA" in capsys.readouterr().err
