"""Drawn answers of a small LLaMA: by seed and prompt alone, and from the model's distribution."""

from __future__ import annotations

from collections import Counter
from math import exp

import pytest

from benchmarks.speed.generation import small_llama
from rulerag.errors import ConfigError
from rulerag.generation.huggingface.generator import HuggingFaceGenerator
from rulerag.generation.prompts.template import PromptTemplate
from rulerag.protocols import SamplingGenerator
from rulerag.types import GenerationRequest, Query

pytestmark = pytest.mark.usefixtures("one_thread")

ASKED = [GenerationRequest(Query(f"q{n}", text)) for n, text in enumerate(["a b", "b c", "a b"])]


@pytest.fixture(scope="module")
def reader() -> HuggingFaceGenerator:
    model, tokenizer = small_llama(["a b c d e", "b c d e a"], width=32, layers=1)
    model.generation_config.top_p = 0.01  # what a folder recommends is not the distribution
    return HuggingFaceGenerator(
        model, tokenizer=tokenizer, template=PromptTemplate.plain(), max_new_tokens=3, device="cpu"
    )


def test_a_draw_depends_on_prompt_and_seed_alone(reader: HuggingFaceGenerator) -> None:
    assert isinstance(reader, SamplingGenerator)
    drawn = reader.sample(ASKED, 4, temperature=1.0, seed=3)
    assert [len(one) for one in drawn] == [4, 4, 4] and drawn[0] == drawn[2] != drawn[1]
    scores = [[one.score for one in each] for each in drawn]
    for each, one in zip(scores, ASKED, strict=True):
        (alone,) = reader.sample([one], 4, temperature=1.0, seed=3)
        assert [drawn.score for drawn in alone] == pytest.approx(each, rel=1e-4)
    (others,) = reader.sample(ASKED[:1], 4, temperature=1.0, seed=4)
    assert [one.score for one in others] != pytest.approx(scores[0], rel=1e-4)
    assert len(set(scores[0])) > 1, "each by a chance of its own"
    assert reader.sample([], 4, temperature=1.0, seed=3) == []


def test_answers_come_as_often_as_the_model_says(reader: HuggingFaceGenerator) -> None:
    (drawn,) = reader.sample(ASKED[:1], 1000, temperature=1.0, seed=0)
    counts = Counter(one.score for one in drawn)
    score, count = counts.most_common(1)[0]
    assert score is not None
    assert count / 1000 == pytest.approx(exp(score), abs=4 * (exp(score) / 1000) ** 0.5)
    (greedy,) = reader.generate(ASKED[:1])
    (cold,) = reader.sample(ASKED[:1], 3, temperature=1e-3, seed=0)
    assert {one.text for one in cold} == {greedy.text}
    assert cold[0].score == pytest.approx(greedy.score, rel=1e-4)


@pytest.mark.parametrize("options", [{"count": 0}, {"temperature": 0.0}], ids=str)
def test_a_draw_of_nothing_is_refused(
    options: dict[str, float], reader: HuggingFaceGenerator
) -> None:
    values = {"count": 2, "temperature": 1.0, **options}
    with pytest.raises(ConfigError, match=next(iter(options))):
        reader.sample(ASKED, int(values["count"]), temperature=values["temperature"], seed=0)
