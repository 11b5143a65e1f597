"""Graph files: which layout they have, and how each is read."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.kg.readers.intervals import (
        cut_times as cut_times,
        gather_intervals as gather_intervals,
    )
else:
    __getattr__ = lazy_names(__name__)
