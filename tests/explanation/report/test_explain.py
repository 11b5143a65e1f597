from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rulerag.errors import ConfigError, DataFormatError, ExplanationError
from rulerag.explanation.probing.cache import AnswerCache
from rulerag.explanation.probing.predicates import abstains, contains
from rulerag.explanation.report import AnswerExplanation, ExplainSettings, explain_answer
from rulerag.rules import Rule
from rulerag.types import Answer, Completion, Query, Support
from tests.fakes import PlantedGenerator, planted_answer, planted_rule

A, B, C, D = (planted_rule(name) for name in "abcd")
TEXT = {
    rule: f"([Entity 1, had {name}, Entity 2] leads to [Entity 1, has {name}, Entity 2])"
    for rule, name in ((A, "a"), (B, "b"), (C, "c"), (D, "d"))
}


def explain(
    clauses: Sequence[Sequence[str]],
    found_by: Sequence[Sequence[Rule | None]],
    *,
    rules: Sequence[Rule] = (A, B, C, D),
    no: str = "Spain",
    **options: object,
) -> AnswerExplanation:
    generator = PlantedGenerator.dnf(clauses, yes="France", no=no)
    answer = planted_answer("France", found_by, rules=rules)
    return explain_answer(answer, generator, **options)  # type: ignore


def test_several_documents_of_one_rule() -> None:
    told = explain([["d2"], ["d5"]], [[A], [C], [A], [], [C]])
    assert told.retention == (("D2",), ("D5",)) and told.omission == (("D2", "D5"),)
    assert told.sentence == (
        "Among these five documents the answer France stands whenever D2 or D5 is kept; "
        f"both were found by rule R3 {TEXT[C]}."
    )
    assert told.omission_sentence == (
        "Among these five documents it goes whenever D2 and D5 are both removed. "
        "With D2 and D5 alone removed the generator says “Spain”."
    )
    assert [d.id for d in told.supporting] == ["d2", "d5"]
    assert [r.alias for r in told.supporting_rules] == ["R3"]
    assert (told.full_output, told.empty_output) == ("France", "Spain")


def test_one_document() -> None:
    told = explain([["d1"]], [[A], [B]])
    assert told.sentence == (
        "Among these two documents the answer France stands whenever D1 is kept; "
        f"it was found by rule R1 {TEXT[A]}."
    )
    assert told.omission_sentence == (
        "Among these two documents it goes whenever D1 is removed. "
        "With D1 alone removed the generator says “Spain”."
    )


def test_documents_that_scorers_chose_name_their_reasons() -> None:
    answer = planted_answer("France", [[None], [A], [None]], rules=[A])
    reasons = [("analogy", "Ann, like the subject, has genre folk"), None, ("walks", "two steps")]
    documents = [
        replace(one, support=(Support(*reason, (), ("d9",)),) if reason else ())
        for one, reason in zip(answer.documents, reasons, strict=True)
    ]
    answer = replace(answer, documents=tuple(documents))
    told = explain_answer(answer, PlantedGenerator.dnf([["d1"]], yes="France", no="Spain"))
    assert told.sentence == (
        "Among these three documents the answer France stands whenever D1 is kept; it was chosen "
        "by the scorer analogy (Ann, like the subject, has genre folk)."
    )
    both = PlantedGenerator.dnf([["d1", "d2", "d3"]], yes="France", no="Spain")
    assert explain_answer(answer, both).sentence.endswith(
        "; D1 was chosen by the scorer analogy (Ann, like the subject, has genre folk) and D3 by "
        f"the scorer walks (two steps); D2 was found by rule R1 {TEXT[A]}."
    )
    assert "      analogy: Ann, like the subject, has genre folk" in str(told).splitlines()
    assert AnswerExplanation.from_json(json.loads(json.dumps(told.to_json()))) == told


def test_three_documents_each_enough() -> None:
    told = explain([["d1"], ["d2"], ["d3"]], [[B], [B], [B]])
    assert "whenever D1, D2 or D3 is kept; all were found by rule R2 " in told.sentence
    assert "it goes whenever D1 to D3 are all removed. With" in told.omission_sentence


