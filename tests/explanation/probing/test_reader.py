"""What generators must not do to an explanation, and answers as they arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

import rulerag
from rulerag.errors import (
    ConfigError,
    DroppedDocumentsError,
    EndpointChangedError,
    ExplanationError,
    GenerationError,
    SamplingError,
)
from rulerag.explanation.probing import (
    AnswerCache,
    CachedGenerator,
    ProbeEngine,
    VotingGenerator,
    answer_function_of,
)
from rulerag.explanation.units import Context
from rulerag.generation.huggingface.generator import HuggingFaceGenerator
from rulerag.generation.hybrid import HybridReader
from rulerag.generation.prompts import PromptTemplate
from rulerag.pipeline import RuleRAGPipeline
from rulerag.protocols import Arrival
from rulerag.types import Answer, Completion, Document, GenerationRequest, Query, ScoredDocument
from tests.fakes import PlantedGenerator, planted_answer, planted_rule
from tests.generation.test_hybrid import Model

DOCUMENTS = tuple(Document(f"d{i}", f"Text {i}.") for i in range(1, 5))
REQUEST = GenerationRequest(Query("q", "where ?"), DOCUMENTS, (planted_rule("a"),))
SCORED = tuple(ScoredDocument(one, 1.0, n) for n, one in enumerate(DOCUMENTS, start=1))

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
        with pytest.raises(SamplingError, match=words):
            rulerag.explain_answer(planted_answer("yes", [[], []]), sampling)
    assert generator.requests == []
    ProbeEngine.from_generator(VotingGenerator(generator, votes=3), REQUEST)
    vars(generator).update(dict.fromkeys(settings, 0))
    ProbeEngine.from_generator(generator, REQUEST)


class Finder:
    """Finds the four documents."""

    fingerprint = "finder"

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[Any]:
        return [SCORED[:top_k] for _ in queries]


class Reader:
    """Made of parts, as Verify-and-Edit and the hybrid reader are."""

    def __init__(self, part: str, generator: object) -> None:
        self.fingerprint = "reader"
        setattr(self, part, generator)

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        raise AssertionError("it must not be asked")


@pytest.fixture(scope="module")
def short() -> Iterator[HuggingFaceGenerator]:
    """A small model whose prompt shows one document."""
    template = PromptTemplate.cloze(max_documents=1)
    model = HuggingFaceGenerator(device="cpu", dtype="float32", template=template)
    before = HuggingFaceGenerator.generate

    def generate(self: HuggingFaceGenerator, requests: Sequence[GenerationRequest]) -> Any:
        raise AssertionError("it must not be asked")

    HuggingFaceGenerator.generate = generate  # type: ignore[method-assign]
    yield model
    HuggingFaceGenerator.generate = before  # type: ignore[method-assign]


WAYS: dict[str, Callable[[Any], object]] = {
    "asked": lambda g: answer_function_of(g, REQUEST, Context(DOCUMENTS)),
    "engine": lambda g: ProbeEngine.from_generator(g, REQUEST),
    "explain": lambda g: rulerag.explain(g, "where ?", DOCUMENTS),
    "scored": lambda g: rulerag.explain(g, "where ?", list(SCORED)),
    "answer": lambda g: rulerag.explain_answer(Answer(Query("q", "?"), Completion("x"), SCORED), g),
    "regions": lambda g: rulerag.explain(g, "where ?", DOCUMENTS, explainer="regions"),
    "levels": lambda g: rulerag.explain(g, "where ?", DOCUMENTS, level="sentence", exact=0),
    "pipeline": lambda g: rulerag.explain(
        RuleRAGPipeline(Finder(), PlantedGenerator.dnf([["d1"]])), "where ?", generator=g
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_documents_that_a_prompt_does_not_show_are_an_error_and_nothing_is_asked(
    way: str, short: HuggingFaceGenerator, tmp_path: Path
) -> None:
    cached = CachedGenerator(short, AnswerCache(tmp_path / "a.sqlite"))
    parts = [Reader(name, short) for name in ("generator", "reader", "model", "symbolic")]
    inside = Reader("reader", VotingGenerator(cached))
    # The prompts of a part are looked at also where the whole has prompts of its own.
    beside = HybridReader(short, Model())
    for generator in (short, cached, VotingGenerator(short), *parts, inside, beside):
        with pytest.raises(
            DroppedDocumentsError, match=r"1 of 4 documents: 'd2', 'd3', 'd4'.*max_documents"
        ):
            WAYS[way](generator)


class Packing(PlantedGenerator):
    """A generator whose prompt holds 24 characters of documents at most."""

    def prompts(self, requests: Sequence[GenerationRequest]) -> list[Any]:
        class Prompt:
            def __init__(self, request: GenerationRequest) -> None:
                left, self.kept = 24, list[str]()
                for document in request.documents:
                    left -= len(document.text)
                    self.kept += [document.id] if left >= 0 else []

        return [Prompt(request) for request in requests]


def test_documents_that_do_not_fit_are_named_and_fewer_are_read() -> None:
    packing = Packing.dnf([["d1"]])
    with pytest.raises(DroppedDocumentsError, match=r"3 of 4 documents: 'd4' would.*top_k"):
        ProbeEngine.from_generator(packing, REQUEST)
    assert packing.requests == []
    with pytest.raises(DroppedDocumentsError, match="'d4' would"):
        rulerag.explain(RuleRAGPipeline(Finder(), packing), "where ?")
    assert len(packing.requests) == 1, "the answer of the pipeline itself"
    ProbeEngine.from_generator(packing, replace(REQUEST, documents=DOCUMENTS[:2])).probe([3])
    # Neutral text may be longer than what it stands for: every prompt is looked at.
    documents = (*DOCUMENTS[:2], Document("d3", "x."))
    context = Context(documents, removal="replace", neutral="Nothingwhatever stands here.")
    asked = answer_function_of(packing, REQUEST, context)
    assert asked([(0, 1, 2)]) == ["yes"]
    with pytest.raises(DroppedDocumentsError, match="would not be read"):
        asked([(0, 1)])


def test_the_answer_of_most_tries_wins() -> None:
    says = iter(["Paris", "Rome", "rome.", "Paris", "Rome!"])
    generator = VotingGenerator(PlantedGenerator(lambda ids: next(says)), votes=5)
    (completion,) = generator.generate([REQUEST])
    assert completion.text == "Rome"
    assert [(one.text, one.score) for one in completion.candidates] == [
        ("Rome", 0.6),
        ("Paris", 0.4),
    ]
    assert generator.fingerprint != VotingGenerator(generator.generator, 3).fingerprint
    with pytest.raises(ConfigError, match="key 'votes'"):
        VotingGenerator(generator, 0)


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


def one_by_one(generator: Streaming) -> ProbeEngine:
    asked = answer_function_of(generator, REQUEST, Context(DOCUMENTS), workers=1)
    return ProbeEngine.from_answer_function(asked, max_probes=16)


def test_what_arrived_before_a_failure_is_kept_and_counted() -> None:
    generator = Streaming(lambda ids: "+".join(sorted(ids)))
    generator.fails = frozenset({5})  # type: ignore[misc]
    engine = one_by_one(generator)
    with pytest.raises(GenerationError, match="overloaded"):
        engine.probe(range(16))
    assert engine.num_probes == 5 and engine.known_codes([7, 11]).tolist() == [3, -1]
    assert engine.probe(range(16))[15] == "d1+d2+d3+d4"
    assert engine.num_probes == 16 and len(generator.requests) == 17


def test_answers_of_two_builds_are_not_mixed() -> None:
    generator = Streaming.dnf([["d1"]])
    generator.systems = ["fp_1"] * 3 + ["fp_2"] * 20
    engine = one_by_one(generator)
    with pytest.raises(EndpointChangedError, match="'fp_2', and did as 'fp_1' before") as caught:
        engine.probe(range(8))
    assert caught.value.retryable and engine.num_probes == 3


def test_too_few_completions_are_named() -> None:
    class Mute(PlantedGenerator):
        def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
            return []

    with pytest.raises(ExplanationError, match="0 completions for 2 requests"):
        ProbeEngine.from_generator(Mute.dnf([]), REQUEST).probe([0, 1])
