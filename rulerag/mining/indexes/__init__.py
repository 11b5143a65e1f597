"""Graphs as sorted columns with compiled look-ups, for mining and inference."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.mining.indexes.static_index import (
        StaticIndex as StaticIndex,
        build_static_index as build_static_index,
        functional_on_object as functional_on_object,
    )
    from rulerag.mining.indexes.temporal_index import (
        TemporalIndex as TemporalIndex,
        build_temporal_index as build_temporal_index,
        directed_facts as directed_facts,
        run_starts as run_starts,
    )
    from rulerag.mining.indexes.temporal_kernels import (
        NEVER as NEVER,
        find_group as find_group,
        find_pair as find_pair,
        first_after as first_after,
        last_at as last_at,
        running_sums as running_sums,
    )
else:
    __getattr__ = lazy_names(__name__)