def test_documents_needed_together() -> None:
    told = explain([["d1", "d2"]], [[A], [B], [C]])
    assert told.sentence == (
        "Among these three documents the answer France stands whenever D1 and D2 are kept "
        f"together; D1 was found by rule R1 {TEXT[A]} and D2 by rule R2 {TEXT[B]}."
    )
    assert told.omission_sentence == (
        "Among these three documents it goes whenever D1 or D2 is removed. "
        "With D1 or D2 alone removed the generator says “Spain”."
    )


def test_single_and_joint_sets_mixed() -> None:
    told = explain([["d3"], ["d1", "d2"]], [[A], [A], [A]])
    assert "whenever D3 is kept, or D1 and D2 are kept together; all were" in told.sentence
    assert told.omission_sentence.startswith(
        "Among these three documents it goes whenever D1 and D3 are both removed, "
        "or D2 and D3 are both removed. With D1 and D3 or D2 and D3 alone removed the "
    )


def test_any_so_many_of_some_documents() -> None:
    told = explain([["d1", "d2"], ["d1", "d3"], ["d2", "d3"]], [[A], [A], [A]])
    assert "stands whenever any two of D1 to D3 are kept; all were found" in told.sentence
    assert "it goes whenever any two of D1 to D3 are removed. With" in told.omission_sentence
    pairs = [[f"d{i}", f"d{j}"] for i in (2, 4, 6, 7, 8) for j in (2, 4, 6, 7, 8) if i < j]
    told = explain([*pairs, ["d1"]], [[A]] * 8)
    assert "whenever D1 is kept, or any two of D2, D4 and D6 to D8 are kept; all" in told.sentence


def test_many_single_documents_are_drawn_together() -> None:
    told = explain([[f"d{n}"] for n in (1, 3, 4, 5)], [[A]] * 5)
    assert "whenever any one of D1 and D3 to D5 is kept; all were found by" in told.sentence
    assert "it goes whenever D1 and D3 to D5 are all removed. With" in told.omission_sentence


def test_more_sets_than_a_sentence_holds() -> None:
    pairs = [[f"d{i}", f"d{j}"] for i in range(1, 6) for j in range(1, i)][:-1]
    told = explain(pairs, [[A]] * 5)
    assert len(told.retention) == 9
    assert (
        "all of one of these sets is kept: D1 + D2; D1 + D3; D1 + D4; D1 + D5, "
        "or of 5 further ones; D1 to D5 were found by rule R1"
    ) in told.sentence


def test_an_answer_that_needs_no_document() -> None:
    told = explain([[]], [[A], [B]])
    assert told.retention == ((),) and told.omission == ()
    assert told.sentence == (
        "Among these two documents the answer France stands whatever is kept or removed."
    )
    assert told.omission_sentence == (
        "With every document removed the generator says “France”, "
        "so no removal guarantees that it goes."
    )
    assert told.supporting == () and told.supporting_rules == ()


def test_an_answer_that_does_not_come_back() -> None:
    told = explain([["absent"]], [[A], [B]])
    assert told.retention == () and told.omission == ((),)
    assert told.sentence == (
        "With every document kept the generator says “Spain”, "
        "so no set of documents guarantees that the answer France stands."
    )
    assert told.omission_sentence == (
        "Among these two documents it goes whatever is kept or removed."
    )


def test_a_generator_that_says_nothing() -> None:
    told = explain([["absent"]], [[A]], no="")
    assert "the generator says nothing, so no set" in told.sentence


def test_documents_found_in_several_ways() -> None:
    told = explain([["d1"]], [[None, B, A]])
    assert told.sentence.endswith(
        f"it was found by rules R2 {TEXT[B]} and R1 {TEXT[A]} and by the plain query."
    )
    told = explain([["d1"]], [[None]])
    assert told.sentence.endswith("; it was found by the plain query.")
    told = explain([["d1"]], [[]])
    assert told.sentence.endswith("; no search is recorded for it.")
    told = explain([["d1"]], [[A, B, C, D, None]])
    assert " and 2 others and by the plain query." in told.sentence


