from __future__ import annotations

import random

import pytest

from rulerag.errors import ConfigError, SamplingError
from rulerag.explanation.probing.asking import VotingGenerator, refuse_another_answer
from rulerag.types import Document, GenerationRequest, Query
from tests.fakes import PlantedGenerator

REQUEST = GenerationRequest(Query("q", "?"), (Document("d1", "Text."),))


class Sampling(PlantedGenerator):
    """Says one of several answers, by chance."""

    def __init__(self, *answers: str) -> None:
        chance = random.Random(1)
        super().__init__(lambda ids: chance.choice(answers))


def test_the_answer_of_most_tries_wins() -> None:
    generator = VotingGenerator(Sampling("Rome", "rome.", "Rome!", "Paris"), votes=15)
    (completion,) = generator.generate([REQUEST])
    assert completion.text in ("Rome", "rome.", "Rome!")
    assert len(completion.candidates) == 2
    assert sum(c.score for c in completion.candidates) == pytest.approx(1)
    assert generator.fingerprint != VotingGenerator(generator.generator, 3).fingerprint
    with pytest.raises(ConfigError, match="key 'votes'"):
        VotingGenerator(generator, 0)


def test_answers_that_differ_are_noticed() -> None:
    with pytest.raises(SamplingError, match=r"to the same request.*VotingGenerator"):
        refuse_another_answer("Rome", "Paris")
    refuse_another_answer("Rome", "rome.")
    refuse_another_answer("Rome", None)
