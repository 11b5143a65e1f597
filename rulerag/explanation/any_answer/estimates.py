"""What an explanation will cost, before the first call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rulerag.errors import ConfigError
from rulerag.explanation.any_answer.asking import CHARACTERS_A_TOKEN
from rulerag.explanation.any_answer.search import MOST_EXACT, SharedDraws
from rulerag.explanation.lattice import full_mask
from rulerag.explanation.levels import passages_of, units_of

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
    *,
    budget: int | None = 500,
    workers: int = 8,
    repeats: int = 2,
    level: str = "document",
    seconds_a_call: float | None = None,
    price: tuple[float, float] | None = None,
) -> Estimate:
    """What :func:`rulerag.explain` will cost; asks nothing.

    Args:
        question: what is asked.
        documents: as for the explanation.
        budget: its limit of calls.
        workers: how many calls run at once.
        repeats: how often the whole prompt is asked.
        level: what is kept or removed as one, as for the explanation.
        seconds_a_call: how long one call takes.
        price: for a million tokens of prompts, and of answers.

    Raises:
        ConfigError: a document cannot be read, there is no such level, or a price is below 0.
    """
    if price is not None and min(price) < 0:
        raise ConfigError(f"{price!r} is below 0", key="price")
    passages = passages_of(documents)
    texts = [passage.text for passage in passages]
    units = units_of(documents, passages, level)
    number = sum(bool(unit.passage.text.strip()) for unit in units)
    extra = repeats - 1
    if number <= MOST_EXACT:
        least = most = (1 << number) + extra
    else:
        # Some are drawn twice, and all and none are asked before.
        draws = len({0, full_mask(number), *SharedDraws(number, 0.95, 0.95, 0).round(0)})
        steps = math.ceil(math.log2(number))
        least = draws + extra + 2  # the first document that is tried decides
        most = draws + extra + 10 * (steps - 1) + 40
    if budget is not None:
        least, most = min(least, budget + extra), min(most, budget + extra)
    whole = len(question) + sum(map(len, texts))
    # Random subsets keep half of the documents, those of the search more.
    tokens = math.ceil(most * (len(question) + 0.65 * (whole - len(question))))
    tokens //= CHARACTERS_A_TOKEN
    money = None
    if price is not None:
        money = (tokens * price[0] + most * _ANSWER_TOKENS * price[1]) / 1e6
    seconds = None if seconds_a_call is None else seconds_a_call * math.ceil(most / workers)
    return Estimate(least, most, tokens, seconds, money)