def test_a_rule_is_worded_once_and_a_stranger_keeps_its_id() -> None:
    told = explain([["d1"], ["d2"]], [[A], [A, None]])
    assert told.sentence.count("leads to") == 1
    assert "D1 was found by rule R1 (" in told.sentence
    assert told.sentence.endswith("and D2 by rule R1 and by the plain query.")
    told = explain([["d1"]], [[B]], rules=[A])
    assert told.sentence.endswith(f"it was found by rule {B.id}.")
    assert told.supporting_rules == ()


def test_a_predicate_of_ones_own() -> None:
    told = explain([["d1"]], [[A]], predicate=contains("france"))
    alone = "With this document as the only evidence, "
    assert told.sentence.startswith(
        f"{alone}the output contains 'france' whenever D1 is kept; it was"
    )
    assert told.omission_sentence.startswith(
        f"{alone}the output does not contain 'france' whenever D1 is removed. With D1 alone"
    )

    def is_long(output: str) -> bool:
        return len(output) > 5

    told = explain([["d1"]], [[A]], predicate=is_long)
    assert told.sentence.startswith(f"{alone}is_long holds whenever D1 is kept")
    assert told.omission_sentence.startswith(f"{alone}is_long fails whenever D1 is removed.")
    told = explain([["d1"]], [[A]], no="", omission_predicate=abstains())
    assert told.sentence.startswith(f"{alone}the answer France stands whenever D1 is kept")
    assert told.omission_sentence == (
        f"{alone}the generator abstains whenever D1 is removed. "
        "With D1 alone removed the generator says nothing."
    )


def test_silence_is_explained_too() -> None:
    generator = PlantedGenerator.dnf([["d2"]], yes="", no="France")
    told = explain_answer(planted_answer("", [[A], [B]]), generator)
    scope = "Among these two documents "
    assert told.sentence.startswith(f"{scope}the generator gives no answer whenever D2 is kept")
    assert told.omission_sentence.startswith(f"{scope}it gives one whenever D2 is removed.")


def test_more_documents_than_sources() -> None:
    texts = [f"Text {n}." for n in range(1, 13)]
    texts[10] = "Time 3 she lives in France."
    generator = PlantedGenerator.dnf([["d11"], ["d3", "d4"]], yes="France", no="Spain")
    answer = planted_answer("France", [[A]] * 12, rules=[A], texts=texts)
    told = explain_answer(answer, generator, max_sources=4)
    # d11 holds the answer's text; then the best-ranked; the others go together.
    assert told.sources == ("D1", "D2", "D11", "the rest")
    assert told.together == tuple(f"D{n}" for n in (*range(3, 11), 12))
    assert told.retention == (("D11",), ("the rest",))
    assert "whenever D11 or the rest is kept; D11 was found by rule R1" in told.sentence
    assert "it goes whenever D11 and the rest are both removed. With" in told.omission_sentence
    assert "“The rest” is D3 to D10 and D12, kept or removed as one." in told.scope
    assert [d.alias for d in told.supporting] == ["D11"]
    for request in generator.requests:
        ids = [document.id for document in request.documents]
        assert ids == sorted(ids, key=lambda name: int(name[1:]))


def test_a_budget_says_what_is_certain() -> None:
    told = explain([["d1"]], [[A]] * 4, max_probes=3)
    assert not told.complete and told.num_probes == 3
    assert "The probe budget ran out" in told.scope
    assert told.sentence == "No set of documents is certain yet to guarantee that " + (
        "the answer France stands."
    )
    none = explain([["d1"]], [[A]] * 4, max_probes=0)
    assert none.full_output is None and "No removal is certain yet" in none.omission_sentence
    assert explain([["d1"]], [[A]], max_probes=2).complete


def test_each_subset_is_asked_once_in_batches() -> None:
    generator = PlantedGenerator.dnf([["d1"], ["d2"]], yes="France", no="Spain")
    told = explain_answer(planted_answer("France", [[A]] * 6), generator)
    asked = [tuple(d.id for d in request.documents) for request in generator.requests]
    assert len(asked) == len(set(asked)) == told.num_probes <= 64
    assert len(generator.batches) <= 7


