"""``rulerag mine`` and ``rulerag rules``."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rulerag.rules import RuleBank
from rulerag.synthetic.world import World

ROOT = Path(__file__).resolve().parents[2]
Refused = Callable[..., str]


@pytest.mark.parametrize("kind", ["temporal", "static"])
@pytest.mark.parametrize("miner", ["auto", "named"])
def test_the_planted_rules_come_back(
    kind: str,
    miner: str,
    worlds: dict[str, World],
    graphs: dict[str, Path],
    rulerag: Any,
    tmp_path: Path,
) -> None:
    name = {"temporal": "tlogic", "static": "amie"}[kind]
    out = tmp_path / "new" / "folder" / "rules.jsonl"
    options = ["--min-confidence", 0.3, "--min-support", 20]
    options += ["--lengths", 1] if kind == "temporal" else []
    if kind == "static":
        options += ["--max-atoms", 2, "--min-head-size", 1]
    chosen = ["--miner", name] if miner == "named" else []
    result = rulerag("mine", graphs[kind], "--out", out, *options, *chosen)
    assert result.code == 0, result.err
    assert f"({name}) → {out}" in result.out
    assert {r.id for r in RuleBank.load(out)} == {r.id for r in worlds[kind].rules}


FITTING = [("icews14", "jsonl"), ("icews14", "tlogic"), ("umls", "jsonl"), ("umls", "amie")]
FITTING += [("umls", "anyburl"), ("nations", "jsonl"), ("nations", "amie"), ("nations", "anyburl")]


@pytest.mark.parametrize(("name", "format"), FITTING)
def test_real_graphs_in_every_format_and_back(
    name: str, format: str, graph_folder: Callable[[str], Path], rulerag: Any, tmp_path: Path
) -> None:
    folder, out = graph_folder(name), tmp_path / "rules"
    short = ("--max-atoms", 2, "--lengths", 1)
    mined = rulerag("mine", folder, "--out", out, "--format", format, *short, "--quiet")
    assert (mined.code, mined.err) == (0, "")
    count = mined.out.split(" rules for ")[0]
    assert int(count.replace(",", "")) > 10
    graph = ["--kg", folder] if format == "tlogic" else []
    seen = rulerag("rules", out, "--top", 3, *graph)
    assert (seen.code, seen.err) == (0, "")
    assert seen.out.startswith(f"{count} rules for ")
    assert seen.out.count(" leads to ") == 3


def test_the_bars_named_in_the_issue(
    graph_folder: Callable[[str], Path], rulerag: Any, tmp_path: Path
) -> None:
    out = tmp_path / "rules.jsonl"
    result = rulerag("mine", graph_folder("icews14"), "--out", out, "--lengths", 1)
    assert "11,221 rules for 188 of 230 relations" in result.out
    assert float(result.out.split(" in ")[1].split(" s ")[0]) < 5
    assert "%|" not in result.out + result.err  # bars are for terminals


def test_bars_on_a_terminal(graphs: dict[str, Path], tmp_path: Path) -> None:
    seen, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 80))
    command = [sys.executable, "-m", "rulerag.cli", "mine", graphs["temporal"], "--out", "-"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=terminal, check=True)
    assert b"%|" in os.read(seen, 1 << 16) and b"%|" not in done.stdout
    os.close(terminal)
    os.close(seen)


def test_an_option_of_the_other_miner(
    graphs: dict[str, Path], rulerag: Any, refused: Refused, tmp_path: Path
) -> None:
    out = tmp_path / "rules.jsonl"
    command = ("mine", graphs["temporal"], "--out", out, "--max-atoms", 3, "--quiet")
    assert rulerag(*command).code == 0  # auto takes what applies, for graphs of both kinds
    message = refused(*command, "--miner", "tlogic")
    assert "key 'max_atoms': the miner 'tlogic' has no such option" in message


def test_mining_resumes_from_a_checkpoint(
    graphs: dict[str, Path], rulerag: Any, tmp_path: Path
) -> None:
    command = ["mine", graphs["static"], "--checkpoint", tmp_path / "checkpoint", "--quiet"]
    first = rulerag(*command, "--out", tmp_path / "a.jsonl", "--min-head-size", 1)
    again = rulerag(*command, "--out", tmp_path / "b.jsonl", "--min-head-size", 1)
    assert (first.code, again.code) == (0, 0)
    assert list((tmp_path / "checkpoint").iterdir())
    assert (tmp_path / "a.jsonl").read_text() == (tmp_path / "b.jsonl").read_text()


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("temporal", ("--miner", "amy"), "key 'miner': no miner is called 'amy'"),
        ("temporal", ("--format", "csv"), "key 'format': unknown format 'csv'"),
        ("temporal", ("--format", "amie"), "cannot hold the temporal rules of 'temporal'"),
        ("static", ("--format", "tlogic"), "cannot hold the static rules of 'static'"),
        ("temporal", ("--miner", "amie"), "are dated and AmieMiner mines static rules"),
        ("static", ("--miner", "tlogic"), "has no timestamps"),
        ("temporal", ("--split", "dev"), "no facts in its split 'dev' — splits with facts: train"),
        ("temporal", ("--lengths", "one"), "'one' is no list of lengths — for example --lengths 1"),
        ("temporal", ("--lengths", ""), "'' is no list of lengths"),
        ("temporal", ("--min-confidence", "2"), "key 'min_confidence': 2.0 is"),
        ("static", ("--max-atoms", "9"), "key 'max_atoms': 9 is out of range"),
        ("static", ("--threads", "0"), "key 'threads': 0 is out of range"),
        ("temporal", ("--lengths", "1,4"), "key 'lengths': temporal bodies of lengths [1, 4]"),
        ("temporal", ("--min-support", "0"), "key 'min_support': 0 is out of range"),
        (
            "static",
            ("--min-confidence", "nan"),
            "key 'min_pca_confidence': expected a number, found nan",
        ),
        ("static", ("--min-confidence", "-1"), "key 'min_pca_confidence': -1.0 is out of range"),
        ("static", ("--min-head-coverage", "2"), "key 'min_head_coverage': 2.0 is out of range"),
        ("static", ("--min-head-size", "0"), "key 'min_head_size': 0 is out of range"),
        ("static", ("--max-memory-gb", "0"), "key 'max_memory_gb': 0.0 is out of range"),
        ("static", ("--max-memory-gb", "0.001"), "GB and 0.00 GB is allowed (max_memory_gb)"),
        ("temporal", ("--max-memory-gb", "0.001"), "GB and 0.00 GB is allowed (max_memory_gb)"),
        (
            "temporal",
            ("--max-memory-gb", "0.001", "--lengths", "1"),
            "of 6 relations needs about 0.10 GB and 0.00 GB is allowed (max_memory_gb)",
        ),
        ("static", ("--backend", "cluster"), "unknown backend 'cluster'"),
        ("static", ("--backend", "process", "--threads", "0"), "0 workers cannot work"),
        ("static", ("--top", "0"), "key 'top': 0 is out of range"),
        ("static", ("--top", "3", "--score", "best"), "key 'score': unknown score 'best'"),
        ("static", ("--score", "product"), "key 'score': ranks the rules of a head"),
        ("temporal", ("--prune-covered",), "covered rules are found on static facts"),
        ("static", ("--layout", "csv"), "key 'layout': there is no layout 'csv'"),
    ],
)
def test_bad_options(
    kind: str,
    options: tuple[str, ...],
    message: str,
    graphs: dict[str, Path],
    refused: Refused,
    tmp_path: Path,
) -> None:
    out = tmp_path / "rules.jsonl"
    assert message in refused("mine", graphs[kind], "--out", out, "--quiet", *options)
    assert not out.exists()


def broken(folder: Path, **files: str) -> Path:
    folder.mkdir()
    for name, text in files.items():
        (folder / f"{name}.txt").write_text(text)
    return folder


GRAPHS = {
    "wrong folder": ({"notes": "hello\n"}, "no training facts here: looked for train.txt"),
    "malformed line": (
        {"train": "a\tr\tb\nc\td\n"},
        "train.txt, line 2: ",
    ),
    "mixed layouts": (
        {"train": "a\tr\tb\n", "valid": "a\tr\tb\t3\n"},
        "valid.txt",
    ),
    "unknown id": (
        {
            "train": "0\t0\t1\t24\t0\n7\t0\t1\t24\t0\n",
            "entity2id": "ann\t0\nbob\t1\n",
            "relation2id": "meets\t0\n",
        },
        "train.txt, line 2: ",
    ),
    "empty split": ({"train": ""}, "train"),
}


@pytest.mark.parametrize("case", GRAPHS)
def test_a_broken_graph_is_told_by_file_and_line(
    case: str, refused: Refused, tmp_path: Path
) -> None:
    files, message = GRAPHS[case]
    folder = broken(tmp_path / "kg", **files)
    told = refused("mine", folder, "--out", tmp_path / "rules.jsonl", "--quiet")
    assert message in told
    assert str(folder) in told


def test_missing_input_and_unwritable_output(
    graphs: dict[str, Path], refused: Refused, tmp_path: Path, blocked: Path
) -> None:
    assert "no such file or folder" in refused("mine", tmp_path / "kg", "--out", tmp_path / "r")
    told = refused("mine", graphs["static"], "--out", blocked / "rules.jsonl")
    assert f"{blocked}: cannot be written" in told
    assert "is a folder — name a file in it" in refused("mine", graphs["static"], "--out", tmp_path)


# --- rules -------------------------------------------------------------------------------------


@pytest.fixture
def bank(worlds: dict[str, World], tmp_path: Path) -> Path:
    """The planted rules of the dated world in a file."""
    worlds["temporal"].rules.save(tmp_path / "rules.jsonl")
    return tmp_path / "rules.jsonl"


def test_rules_are_shown_whole_and_best_first(
    bank: Path, worlds: dict[str, World], rulerag: Any
) -> None:
    result = rulerag("rules", bank)
    assert (result.code, result.err) == (0, "")
    first, header, *rows = result.out.splitlines()
    rules = worlds["temporal"].rules
    assert first.startswith(f"{len(rules)} rules for {len(rules.head_relations)} relations")
    assert header.split() == ["confidence", "support", "body", "rule"]
    texts = {rule.text for rule in rules}
    assert all(row.split(maxsplit=3)[3] in texts for row in rows)  # one line each, nothing cut
    confidences = [float(row.split()[0]) for row in rows]
    assert confidences == sorted(confidences, reverse=True)
    assert len(rows) == min(10, len(rules))


def test_rules_by_head_in_any_spelling(bank: Path, worlds: dict[str, World], rulerag: Any) -> None:
    rules = worlds["temporal"].rules
    relation = rules.head_relations[0]
    texts = {rule.text for rule in rules.for_head(relation)}
    for name in (relation, relation.replace("_", " ").upper(), relation.replace(" ", "_")):
        result = rulerag("rules", bank, "--head", name)
        assert result.code == 0
        assert {line.split(maxsplit=3)[3] for line in result.out.splitlines()[2:]} == texts


def test_an_empty_bank_and_one_without_counts(rulerag: Any, tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text("")
    assert rulerag("rules", tmp_path / "none.jsonl").out.startswith("0 rules for 0 relations")
    atom = '{"relation": "r", "subject": "?x", "object": "?y"}'
    (tmp_path / "bare.jsonl").write_text(f'{{"head": {atom}, "body": [{atom}]}}\n')
    assert "0.000        –     –  [Entity 1, r" in rulerag("rules", tmp_path / "bare.jsonl").out


def test_bad_input_of_rules(bank: Path, refused: Refused, rulerag: Any, tmp_path: Path) -> None:
    assert "key 'top': 0 is below 1" in refused("rules", bank, "--top", 0)
    assert "no rule predicts 'nothing'" in refused("rules", bank, "--head", "nothing")
    assert "cannot be read" in refused("rules", tmp_path / "none.jsonl")
    with bank.open("a") as file:
        file.write("{\n")
    lines = bank.read_text().count("\n")
    assert f"rules.jsonl, line {lines}: not a JSON object" in refused("rules", bank)
    (tmp_path / "poem.txt").write_text("Roses are red\n")
    assert "no rule file that is known here" in refused("rules", tmp_path / "poem.txt")
    (tmp_path / "tlogic.json").write_text('{"0": []}')
    assert "--kg FOLDER" in refused("rules", tmp_path / "tlogic.json")
