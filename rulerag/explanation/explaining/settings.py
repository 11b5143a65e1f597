"""How an answer is explained, for Python, command line, studio and files; and what it will cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field, model_validator

from rulerag.composition import Settings
from rulerag.errors import ConfigError
from rulerag.explanation.lattice import full_mask
from rulerag.explanation.probing import CHARACTERS_A_TOKEN
from rulerag.explanation.search import MAX_EXACT_SOURCES, RandomSubsets
from rulerag.explanation.units import NEUTRAL, passages_of, units_of

EXACT_CALLS, EXACT_ANSWER = 6, 10
"""Sources up to which every subset is asked by default: of any function, where a search and its
tests would ask as many; and of an answer of our own pipelines."""

_BUDGET = 500
_OF_RULES = ("level", "exact", "each", "attribution", "value")
"""The settings of explanations by rules that say nothing about regions."""


class ExplainSettings(Settings):
    """How an answer is explained; the description of a field says what it is.

    Raises:
        ConfigError: a setting is unknown, out of range, or does not go with another one.
    """

    level: Literal["rule", "group", "document", "section", "sentence", "span", "word"] = Field(
        "document",
        description="what is kept or removed as one: rule (documents that one mined rule found), "
        "group (of one origin, or neighbours), document, section, sentence, span or word",
    )
    removal: Literal["delete", "replace"] = Field(
        "delete",
        description="what is left out is deleted, or replaced by neutral text of about its length",
    )
    neutral: str = Field(NEUTRAL, description="the neutral text")
    exact: int | None = Field(
        None,
        ge=0,
        le=MAX_EXACT_SOURCES,
        description="sources up to which every subset is asked, two to this power calls; more are "
        f"searched and tested (default {EXACT_CALLS}; {EXACT_ANSWER} for answers of a dataset)",
    )
    validity: float = Field(
        0.95,
        gt=0,
        lt=1,
        description="with more sources, the share of their subsets for which a set has to hold",
    )
    confidence: float = Field(
        0.95,
        gt=0,
        lt=1,
        description="the probability that what is shown by tests is true, at least",
    )
    subsets: Literal["by-size", "uniform"] = Field(
        "by-size",
        description="what a share counts alike: every number of sources kept (by-size), or every "
        "subset (uniform), nearly all of which keep half",
    )
    each: bool = Field(
        False,
        description="show each set by itself instead of what all of them predict; some 60 calls a "
        "set",
    )
    seed: int = Field(0, description="of random subsets and orders")
    budget: int | None = Field(
        _BUDGET,
        ge=0,
        description="calls at most, with what is certain by then (by default more where every "
        "subset is asked)",
    )
    max_seconds: float | None = Field(
        None, gt=0, description="stop after so many seconds with what is certain"
    )
    workers: int = Field(8, ge=1, description="calls of your own system that run at once")
    repeats: int | None = Field(
        None,
        ge=1,
        description="how often the whole prompt is asked, to know the noise (default 2; 1 where a "
        "generator answered before); 1: a server is asked no deciding subset twice",
    )
    whole: bool = Field(False, description="explain the answer as one claim")
    hurry: bool = Field(False, description="use every worker, also for what may turn out useless")
    price: tuple[float, float] | None = Field(
        None, description="for a million tokens of prompts, and of answers: what was spent is said"
    )
    attribution: tuple[str, ...] = Field((), description="what each source counts, by name")
    samples: int | None = Field(
        None, ge=4, description="random orders or subsets that attribution asks"
    )
    value: Literal["verdict", "log-probability"] = Field(
        "verdict",
        description="what attribution explains: verdict, or log-probability of the response",
    )
    explainer: Literal["rules", "regions"] = Field(
        "rules",
        description="what is looked for: rules (sets of sources), or regions (parts of the text "
        "that are enough, and words that they need)",
    )
    parts: int = Field(3, ge=1, description="of regions: parts of the text, equally long")
    groups: int = Field(5, ge=1, description="of regions: groups of words in a part, masked by _")

    @model_validator(mode="after")
    def _fit_each_other(self) -> ExplainSettings:
        if not self.neutral.strip():
            raise ConfigError("expected a text with a word in it", key="neutral")
        if self.price is not None and min(self.price) < 0:
            raise ConfigError(f"{self.price!r} is below 0", key="price")
        if self.attribution:
            from rulerag.explanation.attribution import check_methods

            check_methods(self.attribution)
        compared = [name for name in self.attribution if name.startswith("similarity")]
        if compared and self.value != "verdict":
            what = f"{compared[0]} compares texts, which have no {self.value}"
            raise ConfigError(what, key="value", hint="explain verdicts")
        if self.value != "verdict" and not self.attribution:
            what = f"the {self.value} is a value of sources, and no method is named"
            hint = "name one with attribution, such as guided or linear"
            raise ConfigError(what, key="value", hint=hint)
        other = _OF_RULES if self.explainer == "regions" else ("parts", "groups")
        for key in other:
            if getattr(self, key) != type(self).model_fields[key].default:
                what = f"does not go with the explainer {self.explainer!r}"
                raise ConfigError(what, key=key, hint="leave one of them out")
        return self

    def exact_up_to(self, *, own: bool = False) -> int:
        """The number of sources up to which every subset is asked.

        Args:
            own: an answer of a pipeline of rulerag is explained.
        """
        if self.exact is not None:
            return self.exact
        return EXACT_ANSWER if own else EXACT_CALLS

    def calls(self, num_sources: int, *, own: bool = False) -> int | None:
        """How many calls may be made: the budget, and where that is the default all that are exact.

        Args:
            num_sources: how many sources there are.
            own: an answer of a pipeline of rulerag is explained.
        """
        if self.budget != _BUDGET or num_sources > self.exact_up_to(own=own):
            return self.budget
        return max(_BUDGET, (1 << num_sources) + 2)

    @property
    def record(self) -> dict[str, Any]:
        """What an explanation says of how it was made: the settings that are not the defaults."""
        defaults = type(self).model_fields
        values = {name: getattr(self, name) for name in defaults}
        return {k: v for k, v in values.items() if v != defaults[k].default or k in _ALWAYS}


_ALWAYS = ("validity", "confidence", "subsets", "seed", "each", "level")


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
