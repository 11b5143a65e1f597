"""A language model weighs what a question may mean.

Each reading is put as a statement ("Anna Meyer works for something"), and its probability grows
with how much likelier the question makes that statement (domain conditional PMI: Holtzman et al.
2021, arXiv:2104.08315, section 3). The model writes nothing: it is held to the readings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from rulerag.errors import ConfigError
from rulerag.kg import Phrases
from rulerag.types import GenerationRequest, Query

if TYPE_CHECKING:
    from rulerag.linking.linker import LinkedQuestion, Reading
    from rulerag.protocols import Generator

# Chosen on validation questions: benchmarks/results/linking/language-model.md.
WEIGHT, _READINGS = 0.2, 6
_ASKS = "The question asks this:"


class ReadingJudge:
    """Weighs the readings of questions by a language model.

    Args:
        generator: a model that scores texts, with :data:`PROMPT`.
        phrases: how relations are said.

    Raises:
        ConfigError: the model cannot score texts.
    """

    PROMPT: ClassVar[Mapping[str, Any]] = {
        "template": {"type": "plain", "rules": False, "target": "text"},
        "chat": False,
        "dtype": "fast",
    }
    """What the configuration of a model needs beside its name: the prompt is the question."""

    def __init__(self, generator: Generator, phrases: Phrases) -> None:
        if not hasattr(generator, "score"):
            raise ConfigError(
                f"{type(generator).__name__} cannot score statements",
                key="language_model",
                hint="name a model that runs here, such as smollm2-135m-instruct",
            )
        self.generator: Any = generator
        self.phrases = phrases

    @property
    def fingerprint(self) -> str:
        """Names the model and what it counts."""
        return f"{self.generator.fingerprint}-{WEIGHT:g}"

    def gains(self, question: LinkedQuestion) -> list[float]:
        """How much likelier a question makes each of its likeliest readings, as logarithms."""
        requests, statements = [], []
        for one in question.readings[:_READINGS]:
            for context in (f"Question: {question.text}\n{_ASKS}", _ASKS):
                requests.append(GenerationRequest(Query("link", context)))
                statements.append(f" {self._said(one)}.")
        if not requests:
            return []
        scores = self.generator.score(requests, statements, literal=True).tolist()
        return [said - alone for said, alone in zip(scores[::2], scores[1::2], strict=True)]

    def weigh(self, question: LinkedQuestion) -> LinkedQuestion:
        """The question with its likeliest readings weighed; an exact one has nothing to weigh."""
        if question.exact or len(question.readings) < 2:
            return question
        readings = weighed(question.readings, self.gains(question), WEIGHT)
        return replace(question, readings=tuple(readings))

    def _said(self, reading: Reading) -> str:
        known, other = reading.query.subject_label, "something"
        ends = (other, known) if reading.asks_for_subject else (known, other)
        return self.phrases.say(reading.relation, *ends)


def weighed(readings: Sequence[Reading], gains: Sequence[float], weight: float) -> list[Reading]:
    """Readings by their probability times what a model adds; those it was not asked keep theirs.

    Args:
        readings: the most likely first.
        gains: of the first of them, as logarithms.
        weight: what a gain counts.
    """
    asked = readings[: len(gains)]
    odds = [math.log(r.probability) + weight * g for r, g in zip(asked, gains, strict=True)]
    shares = [math.exp(one - max(odds)) for one in odds]
    # What they had together they share anew.
    scale = sum(one.probability for one in asked) / sum(shares) if shares else 0.0
    new = [replace(r, probability=scale * share) for r, share in zip(asked, shares, strict=True)]
    new += readings[len(gains) :]
    return sorted(new, key=lambda one: (-one.probability, one.query.subject, one.query.relation))
