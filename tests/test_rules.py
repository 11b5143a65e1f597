"""Rules and the rule bank: one text form, one file form, one order."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from rulerag.errors import DataFormatError, UnknownNameError
from rulerag.rules import Atom, Rule, RuleBank, RuleQuality, readable, rule_text

NAMES = st.text("abcäß_ :/<>.?'\"\u00a0", min_size=1, max_size=8)
VARIABLES = st.sampled_from(["?x", "?y", "?z", "?w"])
ATOMS = st.builds(Atom, NAMES, VARIABLES | NAMES, VARIABLES | NAMES)
FRACTIONS = st.none() | st.floats(0, 1)
COUNTS = st.none() | st.integers(0, 10**9)
QUALITIES = st.builds(
    RuleQuality, COUNTS, FRACTIONS, FRACTIONS, FRACTIONS, COUNTS, COUNTS, FRACTIONS
)
RULES = st.builds(
    Rule,
    ATOMS,
    st.lists(ATOMS, min_size=1, max_size=3).map(tuple),
    st.booleans(),
    QUALITIES,
    st.just("") | NAMES,
    NAMES,
)
BANKS = st.lists(RULES, max_size=8).map(RuleBank)


def one_atom(
    body: str,
    head: str = "h",
    *,
    confidence: float | None = None,
    support: int | None = None,
    inverse: bool = False,
    text: str = "",
) -> Rule:
    atom = Atom(body, "?y", "?x") if inverse else Atom(body, "?x", "?y")
    quality = RuleQuality(confidence=confidence, support=support)
    return Rule(Atom(head, "?x", "?y"), (atom,), quality=quality, text=text)


def everything(rules: list[Rule] | RuleBank) -> list[dict[str, object]]:
    """Rules with their counts, texts and miners, which equality of rules leaves out."""
    return [rule.to_json() for rule in rules]


# --- the text form -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            [("Criticize_or_denounce", "?x", "?y")],
            "[Entity 1, Criticize or denounce, Entity 2] leads to "
            "[Entity 1, Make a visit, Entity 2]",
        ),
        (
            [("Host_a_visit", "?y", "?x")],
            "[Entity 2, Host a visit, Entity 1] leads to [Entity 1, Make a visit, Entity 2]",
        ),
        (
            [("Consult", "?x", "?z"), ("Consult", "?z", "?y")],
            "[Entity 1, Consult, Entity 3] and [Entity 3, Consult, Entity 2] leads to "
            "[Entity 1, Make a visit, Entity 2]",
        ),
        (
            [("a", "?w", "?x"), ("b", "?w", "?v"), ("c", "?y", "?v")],
            "[Entity 3, a, Entity 1] and [Entity 3, b, Entity 4] and [Entity 2, c, Entity 4] "
            "leads to [Entity 1, Make a visit, Entity 2]",
        ),
        (
            [("Consult", "?x", "France")],
            "[Entity 1, Consult, France] leads to [Entity 1, Make a visit, Entity 2]",
        ),
    ],
    ids=["same direction", "inverse", "two atoms", "three atoms", "a constant"],
)
def test_the_text_form_is_the_papers(body: list[tuple[str, str, str]], text: str) -> None:
    rule = Rule(Atom("Make_a_visit", "?x", "?y"), tuple(Atom(*atom) for atom in body))
    assert rule.text == text == rule_text(rule)


def test_variables_go_by_their_place_and_a_text_of_ones_own_stays() -> None:
    one = Rule(Atom("h", "?x", "?y"), (Atom("b", "?x", "?z"), Atom("c", "?z", "?y")))
    other = Rule(Atom("h", "?b", "?a"), (Atom("b", "?b", "?c"), Atom("c", "?c", "?a")))
    assert one.text == other.text
    assert one_atom("P54", "P108", text="plays, so works").text == "plays, so works"
    assert readable("_Make_a_visit_") == "Make a visit"


# --- one rule ----------------------------------------------------------------------------------


def test_a_rule_needs_a_body() -> None:
    with pytest.raises(DataFormatError, match="'h' has an empty body") as caught:
        Rule(Atom("h", "?x", "?y"), ())
    assert caught.value.key == "body"


def test_counts_and_texts_do_not_make_another_rule_but_atoms_and_time_do() -> None:
    rule = one_atom("b", confidence=0.5, text="one")
    same = replace(rule, quality=RuleQuality(confidence=0.9), text="two", miner="amie")
    assert rule == same
    assert rule.id == same.id
    others = [
        rule,
        replace(rule, temporal=True),
        one_atom("b", inverse=True),
        one_atom("c"),
        one_atom("b", "h2"),
        Rule(rule.head, (*rule.body, Atom("c", "?x", "?y"))),
        Rule(rule.head, (Atom("c", "?x", "?y"), *rule.body)),
    ]
    assert len({other.id for other in others}) == len(set(others)) == len(others)


def test_ids_are_the_same_in_every_process() -> None:
    code = (
        "from rulerag.rules import Atom, Rule; "
        "print(Rule(Atom('h', '?x', '?y'), (Atom('b', '?y', '?x'),)).id)"
    )
    environment = {"PYTHONHASHSEED": "1", "PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
    command = [sys.executable, "-c", code]
    other = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert other.stdout.strip() == one_atom("b", inverse=True).id


@pytest.mark.parametrize(
    ("quality", "expected"),
    [
        (RuleQuality(confidence=0.2, pca_confidence=0.9, standard_confidence=0.5), 0.2),
        (RuleQuality(pca_confidence=0.9, standard_confidence=0.5), 0.9),
        (RuleQuality(standard_confidence=0.5, head_coverage=1.0), 0.5),
        (RuleQuality(support=7), 0.0),
        (RuleQuality(confidence=0.0, pca_confidence=0.9), 0.0),
    ],
)
def test_the_confidence_that_ranks(quality: RuleQuality, expected: float) -> None:
    rule = Rule(Atom("h", "?x", "?y"), (Atom("b", "?x", "?y"),), quality=quality)
    assert rule.ranking_confidence == expected


def test_inverse_means_the_other_direction_in_one_atom() -> None:
    assert one_atom("b", inverse=True).is_inverse
    assert not one_atom("b").is_inverse
    head = Atom("h", "?x", "?y")
    assert not Rule(head, (Atom("b", "?y", "?x"), Atom("c", "?y", "?x"))).is_inverse
    assert not Rule(head, (Atom("b", "?y", "?z"),)).is_inverse


# --- the file form -----------------------------------------------------------------------------


def test_one_line_holds_exactly_the_fields_of_the_contract(tmp_path: Path) -> None:
    quality = RuleQuality(support=3, head_coverage=0.5, standard_confidence=0.75, body_size=4)
    rule = Rule(Atom("h", "?x", "?y"), (Atom("b", "?x", "?y"),), quality=quality, miner="amie")
    RuleBank([rule]).save(tmp_path / "rules.jsonl")
    assert json.loads((tmp_path / "rules.jsonl").read_text()) == {
        "head": {"relation": "h", "subject": "?x", "object": "?y"},
        "body": [{"relation": "b", "subject": "?x", "object": "?y"}],
        "temporal": False,
        "support": 3,
        "head_coverage": 0.5,
        "standard_confidence": 0.75,
        "pca_confidence": None,
        "body_size": 4,
        "pca_body_size": None,
        "confidence": None,
        "text": "[Entity 1, b, Entity 2] leads to [Entity 1, h, Entity 2]",
        "miner": "amie",
    }
    # What does not apply may be left out.
    least = {key: value for key, value in rule.to_json().items() if key in ("head", "body")}
    assert Rule.from_json(least) == rule and Rule.from_json(least).quality == RuleQuality()
    assert Rule.from_json(least).text == rule.text


@given(bank=BANKS)
def test_a_saved_bank_is_read_back_whole(
    tmp_path_factory: pytest.TempPathFactory, bank: RuleBank
) -> None:
    path = tmp_path_factory.mktemp("bank") / "rules.jsonl"
    bank.save(path)
    loaded = RuleBank.load(path)
    assert everything(loaded) == everything(bank)
    assert loaded.fingerprint == bank.fingerprint


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"head": None}, "head"),
        ({"head": {"relation": "h", "subject": "?x"}}, "head"),
        ({"head": {"relation": "h", "subject": "?x", "object": 3}}, "head"),
        ({"body": None}, "body"),
        ({"body": "b"}, "body"),
        ({"body": []}, "body"),
        ({"body": [["b", "?x", "?y"]]}, "body"),
        ({"temporal": "false"}, "temporal"),
        *(({field.name: "many"}, field.name) for field in fields(RuleQuality)),
        ({"support": 1.5}, "support"),
        ({"support": True}, "support"),
        ({"confidence": float("nan")}, "confidence"),
    ],
)
def test_a_line_that_is_no_rule_names_file_line_and_key(
    tmp_path: Path, change: dict[str, object], key: str
) -> None:
    good = one_atom("b").to_json()
    path = tmp_path / "rules.jsonl"
    path.write_text(f"{json.dumps(good)}\n\n{json.dumps({**good, **change})}\n")
    with pytest.raises(DataFormatError) as caught:
        RuleBank.load(path)
    error = caught.value
    assert (error.path, error.line, error.key) == (path, 3, key)
    assert str(error).startswith(f"{path}, line 3, key '{key}': ")


# --- the bank ----------------------------------------------------------------------------------


def test_for_head_ranks_by_confidence_then_support_then_text() -> None:
    bank = RuleBank(
        [
            one_atom("d", confidence=0.5, support=3),
            one_atom("c", confidence=0.5, support=3),
            one_atom("b", confidence=0.5, support=9),
            one_atom("a", confidence=0.4, support=99),
            one_atom("e", confidence=0.6),
            one_atom("z", "other", confidence=0.9),
        ]
    )
    assert [rule.body[0].relation for rule in bank.for_head("h")] == ["e", "b", "c", "d", "a"]
    assert bank.head_relations == ["h", "other"]
    assert bank.for_head("unknown") == []
    assert repr(bank) == "RuleBank(6 rules for 2 head relations)"


@given(rules=st.lists(RULES, max_size=8), data=st.data())
def test_the_ranking_does_not_depend_on_the_order_given(
    rules: list[Rule], data: st.DataObject
) -> None:
    distinct = list(RuleBank(rules))
    shuffled = RuleBank(data.draw(st.permutations(distinct)))
    for head in shuffled.head_relations:
        ranks = [
            (-rule.ranking_confidence, -(rule.quality.support or 0), rule.text)
            for rule in shuffled.for_head(head)
        ]
        assert ranks == sorted(ranks)
        if len(set(ranks)) == len(ranks):  # texts of one's own may tie; nothing else can
            assert shuffled.for_head(head) == RuleBank(distinct).for_head(head)


def test_filter_keeps_the_order_and_every_condition_counts() -> None:
    long = Rule(
        Atom("h", "?x", "?y"),
        (Atom("a", "?x", "?z"), Atom("b", "?z", "?y")),
        quality=RuleQuality(confidence=0.9, support=5),
    )
    bank = RuleBank(
        [
            one_atom("a", confidence=0.5, support=5),
            long,
            one_atom("b", confidence=0.5, support=4),
            one_atom("c", confidence=0.4, support=5),
            one_atom("d"),
        ]
    )
    both = bank.filter(min_confidence=0.5, min_support=5)
    assert list(both) == [one_atom("a"), long]
    assert list(bank.filter(max_body_atoms=1)) == [r for r in bank if r != long]
    assert list(bank.filter()) == list(bank)


def test_merge_keeps_the_earlier_counts() -> None:
    early, late = one_atom("a", confidence=0.1), one_atom("a", confidence=0.9)
    merged = RuleBank([early]).merge(RuleBank([late, one_atom("b")]), RuleBank([one_atom("c")]))
    assert [rule.body[0].relation for rule in merged] == ["a", "b", "c"]
    assert next(iter(merged)).quality.confidence == 0.1


@given(one=BANKS, two=BANKS, three=BANKS)
def test_merge_is_a_union_with_the_usual_laws(
    one: RuleBank, two: RuleBank, three: RuleBank
) -> None:
    assert everything(one.merge(one)) == everything(one) == everything(one.merge(RuleBank()))
    assert everything(one.merge(two).merge(three)) == everything(one.merge(two, three))
    assert set(one.merge(two)) == set(one) | set(two)
    assert len(one.merge(two)) == len(set(one) | set(two))


def test_a_rule_is_found_by_its_id_and_a_wrong_id_says_so() -> None:
    rule = one_atom("a")
    bank = RuleBank([rule])
    assert bank.get(rule.id) is rule
    assert rule in bank
    assert one_atom("b") not in bank
    assert "a" not in bank
    with pytest.raises(UnknownNameError, match=rf"'{rule.id}x'.*did you mean '{rule.id}'"):
        bank.get(rule.id + "x")


def test_the_fingerprint_sees_counts_and_order() -> None:
    one, two = one_atom("a", confidence=0.5), one_atom("b")
    assert RuleBank([one, two]).fingerprint == RuleBank([one, two]).fingerprint
    other_counts = RuleBank([one_atom("a", confidence=0.6), two])
    for other in (RuleBank([two, one]), RuleBank([one]), other_counts):
        assert other.fingerprint != RuleBank([one, two]).fingerprint
