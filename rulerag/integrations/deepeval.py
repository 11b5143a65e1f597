"""Rule faithfulness as a metric of DeepEval.

DeepEval 4.3.1 was tried; see docs/integrations.md for which packages go with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from math import nan
from typing import Any

from rulerag.errors import needs_package
from rulerag.integrations.faithfulness import sample_faithfulness

with needs_package("deepeval"):
    from deepeval.errors import MissingTestCaseParamsError
    from deepeval.metrics import BaseMetric


class RuleFaithfulness(BaseMetric):
    """The share of an output's claims that rest on at least one retrieved context.

    The system is asked again with some of the contexts left out. A claim rests on contexts when
    a retention rule of at least one of them was shown: with these contexts the claim is made,
    whatever else is there; see :func:`rulerag.explanation.faithfulness.claim_faithfulness`, the
    definition. No judge model is needed.

    ``score`` and ``reason`` are set as DeepEval has it. An output that makes no claim is
    skipped: its score is None, and ``measure`` returns NaN.

    Args:
        answer: the system, ``def answer(question, documents) -> str``, sync or async;
            documents are the texts of ``retrieval_context``.
        threshold: the score from which on a test case passes.
        options: further arguments of :func:`rulerag.explain`: ``budget``, ``max_seconds``,
            ``workers``, ….

    Raises:
        ConfigError: an argument is wrong.
        ExplanationError: the system fails.
        deepeval.errors.MissingTestCaseParamsError: a test case lacks the output or the
            retrieval context.

    References:
        Rorseth et al. 2025 (arXiv:2510.22689), Definitions 6 and 8.
    """

    def __init__(
        self, answer: Any, threshold: float = 0.5, options: Mapping[str, Any] | None = None
    ) -> None:
        self.answer, self.threshold, self.options = answer, threshold, options

    @property
    def __name__(self) -> str:
        return "Rule Faithfulness"

    def measure(self, test_case: Any, *_: Any, **__: Any) -> float:
        """Score one test case."""
        with ThreadPoolExecutor(1) as pool:  # an event loop may run in this thread
            return pool.submit(asyncio.run, self.a_measure(test_case)).result()

    async def a_measure(self, test_case: Any, *_: Any, **__: Any) -> float:
        """Score one test case."""
        self.score = self.reason = self.success = None
        for name in ("actual_output", "retrieval_context"):
            if getattr(test_case, name) is None:
                raise MissingTestCaseParamsError(
                    f"'{name}' cannot be None for the '{self.__name__}' metric"
                )
        contexts = [getattr(one, "context", one) for one in test_case.retrieval_context]
        sample = test_case.input, contexts, test_case.actual_output
        faithfulness = await sample_faithfulness(self.answer, *sample, self.options)
        self.score, self.reason = faithfulness.score, faithfulness.reason
        self.skipped = self.score is None
        if faithfulness.score is None:
            return nan
        self.is_successful()
        return faithfulness.score
