"""One contract test a command: status 0, what it prints, and the files that it writes."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

from rulerag.cache import remember
from rulerag.cli.common import SHOWN
from rulerag.explanation.explaining import Why
from rulerag.models import known_models
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.rules import RuleBank
from rulerag.synthetic.world import World
from rulerag.types import Query
from tests.models.gguf import tiny_llama, write_gguf

ROOT = Path(__file__).resolve().parents[2]
SYMBOLIC = ("--retriever", "symbolic", "--quiet")


@pytest.fixture(scope="session")
def asked(dated_dataset: RuleQADataset) -> Query:
    """A query that some planted rule leads to."""
    return dated_dataset.query_set("supported")[0]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of its own."""
    monkeypatch.setenv("RULERAG_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


# --- graphs and rules -----


@pytest.mark.parametrize(
    ("kind", "miner", "options"),
    [
        ("temporal", "tlogic", ("--lengths", 1)),
        ("static", "amie", ("--max-atoms", 2, "--min-head-size", 1)),
    ],
)
def test_mine_finds_the_planted_rules(
    kind: str,
    miner: str,
    options: tuple[object, ...],
    worlds: dict[str, World],
    graphs: dict[str, Path],
    rulerag: Any,
    tmp_path: Path,
) -> None:
    out = tmp_path / "new" / "rules.jsonl"
    options += ("--min-confidence", 0.3, "--min-support", 20)
    result = rulerag("mine", graphs[kind], "--out", out, *options)
    assert result.code == 0, result.err
    assert f"({miner}) → {out}" in result.out and "%|" not in result.out + result.err
    assert {rule.id for rule in RuleBank.load(out)} == {rule.id for rule in worlds[kind].rules}


def test_rules_shows_filters_joins_and_writes(
    graphs: dict[str, Path], rulerag: Any, tmp_path: Path
) -> None:
    bank, best = tmp_path / "all.jsonl", tmp_path / "best.tsv"
    mine = ("mine", graphs["static"], "--out", bank, "--min-head-size", 1, "--quiet")
    assert rulerag(*mine, "--prune", "--top", 9, "--threads", 2).code == 0
    every = RuleBank.load(bank)
    head = next(iter(every)).head.relation
    shown = rulerag("rules", bank, "--head", head.upper().replace("_", " "), "--top", 2)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith(f"{len(every):,} rules for ") and " leads to " in shown.out
    options = ("--min-confidence", 0.2, "--per-head", 2, "--score", "confidence")
    left = rulerag("rules", bank, *options, "--out", best, "--out-format", "amie")
    assert 0 < int(re.findall(r"([\d,]+) rules → ", left.out)[0]) < len(every)
    joined = rulerag("rules", best, "--merge", bank, "--out", tmp_path / "joined.jsonl")
    assert joined.code == 0
    assert {r.id for r in RuleBank.load(tmp_path / "joined.jsonl")} == {r.id for r in every}
    covered = rulerag("rules", bank, "--prune-covered", "--kg", graphs["static"])
    assert "rules predicting something new" in covered.out


def test_progress_is_shown_on_a_terminal(graphs: dict[str, Path]) -> None:
    seen, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 80))
    command = [sys.executable, "-m", "rulerag.cli", "mine", graphs["temporal"], "--out", "-"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=terminal, check=True)
    assert b"%|" in os.read(seen, 1 << 16) and b"%|" not in done.stdout
    os.close(terminal)
    os.close(seen)


def test_link_prediction_writes_metrics(
    graphs: dict[str, Path], rulerag: Any, tmp_path: Path
) -> None:
    command = ("link-prediction", graphs["temporal"], "lengths=[1]", "--miner", "tlogic")
    result = rulerag(*command, "--limit", 3, "--out", tmp_path / "links", "--quiet")
    assert result.code == 0, result.err
    metrics = json.loads((tmp_path / "links" / "metrics.json").read_text())
    assert metrics["num_queries"] == 6 and "hits@10" in metrics["metrics"]
    assert f"{100 * metrics['metrics']['mrr']:.2f}" in result.out


# --- tables and texts of one's own -----


