"""What is said about a rule is what was shown about it: certificates in record and words."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rulerag.explanation.faithfulness.planted import PlantedAnswer
from rulerag.explanation.records.certificates import (
    Certificate,
    NamedRule,
    OfSize,
    Smaller,
    percent,
)
from rulerag.explanation.report import AnswerExplanation, explain_answer
from rulerag.explanation.source_rules.groups import GroupView
from rulerag.explanation.wording import condition, factored, spelt_sets
from rulerag.rules import Atom, Rule, RuleQuality
from rulerag.types import Answer, Completion, GenerationRequest, Query
from tests.fakes import PlantedGenerator, planted_answer, planted_rule

A, B = planted_rule("a"), planted_rule("b")


class ByMask:
    """A generator that answers as a planted answer does for the documents d1, d2 … left."""

    fingerprint = "by mask"

    def __init__(self, planted: PlantedAnswer) -> None:
        self.planted = planted

    def generate(self, requests: list[GenerationRequest]) -> list[Completion]:
        kept = [[int(d.id[1:]) - 1 for d in request.documents] for request in requests]
        return [Completion(text) for text in self.planted(kept)]


def certified(planted: PlantedAnswer, **options: object) -> AnswerExplanation:
    answer = planted_answer("yes", [[A]] * planted.num_sources, rules=[A])
    return explain_answer(answer, ByMask(planted), validity=0.95, **options)  # type: ignore[arg-type]


def again(told: AnswerExplanation) -> AnswerExplanation:
    return AnswerExplanation.from_json(json.loads(json.dumps(told.to_json())))


@pytest.mark.parametrize("subsets", ["uniform", "by-size"])
def test_certificates_travel_with_their_rules(subsets: str) -> None:
    told = certified(PlantedAnswer(40, [{6, 30}]), subsets=subsets)
    assert again(told) == told and str(again(told)) == str(told)
    row = told.to_json()["certificates"]["retention"][0]
    assert (row["names"], row["kind"], row["subsets"]) == (["D7", "D31"], "certified", subsets)
    assert (row["samples"], row["successes"], row["bound"]) == (73, 73, 0.95)
    assert (row["validity"], row["confidence"], row["minimality"]) == (0.95, 0.95, "shown")
    assert [one["without"] for one in row["smaller"]] == ["D7", "D31"]
    assert all(one["ceiling"] < 0.95 and one["samples"] for one in row["smaller"])
    counts = [(one["least"], one["most"], one["successes"]) for one in row["sizes"]]
    assert [count[:2] for count in counts] == [(0, 12), (13, 25), (26, 38)]
    assert sum(count[2] for count in counts) == 73
    hardly = "Hardly any subset tried keeps at most 12 or at least 27 of the other sources"
    assert (hardly in told.evidence_sentence) == (subsets == "uniform")
    old = {key: value for key, value in row.items() if key != "sizes"}
    assert NamedRule.from_json(old).certificate.sizes == (), "records of earlier versions are read"
    words = {
        "uniform": "uniform over the subsets of the other sources",
        "by-size": "how many of the other sources are kept drawn uniformly, then which",
    }
    assert f"(73 tried, {words[subsets]}, confidence 95 %)" in told.sentence
    assert "whenever" not in str(told)


def test_counterexamples_are_told_with_the_sources_removed() -> None:
    # D1 stands for an answer unless all of D11 to D16 are gone, in one of 64 subsets: found valid
    # for 95 % or tested on so many that it fails.
    spoilt = PlantedAnswer(40, [{0, i} for i in range(10, 16)])
    answer = planted_answer("yes", [[A]] * 40, rules=[A])
    told = explain_answer(answer, ByMask(spoilt), validity=0.95, seed=1)
    failing = replace(
        told.retained[0],
        names=("D1",),
        certificate=replace(
            told.retained[0].certificate,
            samples=292,
            successes=288,
            counterexamples=(("D11", "D12", "D13"),),
            sizes=(OfSize(0, 12, 1, 1), OfSize(13, 25, 290, 287), OfSize(26, 39, 1, 0)),
        ),
    )
    told = replace(told, retained=(failing,))
    assert again(told) == told
    assert (
        "With D1 kept it failed in 4 of 292 subsets, for example with D11 to D13 removed; by how "
        "many other sources are kept: none of 1 with at most 12, 3 of 290 with 13 to 25 and 1 of 1 "
        "with 26 to 39."
    ) in told.evidence_sentence
    assert "whenever" not in told.sentence


def test_real_counterexamples_reach_the_text() -> None:
    planted = PlantedAnswer(40, [{6}], noise=0.03, seed=3)
    for seed in range(20):
        told = certified(planted, seed=seed)
        if any(rule.certificate.failures for rule in told.retained):
            break
    (rule,) = [rule for rule in told.retained if rule.certificate.failures][:1]
    failed = f"it failed in {rule.certificate.failures} of {rule.certificate.samples} subsets"
    assert f"With {rule.names[0]}" in told.evidence_sentence and failed in told.evidence_sentence
    removed = rule.certificate.counterexamples[0]
    kept = [i for i in range(40) if f"D{i + 1}" not in removed]
    assert planted([kept]) == ["no"] and not set(rule.names) & set(removed)


def test_rules_below_the_validity_are_said_to_be() -> None:
    certificate = Certificate(
        "tested", 0.95, 0.95, "uniform", 292, 275, 0.89, counterexamples=(("D3",),)
    )
    told = certified(PlantedAnswer(40, [{6}]))
    told = replace(told, retained=(NamedRule(("D7",), certificate),))
    assert "no rule is shown under which the answer yes stands" in told.sentence
    assert (
        "With D7 kept it failed in 17 of 292 subsets, for example with D3 removed: "
        "95 % is not shown."
    ) in told.evidence_sentence
    assert told.supporting == () and again(told) == told


def test_a_rule_that_is_not_shown_to_be_minimal_is_said_not_to_be() -> None:
    told = certified(PlantedAnswer(40, [{0, i} for i in range(1, 7)]))
    assert len(told.retention) == 6
    assert "Not shown to be minimal: D1 + D2; D1 + D3; D1 + D4; 3 more (kept)." in (
        told.evidence_sentence
    )
    untried = replace(told.retained[0].certificate, minimality="untested", smaller=())
    told = replace(told, retained=(replace(told.retained[0], certificate=untried),))
    assert "No smaller one was looked for: D1 + D2 (kept)." in told.evidence_sentence


def test_a_stop_leaves_nothing_said_of_what_was_not_tested() -> None:
    whole = certified(PlantedAnswer(40, [{6}, {20, 30}]))
    for budget in range(0, whole.num_probes, 17):
        told = certified(PlantedAnswer(40, [{6}, {20, 30}]), max_probes=budget)
        text = str(told)
        assert "whenever" not in text and " 0 %" not in text and " 0.0 %" not in text
        for rule in (*told.retained, *told.omitted):
            assert (rule.certificate.samples > 0) == (rule.certificate.kind != "untested")
        assert again(told) == told


def test_shares_are_never_rounded_up() -> None:
    assert [percent(share) for share in (0.95, 0.9499, 0.97199, 1.0, 0.29)] == [
        "95 %",
        "94.9 %",
        "97.1 %",
        "100 %",
        "29 %",
    ]


def test_a_share_of_a_whole_lattice_is_no_whenever() -> None:
    # Nine sources: every subset is tried, and of those with D1 one of 256 fails.
    planted = PlantedAnswer(9, [{0, i} for i in range(1, 9)])
    told = certified(planted)
    only = Certificate("exact", 0.95, 0.95, "uniform", 256, 255, 255 / 256, "shown")
    told = replace(told, retained=(NamedRule(("D1",), only),))
    assert "in 99.6 % of subsets in which D1 is kept (all of them tried)" in told.sentence
    assert "whenever" not in told.sentence


def test_groups_say_no_more_than_was_shown() -> None:
    shown = Certificate("certified", 0.95, 0.95, "uniform", 59, 59, 0.95, "shown")
    view = GroupView("rule", "retention", (("R1", ("D1",)),), (NamedRule(("R1",), shown),), (), ())
    assert "it stands in at least 95 % of random subsets in which R1 is kept (59" in str(view)
    assert "whenever" not in str(view)
    assert GroupView.from_json(json.loads(json.dumps(view.to_json()))) == view


def test_many_sentences_in_groups_are_certified_not_exact() -> None:
    texts = [" ".join(f"Part {n} of {d}." for n in range(5)) for d in range(8)]
    answer = planted_answer("yes", [[A]] * 8, rules=[A], texts=texts)

    class Reader:
        fingerprint = "reads"

        def generate(self, requests: list[GenerationRequest]) -> list[Completion]:
            left = [" ".join(d.text for d in request.documents) for request in requests]
            wanted = [f"Part 2 of {d}." for d in range(8)]
            return [Completion("yes" if all(w in t for w in wanted) else "no") for t in left]

    told = explain_answer(answer, Reader(), unit="sentence", group_by="document", validity=0.95)
    kept = told.group_views[0]
    assert kept.outer_rules[0].certificate.always
    assert kept.inner_rules[0].certificate.kind == "certified"
    inside = str(kept).splitlines()[-1]
    assert inside.startswith("  inside D1 to D8: it stands in at least 95 % of random subsets")
    assert again(told) == told


# --- verdicts, what the answer becomes, confidence and support ------------------------------------


def judged(text: str, accepted: tuple[str, ...]) -> AnswerExplanation:
    answer = planted_answer(text, [[A], [B]], rules=[A, B])
    answer = Answer(
        Query("q", "where ?", answers=accepted), answer.completion, answer.documents, answer.rules
    )
    return explain_answer(answer, PlantedGenerator.dnf([["d1"]], yes=text, no="Spain"))


def test_a_wrong_answer_is_called_wrong_and_what_it_becomes_is_told() -> None:
    wrong = judged("France", ("Spain", "Italy"))
    assert wrong.right is False and wrong.to_json()["right"] is False
    assert "Answer    France  (wrong; accepted: Spain; Italy)" in str(wrong)
    assert "With D1 alone removed the generator says “Spain”, which is right." in str(wrong)
    assert wrong.omitted[0].output == "Spain" and again(wrong) == wrong
    right = judged("France", ("France",))
    assert right.right and "Answer    France  (right)" in str(right)
    assert "says “Spain”, which is wrong." in str(right)
    unknown = judged("France", ())
    assert unknown.right is None
    assert "right" not in str(unknown) and "wrong" not in str(unknown)


def test_several_removals_tell_what_each_leads_to() -> None:
    says = {frozenset(): "none", frozenset({"d1"}): "Italy", frozenset({"d2"}): "Spain"}
    generator = PlantedGenerator(lambda ids: says.get(ids & {"d1", "d2"}, "France"))
    told = explain_answer(planted_answer("France", [[A], [B], []]), generator)
    assert told.omission_sentence.endswith(
        "With D1 alone removed the generator says “Spain”; with D2 alone removed it says “Italy”."
    )


def test_rules_tell_their_confidence_and_support() -> None:
    quality = RuleQuality(support=1234, pca_confidence=0.4567)
    rule = Rule(Atom("r", "?x", "?y"), (Atom("s", "?x", "?y"),), quality=quality)
    told = explain_answer(
        planted_answer("yes", [[rule]], rules=[rule]), PlantedGenerator.dnf([["d1"]])
    )
    assert f"  R1  {rule.text}  (confidence 0.46, support 1,234)" in str(told)
    assert again(told) == told
    assert told.to_json()["rules"][0]["support"] == 1234


def test_settings_and_fingerprints_are_in_the_record() -> None:
    told = certified(PlantedAnswer(30, [{6}]), seed=5, subsets="by-size")
    row = told.to_json()["settings"]
    assert (row["validity"], row["confidence"], row["subsets"], row["seed"]) == (
        0.95,
        0.95,
        "by-size",
        5,
    )
    assert again(told).settings == told.settings


# --- many rules stay readable ---------------------------------------------------------------------


def test_what_many_sets_share_is_said_once() -> None:
    sets = [("D1", f"D{n}") for n in range(2, 13)]
    assert factored(sets) == (["D1"], [(f"D{n}",) for n in range(2, 13)])
    assert condition(sets, "kept") == "D1 is kept together with any one of D2 to D12"
    assert spelt_sets(sets) == sets
    pairs = [("D1", "D9", f"D{a}", f"D{b}") for a in (2, 4, 6) for b in (3, 5, 7, 8)]
    text = condition(pairs, "removed")
    assert text == (
        "D1 and D9 are removed together with all of one of these sets: "
        "D2 + D3; D2 + D5; D2 + D7; D2 + D8, or of 8 further ones"
    )
    assert len(spelt_sets(pairs)) == 4
    threes = [("D1", f"D{a}", f"D{b}") for a in range(2, 6) for b in range(a + 1, 6)]
    assert condition(threes, "kept") == "D1 is kept together with any two of D2 to D5"


def test_the_smallest_sets_come_first_and_the_rest_are_counted() -> None:
    sets = [("D5", "D6", "D7"), ("D1", "D2"), ("D3", "D4"), ("D8", "D9"), ("D2", "D9"), ("D10",)]
    sets += [("D11", "D12", "D13")]
    assert condition(sets, "kept") == (
        "D10 is kept, or all of one of these sets is kept: "
        "D1 + D2; D3 + D4; D8 + D9; D2 + D9, or of 2 further ones"
    )


def test_a_long_sentence_about_ten_rules_stays_short() -> None:
    told = explain_answer(
        planted_answer("yes", [[A]] * 10),
        PlantedGenerator.dnf([["d1", "d2", f"d{n}"] for n in range(3, 11)]),
    )
    assert len(told.retention) == 8
    assert "whenever D1 and D2 are kept together with any one of D3 to D10; " in told.sentence


def test_a_certificate_reads_in_a_few_words() -> None:
    assert str(Certificate.exact(9)) == "all 512 subsets"
    assert str(Certificate("untested")) == "not tested"
    shown = Certificate("certified", 0.95, 0.95, "uniform", 73, 73, 0.95)
    assert str(shown) == "at least 95 %, held in 73 of 73 random subsets, confidence 95 %"
    below = Certificate("tested", 0.95, 0.95, "uniform", 59, 50, 0.7)
    assert str(below) == "held in 50 of 59 random subsets: 95 % is not shown"
    smaller = replace(shown, smaller=(Smaller("D1", 20, 9, 0.8),))
    assert Certificate.from_json(json.loads(json.dumps(smaller.to_json()))) == smaller
