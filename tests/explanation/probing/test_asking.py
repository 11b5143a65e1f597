"""What generators must not do to an explanation, and answers as they arrive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from rulerag.errors import (
    DroppedDocumentsError,
    EndpointChangedError,
    GenerationError,
    SamplingError,
)
from rulerag.explanation.probing.asking import VotingGenerator
from rulerag.explanation.probing.cache import AnswerCache, CachedGenerator
from rulerag.explanation.probing.engine import ProbeEngine
from rulerag.explanation.report.explain import explain_answer
from rulerag.generation.hybrid import HybridReader
from rulerag.generation.prompts.template import Prompt
from rulerag.protocols import Arrival
from rulerag.types import Document, GenerationRequest, Query
from tests.fakes import PlantedGenerator, planted_answer, planted_rule
from tests.generation.test_hybrid import Model

DOCUMENTS = tuple(Document(f"d{i}", f"Text {i}.") for i in range(1, 5))
REQUEST = GenerationRequest(Query("q", "where ?"), DOCUMENTS, (planted_rule("a"),))

# --- generators that an explanation refuses ------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sampling": "temperature 0.7"}, "temperature 0.7"),
        ({"temperature": 0.7}, r"temperature 0\.7"),
        ({"do_sample": True}, "do_sample"),
    ],
)
def test_a_generator_that_samples_is_refused_before_it_is_asked(
    settings: dict[str, object], words: str
) -> None:
    generator = PlantedGenerator.dnf([["d1"]])
    vars(generator).update(settings)
    kept = HybridReader(generator, Model())  # a reader made of others
    for sampling in (generator, kept, VotingGenerator(generator, votes=1)):
        with pytest.raises(SamplingError, match=rf"by chance \({words}\).*VotingGenerator"):
            ProbeEngine.from_generator(sampling, REQUEST)
    assert generator.requests == []
    ProbeEngine.from_generator(VotingGenerator(generator, votes=3), REQUEST)
    vars(generator).update(dict.fromkeys(settings, 0))
    ProbeEngine.from_generator(generator, REQUEST)


def test_explanations_refuse_a_generator_that_answers_by_chance() -> None:
    answer = planted_answer("yes", [[], []])
    declared = PlantedGenerator.dnf([["d1"]])
    declared.temperature = 1.0  # type: ignore[attr-defined]
    with pytest.raises(SamplingError, match="temperature 1"):
        explain_answer(answer, declared)
    says = iter("abcdefghijklmnopqrstuvwxyz")
    silent = PlantedGenerator(lambda ids: next(says))
    with pytest.raises(SamplingError, match="says 'a' and then 'b' to the same request"):
        explain_answer(answer, silent)
    assert len(silent.requests) == 2


class Packing(PlantedGenerator):
    """A generator whose prompt holds two documents at most."""

    def prompts(self, requests: Sequence[GenerationRequest]) -> list[Prompt]:
        ids = [[document.id for document in request.documents] for request in requests]
        return [Prompt("", tuple(one[:2]), tuple(one[2:])) for one in ids]


def test_documents_that_do_not_fit_the_prompt_are_an_error(tmp_path: Path) -> None:
    packing = Packing.dnf([["d1"]])
    cached = CachedGenerator(packing, AnswerCache(tmp_path / "a.sqlite"))
    for generator in (packing, cached, VotingGenerator(packing)):
        with pytest.raises(DroppedDocumentsError, match=r"2 of 4 documents: 'd3', 'd4'.*top_k"):
            ProbeEngine.from_generator(generator, REQUEST)
    assert packing.requests == []
    ProbeEngine.from_generator(packing, replace(REQUEST, documents=DOCUMENTS[:2])).probe([3])


# --- answers as they arrive ----------------------------------------------------------------------


class Streaming(PlantedGenerator):
    """Hands out its answers one by one, and fails or changes its build where it is told to."""

    fails: ClassVar[frozenset[int]] = frozenset()
    systems: Sequence[str] = ()

    def stream(self, requests: Sequence[GenerationRequest]) -> Iterator[Arrival]:
        for place, request in enumerate(requests):
            number = len(self.requests)
            if number in self.fails:
                self.requests.append(request)
                raise GenerationError("overloaded", retryable=True)
            (completion,) = self.generate([request])
            yield Arrival(place, completion, self.systems[number] if self.systems else "")


def test_what_arrived_before_a_failure_is_kept_and_counted() -> None:
    generator = Streaming(lambda ids: "+".join(sorted(ids)))
    generator.fails = frozenset({5})  # type: ignore[misc]
    engine = ProbeEngine.from_generator(generator, REQUEST, max_probes=16)
    with pytest.raises(GenerationError, match="overloaded"):
        engine.probe(range(16))
    assert engine.num_probes == 5 and engine.known_codes(range(16)).tolist()[4:6] == [4, -1]
    assert engine.probe(range(16))[15] == "d1+d2+d3+d4"
    assert engine.num_probes == 16 and len(generator.requests) == 17


def test_answers_of_two_builds_are_not_mixed() -> None:
    generator = Streaming.dnf([["d1"]])
    generator.systems = ["fp_1"] * 3 + ["fp_2"] * 20
    engine = ProbeEngine.from_generator(generator, REQUEST)
    with pytest.raises(EndpointChangedError, match="'fp_2', and did as 'fp_1' before") as caught:
        engine.probe(range(8))
    assert caught.value.retryable and engine.num_probes == 3
