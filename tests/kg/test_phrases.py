"""Relations and rules in plain words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from rulerag.errors import DataFormatError
from rulerag.kg import Phrases
from rulerag.kg.phrases import FILE, derived_phrase
from rulerag.rules import Atom, Rule, RuleQuality

VISIT = Rule(Atom("Consult", "?x", "?y"), (Atom("Make_a_visit", "?y", "?x"),), temporal=True)


@pytest.mark.parametrize(
    ("label", "template"),
    [
        ("works at", "{x} works at {y}"),
        ("worksFor", "{x} works for {y}"),
        ("is married to", "{x} is married to {y}"),
        ("created", "{x} created {y}"),
        ("died in", "{x} died in {y}"),
        ("educated at", "{x} is educated at {y}"),
        ("member of", "{x} is member of {y}"),
        ("Consult", "{x} consults {y}"),
        ("Make_a_visit", "{x} makes a visit: {y}"),
        ("Carry out suicide bombing", "{x} carries out suicide bombing: {y}"),
        ("athlete plays in league", "{x} plays in league {y}"),
        ("collaborates with", "{x} collaborates with {y}"),
        ("partially contains", "{x} partially contains {y}"),
        ("books a trip to", "{x} books a trip to {y}"),
        ("congratulates", "{x} congratulates {y}"),
        ("occurs in", "{x} occurs in {y}"),
        ("agent competes with agent", "{x} competes with agent {y}"),
        ("has lived in", "{x} has lived in {y}"),
        ("wrote", "{x} wrote {y}"),
        ("peers", "the peers of {x} is {y}"),
        ("disciplines or subjects", "the disciplines or subjects of {x} is {y}"),
        ("draft picks school", "the draft picks school of {x} is {y}"),
        ("beverage contains protein", "{x} contains protein {y}"),
        ("cause of death", "the cause of death of {x} is {y}"),
        ("genre (film)", "the genre of {x} is {y}"),
        ("(film)", "the (film) of {x} is {y}"),
    ],
)
def test_templates_are_derived_from_labels(label: str, template: str) -> None:
    assert derived_phrase(label) == template


def test_rules_in_words() -> None:
    phrases = Phrases()
    assert phrases.rule(VISIT) == "if Y makes a visit: X, then later X consults Y"
    own = Phrases({"Make_a_visit": "{x} visits {y}"})
    assert own.rule(VISIT) == "if Y visits X, then later X consults Y"
    assert VISIT.text == "[Entity 2, Make a visit, Entity 1] leads to [Entity 1, Consult, Entity 2]"
    constant = Rule(Atom("r", "?x", "Bonn"), (Atom("has", "?x", "?a"), Atom("sees", "?a", "{x}")))
    assert Phrases().rule(constant) == "if X has Y and Y sees {x}, then the r of X is Bonn"


def test_an_inverse_is_said_from_its_relation() -> None:
    assert Phrases().say("^Consult", "Iran", "?") == "? consults Iran"
    turned = Rule(Atom("^Consult", "?y", "?x"), (Atom("Consult", "?x", "?y"),))
    assert Phrases().rule(turned) == "if X consults Y, then X consults Y"


def test_a_file_that_is_written_is_read_again(tmp_path: Path) -> None:
    text = Phrases().file_text(["Make_a_visit", "Consult"])
    (tmp_path / FILE).write_text(text)
    assert Phrases.of_folder(tmp_path).own == yaml.safe_load(text)
    assert Phrases.of_folder(tmp_path / "nowhere").own == Phrases.of_folder(None).own == {}


@pytest.mark.parametrize("wrong", ["{x} visits", "visits {y}", "", "5"])
def test_a_template_without_both_ends_is_refused(wrong: str) -> None:
    with pytest.raises(DataFormatError, match=r"Consult.*expected a sentence"):
        Phrases({"Consult": wrong})


def test_why_a_rule_leads_to_an_answer() -> None:
    own = Phrases({"Make_a_visit": "{x} visits {y}"})
    sure = replace(VISIT, quality=RuleQuality(confidence=0.93))
    said = own.because(sure, "Iran", "Oman")
    assert said == "because Oman visits Iran, and then nearly always Iran consults Oman"
    body = (Atom("has", "?x", "?a"), Atom("Consult", "?a", "?y"))
    chain = Rule(Atom("Consult", "?x", "?y"), body, quality=RuleQuality(confidence=0.3))
    said = own.because(chain, "Iran", "{x}")
    assert said == "because Iran has Z and Z consults {x}, and then often Iran consults {x}"
