"""Prompts: the paper's parts in both orders, packing under a budget, and reading answers back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rulerag.composition.registry import names
from rulerag.errors import ConfigError, GenerationError
from rulerag.generation.prompts.compact_template import CompactTemplate
from rulerag.generation.prompts.template import Case, PromptTemplate
from rulerag.rules import Atom, Rule
from rulerag.types import Document, Fact, GenerationRequest, Query

RULES = (
    Rule(Atom("visit", "?x", "?y"), (Atom("consult", "?x", "?y"),)),
    Rule(Atom("visit", "?x", "?y"), (Atom("invite", "?y", "?x"),)),
)
DOCUMENTS = tuple(
    Document(f"d{i}", f"Time 2014-06-2{i} Norland consult {name}.", (Fact("n", "consult", name),))
    for i, name in enumerate(["Ostra", "Sudavia", "Velmora"])
)
QUERY = Query("q1", "Time 2014-12-01 what does Norland visit ?")
REQUEST = GenerationRequest(QUERY, DOCUMENTS, RULES)


def places(text: str, *parts: str) -> list[int]:
    found = [text.find(part) for part in parts]
    assert -1 not in found
    return found


def test_the_rule_guided_prompt_has_the_parts_of_the_paper_in_either_order() -> None:
    parts = [d.text for d in DOCUMENTS]
    parts += ["Use the following Two rules", "Rule One: [Entity 1, consult, Entity 2] leads to "]
    parts += ["Rule Two: [Entity 2, invite, Entity 1] leads to [Entity 1, visit, Entity 2]."]
    parts += [QUERY.text]
    paper = PromptTemplate.rule_guided(order="paper")
    text = paper.render(REQUEST).text
    assert text.startswith("Each query asks for the missing object of a fact")
    assert "Follow the rules on the documents" in text
    assert places(text, *parts) == sorted(places(text, *parts))
    assert text.endswith("\nAnswer:")
    shared = PromptTemplate.rule_guided().render(REQUEST).text
    assert sorted(shared.splitlines()) == sorted(text.splitlines())
    assert shared.index("Rule Two") < shared.index(DOCUMENTS[0].text)


@pytest.mark.parametrize("kind", ["rule-guided", "few-shot", "citation", "compact"])
def test_a_prompt_that_shows_no_rules_does_not_speak_of_them(kind: str) -> None:
    template = PromptTemplate.of(kind)
    bare = GenerationRequest(QUERY, DOCUMENTS)
    texts = [template.without_rules().render(request).text for request in (REQUEST, bare)]
    assert texts[0] == texts[1]
    if kind != "few-shot":  # its cases have rules
        assert template.render(bare).text == texts[0]
    assert "rule" not in texts[0].lower()


def test_one_rule_is_one_and_many_are_counted_in_digits() -> None:
    one = GenerationRequest(QUERY, (), RULES[:1])
    assert "following One rule to" in PromptTemplate().render(one).text
    rules = tuple(Rule(Atom("h", "?x", "?y"), (Atom(f"b{i}", "?x", "?y"),)) for i in range(12))
    text = PromptTemplate().render(GenerationRequest(QUERY, (), rules)).text
    assert "following 12 rules to" in text
    assert "Rule Ten: " in text
    assert "Rule 12: " in text


def test_documents_are_packed_best_first_and_the_dropped_are_named() -> None:
    template = PromptTemplate.standard()
    whole = template.render(REQUEST)
    assert (whole.kept, whole.dropped) == (("d0", "d1", "d2"), ())
    size = len(whole.text.split())
    less = template.render(REQUEST, budget=size - 1)
    assert (less.kept, less.dropped) == (("d0", "d1"), ("d2",))
    assert len(less.text.split()) <= size - 1
    long = Document("long", "word " * 500)
    request = GenerationRequest(QUERY, (long, *DOCUMENTS), RULES)
    skipped = template.render(request, budget=size + 5)
    assert (skipped.kept, skipped.dropped) == (("d0", "d1", "d2"), ("long",))
    none = template.render(request, budget=size - 15)
    assert none.kept == ()
    assert template.documents_heading not in none.text


def test_fewer_documents_and_the_best_one_last() -> None:
    first, second, _ = (document.text for document in DOCUMENTS)
    shown = PromptTemplate.standard(max_documents=2, best_last=True).render(REQUEST)
    assert f"{second}\n{first}\n\n" in shown.text and DOCUMENTS[2].text not in shown.text
    # What is not to be shown is not what did not fit.
    assert (shown.kept, shown.dropped) == (("d0", "d1"), ())
    asked = replace(REQUEST, query=replace(QUERY, subject="Norland", relation="visit"))
    case = PromptTemplate.cloze(max_documents=1).case(asked, "Ostra")
    assert (case.documents, case.query) == ((first,), "Time 2014-12-01 Norland visit")
    compact = CompactTemplate(max_documents=2, best_last=True).render(REQUEST).text
    lines = [line for line in compact.splitlines() if line.startswith("= ")]
    assert lines == [
        line
        for line in CompactTemplate(max_documents=2).render(REQUEST).text.splitlines()[::-1]
        if line.startswith("= ")
    ]
    assert len(lines) == 2
    with pytest.raises(ConfigError, match="max_documents"):
        PromptTemplate(max_documents=0)


@pytest.mark.parametrize("budget", range(60, 140, 7))
def test_packing_never_exceeds_the_budget_of_any_counter(budget: int) -> None:
    counter = len  # characters: parts do not add up to the whole without their separators
    template = PromptTemplate(instruction="", rules=False, documents_heading="D:")
    prompt = template.render(REQUEST, budget=budget, count=counter)
    assert len(prompt.text) <= budget
    assert prompt.kept + prompt.dropped == ("d0", "d1", "d2")


def test_a_prompt_that_cannot_fit_without_documents_is_an_error() -> None:
    with pytest.raises(GenerationError, match=r"'q1' has 1.. tokens .* 20 fit .* fewer rules"):
        PromptTemplate().render(REQUEST, budget=20)


@pytest.mark.parametrize("answer", ["Ostra", "J. R.", "Citizen (Ostra)", "Inc.", "São Tomé", "A"])
@pytest.mark.parametrize("kind", ["rule-guided", "citation"])
def test_what_is_trained_is_what_is_parsed(kind: str, answer: str) -> None:
    template = PromptTemplate.of(kind)
    assert template.parse(template.completion(answer, ("Norland", "consult"))) == answer


def test_a_citation_names_its_fact_and_its_object_is_the_answer() -> None:
    template = PromptTemplate.citation()
    written = template.completion("Ostra", ("Norland", "consult"))
    assert written == " Norland | consult | Ostra."
    assert template.parse(written) == "Ostra"
    assert template.cited(written) == ("Norland", "consult", "Ostra")
    assert template.parse(" Ostra.") == "Ostra"
    assert template.cited(" Ostra.") == ()
    with pytest.raises(ConfigError, match="supporting fact"):
        template.completion("Ostra")


def test_templates_by_name_and_their_fingerprints() -> None:
    templates = [PromptTemplate.of(kind) for kind in names("prompt")]
    assert len({t.fingerprint for t in templates}) == len(names("prompt"))
    assert PromptTemplate.of(None) == PromptTemplate.rule_guided()
    assert PromptTemplate.of(templates[1]) is templates[1]
    changed = PromptTemplate.of({"type": "few-shot", "order": "paper"})
    assert changed.order == "paper"
    assert len(changed.cases) == 3
    case = {"query": "what does A visit ?", "answer": "B", "documents": ["A consult B."]}
    given = PromptTemplate.of({"type": "few-shot", "cases": [case]})
    assert given.cases == (Case(**case),)
    assert given.without_rules().rules is False


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("few_shots", "did you mean 'few-shot'"),
        ({"type": "standard", "colour": 1}, "colour"),
        ({"order": "random"}, "order"),
        ({"target": "song"}, "target"),
        ({"type": "few-shot", "cases": [{"query": "?"}]}, "cases.answer"),
        ({"type": "few-shot", "cases": [{"querry": "?"}]}, "did you mean 'query'"),
        ({"type": "few-shot", "cases": [{"query": "?", "answer": "a", "fact": [1]}]}, "cases.fact"),
    ],
)
def test_wrong_templates_are_errors(value: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PromptTemplate.of(value)  # type: ignore[arg-type]


def test_what_all_probes_have_in_common_can_come_first() -> None:
    request = GenerationRequest(Query("q", "Who came?"), (Document("a", "Ann came."),))
    usual = PromptTemplate.of("open")
    first = PromptTemplate.of({"type": "open", "order": "question-first"})
    assert first.render(request).text.endswith(
        "Question: Who came?\n\nDocuments:\nAnn came.\n\nAnswer:"
    )
    assert usual.render(request).text.endswith(
        "Documents:\nAnn came.\n\nQuestion: Who came?\nAnswer:"
    )
    assert usual.fingerprint != first.fingerprint, "answers of one are not those of the other"
    assert usual.parse(" <think>hm</think> One.\nTwo. ") == "One.\nTwo."
