"""Temporal forecasts with learned weights: what a rule that fires is worth, by age and count."""

from typing import TYPE_CHECKING

from rulerag.lazy import front_door

if TYPE_CHECKING:
    from rulerag.mining.inference.learned.model import LearnedTemporalInference
else:
    __getattr__ = front_door(__name__)
