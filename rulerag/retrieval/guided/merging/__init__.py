"""One list from several searches: by groups of documents, by evidence, by learned weights."""

from typing import TYPE_CHECKING

from rulerag.lazy import front_door

if TYPE_CHECKING:
    from rulerag.retrieval.guided.merging.control import (
        PooledRetriever,
        check_pool,
        check_rows,
        make_merger,
    )
    from rulerag.retrieval.guided.merging.hits import (
        GroupMerger,
        RuleSearch,
        SearchHits,
        check_merge,
        union_of,
    )
    from rulerag.retrieval.guided.merging.learned import FEATURES, LearnedMerger, MergeWeights

__all__ = [
    "FEATURES",
    "GroupMerger",
    "LearnedMerger",
    "MergeWeights",
    "PooledRetriever",
    "RuleSearch",
    "SearchHits",
    "check_merge",
    "check_pool",
    "check_rows",
    "make_merger",
    "union_of",
]

__getattr__ = front_door(__name__)
