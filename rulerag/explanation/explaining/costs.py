"""What an explanation will cost, before the first call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rulerag.explanation.explaining.settings import ExplainSettings
from rulerag.explanation.lattice import full_mask
from rulerag.explanation.probing import CHARACTERS_A_TOKEN
from rulerag.explanation.search import RandomSubsets
from rulerag.explanation.units import passages_of, units_of

_ANSWER_TOKENS = 100


@dataclass(frozen=True)
class Estimate:
    """What an explanation may cost.

    Args:
        least: calls, where one document decides.
        most: calls, where ten do, by ones, twos and threes; never more than the budget.
        tokens: of all prompts, with ``most`` calls; about four characters each.
        seconds: with ``most`` calls; None where the time of a call is not known.
        money: with ``most`` calls; None where prices are not known.
    """

    least: int
    most: int
    tokens: int
    seconds: float | None = None
    money: float | None = None

    def __str__(self) -> str:
        calls = f"{self.least:,} to {self.most:,} calls" if self.least < self.most else ""
        parts = [calls or f"{self.most:,} calls", f"at most {self.tokens:,} tokens of prompts"]
        parts += [] if self.money is None else [f"{self.money:,.2f} in money"]
        parts += [] if self.seconds is None else [f"{self.seconds:,.0f} s"]
        return ", ".join(parts)


def estimate(
    question: str,
    documents: Sequence[Any],
    settings: ExplainSettings | None = None,
    *,
    seconds_a_call: float | None = None,
    own: bool = False,
    **options: Any,
) -> Estimate:
    """What :func:`rulerag.explain` will cost; asks nothing.

    Args:
        question: what is asked.
        documents: as for the explanation.
        settings: of the explanation.
        seconds_a_call: how long one call takes.
        own: an answer of a pipeline of rulerag is explained.
        options: single settings by name, instead of ``settings``.

    Raises:
        ConfigError: a document cannot be read, or a setting is wrong.
    """
    chosen = ExplainSettings.joined(settings, options)
    passages = passages_of(documents)
    units = units_of(documents, passages, chosen.level)
    number = sum(bool(unit.passage.text.strip()) for unit in units)
    extra = (chosen.repeats or (1 if own else 2)) - 1
    budget = chosen.calls(number, own=own)
    if number <= chosen.exact_up_to(own=own):
        least = most = (1 << number) + extra
    else:
        # Some are drawn twice, and all and none are asked before.
        shares = chosen.validity, chosen.confidence
        draws = len({0, full_mask(number), *RandomSubsets(number, *shares, 0).round(0)})
        steps = math.ceil(math.log2(max(2, number)))
        least = draws + extra + 2  # the first document that is tried decides
        most = draws + extra + 10 * (steps - 1) + 40
    if budget is not None:
        least, most = (min(one, budget + extra) for one in (least, most))
    whole = sum(len(passage.text) for passage in passages)
    # Random subsets keep half of the documents, those of the search more.
    tokens = math.ceil(most * (len(question) + 0.65 * whole)) // CHARACTERS_A_TOKEN
    money, price = None, chosen.price
    if price is not None:
        money = (tokens * price[0] + most * _ANSWER_TOKENS * price[1]) / 1e6
    seconds = None if seconds_a_call is None else seconds_a_call * math.ceil(most / chosen.workers)
    return Estimate(least, most, tokens, seconds, money)