def test_a_table_leads_to_rules_a_dataset_and_an_answer(rulerag: Any, tmp_path: Path) -> None:
    rows_ = [f"f{n % 4};stellt ein;p{n};{1 + n % 28:02}.{1 + n // 28:02}.2020;" for n in range(60)]
    rows_ += [
        f"p{n};arbeitet für;f{n % 4};{1 + n % 28:02}.{2 + n // 28:02}.2020;" for n in range(50)
    ]
    table = tmp_path / "facts.csv"
    table.write_text("\n".join(["Wer;Was;Wen;Tag;Notiz", *rows_, "p1;arbeitet für;f3;01.01.2020;"]))
    columns = ("--columns", "subject=Wer,relation=Was,object=Wen,time=Tag")
    shown = rulerag("inspect", table, *columns)
    assert shown.code == 0, shown.err
    for line in ("not read: Notiz", "DD.MM.YYYY: 2020-01-01", f"rulerag mine {table} --columns"):
        assert line in shown.out
    out = tmp_path / "data"
    built = rulerag("ruleqa", "build", "num_queries=5", "--kg", table, *columns, "--out", out)
    assert built.code == 0, built.err
    assert f"--columns {columns[1]}" in (out / "README.md").read_text()
    assert "ok  " in rulerag("ruleqa", "check", out).out
    assert "data" in rulerag("ruleqa", "table", out).out
    assert rulerag("ruleqa", "table", out, "--out", tmp_path / "sizes").code == 0
    assert json.loads((tmp_path / "sizes" / "table.json").read_text())["datasets"]
    assert "Next: rulerag evaluate" in rulerag("inspect", out).out
    answer = rulerag("answer", "what does p55 arbeitet für ?", "--dataset", out, "--top-k", 3)
    assert answer.code == 0 and "answer: f3\n" in answer.out, answer.out


def test_inspect_names_what_is_doubtful(rulerag: Any, tmp_path: Path) -> None:
    born = [f"p{n},born in,town{n},19{n + 10}-01-02" for n in range(12)]
    born += ["p3,born in,town3,1914-01-02", "p4,born in,Rom,1914-01-02", "P4.,born in,Rom,", ",,,"]
    (tmp_path / "born.csv").write_text("\n".join(["from,relation,to,date", *born]))
    shown = rulerag("inspect", tmp_path / "born.csv").out
    assert "several dates, as p3, town3: 1913-01-02, 1914-01-02; all are kept" in shown
    assert "have several objects at one time, as p4: town4, Rom; all are kept" in shown
    assert "the column 'date' is empty (first: line 16)" in shown
    undated = tmp_path / "undated.csv"
    undated.write_text("s,p,o\n" + "P4.,born in,Rom\np4,born in,Rom\n")
    assert "1 names differ only in case or signs: 'P4.' and 'p4'" in rulerag("inspect", undated).out


def test_texts_are_indexed_asked_and_read_for_the_facts_of_a_dataset(
    rulerag: Any, refused: Any, tmp_path: Path
) -> None:
    facts = [f"f{n % 4},hires,p{n}\np{n},works for,f{n % 4}\n" for n in range(40)]
    (tmp_path / "facts.csv").write_text("s,p,o\n" + "".join(facts))
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "news.md").write_text("# News\n\nLast week f3 hires young p7.\n\nIt rained.")
    (texts / "news.docx").write_bytes(b"PK")
    index = tmp_path / "index"
    built = rulerag("index", texts, "--out", index, "--kg", tmp_path / "facts.csv")
    assert built.code == 0 and "1 of 2 documents mention somebody of 'facts'" in built.out
    assert "not read, as texts end in .txt, " in built.out
    asked = ("answer", "Who hires p7?", "--index", index, "--top-k", 1)
    alone = rulerag(*asked)
    assert alone.code == 0 and "[1]  Last week f3 hires young p7." in alone.out
    assert "no reader: texts are read by a language model, --generator" in alone.out
    rulerag("ruleqa", "build", "--kg", tmp_path / "facts.csv", "--out", tmp_path / "dataset")
    known = rulerag(
        asked[0], "Who does p7 work for?", *asked[2:], "--dataset", tmp_path / "dataset"
    )
    assert known.code == 0, known.err
    assert "answer: f3\n  because f3 hires p7" in known.out
    nano = ("--dataset", tmp_path / "dataset", "--generator", "rulerag-nano-llama")
    assert "reads statements of facts, not prose" in refused(*asked, *nano)


def test_extract_writes_a_graph_with_its_sentences(rulerag: Any, tmp_path: Path) -> None:
    (tmp_path / "news.txt").write_text("Anna Meyer works for Acme. Ben Koch left Acme.")
    result = rulerag("extract", tmp_path / "news.txt", "--out", tmp_path / "graph")
    assert result.code == 0, result.err
    assert result.out.startswith("2 facts of 2 relations in ")
    evidence = rows(tmp_path / "graph" / "evidence.jsonl")
    assert evidence[0]["text"] == "Anna Meyer works for Acme."
    patterns = ("--patterns", tmp_path / "graph" / "patterns.yaml")
    again = rulerag("extract", tmp_path / "news.txt", *patterns, "--out", tmp_path / "graph")
    assert again.code == 0 and again.out.startswith("2 facts of 2 relations")


# --- retrieval, answers, explanations -----


