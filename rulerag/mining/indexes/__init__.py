"""Graphs as sorted columns with compiled look-ups, for mining and inference."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.mining.indexes.static_index import (
        StaticIndex,
        build_static_index,
        functional_on_object,
    )
    from rulerag.mining.indexes.temporal_index import (
        TemporalIndex,
        build_temporal_index,
        directed_facts,
        run_starts,
    )
    from rulerag.mining.indexes.temporal_kernels import (
        NEVER,
        find_group,
        find_pair,
        first_after,
        last_at,
        running_sums,
    )
else:
    __getattr__ = lazy_names(__name__)
