"""The log-probability as a value of sources, with the reader that is installed with rulerag."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rulerag import explain_answer
from rulerag.errors import ConfigError, ProbeBudgetError
from rulerag.explanation.probing.cache import AnswerCache
from rulerag.explanation.probing.generators import VotingGenerator
from rulerag.explanation.probing.log_probability import ResponseScorer, response_engine
from rulerag.explanation.probing.values import valued
from rulerag.explanation.search.exact import MonoMiner
from rulerag.generation.huggingface.generator import HuggingFaceGenerator
from rulerag.generation.symbolic_reader import SymbolicReader
from rulerag.rules import Atom, Rule
from rulerag.types import Answer, Document, GenerationRequest, Query, RuleHit, ScoredDocument

RULE = Rule(
    Atom("visit", "?x", "?y"),
    (Atom("host", "?x", "?y"),),
    text="[Entity 1, Host a visit, Entity 2] leads to [Entity 1, Make a visit, Entity 2]",
)
TEXTS = (
    "Japan Make a statement Norway.",
    "Japan Host a visit China.",
    "Japan Make a statement Ghana.",
    "Chad Praise Peru.",
)
REQUEST = GenerationRequest(
    Query("q", "what does Japan Make a visit ?", "Japan", "Make a visit", answers=("China",)),
    tuple(Document(f"d{place}", text) for place, text in enumerate(TEXTS)),
    (RULE,),
)


@pytest.fixture(scope="module")
def reader() -> HuggingFaceGenerator:
    return HuggingFaceGenerator(device="cpu", dtype="float32")


def as_answer(reader: HuggingFaceGenerator) -> Answer:
    found = [
        ScoredDocument(document, 1.0, place, (RuleHit(RULE.id, place, 1.0),))
        for place, document in enumerate(REQUEST.documents, start=1)
    ]
    completion = reader.generate([REQUEST])[0]
    return Answer(REQUEST.query, completion, tuple(found), (RULE,))


def test_the_engine_gives_what_the_model_says(reader: HuggingFaceGenerator) -> None:
    engine = response_engine(reader, REQUEST)
    value = valued(engine, None)
    full, without = value([0b1111, 0b1101])
    written = reader.write([REQUEST])[0]
    assert reader.template.parse(written) == "China"
    assert full == pytest.approx(reader.generate([REQUEST])[0].score, abs=1e-3)
    kept = tuple(d for place, d in enumerate(REQUEST.documents) if place != 1)
    alone = reader.score([replace(REQUEST, documents=kept)], [written], literal=True)[0]
    assert without == pytest.approx(alone, abs=1e-3) and without < full - 5
    assert engine.num_probes == 2
    rules = MonoMiner("retention").mine(engine, lambda text: float(text) > full - np.log(10))
    assert rules.minimal == {frozenset({1})}


@pytest.mark.parametrize("method", ["leave-one-out", "shapley", "linear", "guided"])
def test_the_document_that_is_read_counts_most(reader: HuggingFaceGenerator, method: str) -> None:
    told = explain_answer(
        as_answer(reader), reader, attribution=[method], value="log-probability", samples=None
    )
    (found,) = told.claims[0].attributions
    assert found.top(1) == {1} and found.values[1] > 5
    assert found.method.endswith(", log-probability") and "log-probability" in str(told)


def test_a_rerun_scores_nothing(reader: HuggingFaceGenerator, tmp_path: Path) -> None:
    calls: list[int] = []

    class Counting(HuggingFaceGenerator):
        def write(self, requests):  # type: ignore[no-untyped-def]
            calls.append(len(requests))
            return super().write(requests)

        def score(self, requests, answers, **options):  # type: ignore[no-untyped-def]
            calls.append(len(requests))
            return super().score(requests, answers, **options)

    counting = Counting(device="cpu", dtype="float32")
    answer = as_answer(counting)
    values = []
    for _ in range(2):
        cache = AnswerCache(tmp_path / "answers.sqlite")
        told = explain_answer(
            answer, counting, cache=cache, attribution=["shapley"], value="log-probability"
        )
        values.append(told.claims[0].attributions)
        cache.close()
    assert values[0] == values[1] != ()
    assert sum(calls) == 1 + 16  # the response, and each subset once, in the first run alone


def test_one_budget_for_rules_and_values(reader: HuggingFaceGenerator) -> None:
    told = explain_answer(
        as_answer(reader), reader, attribution=["shapley"], value="log-probability", budget=20
    )
    assert not told.explanation.complete and told.num_calls == 20
    assert told.claims[0].attributions == ()
    told.deepen()
    assert told.explanation.complete and told.num_calls == 2 * 16
    assert [one.top(1) for one in told.claims[0].attributions] == [{1}], "and goes on"
    with pytest.raises(ProbeBudgetError):
        response_engine(reader, REQUEST, max_probes=1).probe([0, 1])


def test_generators_without_log_probabilities_are_named(reader: HuggingFaceGenerator) -> None:
    answer = as_answer(reader)
    for generator, name in (
        (SymbolicReader(), "SymbolicReader"),
        (VotingGenerator(reader, 3), "VotingGenerator"),
    ):
        with pytest.raises(ConfigError, match=f"{name} gives no log-probability"):
            explain_answer(answer, generator, attribution=["linear"], value="log-probability")
        with pytest.raises(ConfigError, match=name):
            ResponseScorer(generator, "x")
    with pytest.raises(ConfigError, match="no method is named"):
        explain_answer(answer, reader, value="log-probability")


def test_scorers_of_other_responses_have_other_keys(reader: HuggingFaceGenerator) -> None:
    one, other = (ResponseScorer(reader, text) for text in ("a", "b"))
    assert len({one.fingerprint, other.fingerprint, reader.fingerprint}) == 3
    completion = one.generate([REQUEST])[0]
    assert float(completion.text) == completion.score