def test_retrieve_writes_a_run_with_or_without_an_index(
    dated: Path, dated_dataset: RuleQADataset, rulerag: Any, tmp_path: Path
) -> None:
    index, out = tmp_path / "new" / "index", tmp_path / "run.trec"
    result = rulerag("index", dated, "--out", index, "--dates", "token", "--quiet")
    assert (result.code, result.err) == (0, "") and " documents indexed in " in result.out
    command = ("retrieve", dated, "--query-set", "supported", "--limit", 4, "--top-k", 3)
    result = rulerag(*command, "--out", out, "--index", index)
    assert result.code == 0 and ", answer recall " in result.out
    lines = [line.split() for line in out.read_text().splitlines()]
    wanted = [query.id for query in dated_dataset.query_set("supported")][:4]
    assert list(dict.fromkeys(line[0] for line in lines)) == wanted
    assert {(line[1], line[5]) for line in lines} == {("Q0", "bm25")}
    for union, name in (((), "best"), (("--union",), "all")):
        best = ("retrieve", dated, *SYMBOLIC, "--top-k", 1, *union, "--out", tmp_path / name)
        assert rulerag(*best).code == 0
    assert (tmp_path / "best").read_text().count("\n") < (tmp_path / "all").read_text().count("\n")


def test_answer_shows_the_evidence_of_a_question(asked: Query, dated: Path, rulerag: Any) -> None:
    result = rulerag("answer", asked.text, "--dataset", dated, *SYMBOLIC)
    assert (result.code, result.err) == (0, "")
    first, answer, *rest = result.out.splitlines()
    assert first == asked.text and answer.startswith("  answer: ") and "(none" not in answer
    text = answer.removeprefix("  answer: ")
    assert any(line.startswith("  *") and text in line and "[R1]" in line for line in rest)
    time = asked.text.split()[1]
    words = f"On {time}, who is it that {asked.subject_words} {asked.relation_words}?"
    own = rulerag("answer", words, "--dataset", dated, *SYMBOLIC)
    assert own.code == 0 and own.out.startswith("understood: ") and words in own.out
    assert f"  answer: {text}" in own.out and "[Entity 1" not in own.out
    nobody = rulerag("answer", "who \x1b[31m knows Xqwzzt Vvvrrp?", "--dataset", dated, "--quiet")
    assert "answer: cannot be answered: nobody known is mentioned; nearest names" in nobody.out
    assert nobody.code == 0 and "\x1b" not in nobody.out


def test_answer_writes_the_answers_of_queries(
    dated: Path, dated_dataset: RuleQADataset, rulerag: Any, tmp_path: Path
) -> None:
    out = tmp_path / "new" / "answers.jsonl"
    result = rulerag("answer", dated, "--limit", 7, "--out", out, *SYMBOLIC)
    assert result.code == 0 and result.out.count("\n  answer: ") == SHOWN
    assert f"… and 2 more answers; all are in {out}" in result.out
    exact = sum(row["answer"] in row["answers"] for row in rows(out))
    assert f"exact match {100 * exact / 7:.1f} % of 7 queries" in result.out
    last, first, *_ = (query.id for query in reversed(dated_dataset.query_set("full")))
    named = ("--query", last, "--query", first, "--query", last, "--out", out)
    assert rulerag("answer", dated, *named, *SYMBOLIC).code == 0
    assert [row["query_id"] for row in rows(out)] == [last, first]


def test_explain_writes_records_and_a_page(dated: Path, rulerag: Any, tmp_path: Path) -> None:
    out, html = tmp_path / "new" / "e.jsonl", tmp_path / "page" / "why.html"
    command = ("explain", dated, "--query-set", "supported", "--limit", 6, "--out", out)
    command += ("--html", html, "--attribution", "shapley", "--votes", 2, *SYMBOLIC[:-1])
    result = rulerag(*command)
    assert result.code == 0
    assert re.fullmatch(r"explaining 6 answers: at most \d+ calls\n", result.err)
    assert result.out.count("Why\n") == SHOWN and "rule faithfulness " in result.out
    assert f"… and 1 more explanation; all are in {out}" in result.out
    assert f"written to {out} and {html}" in result.out
    written = rows(out)
    assert len(written) == 6
    assert all(str(Why.from_json(row)) in result.out for row in written[:SHOWN]), "as in Python"
    (claim,) = written[0]["claims"]
    assert claim["attributions"][0]["method"] == "Shapley (exact)"
    page = html.read_text()
    assert str(escape(shlex.join(["rulerag", *map(str, command)]))) in page and "</html>" in page


