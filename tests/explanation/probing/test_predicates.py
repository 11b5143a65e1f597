from __future__ import annotations

import pytest

from rulerag.errors import ConfigError
from rulerag.explanation.probing import predicates as p


@pytest.mark.parametrize(
    ("predicate", "holds", "fails"),
    [
        (p.matches_answer("The U.S.A."), "usa", "USA today"),
        (p.matches_answer(""), " . ", "usa"),
        (p.equals("Paris"), "Paris", "paris"),
        (p.contains("new york"), "In New York, 1990.", "in newyork"),
        (p.contains("art"), "an art form", "a party"),
        (p.regex(r"\b19\d\d\b"), "born in 1980", "born in 2080"),
        (p.regex("PARIS"), "paris", "Rome"),
        (p.is_correct(["Rome", "Roma"]), "roma.", "Rome, Italy"),
        (p.is_correct("Rome"), "the Rome", "R"),
        (~p.is_correct(["Rome"]), "Paris", "Rome"),
        (p.abstains(), "  ", "no"),
    ],
)
def test_predicates_and_their_opposites(
    predicate: p.OutputPredicate, holds: str, fails: str
) -> None:
    assert predicate(holds) is True and predicate(fails) is False
    assert str(p.named(len)) == "len holds" and str(~p.named(len)) == "len fails"
    for opposite in (~predicate, ~p.named(predicate)):
        assert opposite(holds) is False and opposite(fails) is True
        assert str(opposite) != str(predicate) and str(~opposite) == str(predicate)


def test_bad_predicates_are_refused() -> None:
    with pytest.raises(ConfigError, match="not a regular expression"):
        p.regex("(")
    with pytest.raises(ConfigError, match="nothing to look for"):
        p.contains("...")
    with pytest.raises(ConfigError, match="at least one acceptable answer"):
        p.is_correct([])