def test_the_record_travels_as_json() -> None:
    told = explain([["d1", "d2"], ["d3"]], [[A, None], [B], []], max_sources=2)
    row = json.loads(json.dumps(told.to_json()))
    assert AnswerExplanation.from_json(row) == told
    assert row["sentence"] == told.sentence
    assert row["supporting_documents"] == [d.id for d in told.supporting]
    assert row["documents"][0]["found_by"][0] == {
        "rule": "R1",
        "rank": 1,
        "score": 9.0,
        "atom": None,
    }
    assert row["certificates"]["retention"][0]["names"] == row["retention"][0]
    for key in ("certificates", "documents", "seconds", "complete"):
        with pytest.raises(DataFormatError, match=f"key '{key}'"):
            AnswerExplanation.from_json({k: v for k, v in row.items() if k != key})
    with pytest.raises(DataFormatError, match="key 'num_probes'"):
        AnswerExplanation.from_json({**row, "num_probes": "many"})


def test_the_terminal_form_holds_rules_documents_and_sentences() -> None:
    told = explain([["d2"]], [[A], [A, None], [B]], rules=[A, B, C])
    text = str(told)
    assert told.sentence in text and told.omission_sentence in text and told.scope in text
    assert "found D1 (rank 1, score 9), D2 (rank 2, score 8)" in text
    assert "  R3 found none of these documents" in text
    assert " *D2  Text 2.  [R1 rank 2, score 8; query rank 2, score 8]" in text
    assert "  D1  Text 1." in text


def test_bad_input() -> None:
    generator = PlantedGenerator.dnf([[]])
    with pytest.raises(ExplanationError, match="'q9' rests on no document"):
        explain_answer(Answer(Query("q9", "?"), Completion("x")), generator)
    answer = planted_answer("yes", [[A], [B]])
    with pytest.raises(ExplanationError, match="document 'd1' is given twice"):
        explain_answer(Answer(answer.query, answer.completion, answer.documents[:1] * 2), generator)


# --- many sources, parts of documents, answers kept on disk ---------------------------------------


def test_many_documents_are_told_apart_when_rules_may_be_tested_on_samples() -> None:
    found_by: list[list[Rule | None]] = [[A] if i == 6 else [B] for i in range(40)]
    told = explain([["d7", "d31"]], found_by, validity=0.95, seed=2)
    assert told.together == () and len(told.sources) == 40
    assert told.retention == (("D7", "D31"),) and told.omission == (("D7",), ("D31",))
    assert told.complete
    for rule in (*told.retained, *told.omitted):
        assert rule.certificate.kind == "certified"
        assert (rule.certificate.bound, rule.certificate.confidence) == (0.95, 0.95)
    assert "D7 was found by rule R1" in told.sentence and "D31 by rule R2" in told.sentence
    assert (
        "the answer France stands in at least 95 % of random subsets in which D7 and D31 are kept "
        "together (73 tried, uniform over the subsets of the other sources, confidence 95 %); "
    ) in told.sentence
    assert "in at least 95 % of random subsets in which D7 or D31 is removed (" in (
        told.omission_sentence
    )
    assert "whenever" not in str(told)
    assert told.evidence_sentence.startswith("Each set is minimal: with one source fewer it was")
    assert told.num_probes < 450
    assert AnswerExplanation.from_json(json.loads(json.dumps(told.to_json()))) == told


def test_a_budget_keeps_the_rules_found_among_many_documents() -> None:
    told = explain([["d7"]], [[A]] * 40, validity=0.95, max_probes=30)
    assert told.retention == (("D7",),) and not told.complete
    assert told.retained[0].certificate.kind == "untested"
    assert told.sentence == (
        "Among these 40 documents no rule is shown under which the answer France stands."
    )
    assert told.evidence_sentence == "Found by the search and not tested: D7 (kept)."
    assert "The search ended early: there may be more rules." in told.scope
    assert "whenever" not in str(told) and " 0.0 %" not in str(told)
    assert told.supporting == () and "*" not in str(told)


def test_an_exact_rule_says_on_how_many_subsets() -> None:
    told = explain([["d1"]], [[A], [B], []])
    (rule,) = told.retained
    assert rule.certificate.always and rule.certificate.samples == 4
    assert rule.certificate.minimality == "proven"
    record = told.to_json()
    del record["certificates"]
    with pytest.raises(DataFormatError, match=r"key 'certificates': .* explain the answer again"):
        AnswerExplanation.from_json(record)
    record = told.to_json()
    record["certificates"]["retention"][0]["bound"] = "high"
    with pytest.raises(DataFormatError, match="key 'bound'"):
        AnswerExplanation.from_json(record)


