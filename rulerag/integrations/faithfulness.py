"""What the metrics of RAGAS and DeepEval share: one sample, explained and measured."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from rulerag.explanation.any_answer import AskedFunction, Explained, started
from rulerag.explanation.claims import SameClaim
from rulerag.explanation.faithfulness import ClaimFaithfulness, claim_faithfulness
from rulerag.explanation.levels import Context

BESIDE_THE_POINT = "The shelf was painted again in spring, and the door was left as it was."
"""A document that says nothing of any question."""

_BUDGET = 500


async def measured(
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
    given = dict(options or {})
    budget, seconds = given.pop("budget", _BUDGET), given.pop("max_seconds", None)
    why = started(answer, question, list(contexts), text=response, **given)
    async for _ in why.stream(budget, max_seconds=seconds):
        pass
    if why.failure is not None:  # a failed call is no verdict
        raise why.failure
    anyway = await _made_anyway(answer, why.explained, given)
    return claim_faithfulness(why.explained, anyway)


async def _made_anyway(answer: Any, explained: Explained, options: Mapping[str, Any]) -> list[int]:
    """The claims that are made with documents that say nothing of the question."""
    held = [n for n, claim in enumerate(explained.claims) if claim.retention]
    count = len(explained.documents)
    if not (held and count):
        return []
    asked = AskedFunction(
        answer,
        explained.question,
        Context([BESIDE_THE_POINT] * count),
        batched=bool(options.get("batched")),
    )
    (said,) = await asyncio.to_thread(asked, [tuple(range(count))])
    texts = [document.text for document in explained.documents]
    own, judges = options.get("predicate"), (options.get("entailment"), options.get("judge"))

    def makes(claim: str) -> bool:
        return bool((own or SameClaim(claim, explained.question, texts, *judges))(said))

    return [n for n in held if makes(explained.claims[n].text)]
