"""Rule selection by head relation."""

from __future__ import annotations

import pytest

from rulerag.errors import ConfigError
from rulerag.protocols import RuleSelector
from rulerag.retrieval.guided.selection import HeadRelationSelector
from rulerag.rules import Atom, Rule, RuleBank, RuleQuality
from rulerag.types import Query


def rule(head: str, body: str, confidence: float, support: int) -> Rule:
    quality = RuleQuality(support=support, confidence=confidence)
    return Rule(Atom(head, "?x", "?y"), (Atom(body, "?x", "?y"),), True, quality)


SURE = rule("visit", "call", 0.9, 3)
OFTEN = rule("visit", "praise", 0.5, 40)
RARE = rule("visit", "blame", 0.5, 2)
OTHER = rule("praise", "visit", 0.7, 5)
BANK = RuleBank([RARE, OFTEN, OTHER, SURE])


def select(relation: str, **options: object) -> list[Rule]:
    selector = HeadRelationSelector(BANK, **options)  # type: ignore[arg-type]
    [rules] = selector.select([Query("q", "text", relation=relation)])
    return rules


def test_it_fits_the_seam() -> None:
    assert isinstance(HeadRelationSelector(BANK), RuleSelector)


def test_rules_of_the_querys_relation_most_confident_first() -> None:
    assert select("visit") == [SURE, OFTEN, RARE]
    assert select("praise") == [OTHER]
    assert select("unknown") == []
    assert select("") == []
    assert HeadRelationSelector(BANK).select([]) == []


def test_limits() -> None:
    assert select("visit", max_rules=2) == [SURE, OFTEN]
    assert select("visit", max_rules=0) == []
    assert select("visit", min_confidence=0.6) == [SURE]
    assert select("visit", min_support=3) == [SURE, OFTEN]
    assert select("visit", min_support=3, min_confidence=0.95) == []


def test_other_rankings() -> None:
    assert select("visit", rank_by="support") == [OFTEN, SURE, RARE]
    assert select("visit", rank_by="product", max_rules=1) == [OFTEN]


def test_a_caller_may_change_its_list() -> None:
    selector = HeadRelationSelector(BANK)
    query = Query("q", "text", relation="visit")
    selector.select([query])[0].clear()
    assert selector.select([query]) == [[SURE, OFTEN, RARE]]


def test_the_fingerprint_names_the_rules_that_can_be_chosen() -> None:
    options: list[dict[str, object]] = [
        {},
        {"max_rules": 2},
        {"min_confidence": 0.6},
        {"min_support": 3},
        {"rank_by": "support"},
    ]
    prints = {HeadRelationSelector(BANK, **o).fingerprint for o in options}  # type: ignore[arg-type]
    assert len(prints) == len(options)


@pytest.mark.parametrize(
    "options", [{"max_rules": -1}, {"min_confidence": 2}, {"min_support": -1}, {"rank_by": "luck"}]
)
def test_options_out_of_range(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        select("visit", **options)
