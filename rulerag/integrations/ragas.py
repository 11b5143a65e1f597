"""Rule faithfulness as a metric of RAGAS.

RAGAS 0.3.1 and 0.4.3 were tried; see docs/integrations.md for which packages go with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import nan
from typing import Any

from rulerag.errors import needs_package
from rulerag.integrations.faithfulness import sample_faithfulness

with needs_package("ragas"):
    from ragas.metrics.base import MetricType, SingleTurnMetric


class Score(float):
    """A number with the reason for it.

    Attributes:
        reason: in words.
    """

    reason: str

    def __new__(cls, value: float, reason: str) -> Score:
        """A number equal to ``value``."""
        score = super().__new__(cls, value)
        score.reason = reason
        return score

    def __reduce__(self) -> tuple[Any, ...]:
        return Score, (float(self), self.reason)


_COLUMNS = {"user_input", "retrieved_contexts", "response"}


@dataclass
class RuleFaithfulness(SingleTurnMetric):
    """The share of a response's claims that rest on at least one retrieved context.

    The system is asked again with some of the contexts left out. A claim rests on contexts when
    a retention rule of at least one of them was shown: with these contexts the claim is made,
    whatever else is there; see :func:`rulerag.explanation.faithfulness.claim_faithfulness`, the
    definition. No judge model is needed.

    A score is a float with a ``reason`` in words; NaN for a response that makes no claim, as
    RAGAS has it.

    Args:
        answer: the system, ``def answer(question, documents) -> str``, sync or async;
            documents are the contexts.
        options: further arguments of :func:`rulerag.explain`: ``budget``, ``max_seconds``,
            ``workers``, ….
        name: of the column.

    Raises:
        ConfigError: an argument is wrong.
        ExplanationError: the system fails.

    References:
        Rorseth et al. 2025 (arXiv:2510.22689), Definitions 6 and 8.
    """

    answer: Any = None
    options: Mapping[str, Any] | None = None
    name: str = "rule_faithfulness"
    _required_columns: dict[MetricType, set[str]] = field(
        default_factory=lambda: {MetricType.SINGLE_TURN: _COLUMNS}
    )

    def init(self, run_config: Any) -> None:
        """Nothing: there is no model to set up."""

    async def _single_turn_ascore(self, sample: Any, callbacks: Any) -> Score:
        values = sample.user_input, sample.retrieved_contexts or (), sample.response or ""
        faithfulness = await sample_faithfulness(self.answer, *values, self.options)
        return Score(nan if faithfulness.score is None else faithfulness.score, faithfulness.reason)
