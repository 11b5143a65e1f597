"""The hybrid reader: two distributions over the candidates, joined by a tuned weight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from rulerag.errors import ConfigError
from rulerag.generation.hybrid import HybridReader, cited_fact
from rulerag.generation.prompts.template import Citation, PromptTemplate
from rulerag.generation.symbolic_reader import SymbolicReader
from rulerag.protocols import Generator
from rulerag.rules import Atom, Rule, RuleQuality
from rulerag.types import (
    Candidate,
    Completion,
    Document,
    Fact,
    GenerationRequest,
    GroundedAtom,
    Query,
)

LABELS = {"entities": {"v": "Velmora", "o": "Ostra", "n": "Norland"}, "relations": {"c": "Consult"}}
RULE = Rule(
    Atom("visit", "?x", "?y"), (Atom("c", "?x", "?y"),), quality=RuleQuality(confidence=0.5)
)
OTHER = Rule(
    Atom("visit", "?x", "?y"), (Atom("p", "?x", "?y"),), quality=RuleQuality(confidence=0.25)
)
DOCUMENTS = (
    Document("d0", "Norland Consult Velmora.", (Fact("n", "c", "v"),)),
    Document("d1", "Norland Praise Ostra.", (Fact("n", "p", "o"),)),
)


class Model:
    """Finds Ostra nine times as probable as anything else."""

    fingerprint = "model"

    def __init__(self, template: PromptTemplate | None = None) -> None:
        self.template = template or PromptTemplate.rule_guided()
        self.facts: list[tuple[str, str] | None] | None = None

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        return [Completion("spoken", -1.0) for _ in requests]

    def score(
        self,
        requests: Sequence[GenerationRequest],
        answers: Sequence[str],
        *,
        facts: Sequence[tuple[str, str] | None] | None = None,
    ) -> npt.NDArray[np.float64]:
        self.facts = None if facts is None else list(facts)
        return np.array([math.log(0.9 if answer == "Ostra" else 0.1) - 5 for answer in answers])


def request(identifier: str, answer: str, *rules: Rule) -> GenerationRequest:
    query = Query(identifier, "what does Norland visit ?", "n", "visit", answers=(answer,))
    return GenerationRequest(query, DOCUMENTS, rules)


def reader(weight: float, **options: object) -> HybridReader:
    symbolic = SymbolicReader(labels=LABELS["entities"])
    return HybridReader(symbolic, Model(), weight=weight, **options)  # type: ignore[arg-type]


def test_scores_are_joined_and_the_ends_are_the_two_readers() -> None:
    asked = request("q", "Ostra", RULE, OTHER)
    plain = SymbolicReader(labels=LABELS["entities"]).generate([asked])[0]
    assert isinstance(reader(0.5), Generator)
    (symbolic,) = reader(0.0).generate([asked])
    assert [c.text for c in symbolic.candidates] == [c.text for c in plain.candidates]
    assert symbolic.text == "Velmora"
    (model,) = reader(1.0).generate([asked])
    assert model.text == "Ostra"
    assert model.candidates[0].document_ids == ("d1",)
    (joined,) = reader(0.25).generate([asked])
    total = sum(c.score for c in plain.candidates)
    shares = {c.text: c.score / total for c in plain.candidates}
    expected = 0.75 * math.log(shares["Ostra"]) + 0.25 * math.log(0.9)
    assert {c.text: c.score for c in joined.candidates}["Ostra"] == pytest.approx(expected)


def test_without_candidates_the_model_answers() -> None:
    asked = [request("q", "Ostra", RULE), GenerationRequest(Query("r", "who ?"))]
    assert [c.text for c in reader(0.5).generate(asked)] == ["Velmora", "spoken"]
    assert reader(0.5).generate([]) == []


def test_tuning_takes_the_best_weight_on_validation() -> None:
    hybrid = reader(0.0)
    for answer, right, wrong in (("Ostra", 1.0, 0.0), ("Velmora", 0.0, 1.0)):
        found = hybrid.tune([request("q", answer, RULE, OTHER)])
        assert len(found) == 21 and found[right] == 1 and found[wrong] == 0
        best = [weight for weight, match in found.items() if match == 1]
        assert hybrid.weight == best[len(best) // 2], "the middle of those that are as good"
        assert hybrid.generate([request("t", answer, RULE, OTHER)])[0].text == answer
    with pytest.raises(ConfigError, match="weight"):
        reader(1.5)


def test_a_model_that_cites_is_given_the_supporting_fact() -> None:
    model = Model(PromptTemplate.citation())
    symbolic = SymbolicReader(labels=LABELS["entities"])
    hybrid = HybridReader(symbolic, model, weight=1.0, labels=LABELS)
    hybrid.generate([request("q", "Ostra", RULE, OTHER)])
    assert model.facts == [Citation("Norland", "Consult"), Citation("Norland", "p")]
    alien = Candidate("Sudavia", 1.0, ("d0",))
    assert cited_fact(request("q", "Ostra"), alien, LABELS) is None


def test_no_model_overrules_what_is_stated() -> None:
    ruled = request("q", "Ostra", RULE, OTHER)
    stated = Document("d2", "Norland visit Velmora.", (Fact("n", "visit", "v"),))
    asked = replace(ruled, documents=(*DOCUMENTS, stated))
    (completion,) = reader(1.0).generate([asked])
    assert [c.text for c in completion.candidates] == ["Velmora", "Ostra"]
    assert GroundedAtom("d2", None, 0) in completion.candidates[0].grounded
    foretold = replace(asked, query=replace(asked.query, prediction=True))
    assert reader(1.0).generate([foretold])[0].text == "Ostra"
