"""Candidate scorers from the command line on corpora that leave them little, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rulerag import Document, Query, Rule, RuleBank, RuleQADataset
from rulerag.io import read_json
from rulerag.rules import Atom, RuleQuality
from rulerag.types import Fact

SONGS = [
    ("dylan", "genre", "folk"),
    ("baez", "genre", "folk"),
    ("baez", "label", "vanguard"),
    ("davis", "genre", "jazz"),
    ("davis", "label", "columbia"),
]
EVERY = """{type: learned, scorers: [{type: analogy}, {type: analogy, best: true}, {type: walks},
    {type: relation-prior}, {type: most-recent}, {type: most-frequent}, {type: rules}]}"""


def answers(rulerag: Any, out: Path) -> dict[str, str]:
    """What ``rulerag answer`` says to each question, which ``rulerag evaluate`` must count too."""
    told = rulerag("answer", out / "songs.yaml", "--quiet")
    assert told.code == 0, told.err
    lines = told.out.splitlines()
    answered = [line.removeprefix("  answer: ") for line in lines if line.startswith("  answer:")]
    asked = [line for line in lines if line.endswith(" ?")]
    run = ("--out", out / "run", "--overwrite", "--quiet")
    counted = rulerag("evaluate", out / "songs.yaml", *run)
    assert counted.code == 0, counted.err
    metrics = read_json(out / "run" / "metrics.json")
    assert metrics["num_queries"] == len(asked) == len(answered)
    return dict(zip(asked, answered, strict=True))


def dataset(
    out: Path,
    rows: Sequence[tuple[Any, ...]],
    asked: Sequence[tuple[str, str, int | None]],
    scorer: str = EVERY,
    rules: Sequence[Rule] = (),
) -> None:
    """A dataset of facts and questions, and the configuration that answers by scorers."""
    corpus = [Document(f"d{n}", f"{row}", (Fact(*row),)) for n, row in enumerate(rows)]
    queries = [
        Query(f"q{n}", f"what does {subject} {relation} ?", subject, relation, time, answers=("x",))
        for n, (subject, relation, time) in enumerate(asked)
    ]
    made = RuleQADataset(
        corpus=corpus, queries={"test": queries}, prediction=True, rules=RuleBank(rules)
    )
    made.save(out / "songs")
    (out / "songs.yaml").write_text(
        "dataset: {path: songs}\n"
        f"retriever:\n  type: scored\n  retriever: {{type: bm25}}\n  scorer: {scorer}\n"
        "generator: {type: candidate-scorer}\n"
    )


NOTHING = "(none: nothing found leads to one)"


@pytest.mark.parametrize(
    ("rows", "asked", "expected"),
    [
        pytest.param(SONGS, ("nobody", "label", None), "columbia", id="a subject never seen"),
        pytest.param(SONGS, ("dylan", "no such", None), NOTHING, id="a relation never seen"),
        pytest.param(
            [*SONGS, ("davis", "born", "alton")], ("dylan", "born", None), "alton", id="one fact"
        ),
        pytest.param(
            [*SONGS, ("davis", "born", "alton")], ("davis", "born", None), NOTHING, id="stated"
        ),
        pytest.param([("ada", "trusts", "ada")], ("ada", "trusts", None), NOTHING, id="one entity"),
        pytest.param([("ada", "trusts", "ada", 1)], ("ada", "trusts", 2), "ada", id="loop"),
        pytest.param([("ada", "trusts", "bob", 1)], ("ada", "trusts", 1), NOTHING, id="too early"),
    ],
)
def test_little_to_go_by_is_no_error(
    rulerag: Any, tmp_path: Path, rows: list[Any], asked: Any, expected: str
) -> None:
    dataset(tmp_path, rows, [asked])
    assert list(answers(rulerag, tmp_path).values()) == [expected]


def test_equal_candidates_are_named_and_come_in_the_order_of_names(
    rulerag: Any, tmp_path: Path
) -> None:
    rows = [("a", "likes", "z"), ("b", "likes", "y"), ("c", "likes", "x")]
    dataset(tmp_path, rows, [("d", "likes", None)])
    assert list(answers(rulerag, tmp_path).values()) == ["x"]
    told = rulerag("answer", tmp_path / "songs.yaml", "--quiet").out.splitlines()
    assert told[told.index("  answer: x") + 2] == "  equally likely: y, z"
    # One of them is stated twice, and comes first.
    dataset(tmp_path, [*rows, ("e", "likes", "y")], [("d", "likes", None)])
    assert list(answers(rulerag, tmp_path).values()) == ["y"]


def test_a_scorer_that_fails_is_named_and_the_others_answer(rulerag: Any, tmp_path: Path) -> None:
    rule = Rule(
        Atom("label", "?x", "?y"),
        (Atom("genre", "?x", "?y"),),
        temporal=True,
        quality=RuleQuality(confidence=0.5, pca_confidence=0.5),
    )
    dataset(tmp_path, SONGS, [("dylan", "label", None)], rules=[rule])
    told = rulerag("answer", tmp_path / "songs.yaml", "--quiet")
    assert (told.code, "  answer: vanguard" in told.out) == (0, True)
    assert "the scorer rules-noisy-or fails and is left out: MiningError: the rule" in told.err
    # Alone it is an error.
    dataset(tmp_path, SONGS, [("dylan", "label", None)], "{type: rules}", rules=[rule])
    told = rulerag("answer", tmp_path / "songs.yaml", "--quiet")
    assert told.code == 2 and "cannot be applied to a static graph" in told.err
