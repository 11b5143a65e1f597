"""Which entities answer a query by the rules of a bank, and how surely."""

from typing import TYPE_CHECKING

from rulerag.lazy import front_door

if TYPE_CHECKING:
    from rulerag.mining.inference.batching import Candidates, index_at_time_zero
    from rulerag.mining.inference.engine import StaticInference, TemporalInference
else:
    __getattr__ = front_door(__name__)
