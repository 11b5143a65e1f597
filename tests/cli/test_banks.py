"""Smaller and joined rule banks on the command line; graphs that hold next to nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rulerag.kg.graph import KnowledgeGraph
from rulerag.mining.pruning.coverage import prune_covered
from rulerag.mining.pruning.scores import top_rules
from rulerag.mining.pruning.subsumption import prune_subsumed
from rulerag.rules import RuleBank
from rulerag.synthetic.world import World

Refused = Callable[..., str]


@pytest.fixture
def bank(graphs: dict[str, Path], rulerag: Any, tmp_path: Path) -> Path:
    """All rules of three atoms of the static world, in a file."""
    out = tmp_path / "all.jsonl"
    result = rulerag("mine", graphs["static"], "--out", out, "--min-head-size", 1, "--quiet")
    assert result.code == 0, result.err
    return out


def test_mine_prunes_and_keeps_the_best(
    bank: Path, graphs: dict[str, Path], rulerag: Any, tmp_path: Path
) -> None:
    out = tmp_path / "best.jsonl"
    mined = ("mine", graphs["static"], "--out", out, "--min-head-size", 1, "--quiet")
    every = RuleBank.load(bank)
    result = rulerag(*mined, "--prune", "--top", 2, "--backend", "thread", "--threads", 3)
    expected = top_rules(prune_subsumed(every), 2)
    assert [r.id for r in RuleBank.load(out)] == [r.id for r in expected]
    assert 0 < len(expected) < len(every)
    assert f"{len(expected):,} of " in result.out and "best by product" in result.out
    rulerag(*mined, "--per-head", 1, "--score", "confidence")
    assert [r.id for r in RuleBank.load(out)] == [r.id for r in top_rules(every, 1, "confidence")]
    result = rulerag(*mined, "--prune-covered")
    covered = prune_covered(every, KnowledgeGraph.load(graphs["static"]).train)
    assert [r.id for r in RuleBank.load(out)] == [r.id for r in covered]
    assert f"{len(covered):,} of {len(every):,} rules predicting something new" in result.out


def test_rules_filters_prunes_and_writes(
    bank: Path, graphs: dict[str, Path], rulerag: Any, tmp_path: Path
) -> None:
    out = tmp_path / "few.tsv"
    options = ("--min-confidence", 0.2, "--min-support", 3, "--prune", "--per-head", 3)
    result = rulerag("rules", bank, *options, "--out", out, "--out-format", "amie")
    assert (result.code, result.err) == (0, "")
    left = top_rules(
        prune_subsumed(RuleBank.load(bank).filter(min_confidence=0.2, min_support=3)), 3
    )
    assert result.out.endswith(f"{len(left):,} rules → {out}\n")
    again = rulerag("rules", out, "--max-body-atoms", 1, "--out", tmp_path / "short.jsonl")
    assert again.code == 0
    short = RuleBank.load(tmp_path / "short.jsonl")
    assert {r.id for r in short} == {r.id for r in left if len(r.body) == 1}
    covered = rulerag("rules", bank, "--prune-covered", "--kg", graphs["static"])
    assert "predicting something new" in covered.out


def test_rules_joins_banks(bank: Path, rulerag: Any, tmp_path: Path) -> None:
    rules = list(RuleBank.load(bank))
    half = len(rules) // 2
    RuleBank(rules[: half + 2]).save(tmp_path / "one.jsonl")
    rulerag("rules", bank, "--out", tmp_path / "all.anyburl", "--out-format", "anyburl")
    joined = tmp_path / "joined.jsonl"
    merged = rulerag(
        "rules", tmp_path / "one.jsonl", "--merge", tmp_path / "all.anyburl", "--out", joined
    )
    assert merged.code == 0, merged.err
    found = RuleBank.load(joined)
    assert {r.id for r in found} == {r.id for r in rules}
    kept = {r.id: r.quality for r in rules[: half + 2]}
    assert {r.id: r.quality for r in found if r.id in kept} == kept


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--min-confidence", 2), "key 'min-confidence': 2.0 is out of range"),
        (("--min-support", -1), "key 'min-support': -1 is out of range"),
        (("--max-body-atoms", 0), "key 'max-body-atoms': 0 is out of range"),
        (("--per-head", 0), "key 'top': 0 is out of range"),
        (
            ("--score", "confidence"),
            "key 'score': ranks the rules of a head",
        ),
        (("--per-head", 2, "--score", "products"), "did you mean 'product'"),
        (("--prune-covered",), "key 'prune-covered': needs the graph of the rules"),
        (("--merge", "none.jsonl"), "none.jsonl: cannot be read"),
        (("--out-format", "csv", "--out", "x"), "key 'out-format': unknown format 'csv'"),
    ],
)
def test_bad_options_of_rules(
    options: tuple[object, ...],
    message: str,
    worlds: dict[str, World],
    refused: Refused,
    tmp_path: Path,
) -> None:
    worlds["static"].rules.save(tmp_path / "bank.jsonl")
    assert message in refused("rules", tmp_path / "bank.jsonl", *options)


# --- next to nothing -----------------------------------------------------------------------------


@pytest.mark.parametrize("date", ["", "\t3"])
@pytest.mark.parametrize("facts", [1, 2])
def test_a_graph_of_one_fact_and_relations_that_occur_once(
    date: str, facts: int, rulerag: Any, tmp_path: Path
) -> None:
    lines = [f"a\tr\tb{date}", f"a\ts\tb{date}"][:facts]
    (tmp_path / "train.txt").write_text("\n".join(lines) + "\n")
    out = tmp_path / "rules.jsonl"
    command = ("mine", tmp_path, "--out", out, "--quiet", "--columns", "hrt")
    result = rulerag(*command, "--prune", "--top", 5)
    assert result.code == 0, result.err
    assert result.out.startswith("0 rules for 0 of ")
    assert len(RuleBank.load(out)) == 0
    rulerag(*command, "--min-head-size", 1)
    # Two relations with one fact between the same two: each predicts the other, unless at one time.
    assert len(RuleBank.load(out)) == (2 if facts == 2 and not date else 0)
