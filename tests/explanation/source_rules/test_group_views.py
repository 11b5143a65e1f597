from __future__ import annotations

import json
from pathlib import Path

from rulerag.explanation.probing.cache import AnswerCache
from rulerag.explanation.records.certificates import Certificate, NamedRule
from rulerag.explanation.report import AnswerExplanation, explain_answer
from rulerag.explanation.source_rules.groups import GroupView
from rulerag.types import Answer, Completion, Document, GenerationRequest, Query, ScoredDocument
from tests.fakes import PlantedGenerator, planted_answer, planted_rule

A, B, C = (planted_rule(name) for name in "abc")
FOUND = [[A], [B], [A], [B], [C], [None]]
YES = [["d1", "d4"], ["d5"]]


def test_rules_of_groups_and_inside_them() -> None:
    answer = planted_answer("France", FOUND, rules=(A, B, C))
    generator = PlantedGenerator.dnf(YES, yes="France", no="Spain")
    told = explain_answer(answer, generator, group_by="rule")
    kept, removed = told.group_views
    assert dict(kept.groups) == {
        "R1": ("D1", "D3"),
        "R2": ("D2", "D4"),
        "R3": ("D5",),
        "query": ("D6",),
    }
    assert kept.outer == (("R3",), ("R1", "R2")) and kept.opened == ("R1", "R2")
    assert set(kept.inner) == {("R3",), ("D1", "D4")}
    assert set(removed.outer) == {("R1", "R3"), ("R2", "R3")}
    assert set(removed.inner) == {("D1", "R3"), ("D4", "R3")}
    assert told.num_probes <= 2**6  # the groups ask what the documents asked
    assert str(told).count("By rule (R1: D1 and D3; R2: D2 and D4; R3: D5; query: D6)") == 2
    assert "it stands whenever R3 is kept, or R1 and R2 are kept together" in str(told)
    again = AnswerExplanation.from_json(json.loads(json.dumps(told.to_json())))
    assert again == told


def test_groups_leave_no_source_in_the_rest(tmp_path: Path) -> None:
    answer = planted_answer("France", [[A], [A], [B], [B], [B], [B], [C], [C]], rules=(A, B, C))
    generator = PlantedGenerator.dnf([["d2", "d6"]], yes="France", no="Spain")
    cache = AnswerCache(tmp_path / "answers.sqlite")
    told = explain_answer(answer, generator, max_sources=3, group_by="rule", cache=cache)
    kept = told.group_views[0]
    assert told.together and kept.outer == (("R1", "R2"),) and kept.inner == (("D2", "D6"),)
    asked = len(generator.batches)
    again = explain_answer(answer, generator, max_sources=3, group_by="rule", cache=cache)
    assert again.group_views == told.group_views and len(generator.batches) == asked
    short = explain_answer(answer, generator, max_sources=3, group_by="rule", max_probes=9)
    assert not short.complete and short.group_views == () and short.num_probes <= 9


def test_sentences_are_grouped_by_document_or_rule() -> None:
    class Reader:
        fingerprint = "two sentences"

        def generate(self, requests: list[GenerationRequest]) -> list[Completion]:
            texts = [" ".join(d.text for d in request.documents) for request in requests]
            return [Completion("yes" if "Red." in t and "Blue." in t else "no") for t in texts]

    texts = ("Grey. Red.", "Green. White.", "Blue. Black.")
    found = tuple(
        ScoredDocument(Document(f"d{n}", text), 1.0, n) for n, text in enumerate(texts, start=1)
    )
    answer = Answer(Query("q", "?"), Completion("yes"), found)
    told = explain_answer(answer, Reader(), unit="sentence", group_by="document")
    kept = told.group_views[0]
    assert kept.outer == (("D1", "D3"),) and kept.inner == (("D1.2", "D3.1"),)
    by_rule = explain_answer(answer, Reader(), unit="sentence", group_by="rule").group_views[0]
    assert by_rule.groups == (("query", told.sources),) and by_rule.inner == kept.inner


def test_nothing_to_say_is_said() -> None:
    view = GroupView("rule", "retention", (("R1", ("D1",)),), (), (), ())
    assert "no retention rule" in str(view)
    nothing = (NamedRule((), Certificate.exact(1)),)
    always = GroupView("rule", "omission", (("R1", ("D1",)),), nothing, (), nothing)
    assert "it goes whatever is kept or removed" in str(always)
