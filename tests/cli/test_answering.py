"""``rulerag answer`` and ``rulerag explain``."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

from rulerag.cli.common import SHOWN
from rulerag.composition import names
from rulerag.explanation.explaining import ExplainSettings, Why
from rulerag.generation.symbolic_reader import SymbolicReader
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.types import Document, Fact, Query

Refused = Callable[..., str]
SYMBOLIC = ("--retriever", "symbolic", "--quiet")


@pytest.fixture
def asked(dated_dataset: RuleQADataset) -> Query:
    """A query that some planted rule leads to."""
    return dated_dataset.query_set("supported")[0]


def rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_question_is_answered_with_its_evidence(asked: Query, dated: Path, rulerag: Any) -> None:
    result = rulerag("answer", asked.text, "--dataset", dated, *SYMBOLIC)
    assert (result.code, result.err) == (0, "")
    first, answer, *rest = result.out.splitlines()
    assert first == asked.text
    assert answer.startswith("  answer: ") and "(none" not in answer
    told = answer.removeprefix("  answer: ")
    support = [line for line in rest if line.startswith("  *")]
    assert support and any(told in line and line.endswith("[R1]") for line in support)
    assert any(line.startswith("    R1  [Entity ") for line in rest)


def test_a_question_in_other_words_is_the_same_question(
    asked: Query, dated: Path, rulerag: Any
) -> None:
    plain = rulerag("answer", asked.text, "--dataset", dated, *SYMBOLIC)
    loose = asked.text.upper().replace(" ?", "").replace(" WHAT DOES ", "   who did ")
    assert rulerag("answer", loose, "--dataset", dated, *SYMBOLIC).out == plain.out


def test_the_queries_of_a_dataset_are_answered(dated: Path, rulerag: Any, tmp_path: Path) -> None:
    out = tmp_path / "new" / "answers.jsonl"
    result = rulerag("answer", dated, "--limit", 7, "--out", out, *SYMBOLIC)
    assert result.code == 0
    assert result.out.count("\n  answer: ") == SHOWN
    assert f"… and 2 more answers; all are in {out}" in result.out
    written = rows(out)
    assert len(written) == 7
    exact = sum(row["answer"] in row["answers"] for row in written)
    assert f"exact match {100 * exact / 7:.1f} % of 7 queries" in result.out
    silent = rulerag("answer", dated, "--limit", 7, *SYMBOLIC)
    assert "… and 2 more answers; --out FILE writes all" in silent.out


def test_queries_can_be_named(
    dated: Path, dated_dataset: RuleQADataset, rulerag: Any, tmp_path: Path
) -> None:
    last, first, *_ = (query.id for query in reversed(dated_dataset.query_set("full")))
    out = tmp_path / "answers.jsonl"
    command = ("answer", dated, "--query", last, "--query", first, "--query", last, "--out", out)
    assert rulerag(*command, *SYMBOLIC).code == 0
    assert [row["query_id"] for row in rows(out)] == [last, first]


def test_an_experiment_file_decides_how_it_is_answered(
    dated: Path, rulerag: Any, refused: Refused, tmp_path: Path
) -> None:
    config = tmp_path / "experiment.yaml"
    config.write_text(
        f"dataset: {{path: {dated}, query_set: supported}}\nretriever: {{type: bm25}}\n"
        "generator: {type: symbolic}\ntop_k: 2\n"
    )
    out = tmp_path / "answers.jsonl"
    assert rulerag("answer", config, "--limit", 3, "--out", out, "--quiet").code == 0
    assert {len(row["documents"]) for row in rows(out)} == {2}
    everything = rulerag("answer", config, "--query-set", "full", "--out", out, "--quiet")
    assert everything.code == 0
    assert len(rows(out)) > 50
    assert "decides this itself" in refused("answer", config, "--rules", "guided")


def test_explanations_are_shown_and_written(dated: Path, rulerag: Any, tmp_path: Path) -> None:
    out, html = tmp_path / "new" / "e.jsonl", tmp_path / "page" / "why.html"
    command = ("explain", dated, "--query-set", "supported", "--limit", 6)
    result = rulerag(*command, "--out", out, "--html", html, *SYMBOLIC)
    assert (result.code, result.err) == (0, "")
    assert result.out.count("Why\n") == SHOWN
    told = r"^rule faithfulness \d+\.\d % of 6 answers \((\d+) right(?:, (\d+) wrong)?\): "
    found = re.search(told, result.out, re.MULTILINE)
    assert found is not None
    assert f"… and 1 more explanation; all are in {out}" in result.out
    assert f"written to {out} and {html}" in result.out
    written = rows(out)
    assert len(written) == 6
    assert all(str(Why.from_json(row)) in result.out for row in written[:SHOWN]), "as in Python"
    claims = [row["claims"][0] for row in written]
    assert all(claim["retention"] and claim["omission"] for claim in claims)
    assert [row["right"] for row in written].count(True) == int(found[1])
    assert sum(map(int, filter(None, found.groups()))) == 6
    page = html.read_text()
    asked = shlex.join(["rulerag", *map(str, command), "--out", str(out)])
    assert str(escape(asked)) in page and "</html>" in page
    for label in ("dataset", "retriever", "explanation", "command", "date"):
        assert f"<dt>{label}</dt>" in page
    assert f"{datetime.now().astimezone():%Y-%m-}" in page


def test_by_default_the_first_answers_are_explained(
    dated: Path, dated_dataset: RuleQADataset, rulerag: Any
) -> None:
    result = rulerag("explain", dated, *SYMBOLIC)
    assert result.code == 0
    total = len(dated_dataset.query_set("full"))
    assert f"the first {SHOWN} of {total} queries; --limit N explains more" in result.out


def test_one_question_is_explained(asked: Query, dated: Path, rulerag: Any) -> None:
    result = rulerag("explain", asked.text, "--dataset", dated, *SYMBOLIC)
    assert result.code == 0
    assert re.search(r"rests on “.*” \[1\], found by rule R1\.", result.out)
    assert "becomes an empty answer without [1]." in result.out
    assert "Certain: it was asked with the document and without it." in result.out
    assert re.search(r"  R1  .*  \(confidence 0\.\d\d, support \d+\)$", result.out, re.MULTILINE)


def test_the_cost_is_said_before_it_is_paid(dated: Path, rulerag: Any) -> None:
    command = ("explain", dated, "--query-set", "supported", "--limit", 2)
    result = rulerag(*command, *SYMBOLIC[:-1])
    assert re.search(r"explaining 2 answers: at most \d+ calls\n", result.err)
    assert "call/s" not in result.err  # no terminal, no bar
    assert rulerag(*command, *SYMBOLIC).err == ""


def test_every_setting_is_a_flag_and_the_explainers_are_named(rulerag: Any) -> None:
    told = rulerag("explain", "--help").out
    for name in ExplainSettings.model_fields:
        assert f"--{name.replace('_', '-')}" in told
    assert all(name in told for name in names("explainer"))


def test_many_documents_are_certified_and_a_stop_is_told(
    asked: Query, dated: Path, rulerag: Any, tmp_path: Path
) -> None:
    out, html = tmp_path / "e.jsonl", tmp_path / "why.html"
    command = ("explain", dated, "--query", asked.id, "--top-k", 40, "--validity", 0.9, "--quiet")
    for subsets in ("uniform", "by-size"):
        result = rulerag(*command, "--subsets", subsets, "--out", out, "--html", html)
        assert (result.code, result.err) == (0, "")
        (claim,) = rows(out)[0]["claims"]
        shown = [one["certificate"] for one in (*claim["retention"], *claim["omission"])]
        assert shown and {one["subsets"] for one in shown} == {subsets}
        assert "Tested: for at least 90 %" in result.out and "Certain" not in result.out
        assert "Tested: for at least 90 %" in html.read_text()
    result = rulerag(*command, "--budget", 12)
    assert result.code == 0 and "Stopped early: the budget of 12 calls" in result.out
    assert "Certain" not in result.out


def test_sentences_are_kept_or_removed(asked: Query, dated: Path, rulerag: Any) -> None:
    command = ("explain", dated, "--query", asked.id, "--level", "word", "--quiet")
    result = rulerag(*command, "--generator", "rulerag-nano-llama", "--top-k", 1, "--exact", 0)
    assert result.code == 0, result.err
    assert re.search(r"combinations of the \w+ words", result.out)


def test_what_has_no_answer_is_named(
    dated: Path, dated_dataset: RuleQADataset, rulerag: Any, tmp_path: Path
) -> None:
    held = {query.id for query in dated_dataset.query_set("supported")}
    answers = tmp_path / "answers.jsonl"
    rulerag("answer", dated, "--out", answers, *SYMBOLIC)
    unanswered = next(row["query_id"] for row in rows(answers) if not row["answer"])
    assert unanswered not in held
    result = rulerag("explain", dated, "--query", unanswered, *SYMBOLIC)
    assert result.code == 0
    assert result.out.endswith(f"leads to an answer: {unanswered}\n")


@pytest.mark.parametrize("command", ["answer", "explain"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere",), "is no dataset folder and no experiment file — for a question"),
        (("",), "'' is no dataset folder"),
        (("what does it mean ?" * 40,), "is no dataset folder"),
        (("nowhere.yaml",), "nowhere.yaml: no such file"),
        (("{dated}", "--query", "q-00001x"), "no query has the id 'q-00001x' — did you mean"),
        (("{dated}", "--query-set", "hard"), "no query set 'hard'"),
        (("{dated}", "--limit", "0"), "key 'limit': 0 is below 1"),
        (("{dated}", "--top-k", "-1"), "key 'top_k': -1 is below 1"),
        (("{dated}", "--dataset", "{dated}"), "is no question"),
        (("{dated}", "--out", "{blocked}/a.jsonl"), "cannot be written"),
        (("{dated}", "--out", "{dated}"), "is a folder"),
        ((" ", "--dataset", "{dated}"), "the question is empty"),
        (("what ?", "--dataset", "nowhere"), "the dataset folder nowhere is not here"),
        (("what ?", "--dataset", "{dated}", "--limit", "3"), "key 'limit': chooses queries of a"),
        (("what ?", "--dataset", "{dated}", "--query", "q-000001"), "a question was asked"),
        (("Time 2021-99-99 what ?", "--dataset", "{dated}"), "is no date of this graph"),
        (("{dated}", "--generator", "candidat"), "did you mean 'candidate'"),
        (("{dated}", "--generator", "nowhere.yml"), "nowhere.yml: no such file"),
    ],
)
def test_bad_input(
    command: str,
    arguments: tuple[str, ...],
    message: str,
    dated: Path,
    blocked: Path,
    refused: Refused,
) -> None:
    filled = [argument.format(dated=dated, blocked=blocked) for argument in arguments]
    assert message in refused(command, *filled, "--quiet")


@pytest.mark.parametrize("command", ["answer", "explain"])
def test_a_question_in_ones_own_words_says_what_was_understood(
    command: str, asked: Query, dated: Path, rulerag: Any
) -> None:
    plain = rulerag("answer", asked.text, "--dataset", dated, *SYMBOLIC)
    time = asked.text.split()[1]
    words = f"On {time}, who is it that {asked.subject_words} {asked.relation_words}?"
    result = rulerag(command, words, "--dataset", dated, *SYMBOLIC)
    assert (result.code, result.err) == (0, "")
    understood, *rest = result.out.splitlines()
    assert understood.startswith("understood: ") and asked.subject_words in understood
    assert f"({time})" in understood and understood.endswith(" %]")
    told = next(line for line in plain.out.splitlines() if line.startswith("  answer: "))
    assert asked.text in result.out and told.removeprefix("  answer: ") in result.out
    assert any("if " in line and ", then later " in line for line in rest)
    assert "[Entity 1" not in result.out


def test_a_question_about_nobody_known_names_the_nearest(
    asked: Query, dated: Path, rulerag: Any
) -> None:
    result = rulerag("answer", "who knows Xqwzzt Vvvrrp?", "--dataset", dated, "--quiet")
    assert result.code == 0
    assert result.out.startswith("nobody known is mentioned; nearest names: '")
    assert "plain retrieval was used, without rules" in result.out


def test_what_no_word_asks_is_guessed_and_said_so(asked: Query, dated: Path, rulerag: Any) -> None:
    german = f"Was gibt es Neues von {asked.subject_words}?"
    result = rulerag("answer", german, "--dataset", dated, "--quiet")
    assert result.code == 0 and "what is asked is guessed (English is understood" in result.out
    result = rulerag("answer", asked.text, "--dataset", dated, "--quiet")
    assert "guessed" not in result.out


def test_a_long_question_with_control_characters_is_shown_short(dated: Path, rulerag: Any) -> None:
    long = "who \x1b[31m knows " + "xqwzzt " * 1500
    result = rulerag("answer", long, "--dataset", dated, "--quiet")
    assert result.code == 0 and "\x1b" not in result.out
    assert max(map(len, result.out.splitlines())) < 500


def test_templates_of_a_dataset_are_used(asked: Query, dated: Path, rulerag: Any) -> None:
    own = dated / "phrases.yaml"
    assert not own.exists()
    result = rulerag("ruleqa", "phrases", dated)
    assert result.code == 0 and f"relations in {own}" in result.out
    written = own.read_text()
    assert f'"{asked.relation}": "' in written
    assert rulerag("ruleqa", "phrases", dated).code == 0 and own.read_text() == written
    own.write_text(f'"{asked.relation}": "{{x}} sees much of {{y}}"\n')
    try:
        result = rulerag("answer", asked.text, "--dataset", dated, *SYMBOLIC)
        assert re.search(r"then later X sees much of Y", result.out)
        assert re.search(rf"  because .* {asked.subject} sees much of ", result.out)
        own.write_text(f'"{asked.relation}": "nobody"\n')
        wrong = rulerag("answer", asked.text, "--dataset", dated, *SYMBOLIC)
        assert wrong.code == 2 and "expected a sentence with {x} and {y}" in wrong.err
    finally:
        own.unlink()


def test_another_reader_answers_and_is_explained(
    asked: Query, dated: Path, rulerag: Any, tmp_path: Path
) -> None:
    file = tmp_path / "reader.yaml"
    file.write_text("generator: {type: huggingface, model: rulerag-nano-llama}\n")
    question = (asked.text, "--dataset", dated, "--top-k", "3", "--quiet")
    by_name = rulerag("answer", *question, "--generator", "rulerag-nano-llama")
    by_file = rulerag("answer", *question, "--generator", file)
    assert by_name.code == 0 and by_name.out == by_file.out
    out = tmp_path / "e.jsonl"
    told = rulerag("explain", *question, "--generator", "rulerag-nano-llama", "--out", out)
    assert told.code == 0 and f"Answer    {rows(out)[0]['text']}" in told.out
    answer = by_name.out.splitlines()[1].removeprefix("  answer: ")
    assert answer == rows(out)[0]["text"]


def test_regions_are_written_as_a_page(
    asked: Query, dated: Path, rulerag: Any, refused: Refused, tmp_path: Path
) -> None:
    out, html = tmp_path / "e.jsonl", tmp_path / "why.html"
    reader = ("--generator", "rulerag-nano-llama", "--explainer", "regions", "--quiet")
    command = ("explain", asked.text, "--dataset", dated, "--top-k", 3, *reader)
    told = rulerag(*command, "--out", out, "--html", html)
    assert told.code == 0 and f"written to {out} and {html}" in told.out
    page = html.read_text(encoding="utf-8")
    assert rows(out)[0]["regions"]["num_probes"] and "</html>" in page
    assert "leave one of them out" in refused(*command, "--level", "sentence")


def test_values_agree_with_the_rules(
    asked: Query, dated: Path, rulerag: Any, tmp_path: Path
) -> None:
    out, html = tmp_path / "e.jsonl", tmp_path / "why.html"
    more = ("--attribution", "shapley", "--attribution", "leave-one-out", "--votes", 2)
    command = ("explain", dated, "--query", asked.id, *more)
    result = rulerag(*command, "--out", out, "--html", html, *SYMBOLIC)
    assert (result.code, result.err) == (0, "")
    (claim,) = rows(out)[0]["claims"]
    shapley, one_out = claim["attributions"]
    assert shapley["method"] == "Shapley (exact)"
    # Values share out what all the sources gain over none, and only sources in sets have any.
    assert sum(shapley["values"]) == pytest.approx(shapley["full"] - shapley["empty"])
    valued = {place for place, value in enumerate(shapley["values"]) if value}
    assert valued == set(claim["sources"]) and one_out["full"] == 1.0
    assert "Shapley (exact)" in result.out and "Shapley (exact)" in html.read_text()


def test_groups_are_what_a_mined_rule_found(
    asked: Query, dated: Path, rulerag: Any, tmp_path: Path
) -> None:
    out = tmp_path / "e.jsonl"
    command = ("explain", dated, "--query", asked.id, "--level", "rule", "--out", out)
    result = rulerag(*command, *SYMBOLIC)
    assert (result.code, result.err) == (0, "")
    (row,) = rows(out)
    assert {one["level"] for one in row["documents"]} == {"group"}
    titles = {one["title"] for one in row["documents"]}
    assert titles <= {rule["id"] for rule in row["rules"]} | {"the question alone"}


def test_the_nano_reader_is_explained_by_its_log_probability(
    asked: Query, dated: Path, rulerag: Any, tmp_path: Path
) -> None:
    experiment, out = tmp_path / "nano.yaml", tmp_path / "e.jsonl"
    experiment.write_text(
        f"dataset: {{path: {dated}}}\nselector: {{type: head}}\n"
        "retriever: {type: symbolic}\ntop_k: 5\n"
        "generator: {type: huggingface, model: rulerag-nano-llama}\n"
    )
    command = ("explain", experiment, "--query", asked.id, "--quiet", "--out", out)
    more = ("--attribution", "guided", "--attribution", "linear", "--value", "log-probability")
    result = rulerag(*command, *more)
    assert result.code == 0, result.err
    (row,) = rows(out)
    guided, linear = row["claims"][0]["attributions"]
    assert guided["method"] == "guided surrogate, log-probability"
    assert linear["method"] == "linear surrogate, log-probability"
    assert guided["full"] <= 0 and len(guided["values"]) == len(row["documents"])
    assert "guided surrogate, log-probability" in result.out


def test_a_generator_that_samples_is_refused_unless_it_votes(
    asked: Query, dated: Path, rulerag: Any, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, calls = SymbolicReader.generate, []

    def moody(self: Any, requests: Any) -> Any:
        calls.append(len(requests))
        word = "once" if len(calls) == 1 else "again"
        return [replace(c, text=f"{c.text} {word}") for c in read(self, requests)]

    monkeypatch.setattr(SymbolicReader, "generate", moody)
    command = ("explain", dated, "--query", asked.id, *SYMBOLIC)
    told = refused(*command)
    assert "once' and then" in told and "to the same request" in told and "votes" in told
    calls.clear()
    assert rulerag(*command, "--votes", 3).code == 0


def test_bad_input_of_explain(dated: Path, refused: Refused, blocked: Path) -> None:
    told = refused("explain", dated, "--html", blocked / "why.html", "--quiet")
    assert "cannot be written" in told
    told = refused("explain", dated, "--exact", 21, "--limit", 1, *SYMBOLIC)
    assert "key 'exact': 21 is out of range — should be less than or equal to 20" in told
    told = refused("explain", dated, "--attribution", "shapely", "--limit", 1, *SYMBOLIC)
    assert "key 'attribution': no explainer is called 'shapely' — did you mean 'shapley'" in told
    told = refused("explain", dated, "--value", "log-probability", "--limit", 1, *SYMBOLIC)
    assert "key 'value': SymbolicReader gives no log-probability of a text" in told
    told = refused("explain", dated, "--value", "odds", "--limit", 1, *SYMBOLIC)
    assert "key 'value': expected 'verdict' or 'log-probability', found 'odds'" in told
    told = refused("explain", dated, "--level", "page", "--limit", 1, *SYMBOLIC)
    assert "key 'level': expected 'rule' or 'group' or 'document'" in told
    told = refused("explain", dated, "--votes", 0, "--limit", 1, *SYMBOLIC)
    assert "key 'votes': expected a number from 1" in told


def test_an_analogue_is_named_with_what_it_shares(rulerag: Any, tmp_path: Path) -> None:
    rows_ = [
        ("Bob Dylan", "genre", "folk"),
        ("Joan Baez", "genre", "folk"),
        ("Joan Baez", "label", "Vanguard"),
        ("Miles Davis", "genre", "jazz"),
        ("Miles Davis", "label", "Columbia"),
    ]
    corpus = [Document(f"d{n}", " ".join(row) + ".", (Fact(*row),)) for n, row in enumerate(rows_)]
    asked = Query("q", "what does Bob Dylan label ?", "Bob Dylan", "label", answers=("Vanguard",))
    RuleQADataset(corpus=corpus, queries={"test": [asked]}, prediction=True).save(
        tmp_path / "songs"
    )
    (tmp_path / "songs.yaml").write_text(
        "dataset: {path: songs}\n"
        "retriever:\n"
        "  type: scored\n"
        "  retriever: {type: bm25}\n"
        "  scorer: {type: learned, scorers: [{type: analogy}, {type: walks}]}\n"
        "generator: {type: candidate-scorer}\n"
    )
    result = rulerag("answer", tmp_path / "songs.yaml", "--quiet")
    assert (result.code, "  answer: Vanguard" in result.out) == (0, True)
    lines = result.out.splitlines()
    place = lines.index("  * [1]  Joan Baez label Vanguard.")
    said = "analogy-2: Joan Baez, like the subject, has genre folk: label Vanguard"
    assert lines[place + 1].strip() == said
