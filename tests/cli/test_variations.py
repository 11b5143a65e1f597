"""The tutorial with tables as people have them: an answer each, or what would work."""

from __future__ import annotations

import csv
import io
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

FIRMS = ("Acme Ltd", "Borealis", "Kölner AG", "Dune")
ROWS: list[tuple[str, str, str, date]] = []
for number in range(40):
    person, firm = f"Person{number} Meyer", FIRMS[number * number % 7 % 4]
    day = date(2021, 1, 4) + timedelta(days=13 * number)
    ROWS.append((firm, "hires", person, day))
    if number % 10:
        ROWS.append((person, "works for", firm, day + timedelta(days=30)))


def written(
    header: str = "from,relation,to,date",
    *,
    delimiter: str = ",",
    form: str = "%Y-%m-%d",
    quoting: int = csv.QUOTE_MINIMAL,
    encoding: str = "utf-8",
    relations: tuple[str, str] = ("hires", "works for"),
    rows: int | None = None,
) -> bytes:
    """A table of who hires whom, and who works for whom a month later."""
    file = io.StringIO()
    table: Any = csv.writer(file, delimiter=delimiter, quoting=quoting)  # type: ignore[call-overload]
    if header:
        table.writerow(header.split(","))
    said = dict(zip(("hires", "works for"), relations, strict=True))
    for one, does, other, day in ROWS[:rows]:
        table.writerow([one, said[does], other, *([f"{day:{form}}"] if form else [])])
    return file.getvalue().encode(encoding)


@pytest.mark.parametrize(
    ("table", "options", "question"),
    [
        pytest.param(written(), [], "", id="comma"),
        pytest.param(written(delimiter=";", form="%d.%m.%Y"), [], "", id="semicolon, 02.01.2023"),
        pytest.param(written(quoting=csv.QUOTE_ALL, form="%d/%m/%Y"), [], "", id="quotes, slashes"),
        pytest.param(written(""), [], "", id="no header"),
        pytest.param(
            written("Wer,Was,Wen,Tag"),
            ["--columns", "subject=Wer,relation=Was,object=Wen,time=Tag"],
            "",
            id="other names of columns",
        ),
        pytest.param(written(encoding="utf-16", delimiter="\t"), [], "", id="UTF-16, as Excel"),
        pytest.param(written(encoding="utf-8-sig"), [], "", id="byte order mark"),
        pytest.param(written(form="%Y-%m-%dT23:30:00+02:00"), [], "", id="time zones"),
        pytest.param(
            written(relations=("stellt ein", "arbeitet für")),
            [],
            "Für wen arbeitet Person32 Meyer?",
            id="German",
        ),
        pytest.param(
            written(relations=("雇用", "工作于")), [], "Person32 Meyer 工作于 哪里?", id="Chinese"
        ),
    ],
)
def test_a_table_leads_to_an_answer_and_why(
    table: bytes, options: list[str], question: str, tmp_path: Path, rulerag: Any
) -> None:
    (tmp_path / "facts.csv").write_bytes(table)
    kg = [tmp_path / "facts.csv", *options]
    shown = rulerag("inspect", *kg)
    assert shown.code == 0 and f"facts      {len(ROWS)}" in shown.out, shown.err
    build = rulerag("ruleqa", "build", "--kg", *kg, "--out", tmp_path / "data", "--quiet")
    assert build.code == 0, build.err
    # Hired before the documents end, at work only later: the rule alone knows.
    asked = [question or "Who does Person32 Meyer work for?", "--dataset", tmp_path / "data"]
    for command in ("answer", "explain"):
        said = rulerag(command, *asked, "--top-k", 3)
        firm = next(one for one, _, other, _ in ROWS if other == "Person32 Meyer")
        assert said.code == 0 and firm in said.out.split("ocuments")[0], said.out + said.err


def test_a_small_table_can_be_asked(tmp_path: Path, rulerag: Any) -> None:
    (tmp_path / "facts.csv").write_bytes(written(rows=30))
    data = tmp_path / "data"
    build = rulerag("ruleqa", "build", "--kg", tmp_path / "facts.csv", "--out", data, "--quiet")
    assert build.code == 0, build.err
    said = rulerag("answer", "Who does Person1 Meyer work for?", "--dataset", data)
    assert f"answer: {ROWS[1][0]}" in said.out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no fact"),
        (b"from,relation,to\n", "holds no fact: no row below the header"),
        (bytes(range(256)), "is no text file: it holds zero bytes — a table is UTF-8 text"),
        (b"name,age\nAnna,31\n", "found no table of three columns or more: 'name,age' — one fact"),
        (b"name,age,city\nAnna,31,Ulm\n", "say which columns make it, as in --columns 'subject="),
        (written(encoding="latin-1"), "not UTF-8 text — save the file as UTF-8"),
    ],
    ids=["empty", "header alone", "binary", "two columns", "wrong columns", "Latin-1"],
)
def test_what_is_no_table_of_facts_says_what_would_work(
    content: bytes, message: str, tmp_path: Path, refused: Any
) -> None:
    (tmp_path / "facts.csv").write_bytes(content)
    for command in (["inspect"], ["ruleqa", "build", "--out", tmp_path / "d", "--kg"]):
        assert message in refused(*command, tmp_path / "facts.csv")


def test_questions_that_are_not_understood_say_so(tmp_path: Path, rulerag: Any) -> None:
    (tmp_path / "facts.csv").write_bytes(written())
    data = tmp_path / "data"
    assert rulerag("ruleqa", "build", "--kg", tmp_path / "facts.csv", "--out", data).code == 0
    nobody = rulerag("answer", "Who does Zxqv Unknown work for?", "--dataset", data)
    assert "nobody known is mentioned; nearest names:" in nobody.out
    assert "plain retrieval was used, without rules" in nobody.out
    several = rulerag("answer", "Who does Meyer work for?", "--dataset", data)
    assert "nearest names: 'Person" in several.out
    two = rulerag("answer", "Who hires and who works for Borealis?", "--dataset", data)
    assert "it could also mean:" in two.out
