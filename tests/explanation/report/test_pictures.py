"""The pictures of an explained answer: nothing idle contributes, and no subset is made up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rulerag.explanation.report import (
    AnswerExplanation,
    called,
    explain_answer,
    parts_played,
    plain_rule,
)
from rulerag.explanation.source_rules import Duality
from rulerag.rules import Rule
from tests.fakes import PlantedGenerator, planted_answer, planted_rule

A, B = (planted_rule(name) for name in "ab")


def explain(
    clauses: Sequence[Sequence[str]], found_by: Sequence[Sequence[Rule | None]], **options: object
) -> AnswerExplanation:
    generator = PlantedGenerator.dnf(clauses, yes="France", no="Spain")
    answer = planted_answer("France", found_by, rules=(A, B))
    return explain_answer(answer, generator, **options)  # type: ignore


def test_the_flow_links_what_found_and_what_is_needed_and_nothing_else() -> None:
    told = explain([["d2", "d5"], ["d3"]], [[A], [A], [B], [], [None], [A]])
    flow, _ = told.pictures()
    rests = [row[0].split()[0] for row in flow.rows if row[1] == "the claim rests on it"]
    assert rests == ["D2", "D3", "D5"]
    assert {row[0].split()[0] for row in flow.rows if row[1] == "no claim rests on it"} == {
        *("D1", "D4", "D6")
    }
    found = [(row[0].split()[0], row[2].split()[0]) for row in flow.rows if row[1] == "found by"]
    assert ("D2", "R1") in found and ("D3", "R2") in found and ("D5", "the") in found


def test_the_lattice_has_the_sources_that_matter_and_their_truth() -> None:
    told = explain([["d2", "d5"], ["d3"]], [[A], [A], [B], [], [None], [A]])
    _, lattice = told.pictures()
    # By hand, over D2, D3, D5: all hold; D2+D3, D3+D5, D2+D5 hold; D3 holds; nothing does not.
    assert [row[1:3] for row in lattice.rows] == [("1", "0"), ("3", "0"), ("1", "2"), ("0", "1")]
    assert "1 is D2, 2 is D3, 3 is D5" in lattice.note
    assert "Three further sources make no difference" in lattice.note


def test_there_is_no_lattice_where_a_subset_is_undecided_or_one_source_decides() -> None:
    told = explain([["d1"], ["d2"]], [[A], [B]])
    assert len(told.pictures()) == 2
    undecided = replace(told, duality=Duality(True, False, undecided=("D1",)))
    assert len(undecided.pictures()) == len(replace(told, duality=None).pictures()) == 1
    assert len(explain([["d1"]], [[A], [B]]).pictures()) == 1
    assert replace(told, documents=(), sources=(), retained=(), omitted=()).pictures() == ()


def test_attributions_are_bars_named_by_document() -> None:
    told = explain([["d1"], ["d2"]], [[A], [B], []], attribution=("shapley",))
    *_, bars = told.pictures()
    assert bars.title == "How much each document counts: Shapley (exact)"
    assert [row[:2] for row in bars.rows] == [
        (called(told.documents[0]), "0.5000"),
        (called(told.documents[1]), "0.5000"),
        (called(told.documents[2]), "0.0000"),
    ]


def test_sentences_count_for_their_document_and_untested_rules_for_none() -> None:
    told = explain([["d1"]], [[A], [B]])
    assert parts_played(told) == {"D1": "supporting", "D2": "idle"}
    (rule,) = told.retained
    sentence = replace(told, retained=(replace(rule, names=("D2.3",)),))
    assert parts_played(sentence) == {"D1": "removable", "D2": "supporting"}
    untested = replace(rule, certificate=replace(rule.certificate, kind="untested"))
    assert set(parts_played(replace(told, retained=(untested,), omitted=())).values()) == {"idle"}


def test_titles_travel_and_rules_are_plain() -> None:
    told = explain([["d1"]], [[A], [B]])
    row = told.to_json()
    row["documents"][0]["title"] = "Paris"
    assert called(AnswerExplanation.from_json(row).documents[0]).startswith("D1 Paris “")
    del row["documents"][0]["title"]  # a record of an earlier version
    assert AnswerExplanation.from_json(row).documents[0].title == ""
    assert plain_rule(A.text) == "Entity 1 had a Entity 2 → Entity 1 has a Entity 2"
    assert plain_rule("if a then b") == "if a then b"