class Reader:
    """Says France when the word stands in the text that is left."""

    fingerprint = "reader"

    def __init__(self) -> None:
        self.asked = 0

    def generate(self, requests):  # type: ignore[no-untyped-def]
        self.asked += len(requests)
        left = [" ".join(document.text for document in request.documents) for request in requests]
        return [Completion("France" if "France" in text else "none") for text in left]


def test_sentences_are_sources_of_their_documents() -> None:
    answer = planted_answer(
        "France",
        [[A], [B]],
        rules=(A, B),
        texts=["It rained. Nothing else.", "They met. France was host. They left."],
    )
    told = explain_answer(answer, Reader(), unit="sentence")
    assert told.sources == ("D1.1", "D1.2", "D2.1", "D2.2", "D2.3")
    assert told.retention == (("D2.2",),)
    assert told.sentence == (
        "Among these two documents the answer France stands whenever D2.2 is kept; "
        f"it was found by rule R2 {TEXT[B]}."
    )
    assert [document.alias for document in told.supporting] == ["D2"]
    assert [rule.alias for rule in told.supporting_rules] == ["R2"]
    few = explain_answer(answer, Reader(), unit="sentence", max_sources=3)
    assert few.sources == ("D1.1", "D2.2", "the rest")
    assert few.together == ("D1.2", "D2.1", "D2.3")


def test_answers_kept_on_disk_are_not_asked_again(tmp_path: Path) -> None:
    answer = planted_answer("France", [[A], [B]], texts=["In France.", "In Spain."])
    first, second = Reader(), Reader()
    told = [
        explain_answer(answer, reader, cache=AnswerCache(tmp_path / "answers.sqlite"))
        for reader in (first, second)
    ]
    assert told[0].sentence == told[1].sentence
    assert first.asked == told[0].num_probes == 4 and second.asked == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"validity": 1.0}, "key 'validity': 1.0 is out of range"),
        ({"validity": 0.9, "confidence": 1.0}, "key 'confidence': 1.0 is out of range"),
        ({"subsets": "by-size"}, "key 'subsets': .*for exact rules"),
        ({"validity": 0.9, "subsets": "bysize"}, "key 'subsets': expected 'uniform' or 'by-size'"),
        ({"unit": "paragraph"}, "key 'unit': expected 'document' or 'sentence' or 'word'"),
        ({"max_sources": 1}, "key 'max_sources': 1 is out of range"),
        ({"max_sources": 21}, "key 'max_sources': 21 is out of range"),
        ({"max_probes": -1}, "key 'max_probes'"),
        ({"samples": 3}, "key 'samples': 3 is out of range"),
        ({"attribution": ("shaply",)}, "key 'attribution': .*did you mean 'shapley'"),
        ({"group_by": "page"}, "key 'group_by': expected 'document' or 'rule'"),
        ({"group_by": "document"}, "key 'group_by': each document is a source already"),
        ({"value": "probability"}, "key 'value': expected 'verdict' or 'log-probability'"),
        ({"atribution": ("linear",)}, "key 'atribution': .*did you mean 'attribution'"),
    ],
)
def test_settings_are_checked_before_anything_is_asked(
    settings: dict[str, object], message: str
) -> None:
    generator = PlantedGenerator.dnf([["d1"]])
    with pytest.raises(ConfigError, match=message):
        explain_answer(planted_answer("yes", [[A], [B]]), generator, **settings)
    assert generator.requests == []


def test_settings_may_be_one_object_or_single_ones() -> None:
    answer, generator = planted_answer("yes", [[A]] * 6), PlantedGenerator.dnf([["d2"]])
    settings = ExplainSettings(max_sources=3, seed=4)
    told = [
        explain_answer(answer, generator, settings),
        explain_answer(answer, generator, max_sources=3, seed=4),
        explain_answer(answer, generator, settings, max_sources=4),
    ]
    assert told[0].sources == told[1].sources == ("D1", "D2", "the rest")
    assert told[2].sources == ("D1", "D2", "D3", "the rest") and told[2].settings["seed"] == 4
