"""What the metrics of RAGAS and DeepEval share: one sample, explained and measured."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from rulerag.explanation.explaining import Why, prepare
from rulerag.explanation.faithfulness import ClaimFaithfulness, claim_faithfulness
from rulerag.explanation.units import Context

BESIDE_THE_POINT = "The shelf was painted again in spring, and the door was left as it was."
"""A document that says nothing of any question."""


async def sample_faithfulness(
    answer: Any,
    question: str,
    contexts: Sequence[str],
    response: str,
    options: Mapping[str, Any] | None = None,
) -> ClaimFaithfulness:
    """The rule faithfulness of one sample; cancelled, it asks nothing more.

    The system is asked once more with :data:`BESIDE_THE_POINT` in the place of every context:
    claims that it makes then rest on none.

    Args:
        answer: the system, ``def answer(question, documents) -> str``, sync or async.
        question: what was asked.
        contexts: what was retrieved for it.
        response: what was answered.
        options: further arguments of :func:`rulerag.explain`, such as ``budget`` (500 calls),
            ``max_seconds``, ``workers``, ``entailment``, ``judge``.

    Raises:
        ConfigError: an argument is wrong.
        ExplanationError: the system fails.
    """
    why = prepare(answer, question, list(contexts), text=response, **(options or {}))
    settings = why.live.settings
    async for _ in why.stream(settings.budget, max_seconds=settings.max_seconds):
        pass
    if why.failure is not None:  # a failed call is no verdict
        raise why.failure
    return claim_faithfulness(why.explanation, await _baseless(why))


async def _baseless(why: Why) -> list[int]:
    """The claims that are made with documents that say nothing of the question, too."""
    retained = [place for place, claim in enumerate(why.claims) if claim.retention]
    if not (retained and why.documents):
        return []
    documents = why.live.function.context.documents
    beside = Context(documents, removal="replace", neutral=BESIDE_THE_POINT)
    (output,) = await asyncio.to_thread(why.live.function.finer(beside), [()])
    return [place for place in retained if why.live.makes(place, output)]
