"""MetaQA's files are read as they are, and every question that is asked is one of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.linking import asking, metaqa


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path = tmp_path / "metaqa"
    tmp_path.mkdir()
    films = [(f"Film {n}", f"Director {n % 7}", f"Writer {n % 5}") for n in range(40)]
    graph = [f"{film}|directed_by|{one}\n{film}|written_by|{other}" for film, one, other in films]
    (tmp_path / "graph.txt").write_text("\n".join(graph) + "\n", encoding="utf-8")
    asked = [f"who made [{film}]\t{one}" for film, one, _ in films]
    again = [f"[{film}] is whose film\t{one}" for film, one, _ in films]
    (tmp_path / "1hop_dev.txt").write_text("\n".join(asked) + "\n", encoding="utf-8")
    (tmp_path / "1hop_dev_paraphrased.txt").write_text("\n".join(again) + "\n", encoding="utf-8")
    types = "movie_to_director\n" * 40
    (tmp_path / "1hop_dev_types.txt").write_text(types, encoding="utf-8")
    by = {one: [w for _, d, w in films if d == one] for _, one, _ in films}
    two = [f"who wrote what [{one}] made\t{'|'.join(sorted(set(by[one])))}|Nobody" for one in by]
    (tmp_path / "2hop_dev.txt").write_text("\n".join(two) + "\n", encoding="utf-8")
    types = "director_to_movie_to_writer\n" * len(two)
    (tmp_path / "2hop_dev_types.txt").write_text(types, encoding="utf-8")
    return tmp_path


def test_brackets_go_and_types_become_paths(folder: Path) -> None:
    first = metaqa.read_cases(folder, "1hop_dev.txt", "1hop_dev_types.txt")[0]
    assert (first.text, first.topic, first.path) == ("who made Film 0", "Film 0", ("directed_by",))
    two = metaqa.read_cases(folder, "2hop_dev.txt", "2hop_dev_types.txt")[0]
    assert two.path == ("^directed_by", "written_by")
    ends = {("Director 0", "^directed_by"): {"Film 0"}, ("Film 0", "written_by"): {"Writer 0"}}
    assert "Nobody" in two.answers
    assert metaqa.reached(ends, two) == {"Writer 0"}  # what the graph gives


def test_a_whole_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metaqa, "_LOOKED_AT", 1)
    monkeypatch.setattr("benchmarks.linking.asking.data_folder", lambda: folder.parent)
    rows = metaqa.run(folder, 20, None)
    assert [row["questions"] for row in rows] == ["one hop", "one hop, paraphrased", "two hops"]
    shares = [[row[one] for one in ("right", "refused", "wrong")] for row in rows]
    assert all(sum(one) == pytest.approx(1) for one in shares)
    assert rows[0]["right"] == 1.0 and rows[2]["number"] == 6  # seven, one looked at


def test_questions_of_the_validation_graphs(capsys: pytest.CaptureFixture[str]) -> None:
    row = asking.ask("library", "valid", None)
    assert sum(row["answerable"].values()) == 40 and sum(row["unanswerable"].values()) == 20
    assert row["answerable"]["right"] >= 28 and row["unanswerable"]["refused"] >= 19
    assert row["answerable"]["wrong"] + row["unanswerable"]["wrong"] <= 2
    assert "library" in asking.table([{"linker": "embedded", **row}])
