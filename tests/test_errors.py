"""Errors say what was wrong, where, and what would work."""

from __future__ import annotations

import inspect
import pickle
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from rulerag import errors
from rulerag.errors import (
    DataFormatError,
    GenerationError,
    MissingDependencyError,
    RuleRAGError,
    did_you_mean,
)

ERRORS = [
    value
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, RuleRAGError)
]


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ({}, "wrong"),
        ({"path": "a/b.tsv"}, "a/b.tsv: wrong"),
        ({"line": 3}, "line 3: wrong"),
        ({"key": "k"}, "key 'k': wrong"),
        ({"path": Path("a/b.tsv"), "line": 3}, "a/b.tsv, line 3: wrong"),
        ({"path": "c.yaml", "key": "k"}, "c.yaml, key 'k': wrong"),
        (
            {"path": "c.yaml", "line": 3, "key": "k", "hint": "try this"},
            "c.yaml, line 3, key 'k': wrong — try this",
        ),
        ({"hint": "try this"}, "wrong — try this"),
    ],
)
def test_the_sentence_holds_place_fault_and_cure(where: dict[str, object], text: str) -> None:
    error = RuleRAGError("wrong", **where)
    assert str(error) == text
    assert error.message == "wrong"


def test_the_drawn_tree_is_the_tree() -> None:
    """Each name in the module's drawing hangs below the class that the drawing says."""
    above: dict[int, type] = {}
    drawn = set()
    for line in (errors.__doc__ or "").splitlines():
        words = line.replace("├──", "   ").replace("└──", "   ").replace("│", " ")
        name = words.split()[0] if words.split() else ""
        if not (name.endswith("Error") and name in vars(errors)):
            continue
        depth = len(words) - len(words.lstrip())
        above = {at: parent for at, parent in above.items() if at < depth}
        found = vars(errors)[name]
        assert found.__bases__ == (above[max(above)] if above else Exception,), name
        above[depth] = found
        drawn.add(found)
    assert drawn == set(ERRORS)


def test_a_missing_package_says_which_pip_line_helps() -> None:
    error = MissingDependencyError("pyserini", extra="lucene")
    assert str(error).endswith("is not installed — pip install 'rulerag[lucene]'")
    assert (error.package, error.extra) == ("pyserini", "lucene")
    assert str(MissingDependencyError("kaleido")).endswith("pip install kaleido")


def test_a_generation_error_says_who_failed_and_whether_to_try_again() -> None:
    error = GenerationError("HTTP 429", provider="localhost", retryable=True, hint="wait")
    assert str(error) == "localhost: HTTP 429 — wait"
    assert error.retryable
    assert not GenerationError("HTTP 401").retryable


def test_a_worker_can_send_its_error_home() -> None:
    """Process pools pickle what a worker raises; nothing of the message may be lost."""
    error = DataFormatError("wrong", path="a.tsv", line=3, key="k", hint="try this")
    home = pickle.loads(pickle.dumps(error))
    assert str(home) == str(error)
    assert (home.path, home.line, home.key, home.hint) == (Path("a.tsv"), 3, "k", "try this")
    for special in (
        MissingDependencyError("pyserini", extra="lucene"),
        GenerationError("HTTP 429", provider="localhost", retryable=True),
    ):
        assert str(pickle.loads(pickle.dumps(special))) == str(special)


def test_hints_name_the_closest_names_or_list_what_there_is() -> None:
    known = ["retriever", "reader", "rules", "top_k"]
    assert did_you_mean("retreiver", known) == "did you mean 'retriever'?"
    assert did_you_mean("zzz", known) == "known: 'reader', 'retriever', 'rules', 'top_k'"
    assert did_you_mean("zzz", []) == "none are known here"
    many = [f"{letter}{letter}" for letter in "abcdefghijklmnopq"]
    assert did_you_mean("zzz", many).endswith("'ll', and 5 more")


@given(known=st.lists(st.text(min_size=1), min_size=1), data=st.data())
def test_a_known_name_is_always_its_own_best_hint(known: list[str], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(known))
    assert did_you_mean(name, known).startswith(f"did you mean {name!r}")
