"""TLogic's temporal rules: :mod:`~rulerag.mining.temporal.miner` is where to begin."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.mining.temporal.miner import TLogicMiner as TLogicMiner
    from rulerag.mining.temporal.rules import TemporalRules as TemporalRules, as_rules as as_rules
else:
    __getattr__ = lazy_names(__name__)
