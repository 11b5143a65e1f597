"""Which entities answer a query by the rules of a bank, and how surely."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.mining.inference.batching import (
        Candidates as Candidates,
        index_at_time_zero as index_at_time_zero,
    )
    from rulerag.mining.inference.engine import (
        StaticInference as StaticInference,
        TemporalInference as TemporalInference,
    )
else:
    __getattr__ = lazy_names(__name__)
