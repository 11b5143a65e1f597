"""Data of one's own at the command line: ``inspect``, small graphs, indexes of texts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rulerag.rules import RuleBank
from tests.texts.pdf import pdf_bytes

Refused = Callable[..., str]
TABLE = "Wer;Was;Wen;Datum;Notiz\n" + "".join(
    f"P{n};lebt in;{'Ulm' if n % 2 else 'Kiel'};1.{n}.2020;x\n" for n in range(1, 13)
)
COLUMNS = "subject=Wer,relation=Was,object=Wen,time=Datum"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "facts.csv"
    path.write_text(TABLE + "P1;lebt in;Rom;1.1.2020;\nP2;lebt in;;1.1.2020;\np1.;lebt in;Ulm;;\n")
    return path


def test_inspect_shows_what_is_understood_and_doubtful(table: Path, rulerag: Any) -> None:
    shown = rulerag("inspect", table, "--columns", COLUMNS)
    assert shown.code == 0, shown.err
    for line in (
        "subject = 'Wer', relation = 'Was', object = 'Wen', time = 'Datum'",
        "not read: Notiz",
        "DD.MM.YYYY: 2020-01-01 to 2020-12-01, 12 different",
        "1 × the column 'Wen' is empty (first: line 15)",
        "1 × the column 'Datum' is empty (first: line 16)",
        "13  lebt in: Time 2020-01-01 P1 lebt in Ulm.",
        "lebt in: 1 of 12 have several objects at one time, as P1: Ulm, Rom; all are kept",
        f"rulerag mine {table} --columns {COLUMNS} --out rules.jsonl",
    ):
        assert line in shown.out
    assert len(shown.out.splitlines()) <= 24
    undated = rulerag(
        "inspect", table, "--columns", "subject=Wer,relation=Was,object=Wen,time=none"
    )
    assert "1 names differ only in case or signs: 'P1' and 'p1.'" in undated.out


def test_inspect_names_facts_with_several_dates(tmp_path: Path, rulerag: Any) -> None:
    rows = [f"p{n},born in,town,19{n + 10}-01-02" for n in range(12)]
    file = tmp_path / "born.csv"
    file.write_text("\n".join(["from,relation,to,date", *rows, "p3,born in,town,1914-01-02"]))
    shown = rulerag("inspect", file)
    assert (
        "born in: 1 of 12 have several dates, as p3, town: 1913-01-02, 1914-01-02; all are kept"
        in shown.out
    )


def test_inspect_of_a_graph_without_a_header(tmp_path: Path, rulerag: Any) -> None:
    (tmp_path / "train.txt").write_text("a\tr\tb\t3\nb\tr\ta\t4\n")
    shown = rulerag("inspect", tmp_path)
    assert "read as quadruples" in shown.out
    assert "3 to 4, 2 different" in shown.out


def test_columns_that_are_not_found_and_files_that_are_empty(
    table: Path, refused: Refused, tmp_path: Path
) -> None:
    for command in (("mine", table, "--out", "x"), ("inspect", table)):
        assert "Wer, Was, Wen, Datum, Notiz" in refused(*command)
    assert "'Wr' for the subject" in refused("inspect", table, "--columns", "subject=Wr")
    (tmp_path / "empty.csv").touch()
    assert "empty.csv: holds no fact" in refused("inspect", tmp_path / "empty.csv")
    (tmp_path / "zeros.csv").write_bytes(bytes(99))
    assert "zero bytes" in refused("inspect", tmp_path / "zeros.csv")


def test_a_small_static_graph_gets_rules(tmp_path: Path, rulerag: Any) -> None:
    facts = [f"f{n % 4},hires,p{n}\np{n},works for,f{n % 4}\n" for n in range(30)]
    path, out = tmp_path / "facts.csv", tmp_path / "rules.jsonl"
    path.write_text("s,p,o\n" + "".join(facts))
    mined = rulerag("mine", path, "--out", out)
    assert "no relation has 100 facts, so those with 10 or more get rules" in mined.out
    assert {rule.head.relation for rule in RuleBank.load(out)} == {"hires", "works for"}
    none = rulerag("mine", path, "--out", out, "--min-head-size", 100)
    assert "lower --min-head-size, --min-head-coverage, --min-confidence" in none.out
    assert (none.code, len(RuleBank.load(out))) == (0, 0)


def test_a_dataset_states_how_its_table_was_read(table: Path, rulerag: Any, tmp_path: Path) -> None:
    rows = [
        f"f{n % 3};hires;p{n};{1 + n % 28}.{1 + n // 28}.2020\n"
        f"p{n};works for;f{n % 3};{1 + n % 28}.{2 + n // 28}.2020\n"
        for n in range(80)
    ]
    table.write_text("Wer;Was;Wen;Datum\n" + "".join(rows))
    out = tmp_path / "dataset"
    built = rulerag("ruleqa", "build", "--kg", table, "--columns", COLUMNS, "--out", out)
    assert built.code == 0, built.err
    assert f"--columns {COLUMNS}" in (out / "README.md").read_text()


# --- texts ---------------------------------------------------------------------------------------


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.md").write_text("# Staff\n\nAnna Meyer works\nfor Acme.\n\nBen lives in Bonn.\n")
    (folder / "sub" / "b c.txt").write_bytes(b"Carla founded Dune.\r\n\r\nDune sells sand.")
    (folder / "c.docx").write_bytes(b"PK")
    return folder


def test_an_index_of_texts_is_asked_without_a_dataset(
    texts: Path, rulerag: Any, tmp_path: Path
) -> None:
    built = rulerag("index", texts, "--out", tmp_path / "index")
    first, second = built.out.splitlines()
    assert first.startswith("not read, as texts end in .txt, ") and first.endswith(": 1 .docx")
    assert second.startswith("4 documents indexed")
    asked = rulerag("answer", "Who founded Dune?", "--index", tmp_path / "index", "--top-k", 2)
    assert asked.code == 0, asked.err
    assert "[1]  Carla founded Dune." in asked.out
    assert "no reader: texts are read by a language model, --generator" in asked.out
    why = rulerag("explain", "Who founded Dune?", "--index", tmp_path / "index", "--quiet")
    assert why.code == 0 and "nothing to explain" in why.out and "no reader: texts" in why.out


def test_records_without_ids_are_numbered(rulerag: Any, tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text('{"text": "Anna knows Ben."}\n{"text": "Sand."}\n')
    rulerag("index", tmp_path / "own.jsonl", "--out", tmp_path / "index")
    asked = rulerag("answer", "Whom does Anna know?", "--index", tmp_path / "index", "--top-k", 1)
    assert "[1]  Anna knows Ben." in asked.out


def test_what_texts_cannot_do(texts: Path, rulerag: Any, refused: Refused, tmp_path: Path) -> None:
    rulerag("index", texts, "--out", tmp_path / "index")
    ask = ("answer", "Who founded Dune?", "--index")
    own = (*ask, tmp_path / "index")
    assert "reads statements of facts, not prose" in refused(
        *own, "--generator", "rulerag-nano-llama"
    )
    assert "no facts that rules could follow" in refused(*own, "--rules", "guided")
    assert "is no index of texts" in refused(*ask, texts)
    assert "nowhere, key 'index': no such folder" in refused(*ask, tmp_path / "nowhere")
    assert "the question is empty" in refused("answer", " ", "--index", tmp_path / "index")
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "a.docx").touch()
    index = ("index", tmp_path / "none", "--out", tmp_path / "x")
    assert "no document is there" in refused(*index)
    (tmp_path / "none" / "a.txt").touch()
    assert "a.txt: is empty" in refused(*index)
    (tmp_path / "none" / "a.txt").write_bytes(b"a\xff\xfe\x00")
    assert "a.txt: is no text (it has zero bytes)" in refused(*index)
    assert "is not from 0 to 9" in refused(
        *index[:1], texts, *index[2:], "--words", 20, "--overlap", 10
    )


def test_a_graph_says_whom_texts_mention(
    texts: Path, table: Path, rulerag: Any, tmp_path: Path
) -> None:
    (tmp_path / "who.csv").write_text("s,p,o\nCarla,founded,Dune\nAnna Meyer,works for,Acme\n")
    built = rulerag("index", texts, "--out", tmp_path / "index", "--kg", tmp_path / "who.csv")
    assert "3 of 4 documents mention somebody of 'who'" in built.out
    lines = (tmp_path / "index" / "corpus.jsonl").read_text().splitlines()
    assert [json.loads(line)["metadata"].get("entities") for line in lines] == [
        ["Anna Meyer", "Acme"],
        None,
        ["Carla", "Dune"],
        ["Dune"],
    ]


def test_rules_of_a_dataset_lead_through_texts(
    rulerag: Any, refused: Refused, tmp_path: Path
) -> None:
    """What a graph knows guides the search of texts: first who hired him, then where that is."""
    facts = [
        f"f{n % 4},hires,p{n}\np{n},works for,f{n % 4}\nf{n % 4},lies in,c{n % 4}\n"
        for n in range(40)
    ]
    (tmp_path / "facts.csv").write_text("s,p,o\n" + "".join(facts))
    rulerag("ruleqa", "build", "--kg", tmp_path / "facts.csv", "--out", tmp_path / "dataset")
    (tmp_path / "news.txt").write_text("It rained.\n\nLast week f3 hires young p7.\n\nAnd p9 left.")
    rulerag("index", tmp_path / "news.txt", "--out", tmp_path / "index")
    asked = ("answer", "Who does p7 work for?", "--index", tmp_path / "index", "--top-k", 1)
    found = rulerag(*asked, "--dataset", tmp_path / "dataset")
    assert found.code == 0, found.err
    assert "[1]  Last week f3 hires young p7.  [R1" in found.out
    assert "answer: f3\n  because f3 hires p7" in found.out  # the sentence states a known fact
    unknown = ("answer", "Who does p9 work for?", "--index", tmp_path / "index", "--top-k", 1)
    left = rulerag(*unknown, "--dataset", tmp_path / "dataset").out
    assert "no reader: texts are read by a language model" in left
    nano = ("--dataset", tmp_path / "dataset", "--generator", "rulerag-nano-llama")
    assert "reads statements of facts, not prose" in refused(*asked, *nano)


# --- extraction ----------------------------------------------------------------------------------


@pytest.fixture
def stories(tmp_path: Path) -> Path:
    """Texts that state 60 facts, and a table with some of them."""
    folder = tmp_path / "stories"
    folder.mkdir()
    lines, known = [], ["from,relation,to,date"]
    for n in range(30):
        who, firm, day = (
            f"Ann{n}a Bo{n}a",
            f"Firm{n % 5}x Works",
            f"{1 + n % 28:02}.0{1 + n // 28}.2021",
        )
        lines.append(f"On {day}, {who} was hired by {firm}. They signed with it later.")
        lines.append(f"{who} started work at {firm} on {day.replace('.2021', '.2022')}.")
        if n < 6:
            known.append(f"{firm},hires,{who},{day}")
            known.append(f"{who},works for,{firm},{day.replace('.2021', '.2022')}")
    (folder / "news.txt").write_text("\n\n".join(lines))
    (tmp_path / "seeds.csv").write_text("\n".join(known))
    return folder


def test_facts_of_texts_become_a_graph_and_a_dataset(
    stories: Path, rulerag: Any, tmp_path: Path
) -> None:
    graph, seeds = tmp_path / "graph", tmp_path / "seeds.csv"
    found = rulerag("extract", stories, "--seeds", seeds, "--out", graph)
    assert found.code == 0, found.err
    assert found.out.startswith("60 facts of 2 relations in 60 documents")
    evidence = [json.loads(line) for line in (graph / "evidence.jsonl").read_text().splitlines()]
    one = evidence[0]
    assert one["fact"] == ["Firm0x Works", "hires", "Ann0a Bo0a", "2021-01-01"]
    assert one["document"] == "news.txt#1"
    assert one["text"] == "On 01.01.2021, Ann0a Bo0a was hired by Firm0x Works."
    assert "60" in rulerag("inspect", graph).out
    mined = rulerag("mine", graph, "--out", tmp_path / "rules.jsonl", "--min-confidence", 0.5)
    assert mined.code == 0 and "rules for 1 of 2 relations" in mined.out
    built = rulerag("ruleqa", "build", "--kg", graph, "--out", tmp_path / "dataset")
    assert built.code == 0, built.err
    asked = rulerag(
        "answer", "Who does Ann29a Bo29a work for?", "--dataset", tmp_path / "dataset", "--top-k", 2
    )
    assert "On 02.02.2021, Ann29a Bo29a was hired by Firm4x Works." in asked.out
    again = rulerag("extract", stories, "--patterns", graph / "patterns.yaml", "--out", graph)
    assert again.out.startswith("60 facts of 2 relations")


def test_extraction_without_facts_or_with_nothing_to_find(
    stories: Path, rulerag: Any, refused: Refused, tmp_path: Path
) -> None:
    open_ = rulerag("extract", stories, "--out", tmp_path / "open")
    assert "started work at: Ann0a Bo0a started work at Firm0x Works" in open_.out
    (tmp_path / "dull.txt").write_text("It rained.\n")
    dull = ("extract", tmp_path / "dull.txt", "--out", tmp_path / "none")
    assert "no triple was found (no sentence names two entities)" in refused(*dull)
    assert "is not from 0 to 1" in refused(*dull, "--min-confidence", 3)
    german = "Die Firma stellte im Mai zwei neue Leute ein und verlor kurz darauf drei andere. "
    (tmp_path / "german.txt").write_text(german * 4 + "Anna Meyer verließ Acme.", encoding="utf-8")
    said = rulerag("extract", tmp_path / "german.txt", "--out", tmp_path / "german")
    assert said.out.startswith("the texts do not look English")
    assert "is no language model" in refused(*dull, "--generator", "symbolic")
    (tmp_path / "undated.txt").write_text("Anna Meyer works for Acme. Ben Koch left Acme.")
    rulerag("extract", tmp_path / "undated.txt", "--out", tmp_path / "undated")
    assert (tmp_path / "undated" / "train.csv").read_text() == (
        "subject,relation,object\nAnna Meyer,works for,Acme\nBen Koch,left,Acme\n"
    )


def test_extraction_of_files_that_cannot_be_read_and_of_facts_that_contradict(
    rulerag: Any, refused: Refused, tmp_path: Path
) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "empty.txt").write_text("")
    (texts / "raw.txt").write_bytes(bytes(range(256)))
    (texts / "scan.pdf").write_bytes(pdf_bytes([]))
    for name, reason in {
        "empty.txt": "is empty",
        "raw.txt": "is no text",
        "scan.pdf": "holds no text on any page",
    }.items():
        assert reason in refused("extract", texts / name, "--out", tmp_path / "none")
    homes = [f"P{n}x Qu lives in {'Ulm' if n % 2 else 'Kiel'}." for n in range(12)]
    (texts / "homes.txt").write_text("\n\n".join([*homes, "P3x Qu lives in Bonn."]))
    found = rulerag("extract", texts, "--out", tmp_path / "graph")
    assert found.code == 0, found.err
    assert "scan.pdf: holds no text on any page" in found.out
    assert found.out.count("not read: ") == 3
    shown = "may contradict each other: 1, first P3x Qu lives in: Bonn, Ulm; all are kept"
    assert shown in found.out
    report = json.loads((tmp_path / "graph" / "extraction.json").read_text())
    assert report["facts"] == 13
    assert report["may_contradict"] == [
        {"relation": "lives in", "subject": "P3x Qu", "objects": ["Bonn", "Ulm"]}
    ]
