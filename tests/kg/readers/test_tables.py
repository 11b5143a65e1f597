"""Tables with a header: columns, forms of dates, and what is wrong with a file."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import pytest

from rulerag.errors import ConfigError, DataFormatError, EmptyDataError, RuleRAGError
from rulerag.kg import KnowledgeGraph, Verbalizer

WORDS = ["Time 2023-01-02 Anna works for Elm, Sons.", "Time 2023-02-13 Ben works for Elm, Sons."]
ROWS = 'Anna,works for,"Elm, Sons",02.01.2023\nBen,works for,"Elm, Sons",13.02.2023\n'


def _read(tmp_path: Path, content: str | bytes, name: str = "facts.csv", **options: Any) -> Any:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return KnowledgeGraph.load(path, **options)


def _words(graph: KnowledgeGraph) -> list[str]:
    words = Verbalizer(graph)
    return [words.fact(fact) for fact in graph.train]


@pytest.mark.parametrize(
    "header",
    [
        "subject,relation,object,date",
        "head,type,tail,timestamp",
        "source,label,target,when",
        "from,edge,to,year",
        "s,p,o,time",
        "Source Node,relationType,target_name,Valid From",
    ],
)
def test_columns_by_their_names(header: str, tmp_path: Path) -> None:
    assert _words(_read(tmp_path, f"{header}\n{ROWS}")) == WORDS


def test_the_strongest_word_decides_and_the_rest_is_not_read(tmp_path: Path) -> None:
    text = "id,from,subject,relation,object,to\n1,x,Anna,knows,Ben,y\n"
    graph = _read(tmp_path, text)
    assert _words(graph) == ["Anna knows Ben."]
    assert graph.notes["other_columns"] == ["id", "from", "to"]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("name", ["facts.csv", "facts.txt", "facts.csv.gz", "folder/any.csv"])
def test_signs_marks_ends_and_names(
    delimiter: str, mark: bytes, end: str, name: str, tmp_path: Path
) -> None:
    rows = [["from", "relation", "to", "date"], ["Ida", "says", 'a "b", c;d', "2.1.2023"]]
    lines = [delimiter.join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows]
    data = mark + (end.join(lines) + end).encode()
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    graph = KnowledgeGraph.load(path.parent if "/" in name else path)
    assert _words(graph) == ['Time 2023-01-02 Ida says a "b", c;d.']


@pytest.mark.parametrize(
    ("dates", "formatted"),
    [
        (("2023-01-02", "2023-01-09"), ("2023-01-02", "2023-01-09")),
        (("2.1.2023", "09.01.2023"), ("2023-01-02", "2023-01-09")),
        (("02/01/2023", "13/01/2023"), ("2023-01-02", "2023-01-13")),
        (("01/02/2023", "01/13/2023"), ("2023-01-02", "2023-01-13")),
        (("2023/01/02", "13.01.2023"), ("2023-01-02", "2023-01-13")),
        (("20230102", "20230113"), ("2023-01-02", "2023-01-13")),
        (("2023-01", "2023-03"), ("2023-01-01", "2023-03-01")),
        (("2021", "2023"), ("2021", "2023")),
        (("2021.0", "2023.0"), ("2021", "2023")),
        (("7", "12"), ("7", "12")),
        (("2023-01-02T13:30:00", "2023-01-02 15:00"), ("2023-01-02 13:00", "2023-01-02 15:00")),
        # In one zone the clock counts as written, whatever UTC says; a day alone may stand beside.
        (("2023-01-02T23:30:00+02:00", "2023-01-03 00:10+02"), ("2023-01-02 23:00", "2023-01-03")),
        (("2023-01-02T23:30:00.5z", "2023-01-04"), ("2023-01-02 23:00", "2023-01-04")),
        (("2.1.2023 23:30 UTC", "02.01.2023 22:00 GMT"), ("2023-01-02 23:00", "2023-01-02 22:00")),
        # In several, all are on the clock of UTC: India is ahead by half an hour more.
        (("2023-01-02T23:30+02:00", "2023-01-02T22:10Z"), ("2023-01-02 21:00", "2023-01-02 22:00")),
        (("2023-01-03T02:45+0530", "2023-01-02T16:30-05:00"), ("2023-01-02 21:00",) * 2),
        # Midnights are days, even when summer time has moved their zone.
        (("2023-03-02T00:00+01:00", "2023-07-02T00:00+02:00"), ("2023-03-02", "2023-07-02")),
    ],
)
def test_forms_of_dates(dates: tuple[str, str], formatted: tuple[str, str], tmp_path: Path) -> None:
    graph = _read(tmp_path, f"s,p,o,date\na,r,b,{dates[0]}\na,r,c,{dates[1]}\n")
    read = [graph.calendar.format(fact.timestamp or 0) for fact in graph.train]
    assert tuple(read) == formatted


def test_what_was_done_about_time_zones_is_noted(tmp_path: Path) -> None:
    text = "s,p,o,date\na,r,b,2023-01-02T23:30:00+02:00\na,r,c,2023-01-02T22:10:00{}\n"
    for zone, note in (("+02:00", "all times in UTC+02:00"), ("Z", "several time zones read in U")):
        assert note in _read(tmp_path, text.format(zone)).notes["dates"]


def test_dates_that_may_be_read_both_ways(tmp_path: Path) -> None:
    text = "s,p,o,date\na,r,b,02/01/2023\na,r,c,03/01/2023\n"
    with pytest.raises(DataFormatError, match=r"line 2, key 'date': .*--dates day-first or"):
        _read(tmp_path, text)
    for order, last in (("day-first", "2023-01-03"), ("month-first", "2023-03-01")):
        graph = _read(tmp_path, text, dates=order)
        assert graph.calendar.format(graph.train.fact(1).timestamp or 0) == last
    with pytest.raises(ConfigError, match="unknown order of dates 'american'"):
        _read(tmp_path, text, dates="american")


FAULTS = {
    "unknown columns": ("Wer,Was,Wen\na,r,b\nc,q,d\n", r"line 1, key 'subject': .*Wer, Was, Wen"),
    "two of a kind": ("source_id,source_name,p,o\n1,a,r,b\n", r"source_id, source_name"),
    "too many cells": ("s,p,o\na,r,Elm, Sons\n", r"line 2: expected 3 columns .*found 4.*quotes"),
    "too few cells": ("s,p,o,date\na,r,b,2020\na,r\n", r"line 3: expected 4 columns .*found 2"),
    "an open quote": ('s,p,o\na,"r,b\nc,q,d\n', r"line 2: expected 3 columns .*quote"),
    "no date": ("s,p,o,date\na,r,b,2020-01-02\na,r,c,soon\n", r"line 3, key 'date': .*'soon'"),
    "no such day": ("s,p,o,date\na,r,b,30.02.2020\n", r"line 2, key 'date': '30.02.2020' is no da"),
    "two orders": ("s,p,o,date\na,r,b,13/01/2020\na,r,c,01/13/2020\n", r"line 3.*the day first"),
    "milliseconds": ("s,p,o,time\na,r,b,1700000000000\n", r"line 2, key 'time'.*too large"),
    "zones of some": (
        "s,p,o,date\na,r,b,2020-01-02T10:00Z\na,r,c,2020-01-02T11:00\n",
        r"line 3, key 'date': '2020-01-02T11:00' names no time zone, and '2020-01-02T10:00Z' does",
    ),
    "a day among zones": (
        "s,p,o,date\na,r,b,2020-01-02T10:00Z\na,r,c,2020-01-02T11:00+01\na,r,d,2020-01-03\n",
        r"line 4, key 'date': '2020-01-03' names no time zone",
    ),
    "no such zone": (
        "s,p,o,date\na,r,b,2020-01-02T10:00+27:00\n",
        r"there is no time zone \+27:00",
    ),
    "a zone by name": (
        "s,p,o,date\na,r,b,2020-01-02 10:00\na,r,c,2020-01-02 10:00 Europe/Berlin\n",
        r"line 3, key 'date': expected a time such as",
    ),
    "a year among days": ("s,p,o,date\na,r,b,1.2.2020\na,r,c,2.2.2020\na,r,d,2021\n", r"line 4"),
    "mostly undated": ("s,p,o,date\na,r,b,2020\na,r,c,\na,r,d,\n", r"key 'date': .*2 of 3.*none"),
    "two columns": ("a,b\n1,2\n", r"line 1: found no table of three columns"),
    "prose": ("Anna works for Acme.\n", r"line 1: found no table of three columns"),
}


@pytest.mark.parametrize(("text", "message"), FAULTS.values(), ids=FAULTS)
def test_faults_name_file_line_and_column(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataFormatError, match=rf"facts\.csv.*{message}"):
        _read(tmp_path, text)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("facts.csv", b"", "holds no fact"),
        ("facts.csv", b"\n\n", "holds no fact"),
        ("facts.csv", b"s,p,o\n", "no row below the header"),
        ("facts.csv", b"s,p,o\n,,x\n", "is empty in 1 of 1 rows"),
        ("facts.csv", bytes(range(256)), "no text file: it holds zero bytes"),
        ("facts.csv", "s,p,o\nMüller,r,b\n".encode("latin-1"), "line 2: not UTF-8 text"),
        ("facts.xlsx", b"PK\x03\x04", "save the sheet as CSV"),
        ("facts.parquet", b"PAR1", "from_frame"),
    ],
)
def test_empty_and_binary_files(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises((DataFormatError, EmptyDataError), match=re.escape(message)):
        _read(tmp_path, content, name)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_tables_as_excel_writes_them(encoding: str, tmp_path: Path) -> None:
    rows = ["from\trelation\tto", *(f"Zoë {n}\tlebt in\tKöln" for n in range(4000))]
    graph = _read(tmp_path, "\r\n".join(rows).encode(encoding))
    assert len(graph.train) == 4000 and graph.entities.names[:2] == ["Zoë 0", "Köln"]


def test_rows_left_out_duplicates_and_contradictions(tmp_path: Path) -> None:
    rows = "a,r,b,1.2.2020\na,r,c,1.2.2020\na,r,b,1.2.2020\na,,b,1.2.2020\n\nd,r,b,\n"
    graph = _read(tmp_path, f"s,p,o,date\n{rows}")
    # What contradicts is for people to judge: both stay.
    assert _words(graph) == ["Time 2020-02-01 a r b.", "Time 2020-02-01 a r c."]
    assert graph.notes["duplicates_dropped"] == {"train": 1}
    assert graph.notes["left_out"] == {
        "the column 'p' is empty": {"rows": 1, "first_line": 5},
        "the column 'date' is empty": {"rows": 1, "first_line": 7},
    }


def test_named_columns(tmp_path: Path) -> None:
    text = "Wer,Was,Wen,Datum\na,r,b,2020\na,r,c,2021\n"
    columns = "subject=wer,relation=Was,object=Wen,time=Datum"
    assert _words(_read(tmp_path, text, columns=columns))[0] == "Time 2020 a r b."
    by_number = {"subject": "3", "relation": "2", "object": "1", "time": "4"}
    assert _words(_read(tmp_path, text, columns=by_number))[0] == "Time 2020 b r a."
    for wrong, message in (
        ("subject=Wr", r"no column 'Wr' for the subject.*did you mean 'Wer'"),
        ("who=Wer", r"no role 'who'"),
        ("Wer", r"'Wer' names no columns"),
    ):
        with pytest.raises(ConfigError, match=message):
            _read(tmp_path, text, columns=wrong)
    assert not _read(tmp_path, f"s,p,o,date\n{ROWS}", columns="time=none").is_temporal


def test_tables_without_a_header(tmp_path: Path) -> None:
    assert _words(_read(tmp_path, ROWS)) == WORDS
    assert _words(_read(tmp_path, "a,r,b\nc,r,d\n")) == ["a r b.", "c r d."]
    assert _words(_read(tmp_path, "a,x,b\nc,y,d\n", columns="rht")) == ["x a b.", "y c d."]


def test_splits_as_tables(tmp_path: Path) -> None:
    for split, row in (("train", "a,r,b,2.1.2020"), ("test", "a,r,c,3.2.2020")):
        (tmp_path / f"{split}.csv").write_text(f"s,p,o,date\n{row}\n")
    graph = KnowledgeGraph.load(tmp_path)
    assert [graph.calendar.format(t.fact(0).timestamp or 0) for t in graph.splits.values()] == [
        "2020-01-02",
        "2020-02-03",
    ]
    (tmp_path / "test.csv").write_text("s,p,o\na,r,c\n")
    with pytest.raises(RuleRAGError, match=r"test.csv: has no dates, and train.csv has"):
        KnowledgeGraph.load(tmp_path)