def test_explain_takes_a_question_and_names_what_has_no_answer(
    asked: Query, dated: Path, rulerag: Any, tmp_path: Path
) -> None:
    result = rulerag("explain", asked.text, "--dataset", dated, *SYMBOLIC)
    assert (result.code, result.err) == (0, "")
    assert re.search(r"rests on “.*” \[1\], found by rule R1\.", result.out)
    assert "Certain: it was asked with the document and without it." in result.out
    command = ("explain", dated, "--query", asked.id, "--top-k", 40, "--budget", 12, "--quiet")
    stopped = rulerag(*command)
    assert "Stopped early: the budget of 12 calls" in stopped.out
    answers = tmp_path / "answers.jsonl"
    rulerag("answer", dated, "--out", answers, *SYMBOLIC)
    unanswered = next(row["query_id"] for row in rows(answers) if not row["answer"])
    result = rulerag("explain", dated, "--query", unanswered, *SYMBOLIC)
    assert result.code == 0 and result.out.endswith(f"leads to an answer: {unanswered}\n")
    first = rulerag("explain", dated, *SYMBOLIC)
    assert "queries; --limit N explains more" in first.out


def test_a_dense_index_and_the_small_reader_are_installed(
    asked: Query, dated: Path, rulerag: Any, tmp_path: Path, cache: Path
) -> None:
    pytest.importorskip("faiss")
    index = tmp_path / "index"
    made = rulerag("index", dated, "--retriever", "dense", "--out", index, "--quiet")
    assert (made.code, made.err) == (0, "")
    options = ("--retriever", "dense", "--index", index, "--fusion", "rrf", "--top-k", 3)
    reader = tmp_path / "reader.yaml"
    reader.write_text("generator: {type: huggingface, model: rulerag-nano-llama}\n")
    question = ("answer", asked.text, "--dataset", dated, *options, "--quiet", "--generator")
    by_name, by_file = rulerag(*question, "rulerag-nano-llama"), rulerag(*question, reader)
    assert by_name.code == 0 and by_name.out == by_file.out


# --- experiments, models, the cache -----


def test_evaluate_writes_metrics_and_resumes(
    experiment: Callable[..., Path], rulerag: Any, refused: Any, tmp_path: Path
) -> None:
    file = experiment("expected: {exact_match: {value: 0.9, tolerance: 0.5}}\n")
    out = tmp_path / "out"
    result = rulerag("evaluate", file, "--out", out)
    assert result.code == 0 and "%|" not in result.err + result.out
    names = {path.name for path in out.iterdir()}
    assert {"metrics.json", "predictions.jsonl", "run.trec", "config.yaml"} <= names
    metrics = json.loads((out / "metrics.json").read_text())
    assert list(metrics) == [
        *("benchmark", "method", "retriever", "generator", "num_queries", "metrics", "seconds"),
        *("seed", "config", "versions"),
    ]
    assert f"{100 * metrics['metrics']['exact_match']:.1f}  exact_match" in result.out
    assert "expected exact_match 90.0 ± 50.0: met" in result.out
    assert "rulerag evaluate " in (out / "report.html").read_text()
    again = rulerag("evaluate", file, "--out", out, "--quiet")
    assert (again.code, again.err.split(" queries ")[1]) == (0, "stand already\n")
    other = ("evaluate", file, "top_k=5", "--out", out, "--quiet")
    message = refused(*other)
    assert "holds a run with other config" in message and "--overwrite" in message
    assert rulerag(*other, "--overwrite").code == 0
    assert json.loads((out / "metrics.json").read_text())["config"]["top_k"] == 5


def test_demo_writes_a_report(rulerag: Any, tmp_path: Path) -> None:
    out = tmp_path / "new" / "demo"
    result = rulerag("demo", "--facts", 600, "--out", out, "--quiet")
    assert (result.code, result.err) == (0, "")
    assert result.out.count("precision 1.00, recall 1.00") == 2
    assert (out / "report.html").is_file() and (out / "metrics.json").is_file()


def test_models_are_listed_and_described(rulerag: Any, tmp_path: Path, cache: Path) -> None:
    shown = rulerag("models", "list")
    assert shown.code == 0 and all(name in shown.out for name in known_models())
    assert "LlamaForCausalLM" in rulerag("models", "info", "rulerag-nano-llama").out
    assert "SHA-256 b179c952" in rulerag("models", "info", "smollm2-135m-instruct").out
    file = write_gguf(tiny_llama(tmp_path / "tiny"), tmp_path / "tiny.gguf")
    assert "96,448" in rulerag("models", "info", file).out


def test_data_sets_are_listed(rulerag: Any) -> None:
    shown = rulerag("data", "fetch", "--list")
    assert shown.code == 0 and "icews14 " in shown.out and "licence: " in shown.out


def test_the_cache_is_shown_and_cleared(rulerag: Any, cache: Path) -> None:
    remember("bm25", "one", [1])
    shown = rulerag("cache")
    assert shown.code == 0 and rulerag("cache", "show") == shown
    assert "bm25" in shown.out and shown.out.endswith(f"MB in {cache}\n")
    assert rulerag("cache", "clear", "bm25").out == "cleared bm25: 1 files, 0.0 MB\n"
    assert rulerag("cache", "clear").out == "nothing was cached\n"
