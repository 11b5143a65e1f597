"""The compact prompt: what it shows and leaves out, and the way back to answer and document."""

from __future__ import annotations

import pytest

from rulerag.generation.prompts.compact_template import CompactTemplate
from rulerag.generation.prompts.template import Citation
from rulerag.rules import Atom, Rule
from rulerag.types import Document, Fact, GenerationRequest, Query

TEMPLATE = CompactTemplate()
HEAD = Atom("Consult", "?x", "?y")
FORWARDS = Rule(HEAD, (Atom("Make_a_visit", "?x", "?y"),))
BACKWARDS = Rule(HEAD, (Atom("Host_a_visit", "?y", "?x"),))


def request(
    *rules: Rule, text: str = "Time 2014-12-01 what does China Consult ?"
) -> GenerationRequest:
    documents = (
        Document("a", "Time 2014-03-02 Japan Make a visit Iran."),
        Document("b", "Time 2014-03-01 Iran Host a visit China.", (Fact("Iran", "x", "China", 1),)),
        Document("c", "China Consult Darlington F.C.."),
    )
    return GenerationRequest(Query("q", text, "China", "Consult", 1), documents, rules)


def test_rules_are_patterns_around_the_marked_subject() -> None:
    assert TEMPLATE.render(request(FORWARDS, BACKWARDS)).text.splitlines() == [
        "",
        "> @ Make a visit",
        "< Host a visit @",
        "= Japan Make a visit Iran",
        "= Iran Host a visit @",
        "= @ Consult Darlington F.C.",
        ":",
    ]


def test_chains_are_walks_and_other_rules_keep_their_words() -> None:
    chain = Rule(HEAD, (Atom("r", "?x", "?z"), Atom("s", "?y", "?z")))
    strange = Rule(HEAD, (Atom("r", "?x", "Rome"), Atom("s", "?y", "Rome")), text="odd words")
    shown = TEMPLATE.render(request(chain, strange)).text.splitlines()
    assert shown[1] == "> @ r < s"
    assert shown[2] == "* odd words"


def test_what_is_asked_is_data_and_not_cut_out_of_the_question() -> None:
    labelled = Query(
        "q",
        "Hilary Beckles works at ?",
        "<Hilary_Beckles>",
        "<worksAt>",
        subject_label="Hilary Beckles",
        relation_label="works at",
    )
    fact = Fact("<Hilary_Beckles>", "<worksAt>", "<UWI>")
    document = Document("d", "Hilary Beckles works at UWI.", (fact,))
    for template in (TEMPLATE, TEMPLATE.without_rules()):
        shown = template.render(GenerationRequest(labelled, (document,))).text.splitlines()
        assert shown[1:3] == ["> @ works at", "= @ works at UWI"]


def test_a_longer_name_that_begins_with_the_subject_is_another_entity() -> None:
    daily = Document("d", "China Daily Consult Iran.", (Fact("China Daily", "Consult", "Iran"),))
    city = Document("e", "Iran Consult South China.", (Fact("Iran", "Consult", "South China"),))
    asked = GenerationRequest(Query("q", "?", "China", "Consult"), (daily, city))
    assert TEMPLATE.line(daily, asked) == "China Daily Consult Iran"
    assert TEMPLATE.line(city, asked) == "Iran Consult South China"


@pytest.mark.parametrize("inverse", [False, True])
def test_completion_and_parsing_are_inverse(inverse: bool) -> None:
    said = TEMPLATE.completion("Darlington F.C.", Citation("China", "Make a visit", inverse))
    assert TEMPLATE.parse(said) == TEMPLATE.parse(said + "\n= more") == "Darlington F.C."
    sides = (
        ("Darlington F.C.", "Make a visit @") if inverse else ("@ Make a visit", "Darlington F.C.")
    )
    assert TEMPLATE.cited(said) == sides


def test_only_whole_words_at_the_ends_are_the_subject() -> None:
    asked = request(FORWARDS)
    for text in ("Chinatown Host a visit Iran.", "Iran Host a visit North-China.", "a China b."):
        assert TEMPLATE.line(Document("d", text), asked) == text.removesuffix(".")


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (" > @ Make a visit | Iran", "Iran"),  # as it should be
        (" > @ Make | a visit Iran", "Iran"),  # the bar inside the relation
        (" > @ Make a visit Iran", "Iran"),  # no bar
        (" < Iran | Host a visit @", "Iran"),
        (" < Iran Host a visit @", "Iran"),
        (" < Iran Host | a visit @", "Iran"),
        (" < South Iran Host a visit | some @", "South Iran"),  # and a slip behind it
        (" < Iran | Expel @", "Iran"),  # no pattern of the prompt: as the bar says
        (" Iran", "Iran"),
        ("", ""),
    ],
)
def test_a_pattern_tells_where_the_bar_belongs(said: str, answer: str) -> None:
    assert TEMPLATE.parse(said, request(FORWARDS, BACKWARDS)) == answer
