"""Graph files: which layout they have, and how each is read."""

from typing import TYPE_CHECKING

from rulerag.lazy import front_door

if TYPE_CHECKING:
    from rulerag.kg.readers.intervals import IntervalFacts, cut_times
else:
    __getattr__ = front_door(__name__)
